package job

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"unsafe"

	"hindcast/internal/job/wire"
	"hindcast/internal/record"
)

// PartialColumn holds what a computation with [Options.Partial] kept of a key, as checkpoints have it.
const PartialColumn = "hindcast_state"

// mergeable says why a state cannot be merged.
func mergeable(state reflect.Type, versioned bool) error {
	var errs []error
	if versioned {
		errs = append(errs, errors.New("fold has a Merge and a Version: the guard needs the events of a key one after the other: leave one of them out"))
	}
	for f := range state.Fields() {
		if floats(f.Type) {
			errs = append(errs, fmt.Errorf("field %s.%s: a state with floats cannot be merged, since their sums depend on where events are cut: "+
				"count in integers of a fixed unit, or leave Merge out", typeName(state), f.Name))
		}
	}
	return errors.Join(errs...)
}

// floats reports whether values of a plain type, or of one with pointers as columns have, hold floats.
func floats(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64:
		return true
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return floats(t.Elem())
	case reflect.Map:
		return floats(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if t != timeType && floats(f.Type) {
				return true
			}
		}
	default:
	}
	return false
}

// elsewhere makes failures, from one on, and what was filtered since another share's: they have no key.
func (o *Outcome) elsewhere(failed int, filtered int64) {
	o.Elsewhere += int64(len(o.Failures)-failed) + o.Filtered - filtered
	o.Failures, o.Filtered = o.Failures[:failed], filtered
}

func partialSchema(keys []field) record.Schema {
	return append(schemaOf(keys), record.Field{Name: PartialColumn, Kind: record.String})
}

// partialBatch is an empty batch for partials.
func partialBatch(keys []field) *record.Batch {
	b := newBatch(keys)
	b.Columns = append(b.Columns, record.Column{Kind: record.String})
	return b
}

// appendPartialKey adds the key of a row of partials, encoded, to dst.
func appendPartialKey(dst []byte, b *record.Batch, row int) []byte {
	keys := b.Columns[:len(b.Columns)-1]
	for i := range keys {
		dst = appendColumnKey(dst, &keys[i], row, i == len(keys)-1)
	}
	return dst
}

// readPartial reads what was kept of a key.
func readPartial(b *record.Batch, row int, read func(*wire.Reader)) error {
	r := wire.NewReader(b.Columns[len(b.Columns)-1].Strings.At(row))
	read(r)
	return r.End()
}

// Partial implements [Merger].
func (m Map[E, R]) Partial() (record.Schema, error) {
	shape, err := m.Shape()
	return shape.Rows, err
}

// Combine implements [Merger]: the rows are what they will be.
func (m Map[E, R]) Combine(partials iter.Seq2[*record.Batch, error]) iter.Seq2[*record.Batch, error] {
	return partials
}

// Partial implements [Merger].
func (f Fold[E, S]) Partial() (record.Schema, error) {
	row, err := rowTypeOf(reflect.TypeFor[S](), rowTags)
	return partialSchema(row.fields[:row.keys]), err
}

// addPartial adds what is kept of a key to b.
func (f Fold[E, S]) addPartial(b *record.Batch, row *rowType, state *S, key []byte) error {
	err := row.sameKey(unsafe.Pointer(state), key)
	var w wire.Writer
	enc := plainEncoder{w: &w}
	for i := 0; err == nil && i < row.keys; i++ {
		err = row.fields[i].appendTo(&b.Columns[i], b.Len, unsafe.Add(unsafe.Pointer(state), row.fields[i].offset))
	}
	if err == nil {
		enc.encode(reflect.ValueOf(state).Elem())
		if err = enc.err; err == nil {
			err = appendString(&b.Columns[row.keys], w.Take())
		}
	}
	if err != nil {
		return fmt.Errorf("state of key %q: %w", key, err)
	}
	b.Len++
	return nil
}

// Combine implements [Merger].
func (f Fold[E, S]) Combine(partials iter.Seq2[*record.Batch, error]) iter.Seq2[*record.Batch, error] {
	return func(yield func(*record.Batch, error) bool) {
		c := &combining[S]{}
		row, err := rowTypeOf(reflect.TypeFor[S](), rowTags)
		out := newBatch(row.fields)
		end := func() { // of a key
			if err = f.addRow(out, &row, &c.state, c.key); err == nil && out.Len == outRows {
				c.stopped = !yield(out, nil)
				truncate(out, 0)
			}
		}
		for b, failed := range partials {
			if err = errors.Join(err, failed); err != nil {
				break
			}
			for i := 0; err == nil && !c.stopped && i < b.Len; i++ {
				var next S
				if err = readPartial(b, i, func(r *wire.Reader) { decodePlain(r, reflect.ValueOf(&next).Elem()) }); err != nil {
					break
				}
				if c.next = appendPartialKey(c.next[:0], b, i); c.any && bytes.Equal(c.key, c.next) {
					err = calling("Merge", func() { f.Merge(&c.state, &next) })
					continue
				}
				if c.any {
					end()
				}
				c.state, c.key, c.next, c.any = next, c.next, c.key, true
			}
			if err != nil || c.stopped {
				break
			}
		}
		if c.any && err == nil && !c.stopped {
			end()
		}
		switch {
		case c.stopped:
		case err != nil:
			yield(nil, err)
		case out.Len > 0:
			yield(out, nil)
		}
	}
}

// combining is at work on a key.
type combining[S any] struct {
	state     S
	key, next []byte
	any       bool
	stopped   bool // by whoever takes the rows
}

// Partial implements [Merger].
func (f ColumnFold[E, S]) Partial() (record.Schema, error) {
	t, err := f.types()
	if err != nil {
		return nil, err
	}
	return partialSchema(t.rows[:len(t.keys)]), nil
}

// appendPartials adds what is kept of groups to a column. Key is that of the nth, for errors.
func appendPartials(to *record.Column, columns []stateColumn, order []sorted, key func(n int) []byte) error {
	var w wire.Writer
	enc := plainEncoder{w: &w}
	for n, o := range order {
		for i := range columns {
			enc.encode(columns[i].slice.Index(int(o.id)))
		}
		err := enc.err
		if err == nil {
			err = appendString(to, w.Take())
		}
		if err != nil {
			return fmt.Errorf("state of key %q: %w", key(n), err)
		}
	}
	return nil
}

// groups are states of some keys, as columns.
type groups[S any] struct {
	state   *S
	columns []stateColumn
	n       int
}

func newGroups[S any](rows []field) *groups[S] {
	g := &groups[S]{state: new(S)}
	g.columns = stateColumns(reflect.ValueOf(g.state).Elem(), rows)
	return g
}

// read adds a group of what was kept of it.
func (g *groups[S]) read(b *record.Batch, row int) error {
	g.n++
	grow(g.columns, g.n)
	return readPartial(b, row, func(r *wire.Reader) {
		for i := range g.columns {
			decodePlain(r, g.columns[i].slice.Index(g.n-1))
		}
	})
}

// Combine implements [Merger].
func (f ColumnFold[E, S]) Combine(partials iter.Seq2[*record.Batch, error]) iter.Seq2[*record.Batch, error] {
	return func(yield func(*record.Batch, error) bool) {
		t, err := f.types()
		into, later := newGroups[S](t.rows), newGroups[S](t.rows)
		var events []Event // groups of later
		var keys [][]byte  // of into
		flush := func() (more bool) {
			b, err := f.rows(t, into, later, events, keys)
			if err == nil && b.Len == 0 {
				return true
			}
			into, later, events, keys = newGroups[S](t.rows), newGroups[S](t.rows), events[:0], keys[:0]
			return yield(b, err) && err == nil
		}
		for b, failed := range partials {
			if err = errors.Join(err, failed); err != nil {
				break
			}
			for i := range b.Len {
				key := appendPartialKey(nil, b, i)
				var to *groups[S]
				if len(keys) > 0 && bytes.Equal(keys[len(keys)-1], key) {
					to = later
					events = append(events, Event{Row: int32(later.n), Group: int32(into.n - 1)}) //nolint:gosec // as many as are read of outRows groups
				} else {
					if into.n == outRows && !flush() {
						return
					}
					to, keys = into, append(keys, key)
				}
				if err = to.read(b, i); err != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		if err != nil {
			yield(nil, err)
			return
		}
		flush()
	}
}

// rows merges, finishes and spells out the groups of into, whose keys are given.
func (f ColumnFold[E, S]) rows(t columnTypes, into, later *groups[S], events []Event, keys [][]byte) (*record.Batch, error) {
	b := newBatch(t.rows)
	if len(events) > 0 {
		err := calling("Merge", func() { f.Merge(into.state, later.state, events) })
		if err == nil {
			err = whole(into.columns, into.n, "Merge")
		}
		if err != nil {
			return nil, err
		}
	}
	if err := f.finish(into.state, into.columns, into.n); err != nil {
		return nil, err
	}
	for _, key := range keys {
		if err := appendKeyColumns(b.Columns[:len(t.keys)], key); err != nil {
			return nil, err
		}
	}
	ids := make([]uint32, into.n)
	for n := range ids {
		ids[n] = uint32(n) //nolint:gosec // at most outRows
	}
	return b, appendStates(b, into.columns, ids, func(n int) []byte { return keys[n] })
}
