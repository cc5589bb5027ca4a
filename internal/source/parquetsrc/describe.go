package parquetsrc

import (
	"errors"
	"fmt"
	"io"
	"math"

	"hindcast/internal/parquetfile"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/unit"
)

// described is a segment as its footer tells.
type described struct {
	plan.Segment
	object object
	fit    *source.Fit // of the event's columns, while it is described
	// missing are columns of the event that it lacks, and columns then those that it has.
	missing []string
	columns string
	// bare says that the file has no offset column: row groups and rows are counted from offset 0 until the names place them.
	bare bool
	// scanned says that a column had to be read.
	scanned bool
}

// describe derives a segment from its footer, and from its offset column where the footer does not prove the offsets.
func (r *reader) describe(f *parquetfile.File, fit *source.Fit, o object) (described, error) {
	s := described{
		Segment: plan.Segment{
			Key: o.Key, ETag: o.ETag, Size: unit.Bytes(o.Size), Partition: max(o.partition, 0), Rows: f.Rows(), RowGroups: []plan.RowGroup{},
		},
		object: o,
		fit:    fit,
	}
	offsets, err := has(f, r.columns.Offset, record.Int64)
	if err != nil {
		return described{}, err
	}
	s.bare = !offsets
	if err := r.hasTime(f); err != nil {
		return described{}, err
	}
	if err := r.checkPartition(f, &s); err != nil {
		return described{}, err
	}
	dense, proven, next := true, true, int64(0)
	if !s.bare && o.edge == firstEdge {
		next = o.offset
	}
	s.First, s.Next = next, next
	begun := false
	for i, g := range f.RowGroups() {
		group := plan.RowGroup{Rows: g.Rows, Bytes: g.Bytes, First: next, Next: next}
		if g.Rows > 0 {
			switch {
			case s.bare:
				next += g.Rows
				group.Next = next
			default:
				first, last, ok := f.Bounds(i, r.columns.Offset)
				if n, known := f.Nulls(i, r.columns.Offset); !ok || !known || n != 0 {
					proven = false
					break
				}
				if !begun {
					s.First, next, begun = first, first, true
				}
				group.First, group.Next = first, last+1
				dense = dense && first == next && last-first == g.Rows-1
				next = last + 1
			}
			if err := r.times(f, i, g.Rows, &group, &s); err != nil {
				return described{}, err
			}
		}
		s.RowGroups = append(s.RowGroups, group)
	}
	s.Next = next
	if !proven || !dense {
		// Holes, or a writer whose statistics prove nothing: the offsets themselves are read.
		s.scanned = true
		if err := r.readOffsets(f, &s.Segment); err != nil {
			return described{}, err
		}
	}
	if err := r.checkName(&s); err != nil {
		return described{}, err
	}
	return s, s.whole(f, r.topic)
}

// times sets the bounds of a row group's record times and event times.
func (r *reader) times(f *parquetfile.File, i int, rows int64, group *plan.RowGroup, s *described) error {
	group.RecordTime = span(f, i, r.columns.Time)
	if t := group.RecordTime; t != nil {
		if c, err := f.Column(r.columns.Time); err == nil && c.Kind == record.Int64 {
			lo, ok := plan.MillisTime(t.Min)
			hi, ok2 := plan.MillisTime(t.Max)
			if !ok || !ok2 {
				return &parquetfile.Error{
					File: f.Name(), RowGroup: i, Column: r.columns.Time,
					Reason: fmt.Sprintf("it holds the integers %d to %d, which are no times in milliseconds since 1970, as Kafka's are; have the exporter write timestamps", t.Min, t.Max),
				}
			}
			group.RecordTime = &plan.Span{Min: lo, Max: hi}
		}
	}
	nulls, known := s.fit.Nulls(i, r.event)
	group.Timed, group.Untimed = known && nulls == 0, known && nulls == rows
	lo, hi, ok := s.fit.Bounds(i, r.event)
	if !ok {
		return nil
	}
	group.EventTime = &plan.Span{Min: lo, Max: hi}
	if partition.Placeable(lo) && partition.Placeable(hi) {
		return nil
	}
	group.Timed = false
	name, lies := s.fit.Lies(r.event)
	if !lies {
		group.EventTime = nil // which of them can be placed is not looked at
		return nil
	}
	s.scanned = true
	return placeable(s.fit.File(), i, name, group.EventTime)
}

// has reports whether a file has a column. One that cannot be read, or holds another kind, is an error.
func has(f *parquetfile.File, column string, kind record.Kind) (bool, error) {
	if !f.Has(column) {
		return false, nil
	}
	got, err := f.Column(column)
	if err == nil && got.Kind != kind {
		err = &parquetfile.Error{File: f.Name(), RowGroup: -1, Column: column, Reason: fmt.Sprintf("it holds %v where %v is read; export it again", got.Kind, kind)}
	}
	return err == nil, err
}

// hasTime makes sure that the record times can be read, if there are any. They may be Kafka's milliseconds, as plain integers.
func (r *reader) hasTime(f *parquetfile.File) error {
	if c, err := f.Column(r.columns.Time); err == nil && c.Kind == record.Int64 {
		return nil
	}
	if _, err := has(f, r.columns.Time, record.Timestamp); err != nil {
		return fmt.Errorf("%w; or do without record times: name a column that is not there under source.segments.columns.time, and nothing is left out by lateness", err)
	}
	return nil
}

// checkName holds what an object's name says against its rows.
func (r *reader) checkName(s *described) error {
	if s.bare || s.Rows == 0 {
		return nil
	}
	group, is, which := firstOf(s.RowGroups), s.First, "begins"
	switch s.object.edge {
	case noEdge:
		return nil
	case lastEdge:
		group, is, which = len(s.RowGroups)-1, s.Next-1, "ends"
	case firstEdge:
	}
	if is == s.object.offset {
		return nil
	}
	return &parquetfile.Error{File: s.Key, RowGroup: group, Column: r.columns.Offset, Reason: fmt.Sprintf(
		"it %s with offset %d, but its name says %d; it was renamed or written over: export it again", which, is, s.object.offset)}
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
func (r *reader) readOffsets(f *parquetfile.File, s *plan.Segment) error {
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
	s.First, s.Next = s.Offsets[0].First, last+1
	if len(s.Offsets) == 1 {
		s.Offsets = nil // dense
	}
	return nil
}

// checkPartition makes sure that all rows are of one topic partition, that which the name has, and sets it.
func (r *reader) checkPartition(f *parquetfile.File, s *described) error {
	named := s.object.partition
	there, err := has(f, r.columns.Partition, record.Int64)
	if err != nil {
		return err
	}
	if !there {
		if s.bare || named >= 0 {
			return nil // without offsets it does not matter, and else the name has it
		}
		_, err := f.Column(r.columns.Partition)
		return fmt.Errorf("%w; neither it nor its name says which topic partition its rows are of: %s", err, r.profile.offsets)
	}
	if s.bare && named < 0 {
		return nil
	}
	of := int64(named)
	check := func(p int64) error {
		switch {
		case of < 0 && p >= 0 && p <= math.MaxInt32:
			of = p
		case p == of:
		case named >= 0:
			return fmt.Errorf("it has a record of partition %d, but its name says %d; it was moved or renamed: put it back", p, named)
		default:
			return fmt.Errorf("it has records of the partitions %d and %d: a segment must be of one; have the exporter write a file a partition", of, p)
		}
		return nil
	}
	for i, g := range f.RowGroups() {
		if g.Rows == 0 {
			continue
		}
		lo, hi, ok := f.Bounds(i, r.columns.Partition)
		if n, known := f.Nulls(i, r.columns.Partition); ok && known && n == 0 && hi == lo && check(lo) == nil {
			continue
		}
		s.scanned = true
		if err := eachInt(f, i, r.columns.Partition, check); err != nil {
			return err
		}
	}
	s.Partition = int32(max(of, 0))
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
