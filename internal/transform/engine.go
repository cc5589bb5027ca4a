package transform

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"hindcast/internal/job"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/spec"
)

// engine is the work on one shard.
type engine struct {
	c       Config
	time    int // columns
	id      int // -1: no dedupe
	outputs []*output
	seen    *seen
	full    bool  // seen takes no more
	late    *late // nil before there is any
	res     Result
	resumed bool // a row after the cursor was taken in this lap

	place
	lapRows int64 // that this lap has worked on

	share  int64             // of the memory, for the ids and for each output; 0: no limit
	peak   int64             // of what bound saw
	deadAt map[Position]bool // events that were counted as dead while some were left for later

	// What follows is memory used again from batch to batch.
	rows, slots []int32
	contents    contents
	ids         idKeys
	dead        record.Bitmap // rows of the batch that are dead for a table
	buried      []DeadLetter  // of the rows at hand, as they are found
	idBuf       []byte
	slotColumn  record.Column
	undecided   []int32 // of rows, by their places
	repeats     []repeat
}

// place is how far a shard has come, beside the cursor.
type place struct {
	Stage stage `json:"stage"`
	At    int64 `json:"at"`    // how far the scratch file at hand was read
	Table int   `json:"table"` // whose turn it is to be passed on, from Slot on
	Slot  int   `json:"slot"`
}

// output is a table at work.
type output struct {
	Output
	shape   job.Shape
	columns []int // of the batch, for each of the transform's
	view    record.Batch
	options job.Options
	runner  job.Runner
	bounded job.Bounded // the runner, where it is one
	counts  []Count
	outcome job.Outcome

	size  int64        // of the runner, when it was measured last
	early map[int]bool // the slots of which rows were passed on while the shard goes on
	overflow
}

// overflow is what an output has beyond its share of memory: what a sealed runner left, and the rows of those that are done; see the package comment.
type overflow struct {
	sealed    bool
	level     int
	left      []*scratchFile
	scratch   *scratchFile
	runs      []sortedRun
	finishing bool   // the input has ended: what the first runner has is in runs, and what is left is what it left
	todo      []pass // files that were left, the last is next
}

func newEngine(c Config) (*engine, error) {
	e := &engine{c: c, time: c.Columns.Index(c.Time), id: -1}
	if e.time < 0 || c.Columns[e.time].Kind != record.Timestamp {
		return nil, fmt.Errorf("the events have no timestamp column %q", c.Time)
	}
	if c.ID != "" {
		e.id = c.Columns.Index(c.ID)
		if e.id < 0 || c.Columns[e.id].Kind != record.String && c.Columns[e.id].Kind != record.Int64 {
			return nil, fmt.Errorf("the events have no string or integer column %q to tell them apart by", c.ID)
		}
		e.seen = newSeen(c.Rows)
	}
	switch {
	case c.Sink == nil:
		return nil, errors.New("no sink to take the rows")
	case c.Memory < 0:
		return nil, fmt.Errorf("a memory limit of %d bytes", c.Memory)
	case c.Stop != nil && c.Checkpoint == nil:
		return nil, errors.New("a shard that may stop needs a place for its checkpoint")
	case c.Scheme.Buckets > 0 && len(c.Slots) > 0:
		return nil, errors.New("a shard has time partitions or key buckets, not both")
	case !slices.IsSortedFunc(c.Slots, func(a, b partition.Slot) int { return cmp.Compare(a.From, b.From) }):
		return nil, errors.New("the shard's partitions are not in ascending order")
	}
	for _, o := range c.Outputs {
		out, err := newOutput(o, c)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", o.Table, err)
		}
		e.outputs = append(e.outputs, out)
	}
	consumers := int64(len(c.Outputs))
	if e.seen != nil {
		consumers++
	}
	if c.Memory > 0 {
		e.share = max(c.Memory/consumers, 1)
	}
	return e, nil
}

// close gives memory and scratch back.
func (e *engine) close() (err error) {
	if e.seen != nil {
		e.seen.free()
	}
	if e.late != nil {
		err = e.late.close()
	}
	for _, out := range e.outputs {
		err = errors.Join(err, out.close())
	}
	return err
}

func newOutput(o Output, c Config) (*output, error) {
	if o.Transform == nil {
		return nil, errors.New("the job has no transform for it")
	}
	shape, err := o.Transform.Shape()
	if err != nil {
		return nil, err
	}
	out := &output{Output: o, shape: shape}
	for _, f := range shape.Events {
		i := c.Columns.Index(f.Name)
		if i < 0 || c.Columns[i].Kind != f.Kind {
			return nil, fmt.Errorf("the events have no %s column %s", f.Kind, f.Name)
		}
		out.columns = append(out.columns, i)
	}
	var lent []string
	for _, f := range c.Lent {
		lent = append(lent, f.Name)
	}
	if lent != nil {
		out.columns = append(out.columns, len(c.Columns)-1)
	}
	out.view.Columns = make([]record.Column, len(out.columns))
	out.options = job.Options{Slots: len(c.Slots), Lent: lent}
	if c.Scheme.Buckets > 0 {
		out.options = job.Options{Slots: c.Scheme.Buckets, Bucket: c.Scheme.Bucket, BucketColumn: shape.Rows.Index(o.BucketColumn)}
	}
	out.options.Keys, out.options.Partial = c.Keys, c.Partial
	if c.Partial && !shape.Merges {
		return nil, errors.New("its transform does not say how parts of it are merged")
	}
	if err := out.open(); err != nil {
		return nil, err
	}
	if out.bounded == nil && shape.OneRowPerKey && c.Memory > 0 {
		return nil, errors.New("its transform cannot be kept from growing, so that no limit of memory can be kept")
	}
	return out, nil
}

// check asks that a batch has what the configuration says.
func (e *engine) check(partition int32, b *record.Batch) error {
	if len(b.Columns) != len(e.c.Columns)+1 {
		return fmt.Errorf("topic partition %d: a batch has %d columns where the events have %d and %s", partition, len(b.Columns), len(e.c.Columns), ErrorColumn)
	}
	for i, f := range e.c.Columns {
		if b.Columns[i].Kind != f.Kind {
			return fmt.Errorf("topic partition %d: column %s is %s in a batch, not %s", partition, f.Name, b.Columns[i].Kind, f.Kind)
		}
	}
	if b.Columns[len(e.c.Columns)].Kind != record.String {
		return fmt.Errorf("topic partition %d: the last column of a batch is not the strings of %s", partition, ErrorColumn)
	}
	if len(b.Offsets) != b.Len {
		return fmt.Errorf("topic partition %d: a batch of %d rows has %d offsets", partition, b.Len, len(b.Offsets))
	}
	return nil
}

// add takes a batch.
func (e *engine) add(partition int32, b *record.Batch) error {
	if err := e.check(partition, b); err != nil {
		return err
	}
	from, err := e.advance(partition, b)
	if err != nil {
		return err
	}
	tail, tiered := e.c.Tail[partition], e.c.Tiered[partition]
	for from < b.Len {
		origin, to := originRun(tail, tiered, b.Offsets, from)
		if err := e.addRun(partition, origin, b, from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// advance moves the cursor past b and returns the first of its rows that was not taken yet. Rows may repeat what an earlier
// lap took, but only at the beginning and whole; after that they must ascend.
func (e *engine) advance(partition int32, b *record.Batch) (int, error) {
	from := 0
	if c := e.res.Cursor; c != nil {
		switch {
		case partition < c.Partition:
			from = b.Len
		case partition == c.Partition:
			from = sort.Search(b.Len, func(i int) bool { return b.Offsets[i] > c.Offset })
		}
	}
	for i := 1; i < b.Len; i++ {
		if b.Offsets[i] <= b.Offsets[i-1] {
			return 0, fmt.Errorf("topic partition %d: offset %d is read after %d: rows must come in offset order", partition, b.Offsets[i], b.Offsets[i-1])
		}
	}
	if from > 0 && (e.c.Resume == nil || e.resumed) {
		return 0, fmt.Errorf("topic partition %d: offset %d is read a second time, after %s", partition, b.Offsets[0], e.res.Cursor)
	}
	if from < b.Len {
		e.resumed = true
		e.res.Cursor = &Position{partition, b.Offsets[b.Len-1]}
	}
	return from, nil
}

// originRun returns the origin of row from and the end of the run of rows that share it.
func originRun(tail, tiered plan.Ranges, offsets []int64, from int) (Origin, int) {
	origin, to := FromSegment, len(offsets)
	for _, of := range []struct {
		Origin
		ranges plan.Ranges
	}{{FromTail, tail}, {FromTiered, tiered}} {
		next := sort.Search(len(of.ranges), func(i int) bool { return of.ranges[i].Next > offsets[from] })
		if next == len(of.ranges) {
			continue
		}
		end := of.ranges[next].First
		if end <= offsets[from] {
			origin, end = of.Origin, of.ranges[next].Next
		}
		to = min(to, from+sort.Search(to-from, func(i int) bool { return offsets[from+i] >= end }))
	}
	return origin, to
}

// addRun takes rows from..to of a batch.
func (e *engine) addRun(partition int32, origin Origin, b *record.Batch, from, to int) error {
	run := e.newRun(partition, origin)
	e.sort(run, b, from, to)
	if e.id >= 0 {
		if err := e.dedupe(run, b); err != nil {
			return err
		}
	}
	return e.giveAll(run, b)
}

// giveAll gives the rows that are left of a batch to all outputs.
func (e *engine) giveAll(run *run, b *record.Batch) error {
	e.clearDead(b.Len)
	for i, out := range e.outputs {
		if err := e.apply(run, i, b); err != nil {
			return fmt.Errorf("table %s: %w", out.Table, err)
		}
	}
	e.tellDead()
	return nil
}

func (e *engine) clearDead(rows int) {
	clear(e.dead)
	for len(e.dead)*64 < rows {
		e.dead = append(e.dead, 0)
	}
}

// run is what is counted of rows of one topic partition and origin: at each output, and what is the same at all.
type run struct {
	partition int32
	origin    Origin
	counts    []*Count
	owned     plan.Ranges
	quiet     bool // another share of the keys accounts for what is not about a key
}

func (e *engine) newRun(partition int32, origin Origin) *run {
	r := &run{partition: partition, origin: origin, owned: e.c.Owned[partition], quiet: e.c.Keys.Number > 0}
	for _, out := range e.outputs {
		i := slices.IndexFunc(out.counts, func(c Count) bool { return c.Partition == partition && c.Origin == origin })
		if i < 0 {
			i = len(out.counts)
			out.counts = append(out.counts, Count{Partition: partition, Origin: origin, Table: out.Table})
		}
		r.counts = append(r.counts, &out.counts[i])
	}
	return r
}

// owns reports whether the shard accounts for a row without a slot. Offsets must be asked for in ascending order.
func (r *run) owns(offset int64) bool {
	for len(r.owned) > 0 && r.owned[0].Next <= offset {
		r.owned = r.owned[1:]
	}
	return len(r.owned) > 0 && r.owned[0].First <= offset
}

// all counts rows that did not get to the transforms.
func (r *run) all(count func(*Count)) {
	if r.quiet {
		return
	}
	for _, c := range r.counts {
		count(c)
	}
}

// sort puts the rows that belong to the shard into e.rows, their slots into e.slots, and counts the others that it owns.
func (e *engine) sort(run *run, b *record.Batch, from, to int) {
	e.rows, e.slots = e.rows[:0], e.slots[:0]
	times, timeNulls := b.Columns[e.time].Int64s, b.Columns[e.time].Nulls
	unread := &b.Columns[len(b.Columns)-1]
	last := 0 // the slot of the row before: mostly that of this one, too
	near := e.near(last)
	dated := timeNulls == nil && allNull(unread, b.Len)
	if dated && e.sortNear(b, times, from, to) {
		return
	}
	for i := from; i < to; i++ {
		// Most rows lie near the one before, and nothing is wrong with them.
		if t := times[i]; dated && near.Contains(t) && partition.Placeable(t) && (b.RecordTimes == nil || !e.stray(t, b.RecordTimes[i])) {
			if e.rows = append(e.rows, int32(i)); e.c.Scheme.Buckets == 0 {
				e.slots = append(e.slots, int32(last))
			}
			continue
		}
		if !unread.Nulls.Get(i) {
			if run.owns(b.Offsets[i]) {
				e.bury(run, b.Offsets[i], "record cannot be read: "+string(unread.Strings.At(i)))
			}
			continue
		}
		if timeNulls.Get(i) {
			if run.owns(b.Offsets[i]) {
				e.bury(run, b.Offsets[i], fmt.Sprintf("column %s is null: there is no event time", e.c.Time))
			}
			continue
		}
		t := times[i]
		if !partition.Placeable(t) {
			if run.owns(b.Offsets[i]) {
				e.bury(run, b.Offsets[i], fmt.Sprintf("column %s: %s is outside the dates that a table can be cut by, %s", e.c.Time, spec.FormatInstant(t), partition.Dates))
			}
			continue
		}
		if b.RecordTimes != nil && e.stray(t, b.RecordTimes[i]) && run.owns(b.Offsets[i]) {
			e.res.Strays++
			if len(e.res.FirstStrays) < MaxFindings {
				e.res.FirstStrays = append(e.res.FirstStrays, Stray{Position{run.partition, b.Offsets[i]}, t, b.RecordTimes[i]})
			}
		}
		if e.c.Window != nil && !e.c.Window.Contains(t) {
			if run.owns(b.Offsets[i]) {
				run.all(func(c *Count) { c.Outside++ })
			}
			continue
		}
		if e.c.Scheme.Buckets == 0 {
			if last = e.slot(t, last); last < 0 {
				last, near = 0, e.near(0)
				continue
			}
			near = e.near(last)
			e.slots = append(e.slots, int32(last))
		}
		e.rows = append(e.rows, int32(i))
	}
}

// sortNear is sort where all rows lie in the partition of the first, or as that before all of the shard's or after them, and nothing is wrong with them: so it is
// with most batches. Else it is not ok.
func (e *engine) sortNear(b *record.Batch, times []int64, from, to int) (ok bool) {
	slot := 0
	if e.c.Scheme.Buckets == 0 {
		slot = e.slot(times[from], 0)
	}
	near := e.near(max(slot, 0))
	if slot < 0 && len(e.c.Slots) > 0 {
		near = e.beyond(times[from])
	}
	for _, t := range times[from:to] {
		if !near.Contains(t) || !partition.Placeable(t) {
			return false
		}
	}
	if b.RecordTimes != nil {
		for i, t := range times[from:to] {
			if e.stray(t, b.RecordTimes[from+i]) {
				return false
			}
		}
	}
	if slot < 0 {
		return true
	}
	n := to - from
	e.rows = slices.Grow(e.rows, n)[:n]
	for i := range e.rows {
		e.rows[i] = int32(from + i)
	}
	if e.c.Scheme.Buckets == 0 {
		e.slots = slices.Grow(e.slots, n)[:n]
		for i := range e.slots {
			e.slots[i] = int32(slot)
		}
	}
	return true
}

// beyond is the range of times that are in the window, and before all slots of the shard or after them, as t is.
func (e *engine) beyond(t int64) spec.Window {
	first, last := e.near(0), e.near(len(e.c.Slots)-1)
	w := spec.Window{From: math.MinInt64, To: math.MaxInt64}
	if e.c.Window != nil {
		w = *e.c.Window
	}
	if t < first.From {
		return spec.Window{From: w.From, To: first.From}
	}
	return spec.Window{From: last.To, To: w.To}
}

// near is the range of times that are in the window and of a slot, where the shard has slots. It is empty where it should have some.
func (e *engine) near(slot int) spec.Window {
	w := spec.Window{From: math.MinInt64, To: math.MaxInt64}
	if e.c.Window != nil {
		w = *e.c.Window
	}
	switch {
	case e.c.Scheme.Buckets > 0:
		return w
	case len(e.c.Slots) == 0:
		return spec.Window{}
	}
	s := &e.c.Slots[slot]
	return spec.Window{From: max(w.From, s.From), To: min(w.To, s.To)}
}

// allNull reports whether the first n rows of a column are null.
func allNull(c *record.Column, n int) bool {
	for word := range (n + 63) / 64 {
		if c.Nulls == nil || bits.OnesCount64(^c.Nulls[word]<<max(64*(word+1)-n, 0)) > 0 {
			return false
		}
	}
	return true
}

// stray reports whether an event entered the log later or earlier than the job declares. Record times are floored to milliseconds.
func (e *engine) stray(event, record int64) bool {
	return record-event > int64(e.c.Lateness) || event-record >= int64(e.c.Ahead+spec.Millisecond)
}

// slot returns the slot of an instant, or -1 where it is another shard's. It tries the hint first.
func (e *engine) slot(t int64, hint int) int {
	if len(e.c.Slots) == 0 { // no event of the run has a time that can be placed
		return -1
	}
	if s := &e.c.Slots[hint]; s.From <= t && t < s.To {
		return hint
	}
	i := sort.Search(len(e.c.Slots), func(i int) bool { return e.c.Slots[i].To > t })
	if i < len(e.c.Slots) && e.c.Slots[i].From <= t {
		return i
	}
	return -1
}

// bury makes a row dead for all tables.
func (e *engine) bury(run *run, offset int64, reason string) {
	if run.quiet {
		return
	}
	run.all(func(c *Count) { c.Dead++ })
	e.res.DeadLetters++
	e.noteDead(DeadLetter{Position: Position{run.partition, offset}, Reason: reason})
}

func (e *engine) noteDead(d DeadLetter) {
	if told := e.res.FirstDeadLetters; len(told) < MaxFindings || e.compareDead(d, told[MaxFindings-1]) < 0 {
		d.Reason = strings.ToValidUTF8(d.Reason, "\uFFFD") // as JSON would have it after a lap
		e.buried = append(e.buried, d)
	}
}

// tellDead adds what was noted to the result, in the order of the log: which of them are the first depends neither on how rows are cut into batches nor on memory.
func (e *engine) tellDead() {
	if len(e.buried) == 0 {
		return
	}
	told := append(e.res.FirstDeadLetters, e.buried...)
	slices.SortStableFunc(told, e.compareDead)
	e.res.FirstDeadLetters = firsts(told)
	e.buried = e.buried[:0]
}

// dedupe keeps of e.rows those whose id is new.
func (e *engine) dedupe(run *run, b *record.Batch) error {
	contents := e.contents.of(b, len(e.c.Columns), e.id, e.rows)
	ids := &b.Columns[e.id]
	e.ids.of(ids, e.rows)
	kept := 0
	keep := func(from, to int) {
		if e.c.Slots != nil {
			copy(e.slots[kept:], e.slots[from:to])
		}
		kept += copy(e.rows[kept:], e.rows[from:to])
	}
	e.undecided = e.undecided[:0]
	for from := 0; from < len(e.rows); from += touchIDs {
		to := min(from+touchIDs, len(e.rows))
		if repeats, ok := e.meetAll(run, b.Offsets, contents, from, to); ok {
			set, next := &e.seen.sets[e.ids.kind], from
			for _, r := range repeats {
				n := from + int(r.n)
				keep(next, n)
				next = n + 1
				e.repeat(run, b, n, firstSeen{set.position(int(r.id)), set.content(int(r.id))})
			}
			keep(next, to)
			continue
		}
		for n := from; n < to; n++ {
			at := Position{run.partition, b.Offsets[e.rows[n]]}
			if e.ids.kinds[n] == idNone {
				e.bury(run, at.Offset, fmt.Sprintf("column %s is null or empty: the event has no id", e.c.ID))
				continue
			}
			before, fresh, ok := e.seen.meet(&e.ids, n, ids, e.rows[n], at, content(contents[n]), e.full)
			switch {
			case !ok:
				e.undecided = append(e.undecided, int32(n))
			case fresh:
				keep(n, n+1)
			default:
				e.repeat(run, b, n, before)
			}
		}
	}
	if len(e.undecided) > 0 {
		if err := e.postpone(run, b, e.undecided); err != nil {
			return err
		}
	}
	e.rows = e.rows[:kept]
	e.slots = e.slots[:min(kept, len(e.slots))]
	return nil
}

// meetAll adds the ids of e.rows[from:to], where these are of one kind and find room, and returns those that were there before. Else it is not ok.
func (e *engine) meetAll(run *run, offsets []int64, contents []uint64, from, to int) (repeats []repeat, ok bool) {
	kind := e.ids.kind
	if e.full || kind == idNone || kind == idLong {
		return nil, false
	}
	e.repeats, ok = e.seen.sets[kind].addAll(e.ids.keys[from:to], e.ids.hashes[from:to], contents[from:to], run.partition, offsets, e.rows[from:to], e.repeats[:0])
	return e.repeats, ok
}

// repeat counts the nth of e.rows, whose id came before.
func (e *engine) repeat(run *run, b *record.Batch, n int, before firstSeen) {
	row, c := e.rows[n], content(e.contents.all[n])
	if before.content == c {
		run.all(func(c *Count) { c.Duplicate++ })
		return
	}
	run.all(func(c *Count) { c.Conflict++ })
	e.conflict(idText(&b.Columns[e.id], row), before, Position{run.partition, b.Offsets[row]}, c)
}

// idOf returns the bytes of an id, none if it is null.
func (e *engine) idOf(ids *record.Column, row int) []byte {
	switch {
	case ids.Nulls.Get(row):
		return nil
	case ids.Kind == record.String:
		return ids.Strings.At(row)
	}
	e.idBuf = binary.LittleEndian.AppendUint64(e.idBuf[:0], uint64(ids.Int64s[row]))
	return e.idBuf
}

// apply gives the rows that are left to an output.
func (e *engine) apply(run *run, output int, b *record.Batch) error {
	out := e.outputs[output]
	for i, c := range out.columns {
		out.view.Columns[i] = b.Columns[c]
	}
	out.view.Len, out.view.Offsets, out.view.RecordTimes = b.Len, b.Offsets, b.RecordTimes
	return e.give(run, output, false)
}

// give gives the rows that are left to an output, whose view they are rows of. Late says that the batch that they came with is forgotten.
func (e *engine) give(run *run, output int, late bool) error {
	out, count := e.outputs[output], run.counts[output]
	out.outcome = job.Outcome{Failures: out.outcome.Failures[:0], Left: out.outcome.Left[:0]}
	slots := e.slots
	if e.c.Slots == nil {
		slots = nil
	}
	offsets := out.view.Offsets
	if err := out.runner.Add(&out.view, e.rows, slots, &out.outcome); err != nil {
		var at *job.Failure
		if errors.As(err, &at) && int(at.Row) < len(offsets) {
			return fmt.Errorf("%s: %w", Position{run.partition, offsets[at.Row]}, at.Err)
		}
		return err
	}
	o := &out.outcome
	count.Applied += o.Applied
	count.Filtered += o.Filtered
	count.Stale += o.Stale
	count.Dead += int64(len(o.Failures))
	if n := o.Applied + o.Filtered + o.Stale + o.Elsewhere + int64(len(o.Failures)+len(o.Left)); n != int64(len(e.rows)) {
		return fmt.Errorf("the transform accounts for %d of %d events", n, len(e.rows))
	}
	for _, f := range o.Failures {
		at := Position{run.partition, offsets[f.Row]}
		e.countDead(at, int(f.Row), late)
		e.noteDead(DeadLetter{at, out.Table, f.Err.Error()})
	}
	if len(o.Left) > 0 {
		return e.leave(run, out, e.rows, slots)
	}
	return nil
}

func (e *engine) labels() []string {
	var out []string
	for _, s := range e.c.Slots {
		out = append(out, s.Label)
	}
	for bucket := range e.c.Scheme.Buckets {
		out = append(out, partition.BucketLabel(bucket))
	}
	return out
}

func (e *engine) label(slot int) string {
	if len(e.c.Slots) > 0 {
		return e.c.Slots[slot].Label
	}
	return partition.BucketLabel(slot)
}

var errEnough = errors.New("the sink wants no more rows")

// drainSlot passes the rows of a partition on, and returns how many there are.
func (e *engine) drainSlot(out *output, slot int, label string) (n int, err error) {
	rows := func(yield func(*record.Batch, error) bool) {
		err := out.rowsOf(slot, func(b *record.Batch) error {
			if !yield(b, nil) {
				return errEnough
			}
			n += b.Len
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
	next, stop := iter.Pull2(rows)
	defer stop()
	b, err, ok := next()
	if !ok && !out.early[slot] {
		return 0, nil // no rows, no file
	}
	sunk := e.c.Sink(out.Table, label, func(yield func(*record.Batch, error) bool) {
		for ok && yield(b, err) && err == nil {
			b, err, ok = next()
		}
	})
	switch {
	case sunk != nil:
		return 0, sunk
	case err != nil:
		return 0, err
	case ok:
		return 0, errors.New("the sink did not take all rows")
	}
	delete(out.early, slot)
	return n, nil
}

// result returns the account so far.
func (e *engine) result(done bool) Result {
	res := e.res
	res.Done, res.Ended, res.PeakMemory = done, e.Stage != reading, e.peak
	res.Counts = nil
	for _, out := range e.outputs {
		counts := slices.Clone(out.counts)
		slices.SortFunc(counts, Count.compare)
		res.Counts = append(res.Counts, counts...)
	}
	return res
}
