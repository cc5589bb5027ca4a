package job

import (
	"fmt"
	"math"
	"unsafe"

	"hindcast/internal/record"
)

// own is a column of a map's rows that the author's function gives values.
type own struct {
	*field
	column int
	// now says that values are taken as soon as their event's function has returned: what they refer to may change with the next event.
	now bool
	// codes says that strings which are entries of a dictionary of the events' may be kept by its codes; source is the field of the events where some were last.
	codes  bool
	source int
}

// ownColumns lists the columns that do not pass through.
func ownColumns(fields []field, codes bool) (list []own) {
	for i := range fields {
		if f := &fields[i]; !f.lent {
			list = append(list, own{field: f, column: i, now: f.ptr || f.typ == goBytes, codes: codes && f.typ == goString})
		}
	}
	return list
}

// fits returns how many bytes of text the row at p has, or why it cannot be a row of the table.
func (r *mapRunner[E, R]) fits(p unsafe.Pointer) (text int64, err error) {
	for _, f := range r.checked {
		at := unsafe.Add(p, f.offset)
		if f.ptr {
			if at = *(*unsafe.Pointer)(at); at == nil {
				continue
			}
		}
		switch f.typ { //nolint:exhaustive // of others all values fit
		case goTime, goDate:
			if _, err := f.instant(at); err != nil {
				return 0, fmt.Errorf("field %s: %w", f.name, err)
			}
		case goString:
			text += int64(len(*(*string)(at)))
		case goBytes:
			text += int64(len(*(*[]byte)(at)))
		}
	}
	if text > math.MaxUint32 {
		return 0, fmt.Errorf("%d bytes are too many for one row", text)
	}
	return text, nil
}

// fillOwn gives the rows that are pending the values that the author's function made, a column at a time.
func (r *mapRunner[E, R]) fillOwn(b *record.Batch) error {
	from := 0
	for _, p := range r.pending {
		rows := r.rows[from : from+p.n]
		for k := range r.own {
			o := &r.own[k]
			if o.now {
				continue
			}
			at := place{unsafe.Add(unsafe.Pointer(&r.emitted[from]), o.offset), unsafe.Sizeof(r.emitted[from])}
			if o.codes && r.appendCodes(o, &p.to.Columns[o.column], b, rows, at) {
				continue
			}
			if err := r.appendOwn(o, &p.to.Columns[o.column], at, p.n); err != nil {
				return err
			}
		}
		from += p.n
	}
	return nil
}

// appendOwn adds n values from a place on to c. They fit.
func (r *mapRunner[E, R]) appendOwn(o *own, c *record.Column, at place, n int) error {
	switch o.typ {
	case goString:
		if err := spellOut(c); err != nil {
			return err
		}
		r.in.appendTexts(&c.Strings, at, n)
	case goInt64, goMicros, goDays:
		values := c.Int64s
		for i := range n {
			values = append(values, *(*int64)(at.at(i)))
		}
		c.Int64s = values
	default:
		for i := range n {
			if err := o.appendValue(c, at.at(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendCodes adds the strings of pending rows to c by their codes, if all of them are entries of one dictionary of the events', and those that c has are, too.
func (r *mapRunner[E, R]) appendCodes(o *own, c *record.Column, b *record.Batch, rows []int32, at place) bool {
	first := *(*string)(at.at(0))
	is := func(source int) bool {
		d := &r.in.dicts[source]
		if !d.active || d.number == 0 {
			return false
		}
		_, ok := d.codeOf(&b.Columns[source], rows[0], first)
		return ok
	}
	for n := 0; !is(o.source); n++ {
		if n == len(r.in.dicts) {
			return false
		}
		o.source = n
	}
	d, of, s := &r.in.dicts[o.source], &b.Columns[o.source], &c.Strings
	if length(c) > 0 && (s.Codes == nil || s.Dictionary != d.number) {
		return false
	}
	codes := s.Codes
	for i, row := range rows {
		code, ok := d.codeOf(of, row, *(*string)(at.at(i)))
		if !ok {
			return false
		}
		codes = append(codes, code)
	}
	*s = record.Strings{Codes: codes, Dictionary: d.number, Offsets: d.offsets, Data: unsafe.Slice(unsafe.StringData(d.text), len(d.text))}
	return true
}

// appendTexts adds n strings from a place on. Those that lie behind one another in the memory of a block are copied at once.
func (l *loader[E]) appendTexts(to *record.Strings, at place, n int) {
	if len(to.Offsets) == 0 {
		to.Offsets = append(to.Offsets, 0)
	}
	data, ends := to.Data, to.Offsets
	for i := 0; i < n; {
		text := *(*string)(at.at(i))
		start, size := unsafe.StringData(text), len(text)
		room := l.behind(unsafe.Pointer(start))
		ends = append(ends, uint32(len(data)+size)) //nolint:gosec // chunks see to it
		for i++; i < n; i++ {
			next := *(*string)(at.at(i))
			if size+len(next) > room || len(next) > 0 && unsafe.Pointer(unsafe.StringData(next)) != unsafe.Add(unsafe.Pointer(start), size) {
				break
			}
			size += len(next)
			ends = append(ends, uint32(len(data)+size)) //nolint:gosec // chunks see to it
		}
		data = append(data, unsafe.Slice(start, size)...)
	}
	to.Data, to.Offsets = data, ends
}

// behind is how many bytes of the current block's memory there are from p on.
func (l *loader[E]) behind(p unsafe.Pointer) int {
	at := uintptr(p)
	for _, a := range l.arenas {
		if a.from <= at && at < a.to {
			return int(a.to - at)
		}
	}
	return 0
}
