package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// maxPartition is far more than Kafka can have.
const maxPartition = 1 << 20

// extent is a run of offsets that one row group of one segment serves.
type extent struct {
	Range
	seg, group int
}

// log is what there is of one topic partition, covered.
type log struct {
	partition int32
	segments  []Segment // in canonical order; see sortSegments
	unusable  []Segment // whose offsets cannot be told; in that order, too
	extents   []extent  // ascending, disjoint: every offset that a segment holds, once
	empty     Ranges    // that hold no record, by segments that are whole
	stored    *Stored   // nil where tiered storage has nothing
	broker    *Tail     // nil where nothing is known of the brokers
}

func (l *log) groupOf(e extent) *RowGroup { return &l.segments[e.seg].RowGroups[e.group] }

// sortSegments puts segments in an order that does not depend on how they were listed.
func sortSegments(segs []Segment) {
	slices.SortFunc(segs, func(a, b Segment) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.First, b.First), cmp.Compare(a.Next, b.Next), cmp.Compare(a.Key, b.Key))
	})
}

// cover assigns every offset that segments hold to exactly one of them, an exact one where there is one. So a derived segment only fills in.
func (l *log) cover() {
	var better Ranges // offsets of a better quality
	for _, q := range []Quality{Exact, Derived, Unknown} {
		before := len(l.extents)
		l.coverWith(q, better)
		if n := len(l.extents); before > 0 && n > before {
			slices.SortFunc(l.extents, func(a, b extent) int { return cmp.Compare(a.First, b.First) })
		}
		better = nil
		for _, e := range l.extents {
			better = better.add(e.Range)
		}
	}
	var whole []Range
	for i := range l.segments {
		if s := &l.segments[i]; s.Whole {
			whole = append(whole, Range{s.First, s.Next})
		}
	}
	l.empty = RangesOf(whole...).Minus(better)
}

// coverWith assigns what segments of a quality hold beside better: at each offset that no earlier choice covers, to the one that reaches furthest
// from there. So what overlaps is clipped, what repeats is left out, and what interleaves is merged.
func (l *log) coverWith(q Quality, better Ranges) {
	type run struct {
		Range
		seg int
	}
	var runs []run
	for i := range l.segments {
		if l.segments[i].Quality != q {
			continue
		}
		for _, r := range l.segments[i].offsets() {
			taken := better.Clip(r)
			if len(taken) == 0 {
				runs = append(runs, run{r, i})
				continue
			}
			for _, rest := range (Ranges{r}).Minus(taken) {
				runs = append(runs, run{rest, i})
			}
		}
	}
	slices.SortFunc(runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(b.Next, a.Next), cmp.Compare(a.seg, b.seg))
	})
	cursor := int64(0)
	var best run // of those that begin at or before the cursor, the one that ends last
	for i := 0; i < len(runs); {
		if best.Next <= cursor {
			cursor = max(cursor, runs[i].First)
		}
		for i < len(runs) && runs[i].First <= cursor {
			if runs[i].Next > best.Next {
				best = runs[i]
			}
			i++
		}
		if best.Next > cursor {
			l.assign(Range{cursor, best.Next}, best.seg)
			cursor = best.Next
		}
	}
}

// assign gives offsets that a segment holds to it, cut by row group.
func (l *log) assign(r Range, seg int) {
	groups := l.segments[seg].RowGroups
	at, _ := slices.BinarySearchFunc(groups, r.First, func(g RowGroup, o int64) int { return cmp.Compare(g.Next, o+1) })
	for ; at < len(groups) && groups[at].First < r.Next; at++ {
		if part := r.Clip(Range{groups[at].First, groups[at].Next}); !part.Empty() {
			l.extents = append(l.extents, extent{part, seg, at})
		}
	}
}

// end returns the offset after the last one that a segment or tiered storage holds, or proves to be empty.
func (l *log) end() int64 {
	end := l.empty.Hull().Next
	if n := len(l.extents); n > 0 {
		end = max(end, l.extents[n-1].Next)
	}
	if l.stored != nil {
		end = max(end, l.stored.end())
	}
	return end
}

// claimed are the offsets that unusable segments may have records of.
func (l *log) claimed() Ranges {
	rs := make([]Range, len(l.unusable))
	for i := range l.unusable {
		rs[i] = Range{l.unusable[i].First, l.unusable[i].Next}
	}
	return RangesOf(rs...)
}

// unusableIn says which segments may have records of offsets and cannot be used; empty where there is none.
func (l *log) unusableIn(r Range) string {
	text, n := "", 0
	for i := range l.unusable {
		if s := &l.unusable[i]; !r.Clip(Range{s.First, s.Next}).Empty() {
			if n++; n == 1 {
				text = fmt.Sprintf("segment %s cannot be used: %s", s.Key, s.Why)
			}
		}
	}
	if n > 1 {
		text += fmt.Sprintf(" (and %d more segments)", n-1)
	}
	return text
}

// offsets returns the offsets of a segment's rows.
func (s *Segment) offsets() Ranges {
	if s.Offsets != nil || s.Rows == 0 {
		return s.Offsets
	}
	return Ranges{{s.First, s.Next}}
}

// validate says what is wrong with the description of a segment. The cover relies on it.
func (s *Segment) validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("segment %s: %s", s.Key, fmt.Sprintf(format, args...))
	}
	switch {
	case s.Quality != Exact && s.Quality != Derived && s.Quality != Unknown:
		return bad("there is no quality %q", s.Quality)
	case s.Quality != Exact && (s.Offsets != nil || s.Captured || s.Whole):
		return bad("its offsets are %s, and those of single rows are stated", s.Quality)
	case s.Partition < 0 || s.Partition > maxPartition:
		return bad("there is no partition %d", s.Partition)
	case s.First < 0 || s.Next < s.First || s.Rows < 0:
		return bad("%d rows at the offsets %d to %d make no sense", s.Rows, s.First, s.Next)
	case s.Offsets == nil && s.Rows != s.Next-s.First && (s.Rows > 0 || !s.Captured && !s.Whole):
		return bad("%d rows for the %d offsets %d-%d, and which of them is not known", s.Rows, s.Next-s.First, s.First, s.Next)
	}
	offsets := s.offsets()
	for i, r := range offsets {
		if r.Empty() || i > 0 && r.First <= offsets[i-1].Next {
			return bad("its offsets %s are not in order", offsets)
		}
	}
	if n := offsets.Len(); n != s.Rows {
		return bad("%d rows have %d distinct offsets: an offset is repeated in it", s.Rows, n)
	}
	if h := offsets.Hull(); s.Rows > 0 && (h.First < s.First || h.Next > s.Next || !s.Captured && !s.Whole && h != Range{s.First, s.Next}) {
		return bad("offsets %s do not begin and end as its range %d-%d", offsets.Hull(), s.First, s.Next)
	}
	rows, next := int64(0), s.First
	for i, g := range s.RowGroups {
		if g.Rows == 0 {
			continue
		}
		if g.First < next || g.Next > s.Next || offsets.count(Range{g.First, g.Next}) != g.Rows {
			return bad("row group %d: %d rows do not fit the offsets %d-%d", i, g.Rows, g.First, g.Next)
		}
		for _, span := range []*Span{g.RecordTime, g.EventTime} {
			if span != nil && span.Min > span.Max {
				return bad("row group %d: the least time %d is after the greatest, %d", i, span.Min, span.Max)
			}
		}
		rows, next = rows+g.Rows, g.Next
	}
	if rows != s.Rows {
		return bad("%d rows, but %d in its row groups", s.Rows, rows)
	}
	return nil
}
