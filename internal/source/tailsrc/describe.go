package tailsrc

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/unit"
)

// describe reads a segment that was written and appends it to segments, with Offsets set even where they are
// dense and Next not settled. What a plan learns of a segment is thus what a reader will find in it.
func (c *capture) describe(info blob.Info, data []byte, first int64) (*plan.Segment, error) {
	s := plan.Segment{
		Key: info.Key, ETag: info.ETag, Size: unit.Bytes(info.Size), Partition: c.Partition, First: first, Captured: true,
		Offsets: plan.Ranges{}, RowGroups: []plan.RowGroup{},
	}
	f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), info.Key)
	if err != nil {
		return nil, err
	}
	if got := f.Schema(); !got.Equal(c.schema) {
		return nil, fmt.Errorf("segment %s has the columns %v, expected %v: it is not of this capture", info.Key, got, c.schema)
	}
	for i, g := range f.RowGroups() {
		group := plan.RowGroup{Rows: g.Rows, Bytes: g.Bytes, Timed: c.EventTime != ""}
		if err := c.describeGroup(f, i, &group, &s); err != nil {
			return nil, err
		}
		s.Rows += g.Rows
		s.RowGroups = append(s.RowGroups, group)
	}
	c.segments = append(c.segments, s)
	return &c.segments[len(c.segments)-1], nil
}

func (c *capture) describeGroup(f *parquetfile.File, i int, group *plan.RowGroup, s *plan.Segment) error {
	columns := []string{source.CapturedColumns.Partition, source.CapturedColumns.Offset, source.CapturedColumns.Time}
	if c.EventTime != "" {
		columns = append(columns, c.EventTime)
	}
	in := f.Read(parquetfile.ReadOptions{Columns: columns, RowGroups: []int{i}})
	for first := true; ; first = false {
		b, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, p := range b.Columns[0].Int64s[:b.Len] {
			if p != int64(c.Partition) {
				return fmt.Errorf("segment %s has a record of partition %d: it is not of this capture", s.Key, p)
			}
		}
		for _, o := range b.Columns[1].Int64s[:b.Len] {
			n := len(s.Offsets)
			switch {
			case n == 0 || o > s.Offsets[n-1].Next:
				s.Offsets = append(s.Offsets, plan.Range{First: o, Next: o + 1})
			case o == s.Offsets[n-1].Next:
				s.Offsets[n-1].Next++
			default:
				return fmt.Errorf("segment %s: offset %d does not ascend", s.Key, o)
			}
		}
		if first {
			group.First = b.Columns[1].Int64s[0]
		}
		group.Next = b.Columns[1].Int64s[b.Len-1] + 1
		extend(&group.RecordTime, &b.Columns[2], b.Len, nil)
		if c.EventTime != "" && !extend(&group.EventTime, &b.Columns[3], b.Len, partition.Placeable) {
			group.Timed = false
		}
	}
}

// extend widens span by the column's values that are good, nil for any, and reports whether all rows have one.
func extend(span **plan.Span, c *record.Column, n int, good func(int64) bool) (all bool) {
	all = true
	for row, v := range c.Int64s[:n] {
		switch {
		case c.Nulls.Get(row) || good != nil && !good(v):
			all = false
		case *span == nil:
			*span = &plan.Span{Min: v, Max: v}
		default:
			(*span).Min, (*span).Max = min((*span).Min, v), max((*span).Max, v)
		}
	}
	return all
}
