package parquetsrc

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"hindcast/internal/plan"
	"hindcast/internal/spec"
)

// place gives segments without an offset column their offsets, as far as they can be told.
func place(l *plan.Listing, p profile, src spec.Source, segments []described) error {
	bare := 0
	for i := range segments {
		if segments[i].bare {
			bare++
		}
	}
	switch {
	case bare == 0:
		return nil
	case p.unordered && bare == len(segments):
		return number(l, p, src, segments)
	case p.unordered || !segments[slices.IndexFunc(segments, func(s described) bool { return s.bare })].hasEdge():
		return withoutOffsets(p, src, segments, bare)
	}
	derive(l, p, src, segments)
	return nil
}

func (s *described) hasEdge() bool { return s.object.edge != noEdge }

// withoutOffsets refuses files of which only some have an offset column, where their names tell nothing.
func withoutOffsets(p profile, src spec.Source, segments []described, bare int) error {
	i := slices.IndexFunc(segments, func(s described) bool { return s.bare })
	return fmt.Errorf("%s has no column %q, as %d of %d files, and its name does not tell its offsets: %s",
		segments[i].Key, src.Segments.Columns.Offset, bare, len(segments), p.offsets)
}

// number makes one partition of files that tell nothing of offsets: their rows are numbered in the order of the keys. Such a log is cut by event
// time and deduped by id; it cannot be joined to a tail, since where it ends in the log is not known.
func number(l *plan.Listing, p profile, src spec.Source, segments []described) error {
	switch {
	case src.Tail != nil:
		return fmt.Errorf("the segments have no column %q, so where they end in the log, and the tail begins, is not known: take source.tail out, or %s",
			src.Segments.Columns.Offset, p.offsets)
	case src.Event.ID == "" || !src.Event.Dedupe:
		return errors.New("the segments have no offsets, so that what is there twice is told by the event's id only: name it under source.event.id, and leave dedupe on")
	}
	next := int64(0)
	for i := range segments {
		s := &segments[i]
		s.Partition, s.Quality, s.Why = 0, plan.Unknown, "it has no offsets"
		s.shift(next)
		next = s.Next
	}
	l.AtLeastOnce = true
	return nil
}

// shift places a segment whose rows are counted from 0.
func (s *described) shift(first int64) {
	s.First, s.Next = first, first+s.Rows
	for i := range s.RowGroups {
		s.RowGroups[i].First += first
		s.RowGroups[i].Next += first
	}
}

// unknown says why a segment's offsets cannot be told; its rows lie somewhere in first to next.
func (s *described) unknown(first, next int64, why string) {
	s.Quality, s.Why = plan.Unknown, why
	s.First, s.Next = first, max(next, first+1)
}

// openEnd is the end of a range whose end is not known.
const openEnd = math.MaxInt64

// namer tells the offsets of segments from names.
type namer struct {
	column  string // that they lack
	offsets string // how the exporter is made to write it
	tail    bool
}

// why says why offsets cannot be told, and what to do.
func (n namer) why(format string, args ...any) string {
	return fmt.Sprintf("it has no column %q, and %s; %s", n.column, fmt.Sprintf(format, args...), n.offsets)
}

func (n namer) tooFew(rows int64, names plan.Range) string {
	return n.why("%d rows for the %d offsets %s that names give it: which of them it has, and whether records or a whole file are missing, cannot be told",
		rows, names.Len(), names)
}

func (n namer) tooMany(rows int64, names plan.Range, other string) string {
	return n.why("%d rows, more than the %d offsets %s that names give it: it overlaps with %s, and which offsets it has cannot be told",
		rows, names.Len(), names, other)
}

// derive tells offsets from names. An object whose name has its first offset ends where the next one begins; one whose name has its last
// offset begins after the one before. If as many rows are there as offsets, each offset has its row. If not, which has one is unknowable.
func derive(l *plan.Listing, p profile, src spec.Source, segments []described) {
	n := namer{src.Segments.Columns.Offset, p.offsets, src.Tail != nil}
	groups := map[int32][]*described{}
	for i := range segments {
		s := &segments[i]
		groups[s.Partition] = append(groups[s.Partition], s)
	}
	assumed := 0
	for _, of := range groups {
		slices.SortFunc(of, func(a, b *described) int {
			return cmp.Or(cmp.Compare(a.object.offset, b.object.offset), cmp.Compare(a.Key, b.Key))
		})
		for i, s := range of {
			if s.bare && n.place(s, of[:i], of[i+1:]) {
				assumed++
			}
		}
	}
	if assumed > 0 {
		l.Notes = append(l.Notes, fmt.Sprintf(
			"%d segments are the outermost of their partitions, so that only their rows tell how far they reach: no hole inside them would be noticed", assumed))
	}
}

// place places a segment. Before and after are the partition's others, by what their names say. It reports whether only the segment's own rows
// tell how far it reaches.
func (n namer) place(s *described, before, after []*described) bool {
	s.Quality = plan.Derived
	const loose = "folders of a time, a field or values are filled side by side, several files of a partition at a time, so that names do not tell offsets"
	switch {
	case s.object.loose && s.object.edge == firstEdge:
		s.unknown(s.object.offset, openEnd, n.why(loose))
	case s.object.loose:
		s.unknown(0, s.object.offset+1, n.why(loose))
	case s.object.edge == firstEdge:
		return n.fromFirst(s, after)
	default:
		return n.fromLast(s, before)
	}
	return false
}

// fromFirst places a segment whose name has its first offset.
func (n namer) fromFirst(s *described, after []*described) bool {
	start := s.object.offset
	i := slices.IndexFunc(after, func(o *described) bool { return o.object.offset > start })
	switch {
	case i < 0 && n.tail && s.Rows > 0:
		s.unknown(start, openEnd, n.why(
			"it is the last of its partition, so that no name tells where it ends and the tail begins: the brokers must have the log from its start on"))
		return false
	case i < 0:
		s.shift(start)
		return s.Rows > 0
	}
	names := plan.Range{First: start, Next: after[i].object.offset}
	switch {
	case s.Rows == names.Len():
		s.shift(start)
	case s.Rows < names.Len():
		s.unknown(start, names.Next, n.tooFew(s.Rows, names))
	default:
		s.unknown(start, openEnd, n.tooMany(s.Rows, names, after[i].Key))
	}
	return false
}

// fromLast places a segment whose name has its last offset.
func (n namer) fromLast(s *described, before []*described) bool {
	i := len(before) - 1
	for i >= 0 && before[i].object.offset == s.object.offset {
		i--
	}
	names := plan.Range{Next: s.object.offset + 1}
	if i >= 0 {
		names.First = before[i].object.offset + 1
	}
	switch {
	case s.Rows == names.Len():
		s.shift(names.First)
	case i < 0 && s.Rows < names.Next:
		s.shift(names.Next - s.Rows)
		return s.Rows > 0
	case s.Rows < names.Len():
		s.unknown(names.First, names.Next, n.tooFew(s.Rows, names))
	default:
		s.unknown(0, names.Next, n.tooMany(s.Rows, names, "those before it"))
	}
	return false
}
