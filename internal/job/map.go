package job

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"unsafe"

	"hindcast/internal/job/wire"
	"hindcast/internal/record"
)

// Map makes rows of each event alone. E is what is read of an event, R a row; see the package comment for their tags. Rows are
// sorted by their key columns; those with equal keys, or without any, stay in the order of the log.
type Map[E, R any] struct {
	// Where, if set, says which events count.
	Where func(*E) bool
	// Each calls emit once a row. An event that gives none counts as filtered.
	Each func(e *E, emit func(R))
}

// types are the columns that are read, those that rows have, and which of these pass through.
func (m Map[E, R]) types() (events []field, row rowType, same []same, err error) {
	events, eventErr := eventTags.fields(reflect.TypeFor[E]())
	row, rowErr := rowTypeOf(reflect.TypeFor[R](), mapTags)
	errs := []error{eventErr, rowErr}
	if m.Each == nil {
		errs = append(errs, errors.New("map has no Each: say what rows an event gives"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, row, nil, err
	}
	events, same, err = withSame(events, row)
	return events, row, same, err
}

// Shape implements [Transform].
func (m Map[E, R]) Shape() (Shape, error) {
	events, row, same, err := m.types()
	if err != nil {
		return Shape{}, err
	}
	shape := Shape{Events: schemaOf(events), Rows: schemaOf(row.fields), Keys: row.keys, Merges: true}
	if len(same) > 0 {
		shape.Same = make([]string, len(row.fields))
		seen, err := eventTags.fields(reflect.TypeFor[E]())
		if err != nil {
			return Shape{}, err
		}
		shape.Passing = len(events) - len(seen)
	}
	for _, s := range same {
		shape.Same[s.row] = events[s.event].column
	}
	return shape, nil
}

// Open implements [Transform].
func (m Map[E, R]) Open(o Options) (Runner, error) {
	events, row, passing, err := m.types()
	if err != nil {
		return nil, err
	}
	in, err := newLoader[E]()
	if err != nil {
		return nil, err
	}
	if len(o.Lent) > 0 {
		place := field{name: "place", column: "place", from: "place", typ: goInt64, ptr: true, lent: true}
		passing = append(passing, same{row: len(row.fields), event: len(events)})
		row.fields, events = append(row.fields, place), append(events, place)
	}
	r := &mapRunner[E, R]{lent: o.Lent, spec: m, events: events, in: in, row: row, same: passing, slots: make([]rowList, o.Slots), bucket: o.Bucket, share: o.Keys}
	r.own = ownColumns(row.fields, row.keys == 0 && len(o.Lent) == 0 && len(in.fields) > 0)
	for i := range r.own {
		switch f := r.own[i].field; f.typ {
		case goString, goBytes, goTime, goDate:
			r.checked = append(r.checked, f)
		default:
		}
	}
	for i := range r.same {
		r.same[i].unseen = slices.Contains(o.Lent, r.events[r.same[i].event].column)
	}
	r.emit = func(row R) { r.emitted = append(r.emitted, row) }
	if o.Bucket != nil {
		if r.bucketBy, err = row.bucketColumn(o); err != nil {
			return nil, err
		}
	}
	return r, nil
}

type mapRunner[E, R any] struct {
	spec     Map[E, R]
	events   []field
	in       *loader[E]
	row      rowType
	bucket   func([]byte) int
	bucketBy *field
	share    Share
	slots    []rowList
	drained  bool
	emit     func(R)
	emitted  []R // the rows that are pending, then those of the current event
	texts    []int64
	own      []own
	checked  []*field // of own: those with values that do not all fit
	scratch  []byte
	same     []same
	strict   []*same        // of the batch, those that have nulls and must not
	lent     []string       // then the place is the last of same
	places   *record.Column // of the batch; nil: nothing is lent
	nothing  map[record.Kind]record.Column
	pending  []pending
	rows     []int32 // of the batch of events: those that are pending
	spare    spare

	held  int64 // bytes, but for what slots grew by since Size was asked
	grown []int // these slots
}

// Add implements [Runner].
func (r *mapRunner[E, R]) Add(b *record.Batch, rows, slots []int32, out *Outcome) error {
	if r.drained {
		return errDrained
	}
	if err := checkColumns(b, r.events); err != nil {
		return err
	}
	if r.share.Number > 0 {
		out.Elsewhere += int64(len(rows))
		return nil
	}
	r.look(b)
	of := &record.Batch{Len: b.Len, Columns: b.Columns[:len(r.in.fields)], Offsets: b.Offsets, RecordTimes: b.RecordTimes}
	return r.in.eachBlock(of, rows, slots, func(block block[E]) error {
		block.batch = b
		for next := 0; next < len(block.events); {
			var err error
			if next, err = r.apply(&block, next, out); err != nil {
				return err
			}
		}
		return r.fill(b)
	})
}

// apply takes events from number i on, to the end or the first panic of the author's code. It returns the number of the next.
func (r *mapRunner[E, R]) apply(b *block[E], i int, out *Outcome) (next int, err error) {
	calling := ""
	defer func() {
		if v := recover(); v != nil {
			next = i + 1
			out.Failures = append(out.Failures, Failure{b.rows[i], panicError(calling, v)})
		}
	}()
	for ; i < len(b.events); i++ {
		e := &b.events[i]
		if unfit := r.in.failure(i); unfit != nil {
			out.Failures = append(out.Failures, Failure{b.rows[i], unfit})
			continue
		}
		if r.spec.Where != nil {
			calling = "Where"
			if !r.spec.Where(e) {
				out.Filtered++
				continue
			}
		}
		calling = "Each"
		before := len(r.rows)
		r.emitted = r.emitted[:before]
		r.spec.Each(e, r.emit)
		unfit, err := r.keep(b, i)
		switch {
		case err != nil:
			return i, &Failure{b.rows[i], err}
		case unfit != nil:
			out.Failures = append(out.Failures, Failure{b.rows[i], unfit})
		case len(r.emitted) == before:
			out.Filtered++
		default:
			out.Applied++
		}
		if len(r.rows) >= mostPending {
			if err := r.fill(b.batch); err != nil {
				return i, err
			}
		}
	}
	return i, nil
}

// look finds out which columns that pass through have to be looked at row by row for nulls.
func (r *mapRunner[E, R]) look(b *record.Batch) {
	r.strict = r.strict[:0]
	r.places = nil
	if len(r.lent) > 0 {
		r.places = &b.Columns[len(b.Columns)-1]
	}
	placed := r.places != nil && r.places.Nulls == nil
	for i := range r.same {
		if s := &r.same[i]; !r.row.fields[s.row].ptr && b.Columns[s.event].Nulls != nil && (!placed || !s.unseen) {
			r.strict = append(r.strict, s)
		}
	}
}

// lacks says which column that passes through is null, and must not be.
func (r *mapRunner[E, R]) lacks(b *record.Batch, row int32, placed bool) error {
	for _, s := range r.strict {
		if (!placed || !s.unseen) && b.Columns[s.event].Nulls.Get(int(row)) {
			f := &r.row.fields[s.row]
			return fmt.Errorf("column %s is null, which field %s cannot hold: give its tag the option null if that is allowed, or have Where leave such events out", f.from, f.name)
		}
	}
	return nil
}

// placed reports whether a row of the batch has a place: then it lacks the columns that no function sees.
func (r *mapRunner[E, R]) placed(row int32) bool {
	return r.places != nil && !r.places.Nulls.Get(int(row))
}

// keep adds the rows of event i, which are the last of emitted, to their slots: all, or none if one of them is unfit.
func (r *mapRunner[E, R]) keep(b *block[E], i int) (unfit, err error) {
	from := len(r.rows)
	if from == len(r.emitted) {
		return nil, nil
	}
	placed := r.placed(b.rows[i])
	if unfit := r.lacks(b.batch, b.rows[i], placed); unfit != nil {
		return unfit, nil
	}
	r.texts = r.texts[:0]
	for n := from; n < len(r.emitted); n++ {
		text, unfit := r.fits(unsafe.Pointer(&r.emitted[n]))
		if unfit != nil {
			return unfit, nil
		}
		r.texts = append(r.texts, text)
	}
	for n := from; n < len(r.emitted); n++ {
		to := r.slotOf(b, i, n)
		if err := checkSlot(to, len(r.slots)); err != nil {
			return nil, err
		}
		l := &r.slots[to]
		if !l.grown {
			l.grown = true
			r.grown = append(r.grown, to)
		}
		chunk := l.chunk(&r.row, r.texts[n-from], placed, &r.spare)
		for k := range r.own {
			if o := &r.own[k]; o.now {
				if err := o.appendTo(&chunk.Columns[o.column], chunk.Len, unsafe.Add(unsafe.Pointer(&r.emitted[n]), o.offset)); err != nil {
					return nil, err
				}
			}
		}
		chunk.Len++
		r.wait(chunk, b.rows[i], placed)
	}
	return nil, nil
}

// slotOf is the slot of the nth row of event i.
func (r *mapRunner[E, R]) slotOf(b *block[E], i, n int) int {
	if r.bucket == nil {
		return int(b.slot(i))
	}
	if f := r.bucketBy; f.lent {
		at := slices.IndexFunc(r.same, func(s same) bool { return &r.row.fields[s.row] == f })
		r.scratch = appendBucketValue(r.scratch[:0], &b.batch.Columns[r.same[at].event], int(b.rows[i]))
	} else {
		r.scratch = f.bucketValue(r.scratch[:0], unsafe.Pointer(&r.emitted[n]))
	}
	return r.bucket(r.scratch)
}

// Drain implements [Runner].
func (r *mapRunner[E, R]) Drain(slot int, yield func(*record.Batch) error) error {
	r.drained = true
	list := &r.slots[slot]
	coded := r.spell(list)
	if r.row.keys == 0 { // they lie in the order of the log
		for i, b := range list.chunks {
			if list.chunks[i] = nil; b.Len == 0 {
				continue
			}
			r.lack(b)
			if err := yield(b); err != nil {
				return err
			}
		}
		*list = rowList{}
		return nil
	}
	order := list.sorted(r.row.comparers())
	out := newBatch(r.row.fields)
	for c, s := range coded {
		if s != nil {
			out.Columns[c].Strings = record.Strings{Codes: []uint32{}, Offsets: s.offsets, Data: s.text, Dictionary: s.number}
		}
	}
	for len(order) > 0 {
		n := min(outRows, len(order))
		truncate(out, 0)
		for c := range out.Columns {
			if err := list.gather(&out.Columns[c], c, order[:n]); err != nil {
				return fmt.Errorf("rows of %s: %w", r.row.name, err)
			}
		}
		out.Len = n
		if err := yield(out); err != nil {
			return err
		}
		order = order[n:]
	}
	*list = rowList{}
	return nil
}

// Flow implements [Flowing].
func (r *mapRunner[E, R]) Flow(least int, may func() bool, yield func(slot int, b *record.Batch) error) error {
	if r.row.keys > 0 || len(r.lent) > 0 || r.drained {
		return nil
	}
	for _, slot := range r.grown {
		l := &r.slots[slot]
		need := max(least, 1)
		if l.flows {
			need = min(need, listRows)
		}
		if l.rows() < need || !l.flows && !may() {
			continue
		}
		r.spell(l)
		for _, b := range l.chunks {
			if err := yield(slot, b); err != nil {
				return err
			}
			r.spare.put(b)
		}
		l.chunks, l.placed, l.full, l.flows = l.chunks[:0], l.placed[:0], 0, true
	}
	return nil
}

// Snapshot implements [Runner].
func (r *mapRunner[E, R]) Snapshot(dst io.Writer) error {
	if r.drained {
		return errDrained
	}
	var w wire.Writer
	for i := range r.slots {
		w.Uint(uint64(len(r.slots[i].chunks)))
		r.spell(&r.slots[i])
		for _, b := range r.slots[i].chunks {
			whole := *b
			whole.Columns = slices.Clone(b.Columns)
			r.lack(&whole)
			writeBatch(&w, &whole)
			if err := w.Flush(dst); err != nil {
				return err
			}
		}
	}
	return w.Flush(dst)
}

// Restore implements [Runner].
func (r *mapRunner[E, R]) Restore(src io.Reader) error {
	in, err := wire.ReadAll(src)
	if err != nil {
		return err
	}
	for i := range r.slots {
		for n := in.Len(); n > 0; n-- {
			b := newBatch(r.row.fields)
			if readBatch(in, b); in.Err() != nil {
				return in.Err()
			}
			l := &r.slots[i]
			if len(l.chunks) > 0 {
				l.full += l.lastSize()
			}
			l.chunks, l.placed, l.text = append(l.chunks, b), append(l.placed, false), 0
			for c := range b.Columns {
				l.text += int64(len(b.Columns[c].Strings.Data))
			}
		}
		if len(r.slots[i].chunks) > 0 {
			r.slots[i].grown = true
			r.grown = append(r.grown, i)
		}
	}
	return in.End()
}

// rowList holds rows as columns, in chunks of listRows (the last may be shorter), so that rows never move.
type rowList struct {
	chunks []*record.Batch
	placed []bool // of each chunk: its rows have places, and lack columns
	text   int64  // bytes that the author's function made of the last chunk's rows
	grown  bool
	flows  bool  // rows left early
	full   int64 // bytes of the chunks but for the last
	held   int64 // bytes that the runner has counted
}

const (
	listBits = 13
	listRows = 1 << listBits
)

// chunk is where the next row belongs, which has so many bytes of text.
func (l *rowList) chunk(t *rowType, text int64, placed bool, spare *spare) *record.Batch {
	n := len(l.chunks)
	if n == 0 || l.chunks[n-1].Len == listRows || l.placed[n-1] != placed || l.text+text > math.MaxUint32 {
		l.text = 0
		next := spare.take()
		switch {
		case next == nil && n == 0:
			next = newBatch(t.fields)
		case next == nil:
			next = likeBatch(l.chunks[n-1])
		}
		if n > 0 {
			l.full += l.lastSize()
		}
		l.chunks, l.placed = append(l.chunks, next), append(l.placed, placed)
	}
	l.text += text
	return l.chunks[len(l.chunks)-1]
}

// lastSize is what the last chunk takes, with dictionaries that the one before it has not.
func (l *rowList) lastSize() int64 {
	last := len(l.chunks) - 1
	n := batchSize(l.chunks[last])
	for i := range l.chunks[last].Columns {
		s := &l.chunks[last].Columns[i].Strings
		if s.Codes != nil && (last == 0 || l.chunks[last-1].Columns[i].Strings.Dictionary != s.Dictionary) {
			n += int64(len(s.Data)) + 4*int64(len(s.Offsets))
		}
	}
	return n
}

func (l *rowList) rows() (n int) {
	for _, b := range l.chunks {
		n += b.Len
	}
	return n
}

// spare keeps some chunks whose rows have left, for others.
type spare []*record.Batch

const mostSpare = 4

func (s *spare) put(b *record.Batch) {
	if len(*s) == mostSpare {
		return
	}
	for i := range b.Columns {
		c := &b.Columns[i]
		if c.Nulls = nil; c.Strings.Codes != nil {
			c.Strings = record.Strings{Codes: c.Strings.Codes[:0]}
		}
	}
	truncate(b, 0)
	*s = append(*s, b)
}

// take returns an empty chunk, or nil.
func (s *spare) take() (b *record.Batch) {
	if n := len(*s); n > 0 {
		b, *s = (*s)[n-1], (*s)[:n-1]
	}
	return b
}

// likeBatch returns an empty batch with room for as much as b holds, and a little more.
func likeBatch(b *record.Batch) *record.Batch {
	out := &record.Batch{Columns: make([]record.Column, len(b.Columns))}
	for i := range b.Columns {
		from, to := &b.Columns[i], &out.Columns[i]
		if to.Kind = from.Kind; length(from) == 0 {
			continue
		}
		switch from.Kind {
		case record.Float64:
			to.Float64s = make([]float64, 0, b.Len)
		case record.String:
			if from.Strings.Codes != nil {
				to.Strings.Codes = make([]uint32, 0, b.Len)
				break
			}
			to.Strings.Offsets = make([]uint32, 0, b.Len+1)
			to.Strings.Data = make([]byte, 0, len(from.Strings.Data)+len(from.Strings.Data)/16)
		default:
			to.Int64s = make([]int64, 0, b.Len)
		}
	}
	return out
}

// sorted returns the numbers of all rows by key; rows with equal keys in the order in which they were added. The first bytes of
// their first key column spare most looks at the rows.
func (l *rowList) sorted(by []comparer) []int32 {
	type place struct {
		prefix uint64
		row    int32
	}
	var places []place
	if n := len(l.chunks); n > 0 {
		places = make([]place, 0, (n-1)<<listBits+l.chunks[n-1].Len)
	}
	for c, b := range l.chunks {
		for i := range b.Len {
			p := place{row: int32(c<<listBits | i)}
			if len(by) > 0 {
				p.prefix = prefixOf(&b.Columns[0], i)
			}
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(x, y place) int {
		if x.prefix != y.prefix {
			return cmp.Compare(x.prefix, y.prefix)
		}
		a, i := l.chunks[x.row>>listBits], int(x.row&(listRows-1))
		b, j := l.chunks[y.row>>listBits], int(y.row&(listRows-1))
		for _, compare := range by {
			if c := compare(a, i, b, j); c != 0 {
				return c
			}
		}
		return cmp.Compare(x.row, y.row)
	})
	order := make([]int32, len(places))
	for i, p := range places {
		order[i] = p.row
	}
	return order
}

// prefixOf is never greater for a lesser value of a key column.
func prefixOf(c *record.Column, row int) uint64 {
	if c.Kind != record.String {
		return uint64(c.Int64s[row]) ^ 1<<63 //nolint:gosec // its bits
	}
	var first [8]byte
	copy(first[:], c.Strings.At(row))
	return binary.BigEndian.Uint64(first[:])
}

// gather appends column c of the given rows to out.
func (l *rowList) gather(out *record.Column, c int, order []int32) error {
	for n, x := range order {
		in, i := &l.chunks[x>>listBits].Columns[c], int(x&(listRows-1))
		if in.Nulls != nil {
			extendNulls(out, n)
		}
		switch {
		case out.Strings.Codes != nil:
			if in.Nulls.Get(i) {
				out.Nulls.Set(n)
			}
			out.Strings.Codes = append(out.Strings.Codes, in.Strings.Codes[i])
		case in.Nulls.Get(i):
			appendNull(out, n)
		case in.Kind == record.String:
			if err := appendString(out, in.Strings.At(i)); err != nil {
				return err
			}
		case in.Kind == record.Float64:
			out.Float64s = append(out.Float64s, in.Float64s[i])
		default:
			out.Int64s = append(out.Int64s, in.Int64s[i])
		}
	}
	return nil
}
