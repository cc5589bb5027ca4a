// Package source reads the rows of a log in order, from segments that a plan
// names. Listing them is up to the packages below: parquetsrc for exports,
// tailsrc for what is still on the brokers, which it captures into segments.
//
// It owns the order (topic partition, then offset, however segments overlap) and
// that each row is what was planned: an object that is not the planned one any more, offsets that do not
// ascend and columns of another kind are errors. It does not decide which rows are read: a [plan.Input] says it.
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
	"hindcast/internal/plan"
	"hindcast/internal/record"
)

// ErrorColumn is the last column of every batch, a nullable string: why a record's value could not be decoded. It is null where
// events were exported in columns of their own.
const ErrorColumn = "hindcast_error"

// CapturedColumns are the Kafka columns of segments that a run captured.
var CapturedColumns = plan.KafkaColumns{Partition: "kafka_partition", Offset: "kafka_offset", Time: "kafka_timestamp"}

// Reader yields rows by topic partition, ascending, and within it by offset,
// ascending. A batch has Offsets, RecordTimes and the columns that were asked for, then [ErrorColumn]; it is never
// empty, and valid until the next call. RecordTimes is nil for rows of a segment that has no column for them, and of those that
// [OpenTimes] leaves them out of. io.EOF ends; after another error there is nothing more.
// Readers are not safe for concurrent use.
type Reader interface {
	Next(ctx context.Context) (partition int32, b *record.Batch, err error)
	Close() error
}

// Stores hold segments: those that were exported, and those of the run's capture.
type Stores struct {
	Segments blob.Store
	Captured blob.Store
	// Lender, if set, says which columns need not be read where they can be had from the segments as they lie. Batches then have [PlaceColumn] behind those of the event.
	Lender *Lender
}

// ErrChanged means that a segment is not the one that was planned: it was
// deleted, or another lies under its key.
var ErrChanged = errors.New("segment changed since it was planned")

// Open starts to read inputs. Schema has the event's columns, and layout says how they lie in exported segments: each is read as [NewFit] says, and null where
// a segment lacks it. Captured ones have them as they are. Reads end when ctx does.
func Open(ctx context.Context, stores Stores, inputs []plan.Input, schema record.Schema, layout Layout) (Reader, error) {
	return OpenTimes(ctx, stores, inputs, schema, layout, nil)
}

// Times is a half-open range of the values of a timestamp column, in microseconds since 1970.
type Times struct {
	Column   string
	From, To int64
	// NoPrune has the bounds of pages not used.
	NoPrune bool
}

// OpenTimes does what Open does for those who want events of some times only: of a row outside them the other columns of the event may be null, whatever
// the segment has. Offsets, record times, times and errors are as with Open. All rows are read of the row groups in which the input owns
// offsets; of others those may be missing that are outside the times, as the bounds of their pages say, and the record times of all. Whoever owns a row group holds
// all its times against these bounds, and its offsets against what the others take them for.
func OpenTimes(ctx context.Context, stores Stores, inputs []plan.Input, schema record.Schema, layout Layout, times *Times) (Reader, error) {
	inputs = slices.Clone(inputs)
	slices.SortStableFunc(inputs, func(a, b plan.Input) int { return cmp.Compare(a.Partition, b.Partition) })
	m := &merged{stores: stores, inputs: inputs, schema: schema, layout: layout, times: times, ahead: blob.NewAhead(ctx, aheadBytes, aheadRequests)}
	m.ctx, m.cancel = context.WithCancel(ctx)
	return m, nil
}

const (
	// aheadBytes is how many bytes of segments a reader holds that it does not need yet, and aheadRequests how many requests for them are under way.
	aheadBytes    = 16 << 20
	aheadRequests = 16
	// opened is how many segments are opened at a time.
	opened = 8
	// gathered is the most rows of a batch that was put together from short runs of several segments, and
	// longRun the length of a run that is passed on as it lies.
	gathered = 4096
	longRun  = 256
)

// merged merges the inputs of one topic partition after the other.
type merged struct {
	ctx    context.Context //nolint:containedctx // what is opened ahead outlives the call in which that began
	cancel context.CancelFunc
	ahead  *blob.Ahead
	stores Stores
	inputs []plan.Input // not yet opened
	next   *opening     // the next topic partition, which is being opened
	schema record.Schema
	layout Layout
	times  *Times // nil: all

	partition int32
	waiting   []*cursor // of this partition, by their first offset
	active    []*cursor // with a current row
	last      int64     // offset
	err       error

	view view
	out  gather
}

func (m *merged) Close() error {
	m.cancel()
	if m.next != nil {
		<-m.next.done
	}
	m.ahead.Close()
	m.inputs, m.next, m.waiting, m.active = nil, nil, nil, nil
	if m.err == nil {
		m.err = errors.New("the reader is closed")
	}
	return nil
}

func (m *merged) Next(ctx context.Context) (int32, *record.Batch, error) {
	if m.err == nil {
		m.err = ctx.Err()
	}
	if m.err != nil {
		return 0, nil, m.err
	}
	b, err := m.rows()
	if err != nil {
		m.err = err
		return 0, nil, err
	}
	return m.partition, b, nil
}

func (m *merged) rows() (*record.Batch, error) {
	columns := len(m.schema) + 1
	if m.stores.Lender != nil {
		columns++
	}
	m.out.reset(columns)
	for {
		c, n, err := m.run()
		if err != nil {
			return nil, err
		}
		switch {
		case c == nil && m.out.len() > 0:
			return &m.out.batch, nil
		case c == nil:
			more, err := m.begin()
			if err != nil {
				return nil, err
			}
			if !more {
				return nil, io.EOF
			}
			continue
		}
		whole := n == c.batch.Len-c.at
		if m.out.len() == 0 && (n >= longRun || whole && len(m.active) == 1) {
			m.view.set(c, n)
			m.took(c, n)
			return &m.view.batch, nil
		}
		if n >= longRun || m.out.len()+n > gathered || !m.out.takes(c) {
			return &m.out.batch, nil // the run is taken by the next call
		}
		m.out.append(c, n)
		m.took(c, n)
	}
}

// opening is a topic partition whose inputs are being opened: all of them, so that their order is known and what changed is found early.
type opening struct {
	done      chan struct{} // closed when the rest is there
	partition int32
	cursors   []*cursor // by their first offset
	err       error
}

// begin goes on to the next topic partition, and has the one behind it opened. It reports whether there is one.
func (m *merged) begin() (bool, error) {
	if m.next == nil {
		m.next = m.openNext()
	}
	o := m.next
	if o == nil {
		return false, nil
	}
	<-o.done
	if o.err != nil {
		return false, o.err
	}
	m.partition, m.last, m.waiting = o.partition, -1, o.cursors
	m.next = m.openNext()
	return true, nil
}

// openNext begins to open the next topic partition; nil where there is none.
func (m *merged) openNext() *opening {
	if len(m.inputs) == 0 {
		return nil
	}
	o := &opening{done: make(chan struct{}), partition: m.inputs[0].Partition}
	n := slices.IndexFunc(m.inputs, func(in plan.Input) bool { return in.Partition != o.partition })
	if n < 0 {
		n = len(m.inputs)
	}
	of := m.inputs[:n]
	m.inputs = m.inputs[n:]
	go func() {
		defer close(o.done)
		o.cursors, o.err = m.openAll(of)
	}()
	return o
}

func (m *merged) openAll(inputs []plan.Input) ([]*cursor, error) {
	cursors := make([]*cursor, len(inputs))
	g, ctx := errgroup.WithContext(m.ctx)
	g.SetLimit(opened)
	for i, in := range inputs {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			c, err := m.open(in)
			cursors[i] = c
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	cursors = slices.DeleteFunc(cursors, func(c *cursor) bool { return c == nil })
	slices.SortStableFunc(cursors, func(a, b *cursor) int { return cmp.Compare(a.first, b.first) })
	want(cursors)
	return cursors, nil
}

// want has the row groups of cursors read ahead in the order in which their rows will be needed.
func want(cursors []*cursor) {
	type group struct {
		c     *cursor
		index int
		first int64 // offset
	}
	var groups []group
	for _, c := range cursors {
		first := c.first
		for i, g := range c.in.RowGroups {
			if lo, _, ok := c.kafka.bounds(c.file, g); ok {
				first = max(first, lo)
			}
			if i > 0 || c.batch == nil { // else it was read to know where the segment begins
				groups = append(groups, group{c, g, first})
			}
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(a.first, b.first) })
	for _, g := range groups {
		for _, r := range g.c.r.Ranges(g.index) {
			g.c.src.Want(r.Offset, r.Length)
		}
	}
}

// run returns the cursor whose row comes next and the number of its rows that
// come before any other's; nil at the end of the topic partition.
func (m *merged) run() (*cursor, int, error) {
	for {
		if err := m.settle(); err != nil {
			return nil, 0, err
		}
		var least *cursor
		for _, c := range m.active {
			if least == nil || c.offset() < least.offset() {
				least = c
			}
		}
		if least == nil && len(m.waiting) == 0 {
			return nil, 0, nil
		}
		// A segment that begins within the rows at hand takes part.
		if len(m.waiting) > 0 && (least == nil || m.waiting[0].first <= least.end()) {
			m.active = append(m.active, m.waiting[0])
			m.waiting = m.waiting[1:]
			continue
		}
		if o := least.offset(); o <= m.last {
			return nil, 0, fmt.Errorf("read segment %s: offset %d of partition %d is read twice: the plan does not fit its segments", least.in.Segment, o, m.partition)
		}
		n := least.runEnd()
		for _, c := range m.active {
			if c != least {
				n = least.before(c.offset(), n)
			}
		}
		if n == 0 {
			return nil, 0, fmt.Errorf("read segment %s: offset %d of partition %d is read twice: the plan does not fit its segments", least.in.Segment, least.offset(), m.partition)
		}
		return least, n, nil
	}
}

// settle brings active cursors to their next row, and lets go of those that have none.
func (m *merged) settle() error {
	for i := 0; i < len(m.active); {
		more, err := m.active[i].load(m)
		if err != nil {
			return err
		}
		if more {
			i++
			continue
		}
		m.active[i].src.Drop()
		m.active = slices.Delete(m.active, i, i+1)
	}
	return nil
}

// took moves c past n rows. Its batch stays until the next run.
func (m *merged) took(c *cursor, n int) {
	c.at += n
	c.rows += int64(n)
	m.last = c.offsets()[c.at-1]
}
