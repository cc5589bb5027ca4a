package job

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"hindcast/internal/job/wire"
	"hindcast/internal/record"
)

// ColumnFold is a [Fold] over columns: the same rows for several times the speed, where a job needs that. E is a struct of the columns of events, S one of the
// columns of the state, which has a value for each group, that is, for each key of a partition. See the package comment.
type ColumnFold[E, S any] struct {
	// Where, if set, says whether the event in a row of e counts.
	Where func(e *E, row int32) bool
	// Apply adds events to their groups, in the order of the log. A panic in it voids the run, since groups may be half changed: it names
	// the offsets of the events that it was given.
	Apply func(s *S, e *E, events []Event)
	// Finish, if set, completes the rows of all groups after the last event.
	Finish func(s *S)
	// Merge, if set, does what that of a [Fold] does: it adds groups of later, which are the rows of events, to groups of s, in the order of the log. Finish is then called
	// for some of the groups at a time.
	Merge func(s, later *S, events []Event)
	// Version, if set, is the column of events, an int64, that guards each key as [Fold.Version] does.
	Version string
}

// Event is where an event lies: its row in the columns of events, and its group in those of the state.
type Event struct{ Row, Group int32 }

// Key marks a key column in the state of a [ColumnFold]. Its values are those of the events' column of the same name, or of that in the tag's option
// from, as `row:"owner,from=account_id"`. A null in it that Where lets pass makes the event a dead letter.
type Key struct{}

var keyType = reflect.TypeFor[Key]()

// stateTags are those of a struct of columns of states.
var stateTags = tags{tag: "row", private: true, options: []string{"from=", "date"}, of: func(f *field, t reflect.Type) (reflect.Type, error) {
	if t == keyType {
		f.key, f.lent = true, true
		return t, nil
	}
	if t.Kind() != reflect.Slice {
		return nil, fmt.Errorf("type %s has no place for a value a group: use a slice, as []int64, or job.Key for a column of the key", t)
	}
	return f.of(t.Elem())
}}

// columnTypes are what a column fold reads and writes.
type columnTypes struct {
	name         string // of the state
	events, rows []field
	keys         []int // the events' columns that are the key
	version      int   // that of the version, or -1
}

func (f ColumnFold[E, S]) types() (t columnTypes, err error) {
	state := reflect.TypeFor[S]()
	t = columnTypes{name: typeName(state), version: -1}
	var errs [3]error
	t.events, errs[0] = columnTags.fields(reflect.TypeFor[E]())
	if t.rows, errs[1] = stateTags.fields(state); errs[1] == nil && len(t.rows) == 0 {
		errs[1] = fmt.Errorf("%s has no column: tag its fields, as `row:\"units\"`", t.name)
	}
	if f.Apply == nil {
		errs[2] = errors.New("fold has no Apply: say what events add to their groups")
	}
	if err := errors.Join(errs[:]...); err != nil {
		return t, err
	}
	var bad []error
	if f.Merge != nil {
		bad = append(bad, mergeable(state, f.Version != ""))
	}
	for i := range t.rows {
		row := &t.rows[i]
		if !row.key {
			continue
		}
		at := schemaOf(t.events).Index(row.from)
		switch {
		case at < 0:
			bad = append(bad, fmt.Errorf("field %s: %s has no column %s to be the key: add a field for it, or name another with the option from=",
				row.name, typeName(reflect.TypeFor[E]()), row.from))
			continue
		case t.events[at].typ == goFloat64:
			bad = append(bad, fmt.Errorf("field %s: a float cannot be a key: round it to an integer of a fixed unit", row.name))
		}
		row.typ = t.events[at].typ
		t.keys = append(t.keys, at)
	}
	for sf := range state.Fields() {
		if sf.Tag.Get("row") == "-" && sf.Type.Kind() != reflect.Slice {
			bad = append(bad, fmt.Errorf("field %s.%s: private state has a value a group: make it []%s", t.name, sf.Name, sf.Type))
		}
	}
	if f.Version != "" {
		t.version = schemaOf(t.events).Index(f.Version)
		if t.version < 0 || t.events[t.version].typ != goInt64 || t.events[t.version].ptr {
			bad = append(bad, fmt.Errorf("version: %s has no int64 column %s without null: the guard compares versions as integers", typeName(reflect.TypeFor[E]()), f.Version))
		}
	}
	return t, errors.Join(bad...)
}

// Shape implements [Transform].
func (f ColumnFold[E, S]) Shape() (Shape, error) {
	t, err := f.types()
	if err != nil {
		return Shape{}, err
	}
	return Shape{
		Events: schemaOf(t.events), Rows: schemaOf(t.rows), Keys: len(t.keys),
		OneRowPerKey: true, Versioned: f.Version != "", Merges: f.Merge != nil,
	}, nil
}

// Open implements [Transform].
func (f ColumnFold[E, S]) Open(o Options) (Runner, error) {
	t, err := f.types()
	if err != nil {
		return nil, err
	}
	r := &columnRunner[E, S]{
		spec: f, types: t, slots: o.Slots, events: new(E), state: new(S), keys: newKeys(o.Bucket != nil, f.Version != ""),
		share: o.Keys, partial: o.Partial,
	}
	events := reflect.ValueOf(r.events).Elem()
	for _, v := range events.Fields() {
		r.in = append(r.in, v.Addr().Interface().(column))
	}
	r.columns = stateColumns(reflect.ValueOf(r.state).Elem(), t.rows)
	r.found.slots = make([]codes, o.Slots)
	if o.Bucket != nil {
		r.bucket, r.bucketBy, r.found.slots = o.Bucket, o.BucketColumn, make([]codes, 1)
		row := rowType{name: t.name, fields: t.rows, keys: len(t.keys)}
		if _, err := row.bucketColumn(o); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// stateColumn is a column of the state: a slice with a value a group.
type stateColumn struct {
	name     string
	slice    reflect.Value
	at       unsafe.Pointer // of the slice
	size     uintptr        // of a value
	field    *field         // nil: private
	to       int            // the column of rows
	borrowed bool           // a value may point into a dictionary's text
	hidden   hidden
}

func stateColumns(state reflect.Value, rows []field) []stateColumn {
	var out []stateColumn
	for sf, v := range state.Fields() {
		if sf.Type == keyType {
			continue
		}
		elem := sf.Type.Elem()
		c := stateColumn{name: typeName(state.Type()) + "." + sf.Name, slice: v, at: v.Addr().UnsafePointer(), size: elem.Size(), hidden: newHidden(elem)}
		if i := slices.IndexFunc(rows, func(f field) bool { return !f.key && f.name == c.name }); i >= 0 {
			c.field, c.to = &rows[i], i
			c.borrowed = c.field.ptr || c.field.typ == goString
		}
		out = append(out, c)
	}
	return out
}

func (c *stateColumn) len() int { return len(*(*[]struct{})(c.at)) }

// value is where the value of a group lies, which must be there.
func (c *stateColumn) value(group uint32) unsafe.Pointer {
	return unsafe.Add(*(*unsafe.Pointer)(c.at), uintptr(group)*c.size)
}

// appendTo adds the values of groups to a column of rows. With an error it returns the number of the one that could not be added.
func (c *stateColumn) appendTo(to *record.Column, groups []uint32) (n int, err error) {
	switch f := c.field; {
	case f.ptr:
	case f.typ == goInt64 || f.typ == goMicros || f.typ == goDays:
		to.Int64s = appendValues(to.Int64s, c, groups)
		return 0, nil
	case f.typ == goFloat64:
		to.Float64s = appendValues(to.Float64s, c, groups)
		return 0, nil
	}
	for n, group := range groups {
		if err := c.field.appendTo(to, n, c.value(group)); err != nil {
			return n, err
		}
	}
	return 0, nil
}

// appendValues adds values that a column of the state has as they are. They lie far apart: a tight loop waits for many at once.
func appendValues[T int64 | float64](dst []T, c *stateColumn, groups []uint32) []T {
	from := len(dst)
	dst = slices.Grow(dst, len(groups))[:from+len(groups)]
	for n, group := range groups {
		dst[from+n] = *(*T)(c.value(group))
	}
	return dst
}

type columnRunner[E, S any] struct {
	spec     ColumnFold[E, S]
	types    columnTypes
	slots    int
	bucket   func([]byte) int
	bucketBy int
	share    Share
	partial  bool

	in      []column // the fields of events
	events  *E
	columns []stateColumn // the fields of state but for keys
	state   *S
	keys    keys
	found   found

	strict  []int // columns of the batch that must not have nulls there, and have some
	live    []int32
	place   []int32         // the slots of those that are live
	begun   [blockRows]bool // of those that are live: its group is new
	taken   []Event
	scratch []byte
	applied int64
	sealed  bool
	order   []sorted // of drained groups, once draining began
	ids     []uint32 // of the groups of a batch of rows
}

// Add implements [Runner].
func (r *columnRunner[E, S]) Add(b *record.Batch, rows, slots []int32, out *Outcome) error {
	if r.order != nil {
		return errDrained
	}
	if err := checkColumns(b, r.types.events); err != nil || len(rows) == 0 {
		return err
	}
	r.strict = r.strict[:0]
	for i := range r.in {
		r.in[i].set(&b.Columns[i], len(rows))
		if b.Columns[i].Nulls != nil && (!r.types.events[i].ptr || slices.Contains(r.types.keys, i)) {
			r.strict = append(r.strict, i)
		}
	}
	r.taken = r.taken[:0]
	for len(rows) > 0 {
		n := min(blockRows, len(rows))
		some := block[E]{batch: b, rows: rows[:n]}
		if rows = rows[n:]; slots != nil {
			some.slots, slots = slots[:n], slots[n:]
		}
		if err := r.group(some, out); err != nil {
			return err
		}
	}
	if len(r.taken) == 0 {
		return nil
	}
	grow(r.columns, len(r.keys.entries))
	if err := r.apply(b); err != nil {
		return &Failure{r.taken[0].Row, err}
	}
	out.Applied += int64(len(r.taken))
	r.applied += int64(len(r.taken))
	r.detach()
	return nil
}

// group finds the groups of a block's events, or makes them.
func (r *columnRunner[E, S]) group(b block[E], out *Outcome) error {
	failed, filtered := len(out.Failures), out.Filtered
	r.live, r.place = r.live[:0], r.place[:0]
	for next := 0; next < len(b.rows); {
		next = r.ask(b, next, out)
	}
	if r.share.Number > 0 {
		out.elsewhere(failed, filtered)
	}
	r.look(b.batch)
	f := &r.found
	clear(r.begun[:len(r.live)])
	for _, at := range f.unknown {
		n := int(at)
		id := none
		if cell := f.cells[n]; cell != nil {
			id = *cell - 1 // 0 - 1 is none
		}
		if id == none {
			id = r.keys.find(r.place[n], f.key(n), f.hashes[n])
		}
		if id == none && r.sealed {
			out.Left = append(out.Left, Left{r.live[n], f.hashes[n]})
			f.ids[n] = none
			continue
		}
		if id == none {
			var err error
			if id, err = r.add(b.batch, n); err != nil {
				return &Failure{r.live[n], err}
			}
			r.begun[n] = true
		}
		f.set(n, id)
	}
	if r.types.version < 0 {
		for n, row := range r.live {
			switch id := f.ids[n]; id {
			case none:
			case elsewhere:
				out.Elsewhere++
			default:
				r.taken = append(r.taken, Event{row, int32(id)}) //nolint:gosec // add keeps it to 31 bits
			}
		}
		return nil
	}
	versions := b.batch.Columns[r.types.version].Int64s
	for n, row := range r.live {
		id := f.ids[n]
		switch {
		case id == none:
			continue
		case id == elsewhere:
			out.Elsewhere++
			continue
		case !r.begun[n] && versions[row] <= r.keys.versions[id]:
			out.Stale++
			continue
		}
		r.keys.versions[id] = versions[row]
		r.taken = append(r.taken, Event{row, int32(id)}) //nolint:gosec // as above
	}
	return nil
}

// ask asks which events from number i on count, to the end or the first panic of Where. It returns the number of the next.
func (r *columnRunner[E, S]) ask(b block[E], i int, out *Outcome) (next int) {
	if r.spec.Where == nil && len(r.strict) == 0 {
		r.live = append(r.live, b.rows...)
		for n := range b.rows {
			r.place = append(r.place, b.slot(n))
		}
		return len(b.rows)
	}
	defer func() {
		if v := recover(); v != nil {
			next = i + 1
			out.Failures = append(out.Failures, Failure{b.rows[i], panicError("Where", v)})
		}
	}()
	for ; i < len(b.rows); i++ {
		row := b.rows[i]
		if err := r.unfit(b.batch, row, false); err != nil {
			out.Failures = append(out.Failures, Failure{row, err})
			continue
		}
		if r.spec.Where != nil && !r.spec.Where(r.events, row) {
			out.Filtered++
			continue
		}
		if err := r.unfit(b.batch, row, true); err != nil {
			out.Failures = append(out.Failures, Failure{row, err})
			continue
		}
		r.live, r.place = append(r.live, row), append(r.place, b.slot(i))
	}
	return i
}

// unfit says which null an event has where none can be: outside key columns that may have some, or in these.
func (r *columnRunner[E, S]) unfit(b *record.Batch, row int32, keys bool) error {
	for _, i := range r.strict {
		f := &r.types.events[i]
		if f.ptr != keys || !b.Columns[i].Nulls.Get(int(row)) {
			continue
		}
		if keys {
			return fmt.Errorf("column %s is null, which a key column cannot be: have Where leave such events out", f.column)
		}
		return fmt.Errorf("column %s is null, which field %s cannot hold: give its tag the option null if that is allowed", f.column, f.name)
	}
	return nil
}

// look looks up the groups of the live events by their codes, and readies what finds the others.
func (r *columnRunner[E, S]) look(b *record.Batch) {
	f := &r.found
	f.begin()
	var d *dictionary
	var by []uint32
	if len(r.types.keys) == 1 {
		if text, ok := r.in[r.types.keys[0]].(*Text); ok && text.dict.active {
			d, by = &text.dict, text.from.Strings.Codes
		}
	}
	for n, row := range r.live {
		slot := r.place[n]
		var cell *uint32
		if d != nil && uint(slot) < uint(len(f.slots)) {
			cell = f.cell(d, slot, by[row])
			if id := *cell; id != 0 {
				f.ids[n] = id - 1
				continue
			}
		}
		f.cells[n] = cell
		from := len(f.keys)
		for k, i := range r.types.keys {
			f.keys = appendColumnKey(f.keys, &b.Columns[i], int(row), k == len(r.types.keys)-1)
		}
		if hash := r.keys.hash(slot, f.keys[from:]); r.share.has(hash) {
			f.ask(n, from, hash)
		} else {
			f.set(n, elsewhere)
		}
	}
	r.keys.touch(f)
}

// appendColumnKey adds the value of a row to an encoded key, as [rowType.appendKey] does.
func appendColumnKey(dst []byte, c *record.Column, row int, last bool) []byte {
	switch c.Kind {
	case record.String:
		v := c.Strings.At(row)
		return appendKeyString(dst, unsafe.String(unsafe.SliceData(v), len(v)), last)
	case record.Bool:
		return append(dst, byte(c.Int64s[row]))
	default:
		return appendOrdered(dst, c.Int64s[row])
	}
}

const mostGroups = 1<<31 - 1

// add makes the group of the nth live event.
func (r *columnRunner[E, S]) add(b *record.Batch, n int) (uint32, error) {
	slot := r.place[n]
	if r.bucket != nil {
		r.scratch = appendBucketValue(r.scratch[:0], &b.Columns[r.types.keys[r.bucketBy]], int(r.live[n]))
		slot = int32(r.bucket(r.scratch))
	}
	if err := checkSlot(slot, r.slots); err != nil {
		return none, err
	}
	if len(r.keys.entries) == mostGroups {
		return none, fmt.Errorf("a worker has more than %d groups: give it smaller shards", mostGroups)
	}
	return r.keys.add(r.found.hashes[n], slot, r.found.key(n)), nil
}

// grow gives each of n groups its values.
func grow(columns []stateColumn, n int) {
	for i := range columns {
		c := &columns[i]
		if have := c.len(); have < n {
			if c.slice.Cap() < n {
				c.slice.Grow(max(n, 2*c.slice.Cap()) - have) // as doubled does
			}
			c.slice.SetLen(n)
		}
	}
}

// apply applies the events that were taken.
func (r *columnRunner[E, S]) apply(b *record.Batch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: it was given %d events%s, whose groups may be half changed", panicError("Apply", v), len(r.taken), r.span(b))
		}
	}()
	r.spec.Apply(r.state, r.events, r.taken)
	return whole(r.columns, len(r.keys.entries), "Apply")
}

// span says where the events that were taken lie in the log.
func (r *columnRunner[E, S]) span(b *record.Batch) string {
	if b.Offsets == nil {
		return ""
	}
	return fmt.Sprintf(" of offsets %d to %d", b.Offsets[r.taken[0].Row], b.Offsets[r.taken[len(r.taken)-1].Row])
}

// whole holds the columns of the state against the number of groups.
func whole(columns []stateColumn, groups int, after string) error {
	for i := range columns {
		if c := &columns[i]; c.len() != groups {
			return fmt.Errorf("%s left %s with %d values for %d groups: set values, and leave the slice as it is", after, c.name, c.len(), groups)
		}
	}
	return nil
}

// detach copies what groups took from dictionaries, so that they do not keep them in memory.
func (r *columnRunner[E, S]) detach() {
	for i := range r.columns {
		c := &r.columns[i]
		if !c.borrowed {
			continue
		}
		for _, e := range r.taken {
			c.field.detach(c.value(uint32(e.Group)), r.lent)
		}
	}
}

// lent reports whether p points into the text of a dictionary.
func (r *columnRunner[E, S]) lent(p unsafe.Pointer) bool {
	for _, c := range r.in {
		if t, ok := c.(*Text); ok && t.dict.active {
			if s := spanOf(t.dict.text); s.from <= uintptr(p) && uintptr(p) < s.to {
				return true
			}
		}
	}
	return false
}

// Drain implements [Runner].
func (r *columnRunner[E, S]) Drain(slot int, yield func(*record.Batch) error) error {
	if r.order == nil {
		if !r.partial {
			if err := r.spec.finish(r.state, r.columns, len(r.keys.entries)); err != nil {
				return err
			}
		}
		r.order = r.keys.sorted()
	}
	b := newBatch(r.types.rows)
	if r.partial {
		b = partialBatch(r.types.rows[:len(r.types.keys)])
	}
	for order := ofSlot(r.order, int32(slot)); len(order) > 0; {
		n := min(outRows, len(order))
		truncate(b, 0)
		if err := r.appendRows(b, order[:n]); err != nil {
			return err
		}
		if err := yield(b); err != nil {
			return err
		}
		order = order[n:]
	}
	return nil
}

// finish finishes all of a number of groups.
func (f ColumnFold[E, S]) finish(state *S, columns []stateColumn, groups int) error {
	if f.Finish == nil {
		return nil
	}
	if err := calling("Finish", func() { f.Finish(state) }); err != nil {
		return err
	}
	return whole(columns, groups, "Finish")
}

// appendRows adds what is drained of groups to b, a column at a time.
func (r *columnRunner[E, S]) appendRows(b *record.Batch, order []sorted) error {
	keys := b.Columns[:len(r.types.keys)]
	for some := range slices.Chunk(order, touchRows) {
		r.keys.touchKeys(some)
		for _, o := range some {
			if err := appendKeyColumns(keys, r.keys.key(o.id)); err != nil {
				return err
			}
		}
	}
	name := func(n int) []byte { return r.keys.key(order[n].id) }
	if r.partial {
		b.Len = len(order)
		return appendPartials(&b.Columns[len(keys)], r.columns, order, name)
	}
	r.ids = r.ids[:0]
	for _, o := range order {
		r.ids = append(r.ids, o.id)
	}
	return appendStates(b, r.columns, r.ids, name)
}

// appendStates fills the columns of b that are no keys with the values of groups. Key is that of the nth, for errors.
func appendStates(b *record.Batch, columns []stateColumn, groups []uint32, key func(n int) []byte) error {
	for i := range columns {
		c := &columns[i]
		if c.field == nil {
			continue
		}
		if n, err := c.appendTo(&b.Columns[c.to], groups); err != nil {
			return fmt.Errorf("row of key %q: %w", key(n), err)
		}
	}
	b.Len = len(groups)
	return nil
}

var errKey = errors.New("a key that a checkpoint held is cut short: delete the checkpoint, and the shard begins anew")

// appendKeyColumns adds what an encoded key was made of to its columns.
func appendKeyColumns(columns []record.Column, key []byte) error {
	for i := range columns {
		c := &columns[i]
		switch c.Kind {
		case record.String:
			v := key
			if i < len(columns)-1 {
				v, key = cutKeyString(key)
			}
			if err := appendString(c, v); err != nil {
				return fmt.Errorf("key %q: %w", v, err)
			}
		case record.Bool:
			if len(key) < 1 {
				return errKey
			}
			c.Int64s = append(c.Int64s, int64(key[0]))
			key = key[1:]
		default:
			if len(key) < 8 {
				return errKey
			}
			c.Int64s = append(c.Int64s, ordered(key))
			key = key[8:]
		}
	}
	return nil
}

// Snapshot implements [Runner].
func (r *columnRunner[E, S]) Snapshot(dst io.Writer) error {
	if r.order != nil {
		return errDrained
	}
	var w wire.Writer
	w.Uint(uint64(len(r.keys.entries)))
	for id := range r.keys.entries {
		r.keys.write(&w, uint32(id))
		if err := w.FlushFull(dst); err != nil {
			return err
		}
	}
	enc := plainEncoder{w: &w}
	for i := range r.columns {
		for id := range r.keys.entries {
			if enc.encode(r.columns[i].slice.Index(id)); enc.err != nil {
				return fmt.Errorf("snapshot of %s: %w", r.columns[i].name, enc.err)
			}
			if err := w.FlushFull(dst); err != nil {
				return err
			}
		}
	}
	return w.Flush(dst)
}

// Restore implements [Runner].
func (r *columnRunner[E, S]) Restore(src io.Reader) error {
	in, err := wire.ReadAll(src)
	if err != nil {
		return err
	}
	for n := in.Len(); n > 0; n-- {
		if _, err := r.keys.read(in, r.slots); err != nil {
			return err
		}
	}
	grow(r.columns, len(r.keys.entries))
	for i := range r.columns {
		for id := range r.keys.entries {
			if decodePlain(in, r.columns[i].slice.Index(id)); in.Err() != nil {
				return in.Err()
			}
		}
	}
	return in.End()
}

// cutKeyString takes the string at the beginning of an encoded key, which [appendKeyString] wrote, and returns what follows.
func cutKeyString(key []byte) (v, rest []byte) {
	for i := 0; i+1 < len(key); i++ {
		if key[i] != 0 {
			continue
		}
		if key[i+1] == 0 {
			return []byte(strings.ReplaceAll(string(key[:i]), "\x00\xff", "\x00")), key[i+2:]
		}
		i++
	}
	return key, nil
}
