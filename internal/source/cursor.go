package source

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/payload"
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

	src     *blob.AheadReader
	r       *parquetfile.Reader
	file    *parquetfile.File
	batch   *record.Batch // columns: offset, record time, the event's, and for captured segments why it has none
	at      int           // the next row
	last    int64         // the offset at the end of the batch
	kafka   kafkaColumns
	untimed bool          // the batch has no record times: that column has no values
	firsts  map[int]int64 // of row groups of which only some rows are read, whose offsets follow one another: the offset of the first row
	// Of exported segments: how the event's columns lie there, and what decodes them where they are one value.
	fit     *Fit
	decoder *payload.Decoder
	out     record.Batch
	event   []record.Column // decoded
	// Of columns that are lent: how what is read of the others becomes a batch.
	lends *lends
	// explained says that the last column of a batch says why a row has no event.
	explained bool
}

// open opens an input's segment and finds where it begins. It returns nil where nothing is kept.
func (m *merged) open(in plan.Input) (*cursor, error) {
	c := &cursor{in: in, keep: in.Keep, all: in.Keep == nil, last: -1}
	if !c.all && len(c.keep) == 0 || len(in.RowGroups) == 0 {
		return nil, nil
	}
	store, cols, open := m.stores.Segments, m.layout.Kafka, m.layout.Open
	if in.Captured {
		store, cols, open = m.stores.Captured, CapturedColumns, parquetfile.Open
	}
	c.src = m.ahead.Reader(store, blob.Info{Key: in.Segment, Size: int64(in.Size), ETag: in.ETag})
	f, err := open(c.src, int64(in.Size), in.Segment)
	if err != nil {
		return nil, c.failed(err)
	}
	names, err := c.kafka.open(f, in, cols)
	if err != nil {
		return nil, c.failed(err)
	}
	event, err := c.columns(f, m)
	if err != nil {
		return nil, c.failed(err)
	}
	names = append(names, event...)
	if m.stores.Lender != nil {
		if names, err = c.lend(f, m, names); err != nil {
			return nil, c.failed(err)
		}
	}
	if c.fit != nil {
		f = c.fit.File()
	}
	if !c.all { // a worker that goes on after a stop has many behind it
		in.RowGroups = slices.DeleteFunc(slices.Clone(in.RowGroups), func(g int) bool {
			lo, hi, ok := c.kafka.bounds(f, g)
			return ok && !slices.ContainsFunc(c.keep, func(k plan.Range) bool { return k.First <= hi && lo < k.Next })
		})
		if len(in.RowGroups) == 0 {
			return nil, c.done()
		}
	}
	opts := c.timely(m, parquetfile.ReadOptions{Columns: names, RowGroups: in.RowGroups})
	if opts.Wanted != nil && !m.times.NoPrune {
		if err := c.trim(m.times, f, &opts); err != nil {
			return nil, c.failed(err)
		}
		if in.RowGroups = opts.RowGroups; len(in.RowGroups) == 0 {
			return nil, c.done()
		}
	}
	c.file, c.in.RowGroups = f, in.RowGroups
	c.r = f.Read(opts)
	if c.all {
		lo, _, ok := c.kafka.bounds(f, in.RowGroups[0])
		if !ok {
			more, err := c.load(m)
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

// columns finds out how the event's columns are read of a file, and returns those of the file that are.
func (c *cursor) columns(f *parquetfile.File, m *merged) ([]string, error) {
	if c.in.Captured {
		var names []string
		for _, want := range payload.Schema(m.schema, ErrorColumn) {
			if err := mustHold(f, want.Name, want.Kind); err != nil {
				return nil, err
			}
			names = append(names, want.Name)
		}
		c.explained = true
		return names, nil
	}
	schema := Nullable(m.schema)
	var err error
	if c.fit, err = NewFit(f, schema, m.layout); err != nil {
		return nil, err
	}
	if m.layout.Value != nil {
		if c.decoder, err = payload.New(schema, m.layout.Payload); err != nil {
			return nil, err
		}
		c.event = make([]record.Column, len(schema)+1)
		for i, f := range payload.Schema(schema, ErrorColumn) {
			c.event[i].Kind = f.Kind
		}
		c.explained = true
	}
	return c.fit.Columns(), nil
}

// timely has the times of events read first, where they lie in a column, and the rest only of batches that have one that is wanted.
func (c *cursor) timely(m *merged, opts parquetfile.ReadOptions) parquetfile.ReadOptions {
	if m.times == nil || c.decoder != nil {
		return opts
	}
	name := m.times.Column
	if c.fit != nil {
		var ok bool
		if name, ok = c.fit.Lies(name); !ok {
			return opts
		}
	}
	at, from, to := slices.Index(opts.Columns, name), m.times.From, m.times.To
	opts.First = []string{name, c.kafka.offset, c.kafka.timeName}
	if c.explained {
		opts.First = append(opts.First, ErrorColumn)
	}
	opts.Wanted = func(b *record.Batch) bool {
		times := &b.Columns[at]
		for row, t := range times.Int64s[:b.Len] {
			if t >= from && t < to || times.Nulls.Get(row) {
				return true
			}
		}
		return false
	}
	return opts
}

// take makes a batch of what was read.
func (c *cursor) take(m *merged, read *record.Batch) error {
	group, row := c.r.Place()
	b, err := c.kafka.batch(read, group, row)
	if err != nil {
		return err
	}
	_, unread := c.kafka.unread[group]
	c.untimed = c.kafka.noTimes || unread
	if err := c.placed(c.file, group, row, b.Columns[0].Int64s[0]); err != nil {
		return err
	}
	if c.lends != nil {
		c.batch, err = c.lends.batch(c, b)
		return err
	}
	if c.fit == nil || c.fit.direct {
		c.batch = b
		return nil
	}
	var event []record.Column
	if c.decoder != nil {
		event, err = c.decode(m, b)
	} else {
		event, err = c.fit.Convert(b.Columns[2:], b.Len)
	}
	if err != nil {
		return err
	}
	c.out.Len = b.Len
	c.out.Columns = append(append(c.out.Columns[:0], b.Columns[:2]...), event...)
	c.batch = &c.out
	return nil
}

// decode decodes the events of the rows that are kept.
func (c *cursor) decode(m *merged, b *record.Batch) ([]record.Column, error) {
	for i := range c.event {
		e := &c.event[i]
		e.Nulls, e.Int64s, e.Float64s = e.Nulls[:0], e.Int64s[:0], e.Float64s[:0]
		e.Strings.Offsets, e.Strings.Data = e.Strings.Offsets[:0], e.Strings.Data[:0]
	}
	offsets, values, keep := b.Columns[0].Int64s, &b.Columns[2], c.keep
	for row := range b.Len {
		for len(keep) > 0 && keep[0].Next <= offsets[row] {
			keep = keep[1:]
		}
		if !c.all && (len(keep) == 0 || offsets[row] < keep[0].First) {
			c.decoder.Skip(c.event, row)
			continue
		}
		var value []byte
		if !values.Nulls.Get(row) {
			if value = values.Strings.At(row); value == nil {
				value = []byte{} // it is there, and empty
			}
		}
		if err := c.decoder.Append(m.ctx, c.event, row, value); err != nil {
			return nil, fmt.Errorf("%s, offset %d: %w", c.in.Segment, offsets[row], err)
		}
	}
	return c.event, nil
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
func (c *cursor) load(m *merged) (bool, error) {
	for {
		if c.batch == nil || c.at >= c.batch.Len {
			b, err := c.r.Next()
			if errors.Is(err, io.EOF) {
				return false, c.done()
			}
			if err != nil {
				return false, c.failed(err)
			}
			if err := c.take(m, b); err != nil {
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

// done gives memory back, and holds the number of rows against the plan's, where that has one.
func (c *cursor) done() error {
	if c.r != nil {
		c.r.Release()
	}
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
