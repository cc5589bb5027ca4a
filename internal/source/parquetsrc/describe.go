package parquetsrc

import (
	"errors"
	"fmt"
	"io"

	"hindcast/internal/parquetfile"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/unit"
)

// describe derives a segment from its footer, and from its offset column where the footer does not prove the offsets.
func (r *reader) describe(f *parquetfile.File, o object) (plan.Segment, error) {
	s := plan.Segment{
		Key: o.Key, ETag: o.ETag, Size: unit.Bytes(o.Size), Partition: o.partition, First: o.first, Next: o.first, Rows: f.Rows(),
		RowGroups: []plan.RowGroup{},
	}
	refuse := func(group int, column, format string, args ...any) error {
		return &parquetfile.Error{File: o.Key, RowGroup: group, Column: column, Reason: fmt.Sprintf(format, args...)}
	}
	dense, proven := true, true
	next := o.first
	for i, g := range f.RowGroups() {
		group := plan.RowGroup{Rows: g.Rows, Bytes: g.Bytes, First: next, Next: next}
		if g.Rows > 0 {
			first, last, ok := f.Bounds(i, r.columns.Offset)
			if n, known := f.Nulls(i, r.columns.Offset); !ok || !known || n != 0 {
				proven = false
			} else {
				group.First, group.Next = first, last+1
				dense = dense && first == next && last-first == g.Rows-1
				next = last + 1
			}
			group.RecordTime = span(f, i, r.columns.Time)
			nulls, known := f.Nulls(i, r.event)
			group.EventTime, group.Timed, group.Untimed = span(f, i, r.event), known && nulls == 0, known && nulls == g.Rows
			if t := group.EventTime; t != nil && (!partition.Placeable(t.Min) || !partition.Placeable(t.Max)) {
				group.Timed = false
				if err := placeable(f, i, r.event, t); err != nil {
					return plan.Segment{}, err
				}
			}
		}
		s.RowGroups = append(s.RowGroups, group)
	}
	if !proven || !dense {
		// Holes, or a writer whose statistics prove nothing: the offsets themselves are read.
		if err := r.readOffsets(f, o, &s); err != nil {
			return plan.Segment{}, err
		}
	} else {
		s.Next = next
	}
	if s.Rows > 0 && s.RowGroups[firstOf(s.RowGroups)].First != o.first {
		return plan.Segment{}, refuse(firstOf(s.RowGroups), r.columns.Offset,
			"it begins with offset %d, but its name says %d; it was renamed or written over: export it again", s.RowGroups[firstOf(s.RowGroups)].First, o.first)
	}
	if err := r.checkPartition(f, o); err != nil {
		return plan.Segment{}, err
	}
	return s, nil
}

// firstOf is the first group with rows.
func firstOf(groups []plan.RowGroup) int {
	for i, g := range groups {
		if g.Rows > 0 {
			return i
		}
	}
	return 0
}

// span returns a time column's bounds, where they are known.
func span(f *parquetfile.File, group int, column string) *plan.Span {
	if lo, hi, ok := f.Bounds(group, column); ok {
		return &plan.Span{Min: lo, Max: hi}
	}
	return nil
}

// placeable reads the event times of a row group that has some that no table can be cut by, and narrows its bounds to the others. A
// group without others keeps its least time as both bounds.
func placeable(f *parquetfile.File, group int, column string, t *plan.Span) error {
	out := plan.Span{Min: t.Min, Max: t.Min}
	found := false
	err := eachRow(f, group, column, func(c *record.Column, row int) error {
		v := c.Int64s[row]
		switch {
		case c.Nulls.Get(row) || !partition.Placeable(v):
		case !found:
			out, found = plan.Span{Min: v, Max: v}, true
		default:
			out.Min, out.Max = min(out.Min, v), max(out.Max, v)
		}
		return nil
	})
	*t = out
	return err
}

// readOffsets sets the segment's offsets from the rows.
func (r *reader) readOffsets(f *parquetfile.File, o object, s *plan.Segment) error {
	last := int64(-1)
	s.Offsets = plan.Ranges{}
	for i := range s.RowGroups {
		group := &s.RowGroups[i]
		group.First, group.Next = last+1, last+1
		begun := false
		err := eachInt(f, i, r.columns.Offset, func(offset int64) error {
			if offset <= last {
				return fmt.Errorf("offset %d follows %d: a segment's rows must be in the log's order, each once; export it again", offset, last)
			}
			if n := len(s.Offsets); n > 0 && s.Offsets[n-1].Next == offset {
				s.Offsets[n-1].Next++
			} else {
				s.Offsets = append(s.Offsets, plan.Range{First: offset, Next: offset + 1})
			}
			if !begun {
				group.First, begun = offset, true
			}
			last, group.Next = offset, offset+1
			return nil
		})
		if err != nil {
			return err
		}
	}
	if s.Rows == 0 {
		s.Offsets = nil
		for i := range s.RowGroups {
			s.RowGroups[i].First, s.RowGroups[i].Next = o.first, o.first
		}
		return nil
	}
	s.First, s.Next = s.Offsets[0].First, last+1
	if len(s.Offsets) == 1 {
		s.Offsets = nil // dense
	}
	return nil
}

// checkPartition makes sure that all rows are of the partition that the name has.
func (r *reader) checkPartition(f *parquetfile.File, o object) error {
	for i, g := range f.RowGroups() {
		if g.Rows == 0 {
			continue
		}
		lo, hi, ok := f.Bounds(i, r.columns.Partition)
		if n, known := f.Nulls(i, r.columns.Partition); ok && known && n == 0 && lo == int64(o.partition) && hi == lo {
			continue
		}
		err := eachInt(f, i, r.columns.Partition, func(p int64) error {
			if p != int64(o.partition) {
				return fmt.Errorf("it has a record of partition %d, but its name says %d; it was moved or renamed: put it back", p, o.partition)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachInt calls do with each value of an integer column in a row group. Nulls are an error.
func eachInt(f *parquetfile.File, group int, column string, do func(int64) error) error {
	return eachRow(f, group, column, func(c *record.Column, row int) error {
		if err := errNull(c, row); err != nil {
			return err
		}
		return do(c.Int64s[row])
	})
}

// eachRow calls do with each row of a column in a row group.
func eachRow(f *parquetfile.File, group int, column string, do func(c *record.Column, row int) error) error {
	in := f.Read(parquetfile.ReadOptions{Columns: []string{column}, RowGroups: []int{group}})
	for {
		b, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		c := &b.Columns[0]
		for row := range b.Len {
			if err := do(c, row); err != nil {
				return &parquetfile.Error{File: f.Name(), RowGroup: group, Column: column, Reason: err.Error()}
			}
		}
	}
}

func errNull(c *record.Column, row int) error {
	if c.Nulls.Get(row) {
		return fmt.Errorf("it is null in a row; it must say where each record lay in the log")
	}
	return nil
}
