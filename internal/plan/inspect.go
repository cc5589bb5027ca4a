package plan

import (
	"cmp"
	"slices"

	"hindcast/internal/spec"
	"hindcast/internal/unit"
)

// Inspection is what there is of a log, whatever a run would read of it.
type Inspection struct {
	Topic    string     `json:"topic"`
	TopicID  string     `json:"topic_id,omitempty"`
	Segments int        `json:"segments"`
	Rows     int64      `json:"rows"`
	Bytes    unit.Bytes `json:"bytes"`
	// AtLeastOnce: see [Inventory.AtLeastOnce].
	AtLeastOnce bool `json:"at_least_once,omitempty"`
	// Ignored counts the objects that are no part of the log, Passed by why.
	Ignored    int                  `json:"ignored"`
	Passed     map[string]int       `json:"passed,omitempty"`
	Listed     Cost                 `json:"listed,omitzero"`
	Notes      []string             `json:"notes,omitempty"`
	Partitions []InspectedPartition `json:"partitions"`
}

// InspectedPartition is what there is of a topic partition.
type InspectedPartition struct {
	Partition int32      `json:"partition"`
	Segments  int        `json:"segments"`
	Rows      int64      `json:"rows"`
	Bytes     unit.Bytes `json:"bytes"`
	Broker    *Tail      `json:"broker,omitempty"`
	// Stored is what tiered storage has; nil where that is nothing.
	Stored *Stored `json:"stored,omitempty"`
	// Cover says what has which offsets, from 0 to the end that is known, without a break.
	Cover []Stretch `json:"cover"`
	// Gaps are what nobody has. They refuse a plan that needs them.
	Gaps []Gap `json:"gaps,omitempty"`
	// Twice are the offsets that more than one segment holds; Duplicates is how many rows there are beyond the first. They are read once.
	Twice      Ranges `json:"twice,omitempty"`
	Duplicates int64  `json:"duplicates,omitempty"`
	// RecordTime and EventTime bound what the footers tell.
	RecordTime *Span    `json:"record_time,omitempty"`
	EventTime  *Span    `json:"event_time,omitempty"`
	Seen       Lateness `json:"seen"`
	// Unusable are segments whose offsets cannot be told.
	Unusable []UnusableSegment `json:"unusable,omitempty"`
}

// UnusableSegment is one whose offsets cannot be told.
type UnusableSegment struct {
	Key   string `json:"key"`
	Rows  int64  `json:"rows"`
	Where Range  `json:"where"` // that its rows lie somewhere in
	Why   string `json:"why"`
}

// By says what has offsets.
type By string

// What has offsets.
const (
	ByExact    By = "exact"    // segments, by their offset columns
	ByDerived  By = "derived"  // segments, by their names
	ByNumber   By = "numbered" // segments that tell no offsets: the rows are numbered
	ByTiered   By = "tiered"   // tiered storage
	ByBrokers  By = "brokers"
	ByNothing  By = "empty" // segments prove that there is no record
	ByGap      By = "gap"   // nobody
	ByUnusable By = "unusable"
)

// Stretch is offsets that one kind of source has.
type Stretch struct {
	Offsets  Range `json:"offsets"`
	By       By    `json:"by"`
	Segments int   `json:"segments,omitempty"` // that are used for it
	// RecordTime and EventTime bound its rows' times; nil where one is unknown.
	RecordTime *Span `json:"record_time,omitempty"`
	EventTime  *Span `json:"event_time,omitempty"`
}

// Lateness is how late events entered the log, and how far their times were ahead, as far as the footers of trusted writers tell. A row group tells the
// bounds of both times and not which goes with which, so that the greatest lateness lies between two values.
type Lateness struct {
	RowGroups int `json:"row_groups"` // that have rows
	Telling   int `json:"telling"`    // of these, that tell both times
	// The greatest lateness, and distance ahead, is at least Least and at most Most, in microseconds. Nil where no row group tells.
	Late  *Bounds `json:"late,omitempty"`
	Ahead *Bounds `json:"ahead,omitempty"`
}

// Bounds of a duration, in microseconds.
type Bounds struct {
	Least spec.Duration `json:"least"`
	Most  spec.Duration `json:"most"`
}

// Inspect describes a log. It is pure, as [Build] is.
func Inspect(s *spec.Spec, inv Inventory) (Inspection, error) {
	out := Inspection{
		Topic: inv.Topic, TopicID: inv.TopicID, Segments: len(inv.Segments), AtLeastOnce: inv.AtLeastOnce, Ignored: inv.Ignored, Passed: inv.Passed,
		Listed: inv.Listed, Notes: inv.Notes, Partitions: []InspectedPartition{},
	}
	logs, err := load(s, inv, false)
	if err != nil {
		return out, err
	}
	for _, l := range logs {
		p := l.inspect()
		out.Rows, out.Bytes = out.Rows+p.Rows, out.Bytes+p.Bytes
		out.Partitions = append(out.Partitions, p)
	}
	return out, nil
}

func (l *log) inspect() InspectedPartition {
	out := InspectedPartition{Partition: l.partition, Segments: len(l.segments) + len(l.unusable), Broker: l.broker, Stored: l.stored, Cover: []Stretch{}}
	for i := range l.segments {
		s := &l.segments[i]
		out.Rows, out.Bytes = out.Rows+s.Rows, out.Bytes+s.Size
		for _, g := range s.RowGroups {
			if g.Rows > 0 {
				out.Seen.see(g)
				out.RecordTime, out.EventTime = outer(out.RecordTime, g.RecordTime), outer(out.EventTime, g.EventTime)
			}
		}
	}
	out.Seen.close()
	for i := range l.unusable {
		s := &l.unusable[i]
		out.Rows, out.Bytes = out.Rows+s.Rows, out.Bytes+s.Size
		out.Unusable = append(out.Unusable, UnusableSegment{s.Key, s.Rows, Range{s.First, s.Next}, s.Why})
	}
	out.Twice, out.Duplicates = l.twice()
	out.Cover, out.Gaps = l.stretches()
	return out
}

// outer returns bounds that hold both, of which one may be unknown.
func outer(a, b *Span) *Span {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return hull(a, b)
}

// stretches says what has each offset, from 0 to the end that is known, and what nobody has.
func (l *log) stretches() (cover []Stretch, gaps []Gap) {
	end := l.end()
	if l.broker != nil {
		end = max(end, l.broker.End)
	}
	if l.stored != nil {
		end = max(end, l.stored.Segments[len(l.stored.Segments)-1].Offsets.Next)
	}
	claimed := l.claimed()
	last := claimed.Hull().Next
	if n := len(claimed); l.broker == nil && n > 0 {
		if last != openEnd {
			end = max(end, last)
		} else {
			end = max(end, claimed[n-1].First)
		}
	}
	used := map[int]bool{} // segments of the last stretch
	add := func(s Stretch, seg int) {
		if n := len(cover); n > 0 && cover[n-1].By == s.By && cover[n-1].Offsets.Next == s.Offsets.First {
			last := &cover[n-1]
			last.Offsets.Next = s.Offsets.Next
			last.RecordTime, last.EventTime = hull(last.RecordTime, s.RecordTime), hull(last.EventTime, s.EventTime)
		} else {
			cover = append(cover, s)
			clear(used)
		}
		if seg >= 0 && !used[seg] {
			used[seg] = true
			cover[len(cover)-1].Segments++
		}
	}
	// between tells what has offsets that no row group has; the extents beside them are those of a hole.
	between := func(h hole) {
		rest := Ranges{h.Range}
		var parts []Stretch
		take := func(of Ranges, by By) {
			for _, r := range rest.Intersect(of) {
				parts = append(parts, Stretch{Offsets: r, By: by})
			}
			rest = rest.Minus(of)
		}
		take(l.empty, ByNothing)
		if l.stored != nil {
			take(l.stored.Offsets, ByTiered)
		}
		if l.broker != nil {
			take(RangesOf(Range{l.broker.Start, l.broker.End}), ByBrokers)
		}
		for _, r := range rest {
			gaps = append(gaps, l.gap(r, h))
		}
		take(claimed, ByUnusable)
		take(rest, ByGap)
		slices.SortFunc(parts, func(a, b Stretch) int { return cmp.Compare(a.Offsets.First, b.Offsets.First) })
		for _, p := range parts {
			if p.By == ByTiered {
				p.Segments = l.stored.ranges(Ranges{p.Offsets})[0].Segments
			}
			add(p, -1)
		}
	}
	at := int64(0)
	for i, e := range l.extents {
		if e.First > at {
			between(hole{Range: Range{at, e.First}, before: i, after: i - 1})
		}
		g := l.groupOf(e)
		by := map[Quality]By{Exact: ByExact, Derived: ByDerived, Unknown: ByNumber}[l.segments[e.seg].Quality]
		add(Stretch{Offsets: e.Range, By: by, RecordTime: g.RecordTime, EventTime: g.EventTime}, e.seg)
		at = e.Next
	}
	if at < end {
		between(hole{Range: Range{at, end}, before: -1, after: len(l.extents) - 1})
	}
	if l.broker == nil && last == openEnd {
		r := Range{end, openEnd}
		add(Stretch{Offsets: r, By: ByUnusable}, -1)
		if n := len(gaps); n > 0 && gaps[n-1].Offsets.Next == end { // one hole, as a plan has it
			r.First, gaps = gaps[n-1].Offsets.First, gaps[:n-1]
		}
		gaps = append(gaps, l.gap(r, hole{Range: r, before: -1, after: len(l.extents) - 1}))
	}
	return cover, gaps
}

// twice returns the offsets that more than one segment holds, and how many rows there are of them beyond the first.
func (l *log) twice() (twice Ranges, duplicates int64) {
	type edge struct {
		at    int64
		depth int
	}
	var edges []edge
	for i := range l.segments {
		for _, r := range l.segments[i].offsets() {
			edges = append(edges, edge{r.First, 1}, edge{r.Next, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	depth, at := 0, int64(0)
	for _, e := range edges {
		if r := (Range{at, e.at}); depth > 1 && !r.Empty() {
			twice = twice.add(r)
			duplicates += r.Len() * int64(depth-1)
		}
		depth, at = depth+e.depth, e.at
	}
	return twice, duplicates
}

// see takes a row group in.
func (l *Lateness) see(g RowGroup) {
	l.RowGroups++
	if g.RecordTime == nil || g.EventTime == nil {
		return
	}
	l.Telling++
	r, e := g.RecordTime, g.EventTime
	// The earliest event came no earlier than the first record, and the last record is of no later event than the latest.
	l.Late = l.Late.widen(max(r.Min-e.Min, r.Max-e.Max), r.Max-e.Min)
	l.Ahead = l.Ahead.widen(max(e.Max-r.Max, e.Min-r.Min), e.Max-r.Min)
}

func (b *Bounds) widen(least, most int64) *Bounds {
	if b == nil {
		return &Bounds{spec.Duration(least), spec.Duration(most)}
	}
	return &Bounds{max(b.Least, spec.Duration(least)), max(b.Most, spec.Duration(most))}
}

// close makes what is not late at all 0.
func (l *Lateness) close() {
	for _, b := range []*Bounds{l.Late, l.Ahead} {
		if b != nil {
			b.Least, b.Most = max(b.Least, 0), max(b.Most, 0)
		}
	}
}
