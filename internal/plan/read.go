package plan

import (
	"fmt"
	"math"

	"hindcast/internal/spec"
)

// recordTimeStep is the resolution of Kafka's record times: a record that says 12:00:00.000 may have come 999 µs later.
const recordTimeStep = int64(spec.Millisecond)

// reach is what record times events of a window may have, by the declared lateness.
type reach struct {
	window   *spec.Window // nil: all of the log
	earliest int64        // exclusive
	latest   int64        // exclusive
	// unseen is latest for offsets past the last segment. No footer tells what they hold; so, where
	// segments prove that the declared lateness is wrong, it is what they show.
	unseen int64
}

func newReach(w *spec.Window, e spec.Event, shown spec.Duration) reach {
	if w == nil {
		return reach{}
	}
	latest := w.To + int64(e.Lateness)
	return reach{w, w.From - int64(e.Ahead) - recordTimeStep, latest, max(latest, w.To+int64(shown))}
}

// shownLateness returns how late events of the row groups may be that prove the declared lateness wrong: they
// hold an event that is later than it. By is one of those segments. Events older than the log do not count: no
// plan's window holds them, and a single zero timestamp would be the latest of all.
func shownLateness(logs []*log, declared spec.Duration) (shown spec.Duration, by string) {
	begin := int64(math.MaxInt64)
	for _, l := range logs {
		for i := range l.segments {
			for _, g := range l.segments[i].RowGroups {
				if g.RecordTime != nil {
					begin = min(begin, g.RecordTime.Min-int64(declared))
				}
			}
		}
	}
	for _, l := range logs {
		for i := range l.segments {
			for _, g := range l.segments[i].RowGroups {
				if g.RecordTime == nil || g.EventTime == nil || g.EventTime.Min < begin || g.RecordTime.Min-g.EventTime.Min <= int64(declared) {
					continue
				}
				if late := spec.Duration(g.RecordTime.Max - g.EventTime.Min); late > shown {
					shown, by = late, l.segments[i].Key
				}
			}
		}
	}
	return shown, by
}

// holds reports whether records with such record times can be events of the window.
func (r reach) holds(s *Span) bool {
	return r.window == nil || s == nil || s.Max > r.earliest && s.Min < r.latest
}

// hull returns bounds that hold both; nil where one is unknown.
func hull(a, b *Span) *Span {
	if a == nil || b == nil {
		return nil
	}
	return &Span{min(a.Min, b.Min), max(a.Max, b.Max)}
}

// reading is what is read of one topic partition, and what stands against it.
type reading struct {
	kept    []Ranges      // of each segment
	tail    Ranges        // to capture
	stored  []StoredRange // of these, what tiered storage has
	empty   Ranges        // without a record, as segments prove
	missing []Gap
	needs   bool // offsets past the last segment may hold events of the window
	late    []Contradiction
	notes   []string
}

// read finds the read range of a covered log: the offsets from the first to the last
// row group, or hole, that can hold events of the window. A hole can hold what its neighbours could; what
// comes before all segments is older than their first, what comes after is younger than their last.
//
// Row groups beyond that are compared with their event times. One that shows an event of the window
// contradicts the declared lateness. One that merely spans the window (a single zero timestamp does that) is read
// as well. The tail cannot be compared: where segments show that events come later than declared, it is read for as long as they show.
func (l *log) read(r reach) reading {
	out := reading{kept: make([]Ranges, len(l.segments))}
	lo, hi := int64(math.MaxInt64), int64(0)
	include := func(x Range) {
		rest := Ranges{x}
		if r.window != nil {
			rest = rest.Minus(l.empty)
		}
		if len(rest) > 0 {
			lo, hi = min(lo, rest.Hull().First), max(hi, rest.Hull().Next)
		}
	}

	var holes []hole
	for i, e := range l.extents {
		after := l.groupOf(e)
		switch {
		case i == 0 && e.First > 0:
			h := hole{Range: Range{0, e.First}, before: i, after: -1}
			if t := after.RecordTime; r.window == nil || t == nil || t.Min > r.earliest {
				include(h.Range)
			}
			holes = append(holes, h)
		case i > 0 && l.extents[i-1].Next < e.First:
			h := hole{Range: Range{l.extents[i-1].Next, e.First}, before: i, after: i - 1}
			if r.holds(hull(l.groupOf(l.extents[i-1]).RecordTime, after.RecordTime)) {
				include(h.Range)
			}
			holes = append(holes, h)
		}
		if r.holds(after.RecordTime) {
			include(e.Range)
		}
	}
	last := len(l.extents) - 1
	end := int64(0)
	if last >= 0 {
		end = l.extents[last].Next
	}
	declared := true // by the declared lateness, offsets past the last segment may hold events of the window
	if last >= 0 && r.window != nil {
		t := l.groupOf(l.extents[last]).RecordTime
		declared = t == nil || t.Min < r.latest
		out.needs = declared || t.Min < r.unseen
	} else {
		out.needs = true
	}
	if l.stored != nil {
		if h := l.afterOld(r); !h.Empty() {
			include(h.Range)
			holes = append(holes, h)
		}
	} else if b := l.broker; b != nil && b.End > end {
		h := hole{Range: Range{end, b.End}, before: -1, after: last}
		if declared {
			include(h.Range)
		}
		holes = append(holes, h)
	}
	if last := l.claimed().Hull().Next; l.broker == nil && l.stored == nil && last > end {
		// A segment that cannot be used shows that the log goes on.
		h := hole{Range: Range{end, last}, before: -1, after: len(l.extents) - 1}
		if declared {
			include(h.Range)
		}
		holes = append(holes, h)
	}

	within := Range{lo, hi}
	for _, e := range l.extents {
		part := e.Clip(within)
		if part.Empty() {
			part = e.Range
			if !l.beyond(e, r, &out) {
				continue
			}
		}
		out.kept[e.seg] = out.kept[e.seg].add(part)
	}
	for _, h := range holes {
		part := h.Clip(within)
		if part.Empty() {
			if !out.needs || h.before >= 0 {
				continue
			}
			part = h.Range // the tail, by itself
		}
		missing := Ranges{part}.Minus(l.empty)
		out.empty = out.empty.Union(l.empty.Clip(part))
		if l.stored != nil {
			served := missing.Intersect(l.stored.Offsets)
			out.tail = out.tail.Union(served)
			out.stored = append(out.stored, l.stored.ranges(served)...)
			missing = missing.Minus(served)
		}
		if l.broker != nil {
			served := missing.Clip(Range{l.broker.Start, l.broker.End})
			out.tail = out.tail.Union(served)
			missing = missing.Minus(served)
		}
		for _, m := range missing {
			out.missing = append(out.missing, l.gap(m, h))
		}
	}
	return out
}

// hole is offsets that no segment holds; before and after are the extents beside it, or -1.
type hole struct {
	Range
	before, after int
}

func (l *log) gap(missing Range, h hole) Gap {
	if l.stored != nil {
		return l.stored.gap(missing)
	}
	g := Gap{Partition: l.partition, Offsets: missing, Unusable: l.unusableIn(missing)}
	if h.after >= 0 {
		g.After = l.segments[l.extents[h.after].seg].Key
	}
	if h.before >= 0 {
		g.Before = l.segments[l.extents[h.before].seg].Key
		if t := l.groupOf(l.extents[h.before]).RecordTime; t != nil {
			g.Since = &t.Min
		}
	}
	return g
}

// beyond looks at offsets outside the read range. It reports whether they must be read nevertheless.
func (l *log) beyond(e extent, r reach, out *reading) bool {
	g := l.groupOf(e)
	if g.EventTime == nil || g.EventTime.Max < r.window.From || g.EventTime.Min >= r.window.To {
		return false
	}
	key := l.segments[e.seg].Key
	if r.window.Contains(g.EventTime.Min) || r.window.Contains(g.EventTime.Max) {
		if n := len(out.late); n > 0 && out.late[n-1].Segment == key && out.late[n-1].RowGroup == e.group {
			return false // another part of the same row group
		}
		out.late = append(out.late, Contradiction{
			Partition: l.partition, Segment: key, RowGroup: e.group, Offsets: Range{g.First, g.Next},
			Record: *g.RecordTime, Event: *g.EventTime, Ahead: g.RecordTime.Max <= r.earliest,
		})
		return false
	}
	out.notes = append(out.notes, fmt.Sprintf(
		"partition %d: the offsets %s lie outside the read range, but are read as well: the events of segment %s, row group %d, span the window, from %s to %s",
		l.partition, e.Range, key, e.group, spec.FormatInstant(g.EventTime.Min), spec.FormatInstant(g.EventTime.Max)))
	return true
}

// need returns the durations that would have let the row group in.
func (c Contradiction) need(w spec.Window) spec.Duration {
	if c.Ahead {
		return roundUp(c.farthest(w) - c.Record.Min)
	}
	return roundUp(c.Record.Max - c.farthest(w))
}

// farthest returns the event of the window that the bounds show; the one farther from the record times, where they show two.
func (c Contradiction) farthest(w spec.Window) int64 {
	first, second := c.Event.Min, c.Event.Max
	if c.Ahead {
		first, second = second, first
	}
	if w.Contains(first) {
		return first
	}
	return second
}

// roundUp makes a duration one that a person would write: whole days past a day, else whole minutes.
func roundUp(d int64) spec.Duration {
	unit := int64(spec.Minute)
	if d > int64(spec.Day) {
		unit = int64(spec.Day)
	}
	return spec.Duration((d/unit + 1) * unit)
}
