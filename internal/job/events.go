package job

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"hindcast/internal/record"
)

// blockRows is how many events are filled at a time: enough to make the loops over a column tight, few enough to stay in cache.
const blockRows = 256

// loader fills event structs from columns, a block at a time and within it a column at a time.
//
// It writes fields through their offsets, found by reflection once: each write has the field's own type (or a
// type with the same memory layout), so the garbage collector sees what it expects. Strings point into memory made for them and never reused.
type loader[E any] struct {
	fields []field
	block  []E
	dicts  []dictionary // one a field, used by those that are strings
	buf    []byte
	// from and to are where the strings of the block's rows lie in what was gathered.
	from, to [blockRows]int
	// bad[i] is 1 + the field that row i of the block could not be given; dirty says that there is one.
	bad   [blockRows]uint16
	dirty bool
	// arenas is the memory that this block's events point into.
	arenas []span
}

func newLoader[E any]() (*loader[E], error) {
	fields, err := eventTags.fields(reflect.TypeFor[E]())
	if err != nil {
		return nil, err
	}
	return &loader[E]{fields: fields, block: make([]E, blockRows), dicts: make([]dictionary, len(fields))}, nil
}

// checkColumns reports a batch whose columns are not those of the event.
func checkColumns(b *record.Batch, fields []field) error {
	if len(b.Columns) != len(fields) {
		return fmt.Errorf("batch has %d columns, the event %d", len(b.Columns), len(fields))
	}
	for i := range fields {
		if got, want := b.Columns[i].Kind, fields[i].kind(); got != want {
			return fmt.Errorf("column %s is %s, field %s reads %s", fields[i].column, got, fields[i].name, want)
		}
	}
	return nil
}

// begin prepares for the given number of rows of a batch.
func (l *loader[E]) begin(b *record.Batch, rows int) {
	for i := range l.fields {
		if l.fields[i].typ == goString || l.fields[i].typ == goBytes {
			l.dicts[i].begin(&b.Columns[i].Strings, rows)
		}
	}
}

// block is a run of events, with their rows in the batch and, unless buckets decide, their slots.
type block[E any] struct {
	batch       *record.Batch
	events      []E
	rows, slots []int32
}

// slot is that of event i, or 0 where buckets decide.
func (b *block[E]) slot(i int) int32 {
	if b.slots == nil {
		return 0
	}
	return b.slots[i]
}

// eachBlock fills the listed rows of b, a block at a time, and passes them on.
func (l *loader[E]) eachBlock(b *record.Batch, rows, slots []int32, apply func(block[E]) error) error {
	if err := checkColumns(b, l.fields); err != nil {
		return err
	}
	l.begin(b, len(rows))
	for len(rows) > 0 {
		n := min(blockRows, len(rows))
		block := block[E]{batch: b, events: l.load(b, rows[:n]), rows: rows[:n]}
		if slots != nil {
			block.slots, slots = slots[:n], slots[n:]
		}
		if err := apply(block); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// load fills the block with the listed rows, blockRows at most. Where bad is set, the struct is incomplete.
func (l *loader[E]) load(b *record.Batch, rows []int32) []E {
	if len(rows) == 0 {
		return nil
	}
	if l.dirty {
		clear(l.bad[:])
		l.dirty = false
	}
	l.arenas = l.arenas[:0]
	to := place{unsafe.Pointer(&l.block[0]), unsafe.Sizeof(l.block[0])}
	for i := range l.fields {
		f, c := &l.fields[i], &b.Columns[i]
		at := place{unsafe.Add(to.base, f.offset), to.stride}
		switch {
		case f.ptr:
			l.loadPointers(i, c, rows, at)
		default:
			l.loadValues(i, c, rows, at)
			l.refuseNulls(i, c, rows)
		}
	}
	return l.block[:len(rows)]
}

// failure says what is wrong with row i of the block, if anything.
func (l *loader[E]) failure(i int) error {
	if !l.dirty || l.bad[i] == 0 {
		return nil
	}
	f := &l.fields[l.bad[i]-1]
	if f.typ == goInt32 {
		return fmt.Errorf("column %s is null or beyond 32 bits, which field %s cannot hold: make it an int64, or a pointer if null is allowed", f.column, f.name)
	}
	return fmt.Errorf("column %s is null, which field %s cannot hold: make it a pointer if that is allowed", f.column, f.name)
}

func (l *loader[E]) refuseNulls(field int, c *record.Column, rows []int32) {
	if c.Nulls == nil {
		return
	}
	for i, row := range rows {
		if c.Nulls.Get(int(row)) {
			l.refuse(field, i)
		}
	}
}

func (l *loader[E]) refuse(field, i int) {
	if l.bad[i] == 0 {
		l.bad[i], l.dirty = uint16(field+1), true
	}
}

// place is where a column's values go: the first, and how far apart they lie.
type place struct {
	base   unsafe.Pointer
	stride uintptr
}

func (p place) at(i int) unsafe.Pointer { return unsafe.Add(p.base, uintptr(i)*p.stride) }

func (l *loader[E]) loadValues(field int, c *record.Column, rows []int32, to place) {
	switch l.fields[field].typ {
	case goBool:
		for i, row := range rows {
			*(*bool)(to.at(i)) = c.Int64s[row] != 0
		}
	case goInt64, goMicros, goDays:
		for i, row := range rows {
			*(*int64)(to.at(i)) = c.Int64s[row]
		}
	case goInt32:
		for i, row := range rows {
			v := c.Int64s[row]
			if int64(int32(v)) != v && !c.Nulls.Get(int(row)) {
				l.refuse(field, i)
			}
			*(*int32)(to.at(i)) = int32(v)
		}
	case goFloat64:
		for i, row := range rows {
			*(*float64)(to.at(i)) = c.Float64s[row]
		}
	case goTime:
		for i, row := range rows {
			*(*time.Time)(to.at(i)) = time.UnixMicro(c.Int64s[row]).UTC()
		}
	case goDate:
		for i, row := range rows {
			*(*time.Time)(to.at(i)) = time.Unix(c.Int64s[row]*secondsPerDay, 0).UTC()
		}
	case goString:
		l.loadStrings(field, c, rows, to)
	case goBytes:
		l.loadBytes(c, rows, to)
	}
}

const secondsPerDay = 24 * 60 * 60

// loadStrings gives rows of a dictionary parts of the string made for it, and copies the others' bytes into one new string.
func (l *loader[E]) loadStrings(field int, c *record.Column, rows []int32, to place) {
	d := &l.dicts[field]
	if !d.active {
		text := string(l.gather(c, rows))
		l.arenas = append(l.arenas, spanOf(text))
		for i := range rows {
			*(*string)(to.at(i)) = text[l.from[i]:l.to[i]]
		}
		return
	}
	l.arenas = append(l.arenas, spanOf(d.text))
	if c.Nulls == nil {
		for i, row := range rows {
			*(*string)(to.at(i)) = d.value(c.Strings.Codes[row])
		}
		return
	}
	for i, row := range rows {
		v := ""
		if !c.Nulls.Get(int(row)) {
			v = d.value(c.Strings.Codes[row])
		}
		*(*string)(to.at(i)) = v
	}
}

func (l *loader[E]) loadBytes(c *record.Column, rows []int32, to place) {
	data := bytes.Clone(l.gather(c, rows))
	l.arenas = append(l.arenas, spanOf(unsafe.String(unsafe.SliceData(data), len(data))))
	for i := range rows {
		*(*[]byte)(to.at(i)) = data[l.from[i]:l.to[i]:l.to[i]]
	}
}

// gather returns the bytes of rows, each at from and to: part of the batch where that has little else between them.
func (l *loader[E]) gather(c *record.Column, rows []int32) []byte {
	first, last := rows[0], rows[len(rows)-1]
	if offsets := c.Strings.Offsets; c.Strings.Codes == nil && int(last-first) < len(rows)+len(rows)/8 {
		base := offsets[first]
		for i, row := range rows {
			l.from[i], l.to[i] = int(offsets[row]-base), int(offsets[row+1]-base)
		}
		return c.Strings.Data[base:offsets[last+1]]
	}
	buf := l.buf[:0]
	for i, row := range rows {
		l.from[i] = len(buf)
		if !c.Nulls.Get(int(row)) {
			buf = append(buf, c.Strings.At(int(row))...)
		}
		l.to[i] = len(buf)
	}
	l.buf = buf
	return buf
}

// loadPointers puts the values into memory of their own, never reused, since an author may keep the pointers.
func (l *loader[E]) loadPointers(field int, c *record.Column, rows []int32, to place) {
	switch l.fields[field].typ {
	case goBool:
		pointTo[bool](l, field, c, rows, to)
	case goInt64, goMicros, goDays:
		pointTo[int64](l, field, c, rows, to)
	case goInt32:
		pointTo[int32](l, field, c, rows, to)
	case goFloat64:
		pointTo[float64](l, field, c, rows, to)
	case goTime, goDate:
		pointTo[time.Time](l, field, c, rows, to)
	case goString:
		pointTo[string](l, field, c, rows, to)
	case goBytes:
		pointTo[[]byte](l, field, c, rows, to)
	}
}

func pointTo[T, E any](l *loader[E], field int, c *record.Column, rows []int32, to place) {
	values := make([]T, len(rows))
	from, size := unsafe.Pointer(&values[0]), unsafe.Sizeof(values[0])
	l.arenas = append(l.arenas, span{uintptr(from), uintptr(from) + size*uintptr(len(values))})
	l.loadValues(field, c, rows, place{from, size})
	for i, row := range rows {
		if c.Nulls.Get(int(row)) {
			*(**T)(to.at(i)) = nil
			continue
		}
		*(**T)(to.at(i)) = &values[i]
	}
}

// dictionary holds a column's dictionary in a string of its own, from batch to batch while it stays the same.
type dictionary struct {
	active  bool
	number  uint64   // of the dictionary, where it has one
	once    uint64   // the number of one that was not worth its copy when it was met first
	serial  int      // grows with each other dictionary
	offsets []uint32 // never changed, as is text: rows that are held may refer to both
	text    string
}

// begin makes the string of s's dictionary. One much larger than the rows that need it is not worth it, unless it comes a second time.
func (d *dictionary) begin(s *record.Strings, rows int) {
	d.active = false
	entries := len(s.Offsets) - 1
	if s.Codes == nil || entries < 1 {
		return
	}
	again := s.Dictionary != 0 && (s.Dictionary == d.once || s.Dictionary == d.number)
	if d.once = s.Dictionary; !again && entries > 4*rows+64 {
		return
	}
	d.active = true
	if d.same(s) {
		return
	}
	d.serial++
	d.number, d.offsets, d.text = s.Dictionary, slices.Clone(s.Offsets), string(s.Data)
}

func (d *dictionary) same(s *record.Strings) bool {
	if d.number != 0 || s.Dictionary != 0 {
		return d.number == s.Dictionary
	}
	return slices.Equal(d.offsets, s.Offsets) && d.text == string(s.Data)
}

// value is the string of a code.
func (d *dictionary) value(code uint32) string { return d.text[d.offsets[code]:d.offsets[code+1]] }

// span is a range of addresses. It keeps nothing alive: it is of use while the block is.
type span struct{ from, to uintptr }

func spanOf(s string) span {
	from := uintptr(unsafe.Pointer(unsafe.StringData(s)))
	return span{from, from + uintptr(len(s))}
}

// holds reports whether p points into memory of the current block.
func (l *loader[E]) holds(p unsafe.Pointer) bool {
	at := uintptr(p)
	for _, a := range l.arenas {
		if a.from <= at && at < a.to {
			return true
		}
	}
	return false
}

// micros returns the microseconds since the epoch, if they fit.
func micros(t time.Time) (int64, bool) {
	s := t.Unix()
	if s > math.MaxInt64/1_000_000-1 || s < math.MinInt64/1_000_000+1 {
		return 0, false
	}
	return t.UnixMicro(), true
}
