package source

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
)

// cursor walks the rows of one input that are kept.
type cursor struct {
	in    plan.Input
	rows  int64 // taken so far
	first int64 // no kept row lies before it
	keep  plan.Ranges
	all   bool // every row is kept; keep is then unused

	r       *parquetfile.Reader
	batch   *record.Batch // columns: offset, record time, the event's, and for captured segments why it has none
	at      int           // the next row
	last    int64         // the offset at the end of the batch
	kafka   kafkaColumns
	untimed bool // the segment has no record times: that column has no values
}

// open opens an input's segment and finds where it begins. It returns nil where nothing is kept.
func (m *merged) open(in plan.Input) (*cursor, error) {
	c := &cursor{in: in, keep: in.Keep, all: in.Keep == nil, last: -1}
	if !c.all && len(c.keep) == 0 || len(in.RowGroups) == 0 {
		return nil, nil
	}
	store, cols := m.stores.Segments, m.cols
	if in.Captured {
		store, cols = m.stores.Captured, CapturedColumns
	}
	f, err := parquetfile.Open(blob.ReaderAt(m.ctx, store, blob.Info{Key: in.Segment, Size: int64(in.Size), ETag: in.ETag}), int64(in.Size), in.Segment)
	if err != nil {
		return nil, c.failed(err)
	}
	names, err := c.kafka.open(f, in, cols)
	if err != nil {
		return nil, c.failed(err)
	}
	c.untimed = c.kafka.noTimes
	for _, want := range m.columns(in) {
		names = append(names, want.Name)
		got, err := f.Column(want.Name)
		if err != nil {
			return nil, c.failed(err)
		}
		if got.Kind != want.Kind {
			return nil, c.failed(&parquetfile.Error{
				File: in.Segment, RowGroup: -1, Column: want.Name,
				Reason: fmt.Sprintf("it holds %v where %v is read; segments whose schema changed are not converted yet", got.Kind, want.Kind),
			})
		}
	}
	if !c.all { // of which a worker that goes on after a stop has many behind it
		in.RowGroups = slices.DeleteFunc(slices.Clone(in.RowGroups), func(g int) bool {
			_, hi, ok := c.kafka.bounds(f, g)
			return ok && hi < c.keep[0].First
		})
		if len(in.RowGroups) == 0 {
			return nil, c.done()
		}
	}
	c.kafka.begin(in.RowGroups)
	c.r = f.Read(parquetfile.ReadOptions{Columns: names, RowGroups: in.RowGroups})
	if c.all {
		lo, _, ok := c.kafka.bounds(f, in.RowGroups[0])
		if !ok {
			more, err := c.load()
			if err != nil || !more {
				return nil, err
			}
			lo = c.offset()
		}
		c.first = lo
	} else {
		c.first = c.keep[0].First
	}
	return c, nil
}

// columns are those that are read of an input beside what Kafka knows of its rows.
func (m *merged) columns(in plan.Input) record.Schema {
	if in.Captured {
		return append(slices.Clone(m.schema), record.Field{Name: ErrorColumn, Kind: record.String})
	}
	return m.schema
}

func (c *cursor) failed(err error) error {
	if errors.Is(err, blob.ErrPrecondition) || errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("%w: %s; plan again, as what is there now: %w", ErrChanged, c.in.Segment, err)
	}
	return fmt.Errorf("read segment: %w", err)
}

func (c *cursor) offsets() []int64 { return c.batch.Columns[0].Int64s[:c.batch.Len] }
func (c *cursor) offset() int64    { return c.batch.Columns[0].Int64s[c.at] }

// load moves to the next row that is kept, unless it is there, and reports whether there is one.
func (c *cursor) load() (bool, error) {
	for {
		if c.batch == nil || c.at >= c.batch.Len {
			b, err := c.r.Next()
			if errors.Is(err, io.EOF) {
				return false, c.done()
			}
			if err != nil {
				return false, c.failed(err)
			}
			if c.batch, err = c.kafka.batch(b); err != nil {
				return false, c.failed(err)
			}
			c.at = 0
			if err := c.check(); err != nil {
				return false, err
			}
		}
		if c.all {
			return true, nil
		}
		o := c.offset()
		for len(c.keep) > 0 && c.keep[0].Next <= o {
			c.keep = c.keep[1:]
		}
		if len(c.keep) == 0 {
			return false, c.done()
		}
		if o >= c.keep[0].First {
			return true, nil
		}
		c.at += c.before(c.keep[0].First, c.batch.Len-c.at)
	}
}

// check holds a batch's offsets and times against what a log has.
func (c *cursor) check() error {
	offsets, times := &c.batch.Columns[0], &c.batch.Columns[1]
	for row, o := range offsets.Int64s[:c.batch.Len] {
		switch {
		case offsets.Nulls.Get(row):
			return fmt.Errorf("read segment %s: a row after offset %d has no offset; export it again", c.in.Segment, c.last)
		case o <= c.last:
			return fmt.Errorf("read segment %s: offset %d follows %d; a segment's rows must be in the log's order, each once; export it again", c.in.Segment, o, c.last)
		case !c.untimed && times.Nulls.Get(row):
			return fmt.Errorf("read segment %s: the record at offset %d has no record time; export it again", c.in.Segment, o)
		}
		c.last = o
	}
	return nil
}

// done holds the number of rows against the plan's, where that has one.
func (c *cursor) done() error {
	if c.in.Rows > 0 && c.rows != c.in.Rows {
		return fmt.Errorf("read segment %s: %d rows are there where %d were planned; its footer misstates its offsets: export it again", c.in.Segment, c.rows, c.in.Rows)
	}
	return nil
}

// runEnd is how many rows from the current one on are kept without a break.
func (c *cursor) runEnd() int {
	n := c.batch.Len - c.at
	if c.all {
		return n
	}
	return c.before(c.keep[0].Next, n)
}

// before is how many of the next n rows lie before an offset.
func (c *cursor) before(offset int64, n int) int {
	next := c.offsets()[c.at : c.at+n]
	if n == 0 || next[n-1] < offset {
		return n
	}
	return sort.Search(n, func(i int) bool { return next[i] >= offset })
}

// end is the last offset at hand.
func (c *cursor) end() int64 { return c.last }
