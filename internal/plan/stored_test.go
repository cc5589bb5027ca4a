package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/partition"
	"hindcast/internal/spec"
)

// storedModel is what a store and the brokers have of a partition, offset by offset.
type storedModel struct {
	end     int64
	stored  map[int64]bool
	brokers *Tail
	latest  map[int64]*int64 // of the segment that an offset is of
	inv     Inventory
}

// newStoredModel makes segments of a few offsets, some of them missing, of which the last offsets may not be decided yet.
func newStoredModel(rng *rand.Rand) *storedModel {
	m := &storedModel{stored: map[int64]bool{}, latest: map[int64]*int64{}}
	s := Stored{}
	var offsets []Range
	at := int64(rng.IntN(3) * 5)
	for n := range 2 + rng.IntN(6) {
		next := at + 1 + rng.Int64N(6)
		if rng.IntN(4) > 0 || n == 0 {
			seg := StoredSegment{Key: fmt.Sprint("segment ", at), Offsets: Range{at, next}, Bytes: 10}
			if rng.IntN(4) > 0 {
				t := nov1 + rng.Int64N(4)*int64(spec.Day) + 1
				seg.Latest = &t
			}
			s.Segments = append(s.Segments, seg)
			offsets = append(offsets, seg.Offsets)
			for o := at; o < next; o++ {
				m.stored[o], m.latest[o] = true, seg.Latest
			}
		} else {
			s.Lacking = append(s.Lacking, Lack{Range{at, next}, fmt.Sprint("lost at ", at)})
		}
		at = next
	}
	m.end = s.Segments[len(s.Segments)-1].Offsets.Next
	s.Offsets = RangesOf(offsets...)
	if open := rng.Int64N(4); rng.IntN(3) == 0 {
		undecided := Range{max(m.end-open, s.Segments[0].Offsets.First), m.end}
		s.Offsets = s.Offsets.Minus(Ranges{undecided})
		s.Lacking = append(s.Lacking, Lack{undecided, "a transaction is open"})
		for o := range (Ranges{undecided}).All() {
			delete(m.stored, o)
		}
	}
	m.inv = Inventory{Topic: "t", Stored: []Stored{s}}
	if rng.IntN(3) > 0 {
		end := m.end + rng.Int64N(8)
		m.brokers = &Tail{Start: rng.Int64N(end + 1), End: end}
		m.inv.HasTail, m.inv.Tails = true, []Tail{*m.brokers}
		m.end = end
	} else if h := s.Offsets.Hull(); len(s.Offsets) > 0 {
		m.end = h.Next
	}
	return m
}

// The store serves what it has, the brokers what they have beside it, and what is left is refused, unless it comes before the first segment that can
// have records of the window.
func TestPlansOfTieredSegmentsAgainstNaiveModel(t *testing.T) {
	planned, refused := 0, 0
	for seed := range uint64(counts(500, 20_000)) {
		rng := rand.New(rand.NewPCG(seed, 29))
		m := newStoredModel(rng)
		w := &spec.Window{From: nov1 + rng.Int64N(4)*int64(spec.Day), To: nov1 + 4*int64(spec.Day)}
		ahead := rng.Int64N(2) * int64(spec.Hour)
		opts := Options{NoPrune: rng.IntN(5) == 0}
		s := testSpec(0, ahead, m.inv.HasTail, partition.Scheme{Unit: partition.Day, Column: "at", Zone: "UTC"})
		from := int64(0)
		for _, seg := range m.inv.Stored[0].Segments {
			if opts.NoPrune || seg.Latest == nil || *seg.Latest >= w.From-ahead {
				break
			}
			from = seg.Offsets.Next
		}
		var stored, brokers, gone Ranges
		for o := from; o < m.end; o++ {
			one := Range{o, o + 1}
			switch {
			case m.stored[o]:
				stored = stored.add(one)
			case m.brokers != nil && o >= m.brokers.Start:
				brokers = brokers.add(one)
			default:
				gone = gone.add(one)
			}
		}
		p, err := Build(s, w, m.inv, opts)
		if len(gone) > 0 {
			refused++
			var g *GapError
			if !errors.As(err, &g) {
				t.Fatalf("seed %d: %v, want the gaps %s of %+v", seed, err, gone, m.inv)
			}
			var got Ranges
			for _, gap := range g.Gaps {
				got = got.add(gap.Offsets)
				for _, l := range m.inv.Stored[0].Lacking {
					if !l.Offsets.Clip(gap.Offsets).Empty() && !strings.Contains(err.Error(), l.Why) {
						t.Fatalf("seed %d: %v does not say %q", seed, err, l.Why)
					}
				}
			}
			if !slices.Equal(got, gone) {
				t.Fatalf("seed %d: the gaps %s, want %s", seed, got, gone)
			}
			opts.AcceptGaps = g.Gaps
			if p, err = Build(s, w, m.inv, opts); err != nil {
				t.Fatalf("seed %d: accepted, and refused with %v", seed, err)
			}
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		planned++
		part := p.Partitions[0]
		if got, want := fmt.Sprint(part.StoredOffsets(), part.FromBrokers(), part.Absent, part.Read), fmt.Sprint(stored, brokers, gone, stored.Union(brokers).Union(gone)); got != want {
			t.Fatalf("seed %d: got %s, want %s", seed, got, want)
		}
		sum, err := p.Summary()
		if err != nil || sum.TailRecords != brokers.Len() || sum.Captured() != stored.Len()+brokers.Len() || (sum.Stored != nil) != (len(stored) > 0) {
			t.Fatalf("seed %d: %+v, %v", seed, sum, err)
		}
		m.checkCaptured(t, seed, p)
		if in, err := Inspect(s, m.inv); err != nil || !m.covered(in.Partitions[0]) {
			t.Fatalf("seed %d: inspected %+v, %v", seed, in.Partitions[0].Cover, err)
		}
	}
	if planned == refused || refused == 0 {
		t.Errorf("%d plans, %d of them refused at first", planned, refused)
	}
}

// checkCaptured holds shards of what was captured, in a segment a range, against the read range.
func (m *storedModel) checkCaptured(t *testing.T, seed uint64, p *Plan) {
	t.Helper()
	part := p.Partitions[0]
	var captured []Segment
	for _, rs := range []Ranges{part.StoredOffsets(), part.FromBrokers()} {
		for _, r := range rs {
			captured = append(captured, Segment{
				Key: fmt.Sprint(r), First: r.First, Next: r.Next, Rows: r.Len(), Captured: true,
				RowGroups: []RowGroup{{Rows: r.Len(), First: r.First, Next: r.Next}},
			})
		}
	}
	shards, skipped, err := Shards(p, captured)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	var owned Ranges
	for _, sh := range shards {
		owned = owned.Union(sh.Owned()[0])
	}
	for _, s := range skipped {
		owned = owned.Union(s.Offsets)
	}
	if !slices.Equal(owned, part.Read) {
		t.Fatalf("seed %d: %s is accounted for of %s", seed, owned, part.Read)
	}
	if len(captured) > 0 {
		if _, _, err := Shards(p, captured[1:]); err == nil {
			t.Fatalf("seed %d: %s was not captured, and is not missed", seed, captured[0].Key)
		}
	}
}

// covered reports whether an inspection says of each offset what has it.
func (m *storedModel) covered(p InspectedPartition) bool {
	at := int64(0)
	for _, c := range p.Cover {
		if c.Offsets.First != at {
			return false
		}
		for o := range (Ranges{c.Offsets}).All() {
			want := ByGap
			switch {
			case m.stored[o]:
				want = ByTiered
			case m.brokers != nil && o >= m.brokers.Start && o < m.brokers.End:
				want = ByBrokers
			}
			if c.By != want {
				return false
			}
		}
		at = c.Offsets.Next
	}
	return at >= m.end
}

func TestTieredStorageThatMakesNoSenseIsRefused(t *testing.T) {
	seg := func(first, next int64) StoredSegment { return StoredSegment{Key: "k", Offsets: Range{first, next}} }
	for _, c := range []struct {
		stored []Stored
		want   string
	}{
		{[]Stored{{Partition: -1, Segments: []StoredSegment{seg(0, 1)}}}, "there is no such partition"},
		{[]Stored{{}}, "it has no segment"},
		{[]Stored{{Segments: []StoredSegment{seg(0, 5), seg(4, 9)}}}, "its offsets 4-9 are not in order"},
		{[]Stored{{Segments: []StoredSegment{seg(0, 5)}, Offsets: Ranges{{0, 6}}}}, "its segments have 0-5, not all of 0-6"},
		{[]Stored{{Segments: []StoredSegment{seg(0, 5)}}, {Segments: []StoredSegment{seg(0, 5)}}}, "is listed twice"},
	} {
		s := testSpec(0, 0, false, partition.Scheme{Unit: partition.Day, Column: "at", Zone: "UTC"})
		if _, err := Build(s, nil, Inventory{Topic: "t", Stored: c.stored}, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.stored, err, c.want)
		}
	}
}

// A log that ends before tiered storage does is another, or was truncated.
func TestBrokersMustReachWhatTieredStorageHas(t *testing.T) {
	inv := Inventory{
		Topic: "t", HasTail: true, Tails: []Tail{{End: 8}},
		Stored: []Stored{{Offsets: Ranges{{0, 10}}, Segments: []StoredSegment{{Key: "k", Offsets: Range{0, 10}}}}},
	}
	s := testSpec(0, 0, true, partition.Scheme{Unit: partition.Day, Column: "at", Zone: "UTC"})
	_, err := Build(s, &spec.Window{From: nov1, To: nov1 + int64(spec.Day)}, inv, Options{})
	if err == nil || !strings.Contains(err.Error(), "the brokers' log ends at offset 8, but segments go to 10") {
		t.Error(err)
	}
}
