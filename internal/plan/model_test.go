package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"hindcast/internal/partition"
	"hindcast/internal/spec"
)

// The model is a log whose every record is known, so that what a plan must do with each can be said naively.

const (
	minute = int64(spec.Minute)
	hour   = int64(spec.Hour)
	day    = int64(spec.Day)
)

var (
	nov1  = mustInstant("2011-11-01T00:00:00Z")
	daily = partition.Scheme{Unit: partition.Day, Column: "t", Zone: "Europe/London"}
)

func mustInstant(s string) int64 {
	t, err := spec.ParseInstant(s)
	if err != nil {
		panic(err)
	}
	return t
}

// event is a record of the model. A hole is a transaction marker, or was compacted.
type event struct {
	hole          bool
	record, event int64
	untimed       bool // no event time can be read
}

type modelPartition struct {
	id     int32
	events []event // by offset
	tail   Tail
}

type model struct {
	spec       *spec.Spec
	partitions []*modelPartition
	segments   []Segment
	hasTail    bool
	asOf       int64
}

func testSpec(lateness, ahead int64, tail bool, schemes ...partition.Scheme) *spec.Spec {
	s := &spec.Spec{
		Job: "j", Dataset: "d", Promote: spec.Ask, Checks: spec.Checks{Emptied: spec.RefuseEmptied},
		Source: spec.Source{
			Topic:    "t",
			Segments: spec.Segments{Parquet: "in", Naming: spec.KafkaConnect, Columns: spec.KafkaColumns{Partition: "p", Offset: "o", Time: "r"}},
			Event:    spec.Event{ID: "id", Time: "t", Lateness: spec.Duration(lateness), Ahead: spec.Duration(ahead), Dedupe: true},
		},
	}
	if tail {
		s.Source.Tail = &spec.Tail{Brokers: []string{"b:9092"}, Value: spec.JSON}
	}
	for i, scheme := range schemes {
		o := spec.Output{Table: fmt.Sprintf("t%d", i), Scheme: scheme}
		if !scheme.ByTime() {
			o.BucketColumn = "id"
		}
		s.Outputs = append(s.Outputs, o)
	}
	return s
}

// describe makes the segment that holds offsets of a partition, in row groups of at most rows.
func (p *modelPartition) describe(key string, offsets []int64, rows int, known func() bool) Segment {
	s := Segment{Key: key, ETag: "e-" + "x", Size: 10 * 100, Partition: p.id, Rows: int64(len(offsets)), RowGroups: []RowGroup{}}
	if len(offsets) > 0 {
		s.First, s.Next = offsets[0], offsets[len(offsets)-1]+1
	}
	if s.Next-s.First != s.Rows {
		for _, o := range offsets {
			s.Offsets = s.Offsets.Union(Ranges{{o, o + 1}})
		}
	}
	for group := range slices.Chunk(offsets, rows) {
		g := RowGroup{Rows: int64(len(group)), Bytes: 10, First: group[0], Next: group[len(group)-1] + 1, Timed: true}
		for _, o := range group {
			e := p.events[o]
			g.RecordTime = widen(g.RecordTime, e.record)
			if e.untimed {
				g.Timed = false
			} else {
				g.EventTime = widen(g.EventTime, e.event)
			}
		}
		if !known() {
			g.RecordTime = nil
		}
		if !known() {
			g.EventTime, g.Timed = nil, false
		}
		s.RowGroups = append(s.RowGroups, g)
	}
	return s
}

func widen(s *Span, t int64) *Span {
	if s == nil {
		return &Span{t, t}
	}
	return &Span{min(s.Min, t), max(s.Max, t)}
}

// inventory returns what sources would have found, in a random order.
func (m *model) inventory(rng *rand.Rand) Inventory {
	inv := Inventory{Topic: "t", TopicID: "id", Segments: slices.Clone(m.segments), HasTail: m.hasTail, AsOf: m.asOf}
	for i, s := range inv.Segments {
		inv.Segments[i].RowGroups = slices.Clone(s.RowGroups)
	}
	if m.hasTail {
		for _, p := range m.partitions {
			inv.Tails = append(inv.Tails, p.tail)
		}
	}
	rng.Shuffle(len(inv.Segments), func(i, j int) { inv.Segments[i], inv.Segments[j] = inv.Segments[j], inv.Segments[i] })
	rng.Shuffle(len(inv.Tails), func(i, j int) { inv.Tails[i], inv.Tails[j] = inv.Tails[j], inv.Tails[i] })
	return inv
}

// exported reports whether a segment has an offset.
func (m *model) exported(p *modelPartition, o int64) bool {
	for _, s := range m.segments {
		if s.Partition == p.id && s.Quality != Unknown && s.offsets().Contains(o) {
			return true
		}
	}
	return false
}

// exact reports whether a segment has an offset in an offset column.
func (m *model) exact(p *modelPartition, o int64) bool {
	return slices.ContainsFunc(m.segments, func(s Segment) bool {
		return s.Partition == p.id && s.Quality == Exact && s.offsets().Contains(o)
	})
}

// claimed reports whether a segment may have an offset, which cannot be told.
func (m *model) claimed(p *modelPartition, o int64) bool {
	return slices.ContainsFunc(m.segments, func(s Segment) bool {
		return s.Partition == p.id && s.Quality == Unknown && Range{s.First, s.Next}.Contains(o)
	})
}

// vouched reports whether a segment that was copied whole has nothing at an offset.
func (m *model) vouched(p *modelPartition, o int64) bool {
	return !m.exported(p, o) && slices.ContainsFunc(m.segments, func(s Segment) bool {
		return s.Partition == p.id && s.Whole && Range{s.First, s.Next}.Contains(o)
	})
}

// exportedEnd returns the offset after the last that a segment has.
func (m *model) exportedEnd(p *modelPartition) int64 {
	end := int64(0)
	for _, s := range m.segments {
		if s.Partition == p.id && s.Quality != Unknown {
			end = max(end, s.Next)
		}
	}
	return end
}

// holds reports whether a segment, or the brokers, can serve an offset.
func (m *model) holds(p *modelPartition, o int64) bool {
	return m.exported(p, o) || m.hasTail && p.tail.Start <= o && o < p.tail.End
}

// capture does what the capture of a plan's tail must: segments of a few records that tile its ranges.
func (m *model) capture(p *Plan, rng *rand.Rand) []Segment {
	var out []Segment
	for _, part := range p.Partitions {
		mp := m.partitions[part.Partition]
		for _, r := range part.Tail {
			for at := r.First; at < r.Next; {
				next := min(r.Next, at+1+rng.Int64N(30))
				var offsets []int64
				for o := at; o < next; o++ {
					if !mp.events[o].hole {
						offsets = append(offsets, o)
					}
				}
				s := mp.describe(fmt.Sprintf("run/%d+%d", mp.id, at), offsets, 1+rng.IntN(8), func() bool { return true })
				if s.First != at || s.Next != next {
					if s.Offsets == nil && s.Rows > 0 {
						s.Offsets = Ranges{{s.First, s.Next}}
					}
					s.First, s.Next = at, next
				}
				s.Captured = true
				out = append(out, s)
				at = next
			}
		}
	}
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// shape is how hard a random model is.
type shape struct {
	missing  bool // segments get lost, and the brokers may have deleted offsets
	holes    bool // markers, so that the segments have no record for some offsets
	late     bool // some events are later, or farther ahead, than the job declares
	untimed  bool
	unknown  bool // bounds may be missing
	disorder bool // record times do not always ascend
	quality  bool // some segments' offsets are derived, some cannot be told
	copied   bool // some segments vouch for what they do not have
}

// newModel makes a random log of a few partitions over some days around nov1, exported in odd ways.
func newModel(rng *rand.Rand, sh shape, schemes ...partition.Scheme) *model {
	m := &model{hasTail: rng.IntN(4) > 0}
	lateness, ahead := []int64{0, hour, day, 3 * day}[rng.IntN(4)], []int64{0, minute, 5 * hour}[rng.IntN(3)]
	m.spec = testSpec(lateness, ahead, m.hasTail, schemes...)
	for id := range int32(1 + rng.IntN(3)) {
		p := &modelPartition{id: id}
		clock := nov1 - 2*day + rng.Int64N(day)
		for range rng.IntN(160) {
			clock += rng.Int64N(4 * hour)
			e := event{record: clock / 1000 * 1000, hole: sh.holes && rng.IntN(12) == 0}
			if sh.disorder && rng.IntN(20) == 0 {
				e.record -= rng.Int64N(2*day) / 1000 * 1000
			}
			e.event = e.record + ahead - rng.Int64N(lateness+ahead+1)
			if edge := e.event / hour * hour; rng.IntN(6) == 0 && edge >= e.record-lateness {
				e.event = edge // as partitions begin
			}
			if sh.late && rng.IntN(40) == 0 {
				e.event = []int64{0, e.record - 8*day, e.record + 4*day, nov1 + rng.Int64N(10*day)}[rng.IntN(4)]
			}
			e.untimed = sh.untimed && rng.IntN(30) == 0
			p.events = append(p.events, e)
		}
		m.asOf = max(m.asOf, clock+day)
		m.partitions = append(m.partitions, p)
		m.export(p, rng, sh)
	}
	m.asOf = max(m.asOf, nov1+30*day)
	return m
}

// export puts the head of a partition's log in segments, and leaves the rest to the brokers.
func (m *model) export(p *modelPartition, rng *rand.Rand, sh shape) {
	n := int64(len(p.events))
	end := n
	if m.hasTail {
		end = rng.Int64N(n + 1)
	}
	known := func() bool { return !sh.unknown || rng.IntN(6) > 0 }
	add := func(offsets []int64) {
		if len(offsets) == 0 {
			return
		}
		whole := Range{offsets[0], offsets[len(offsets)-1] + 1}
		contiguous := whole.Len() == int64(len(offsets))
		offsets = slices.DeleteFunc(offsets, func(o int64) bool { return p.events[o].hole })
		if sh.missing && rng.IntN(12) == 0 {
			return
		}
		key := fmt.Sprintf("s/%d/%03d", p.id, len(m.segments))
		if len(offsets) > 0 || rng.IntN(2) == 0 {
			s := p.describe(key, offsets, 1+rng.IntN(9), known)
			if sh.copied && contiguous && rng.IntN(2) == 0 {
				if s.Rows > 0 && s.Offsets == nil && whole != (Range{s.First, s.Next}) {
					s.Offsets = Ranges{{s.First, s.Next}}
				}
				s.First, s.Next, s.Whole = whole.First, whole.Next, true
			}
			if sh.quality && s.Rows > 0 && !s.Whole {
				worsen(&s, rng)
			}
			m.segments = append(m.segments, s)
		}
	}
	for at := int64(0); at < end; {
		next := min(end, at+1+rng.Int64N(40))
		first := at
		if rng.IntN(4) == 0 {
			first = max(0, at-rng.Int64N(30)) // overlaps what came before
		}
		switch rng.IntN(5) {
		case 0: // two interleaved files
			var a, b []int64
			for o := first; o < next; o++ {
				if rng.IntN(2) == 0 {
					a = append(a, o)
				} else {
					b = append(b, o)
				}
			}
			add(a)
			add(b)
		case 1: // twice
			add(span64(first, next))
			add(span64(first, next))
		default:
			add(span64(first, next))
		}
		at = next
	}
	p.tail = Tail{Partition: p.id, Start: rng.Int64N(end + 1), End: n}
	if sh.missing && rng.IntN(4) == 0 {
		p.tail.Start = min(n, end+rng.Int64N(10))
	}
}

// worsen makes a segment, sometimes, one without an offset column.
func worsen(s *Segment, rng *rand.Rand) {
	switch {
	case rng.IntN(12) == 0:
		s.Quality, s.Why, s.Offsets, s.Next = Unknown, "rows were left out", nil, s.Next+rng.Int64N(3)
		if rng.IntN(4) == 0 {
			s.Next = openEnd
		}
	case s.Offsets == nil && rng.IntN(2) == 0:
		s.Quality = Derived
	}
}

func span64(first, next int64) []int64 {
	var out []int64
	for o := first; o < next; o++ {
		out = append(out, o)
	}
	return out
}
