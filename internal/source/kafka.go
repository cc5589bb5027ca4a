package source

import (
	"fmt"
	"slices"

	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
)

// kafkaColumns are what Kafka knows of a segment's rows: offsets, from a column or by their place in the segment, and record times, from a
// column that holds timestamps or Kafka's own milliseconds, or none.
type kafkaColumns struct {
	offset    string       // empty: the rows are numbered
	ranges    []plan.Range // then: of each row group of the file
	noTimes   bool
	millis    bool // times are integers
	segment   string
	timeName  string
	reordered bool // the batch is put together here
	// Of row groups of which neither offsets nor record times are read: the offset of the first row.
	unread map[int]int64

	out     record.Batch
	offsets []int64
	times   []int64
}

// open finds out what a file has. It returns the columns to read, before those of the event.
func (k *kafkaColumns) open(f *parquetfile.File, in plan.Input, cols plan.KafkaColumns) (names []string, err error) {
	k.segment, k.timeName = in.Segment, cols.Time
	if in.FirstOffset == nil {
		k.offset = cols.Offset
		if err := mustHold(f, cols.Offset, record.Int64); err != nil {
			return nil, err
		}
		names = append(names, cols.Offset)
	} else {
		next := *in.FirstOffset
		for _, g := range f.RowGroups() {
			k.ranges = append(k.ranges, plan.Range{First: next, Next: next + g.Rows})
			next += g.Rows
		}
	}
	if !in.Captured && !f.Has(cols.Time) {
		k.noTimes = true
	} else {
		if got, err := f.Column(cols.Time); err == nil && got.Kind == record.Int64 && !in.Captured {
			k.millis = true
		} else if err := mustHold(f, cols.Time, record.Timestamp); err != nil {
			return nil, err
		}
		names = append(names, cols.Time)
	}
	k.reordered = k.offset == "" || k.noTimes || k.millis
	return names, nil
}

func mustHold(f *parquetfile.File, name string, kind record.Kind) error {
	got, err := f.Column(name)
	if err == nil && got.Kind != kind {
		err = &parquetfile.Error{File: f.Name(), RowGroup: -1, Column: name, Reason: fmt.Sprintf("it holds %v where %v is read; export it again", got.Kind, kind)}
	}
	return err
}

// bounds are the least and greatest offset of a row group, where they are known.
func (k *kafkaColumns) bounds(f *parquetfile.File, group int) (lo, hi int64, ok bool) {
	if k.offset != "" {
		return f.Bounds(group, k.offset)
	}
	if group >= len(k.ranges) {
		return 0, 0, false
	}
	r := k.ranges[group]
	return r.First, r.Next - 1, !r.Empty()
}

// batch puts offset and record time before the event's columns of what was read, from a row of a row group on. It is valid until the next call.
func (k *kafkaColumns) batch(b *record.Batch, group int, row int64) (*record.Batch, error) {
	first, numbered := k.unread[group]
	if !k.reordered && !numbered {
		return b, nil
	}
	in := b.Columns
	offsets := record.Column{Kind: record.Int64}
	if k.offset != "" {
		offsets, in = in[0], in[1:]
	} else {
		first, numbered = k.ranges[group].First, true
	}
	if numbered {
		k.offsets = slices.Grow(k.offsets[:0], b.Len)[:b.Len]
		for i := range k.offsets {
			k.offsets[i] = first + row + int64(i)
		}
		offsets = record.Column{Kind: record.Int64, Int64s: k.offsets}
	}
	times := record.Column{Kind: record.Timestamp}
	if !k.noTimes {
		times, in = in[0], in[1:]
		times.Kind = record.Timestamp
		if k.millis {
			if err := k.fromMillis(&times, b.Len); err != nil {
				return nil, err
			}
		}
	}
	k.out.Len = b.Len
	k.out.Columns = append(append(k.out.Columns[:0], offsets, times), in...)
	return &k.out, nil
}

// fromMillis reads record times that are integers: Kafka's own are milliseconds.
func (k *kafkaColumns) fromMillis(c *record.Column, rows int) error {
	k.times = slices.Grow(k.times[:0], rows)[:rows]
	for i, v := range c.Int64s[:rows] {
		t, ok := plan.MillisTime(v)
		if !ok && !c.Nulls.Get(i) {
			return &parquetfile.Error{
				File: k.segment, RowGroup: -1, Column: k.timeName,
				Reason: fmt.Sprintf("it holds the integer %d, which is no time in milliseconds since 1970, as Kafka's are; have the exporter write timestamps", v),
			}
		}
		k.times[i] = t
	}
	c.Int64s = k.times
	return nil
}
