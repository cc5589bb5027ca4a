package job

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"unsafe"

	"hindcast/internal/job/wire"
	"hindcast/internal/record"
)

// Fold makes one row of all events that have a key. E is what is read of an event, S the state of a key and its row at once;
// see the package comment for their tags.
type Fold[E, S any] struct {
	// Where, if set, says which events count.
	Where func(*E) bool
	// Key returns the state of a key that has seen no event yet, with its key columns set. It may be nil if S has none:
	// then a partition has one row.
	Key func(*E) S
	// Apply adds an event. It must not change key columns.
	Apply func(*S, *E)
	// Finish, if set, completes a row after the key's last event: say, an average, or the size of a set.
	Finish func(*S)
	// Merge, if set, adds what came of a later part of a key's events to what came of those before it, so that a partition with very many events can be
	// computed in parts at once: the state must become what Apply would have made of all of them in order. Without it, and with Version, such a partition's keys are
	// divided instead, among computations that each read all of its events. A state with floats cannot be merged: their sums depend on where events are cut.
	Merge func(s, later *S)
	// Version, if set, guards each key: an event whose version is not above that of the last one applied to its key is
	// skipped. Events of one key must come in order of version.
	Version func(*E) int64
}

// Shape implements [Transform].
func (f Fold[E, S]) Shape() (Shape, error) {
	events, eventErr := eventTags.fields(reflect.TypeFor[E]())
	row, rowErr := rowTypeOf(reflect.TypeFor[S](), rowTags)
	errs := []error{eventErr, rowErr}
	if f.Apply == nil {
		errs = append(errs, errors.New("fold has no Apply: say what an event adds to the state"))
	}
	if f.Merge != nil && rowErr == nil {
		errs = append(errs, mergeable(reflect.TypeFor[S](), f.Version != nil))
	}
	if f.Key == nil && row.keys > 0 {
		errs = append(errs, fmt.Errorf("fold has no Key, but %s has key columns: say what an event's key is", row.name))
	}
	if err := errors.Join(errs...); err != nil {
		return Shape{}, err
	}
	return Shape{
		Events: schemaOf(events), Rows: schemaOf(row.fields), Keys: row.keys,
		OneRowPerKey: true, Versioned: f.Version != nil, Merges: f.Merge != nil,
	}, nil
}

// Open implements [Transform].
func (f Fold[E, S]) Open(o Options) (Runner, error) {
	if _, err := f.Shape(); err != nil {
		return nil, err
	}
	in, err := newLoader[E]()
	if err != nil {
		return nil, err
	}
	t := reflect.TypeFor[S]()
	row, err := rowTypeOf(t, rowTags)
	if err != nil {
		return nil, err
	}
	r := &foldRunner[E, S]{
		fold: f, in: in, row: row, slots: o.Slots, deep: refers(t), borrowed: borrowers(t, row), states: &states[S]{keys: newKeys(o.Bucket != nil, f.Version != nil)},
		fresh: make([]S, blockRows), versions: make([]int64, blockRows), hidden: newHidden(t), share: o.Keys, partial: o.Partial,
	}
	r.found.slots = make([]codes, o.Slots)
	if o.Bucket != nil {
		r.bucket, r.found.slots = o.Bucket, make([]codes, 1)
		if r.bucketBy, err = row.bucketColumn(o); err != nil {
			return nil, err
		}
	}
	return r, nil
}

type foldRunner[E, S any] struct {
	fold     Fold[E, S]
	in       *loader[E]
	row      rowType
	slots    int
	bucket   func([]byte) int
	bucketBy *field
	share    Share
	partial  bool
	states   *states[S]

	// deep says that S has maps, slices or pointers: a copy of it does not undo an Apply.
	deep bool
	// borrowed are the fields of S, but for keys, that may point into an event, touched the states that may do so since the block began.
	borrowed []field
	touched  []uint32

	// What a block's events gave, by their numbers in it; live are those that count.
	fresh    []S
	versions []int64
	live     []int32
	found    found

	sealed  bool
	scratch []byte
	texts   texts // of keys
	applied int64
	hidden  hidden
	order   []sorted // of drained states, once draining began
}

// Add implements [Runner].
func (r *foldRunner[E, S]) Add(b *record.Batch, rows, slots []int32, out *Outcome) error {
	if r.order != nil {
		return errDrained
	}
	return r.in.eachBlock(b, rows, slots, func(block block[E]) error { return r.apply(block, out) })
}

// apply takes the events of a block in three steps, so that looking for one key does not wait for another's memory: what the author says of
// each event, where the state of each key is, and then the events, in order, to their states.
func (r *foldRunner[E, S]) apply(b block[E], out *Outcome) error {
	failed, filtered := len(out.Failures), out.Filtered
	r.live = r.live[:0]
	for next := 0; next < len(b.events); {
		next = r.ask(b, next, out)
	}
	r.find(b, out)
	if r.share.Number > 0 {
		out.elsewhere(failed, filtered)
	}
	for next := 0; next < len(r.live); {
		var err error
		if next, err = r.applyFrom(b, next, out); err != nil {
			return err
		}
	}
	if found := out.Failures[failed:]; len(found) > 1 {
		slices.SortFunc(found, func(a, b Failure) int { return cmp.Compare(a.Row, b.Row) })
	}
	r.detach()
	r.applied += int64(len(r.live))
	return nil
}

// ask asks for events from number i on what they are, to the end or the first panic of the author's code. It returns the number of the next.
func (r *foldRunner[E, S]) ask(b block[E], i int, out *Outcome) (next int) {
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
		if r.fold.Where != nil {
			calling = "Where"
			if !r.fold.Where(e) {
				out.Filtered++
				continue
			}
		}
		if r.fold.Key != nil {
			calling = "Key"
			r.fresh[i] = r.fold.Key(e)
		} else {
			r.fresh[i] = *new(S)
		}
		if r.fold.Version != nil {
			calling = "Version"
			r.versions[i] = r.fold.Version(e)
		}
		r.live = append(r.live, int32(i))
	}
	return i
}

// applyFrom applies live events from the nth on, to the end or the first panic of Apply. It returns which is next.
func (r *foldRunner[E, S]) applyFrom(b block[E], n int, out *Outcome) (next int, err error) {
	var state *S // that Apply is at work on, unless it is a fresh one
	var before S // what that was; on the stack, where the collector need not be told of each pointer that is written
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		next = n + 1
		row, failure := b.rows[r.live[n]], panicError("Apply", v)
		if state != nil && r.deep {
			err = &Failure{row, fmt.Errorf("%w: the state of its key may be half changed, and %s has maps, slices or pointers, which cannot be put back", failure, r.row.name)}
			return
		}
		if state != nil {
			*state = before
		}
		out.Failures = append(out.Failures, Failure{row, failure})
	}()
	for ; n < len(r.live); n++ {
		i := r.live[n]
		e, id := &b.events[i], r.found.ids[n]
		if id == elsewhere {
			out.Elsewhere++
			continue
		}
		if id == none { // but an event of this block may have brought it since
			id = r.states.find(b.slot(int(i)), r.found.key(n), r.found.hashes[n])
		}
		if id == none && r.sealed {
			out.Left = append(out.Left, Left{b.rows[i], r.found.hashes[n]})
			continue
		}
		if id == none {
			if id, err = r.insert(b, n); err != nil {
				return n, err
			}
		} else {
			if r.states.versions != nil && r.versions[i] <= r.states.versions[id] {
				out.Stale++
				continue
			}
			state = r.states.at(id)
			if !r.deep {
				before = *state
			}
			r.fold.Apply(state, e)
			state = nil
		}
		if r.states.versions != nil {
			r.states.versions[id] = r.versions[i]
		}
		if len(r.borrowed) > 0 {
			r.touched = append(r.touched, id)
		}
		out.Applied++
	}
	return n, nil
}

// insert applies the nth live event to the fresh state that it gave, and keeps that.
func (r *foldRunner[E, S]) insert(b block[E], n int) (uint32, error) {
	i := r.live[n]
	fresh := &r.fresh[i]
	r.fold.Apply(fresh, &b.events[i])
	slot := b.slot(int(i))
	if r.bucket != nil {
		r.scratch = r.bucketBy.bucketValue(r.scratch[:0], unsafe.Pointer(fresh))
		slot = int32(r.bucket(r.scratch))
	}
	if err := checkSlot(slot, r.slots); err != nil {
		return none, &Failure{b.rows[i], err}
	}
	for k := range r.row.keys {
		f := &r.row.fields[k]
		if at := unsafe.Add(unsafe.Pointer(fresh), f.offset); f.typ == goString {
			r.texts.detach((*string)(at), r.in.holds)
		} else {
			f.detach(at, r.in.holds)
		}
	}
	id := r.states.insert(r.found.hashes[n], slot, r.found.key(n), fresh)
	if cell := r.found.cells[n]; cell != nil {
		*cell = id + 1
	}
	return id, nil
}

// detach copies what the states took from the events of a block, so that they do not keep the block's memory.
func (r *foldRunner[E, S]) detach() {
	for _, id := range r.touched {
		p := unsafe.Pointer(r.states.at(id))
		for i := range r.borrowed {
			r.borrowed[i].detach(unsafe.Add(p, r.borrowed[i].offset), r.in.holds)
		}
	}
	r.touched = r.touched[:0]
}

// Drain implements [Runner].
func (r *foldRunner[E, S]) Drain(slot int, yield func(*record.Batch) error) error {
	if r.order == nil {
		r.order = r.states.sorted()
	}
	b, add := newBatch(r.row.fields), r.fold.addRow
	if r.partial {
		b, add = partialBatch(r.row.fields[:r.row.keys]), r.fold.addPartial
	}
	for n, order := 0, ofSlot(r.order, int32(slot)); n < len(order); n++ {
		if n%touchRows == 0 {
			r.states.touchSorted(order[n:min(n+touchRows, len(order))], r.row.keyText())
		}
		id := order[n].id
		state := r.states.at(id)
		if err := add(b, &r.row, state, r.states.key(id)); err != nil {
			return err
		}
		*state = *new(S) // frees what it points to
		if b.Len == outRows {
			if err := yield(b); err != nil {
				return err
			}
			truncate(b, 0)
		}
	}
	if b.Len == 0 {
		return nil
	}
	return yield(b)
}

// addRow finishes a state, whose key is given, and adds its row to b.
func (f Fold[E, S]) addRow(b *record.Batch, row *rowType, state *S, key []byte) error {
	if f.Finish != nil {
		if err := calling("Finish", func() { f.Finish(state) }); err != nil {
			return err
		}
	}
	err := row.sameKey(unsafe.Pointer(state), key)
	if err == nil {
		err = row.appendTo(b, unsafe.Pointer(state))
	}
	if err != nil {
		return fmt.Errorf("row of key %q: %w", key, err)
	}
	return nil
}

// sameKey asks that the row at p still has a key.
func (t *rowType) sameKey(p unsafe.Pointer, key []byte) error {
	if text := t.keyText(); text != nil && *(*string)(unsafe.Add(p, text.offset)) == string(key) {
		return nil
	}
	var err error
	if t.key, err = t.appendKey(t.key[:0], p); err == nil && !bytes.Equal(t.key, key) {
		err = fmt.Errorf("a key column of %s was changed by Apply or Finish, or by Merge: only Key may set it", t.name)
	}
	return err
}

// Snapshot implements [Runner].
func (r *foldRunner[E, S]) Snapshot(dst io.Writer) error {
	if r.order != nil {
		return errDrained
	}
	var w wire.Writer
	w.Uint(uint64(len(r.states.entries)))
	for id := range r.states.entries {
		r.states.write(&w, uint32(id))
		enc := plainEncoder{w: &w}
		if enc.encode(reflect.ValueOf(r.states.at(uint32(id))).Elem()); enc.err != nil {
			return fmt.Errorf("snapshot of %s: %w", r.row.name, enc.err)
		}
		if err := w.FlushFull(dst); err != nil {
			return err
		}
	}
	return w.Flush(dst)
}

// Restore implements [Runner].
func (r *foldRunner[E, S]) Restore(src io.Reader) error {
	in, err := wire.ReadAll(src)
	if err != nil {
		return err
	}
	for n := in.Len(); n > 0; n-- {
		id, err := r.states.read(in, r.slots)
		if err != nil {
			return err
		}
		if decodePlain(in, reflect.ValueOf(r.states.place(id)).Elem()); in.Err() != nil {
			return in.Err()
		}
	}
	return in.End()
}

var errDrained = errors.New("rows were drained already: open another runner")
