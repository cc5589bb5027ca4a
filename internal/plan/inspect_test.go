package plan

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// What an inspection says of each offset is what the model's segments and brokers have.
func TestInspectionsAgainstNaiveModel(t *testing.T) {
	kinds := map[By]int{}
	for seed := range uint64(counts(50, 2_000)) {
		rng := rand.New(rand.NewPCG(seed, 9))
		m := newModel(rng, shape{missing: true, holes: seed%2 == 0, late: true, disorder: true, quality: seed%3 > 0, unknown: seed%5 == 0}, daily)
		in, err := Inspect(m.spec, m.inventory(rng))
		if err != nil {
			if len(m.segments) > 0 || m.hasTail {
				t.Fatalf("seed %d: %v", seed, err)
			}
			continue
		}
		again, err := Inspect(m.spec, m.inventory(rng))
		if err != nil || !reflect.DeepEqual(in, again) {
			t.Fatalf("seed %d: another order of listing gives another inspection", seed)
		}
		for _, p := range in.Partitions {
			m.checkInspected(t, seed, p, kinds)
		}
	}
	for _, by := range []By{ByExact, ByDerived, ByBrokers, ByGap, ByUnusable} {
		if kinds[by] == 0 {
			t.Errorf("no offset is said to be of %s", by)
		}
	}
}

func (m *model) checkInspected(t *testing.T, seed uint64, p InspectedPartition, kinds map[By]int) {
	t.Helper()
	mp := m.partitions[p.Partition]
	at := int64(0)
	var gaps Ranges
	for _, g := range p.Gaps {
		gaps = gaps.Union(Ranges{g.Offsets})
	}
	for _, c := range p.Cover {
		if c.Offsets.First != at || c.Offsets.Empty() {
			t.Fatalf("seed %d, partition %d: %+v begins at %d", seed, p.Partition, c, at)
		}
		at = c.Offsets.Next
		for o := c.Offsets.First; o < min(c.Offsets.Next, int64(len(mp.events))+5); o++ {
			want := ByGap
			switch {
			case m.exact(mp, o):
				want = ByExact
			case m.exported(mp, o):
				want = ByDerived
			case m.hasTail && mp.tail.Start <= o && o < mp.tail.End:
				want = ByBrokers
			case m.claimed(mp, o):
				want = ByUnusable
			}
			kinds[want]++
			if c.By != want {
				t.Fatalf("seed %d: offset %d:%d is of %s, want %s", seed, p.Partition, o, c.By, want)
			}
			if lost := want == ByGap || want == ByUnusable; lost != gaps.Contains(o) {
				t.Fatalf("seed %d: offset %d:%d is of %s, and named as a gap: %v", seed, p.Partition, o, want, !lost)
			}
		}
	}
	if want := max(m.exportedEnd(mp), mp.tail.End); m.hasTail && at != want || at < m.exportedEnd(mp) {
		t.Fatalf("seed %d, partition %d: it ends at %d, want %d", seed, p.Partition, at, want)
	}
	var duplicates int64
	for o := range int64(len(mp.events)) {
		n := int64(0)
		for _, s := range m.segments {
			if s.Partition == mp.id && s.Quality != Unknown && s.offsets().Contains(o) {
				n++
			}
		}
		if p.Twice.Contains(o) != (n > 1) {
			t.Fatalf("seed %d: offset %d:%d is held %d times, and twice is %s", seed, p.Partition, o, n, p.Twice)
		}
		duplicates += max(0, n-1)
	}
	if duplicates != p.Duplicates {
		t.Fatalf("seed %d, partition %d: %d duplicates, want %d", seed, p.Partition, p.Duplicates, duplicates)
	}
	if p.Seen.RowGroups == p.Seen.Telling {
		m.checkLateness(t, seed, p)
	}
}

// checkLateness: the greatest lateness of all rows lies within the bounds.
func (m *model) checkLateness(t *testing.T, seed uint64, p InspectedPartition) {
	t.Helper()
	mp := m.partitions[p.Partition]
	var late, ahead int64
	rows := 0
	for _, s := range m.segments {
		if s.Partition != mp.id || s.Quality == Unknown {
			continue
		}
		for o := range s.offsets().All() {
			if e := mp.events[o]; !e.untimed {
				late, ahead = max(late, e.record-e.event), max(ahead, e.event-e.record)
				rows++
			}
		}
	}
	for _, c := range []struct {
		what  string
		is    int64
		bound *Bounds
	}{{"late", late, p.Seen.Late}, {"ahead", ahead, p.Seen.Ahead}} {
		if (c.bound == nil) != (rows == 0) || c.bound != nil && (c.is < int64(c.bound.Least) || c.is > int64(c.bound.Most)) {
			t.Fatalf("seed %d, partition %d: events are %d %s, the bounds are %+v", seed, p.Partition, c.is, c.what, c.bound)
		}
	}
}

func TestInspectionOfAnExport(t *testing.T) {
	lost := dense(0, 2000, 2100)
	unknown(&lost)
	late := dense(0, 2100, 2200)
	late.RowGroups[0].EventTime.Min -= day
	copyOf := dense(0, 1400, 1500)
	inv := Inventory{
		Topic: "t", Segments: []Segment{dense(0, 0, 1500), dense(0, 1500, 2000), copyOf, lost, late, dense(1, 100, 200)}, HasTail: true,
		Tails: []Tail{{Partition: 0, Start: 2150, End: 2300}, {Partition: 1, Start: 150, End: 200}}, Ignored: 2, Passed: map[string]int{"markers": 2},
	}
	in, err := Inspect(testSpec(hour, 0, true, daily), inv)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "inspection.json", in)
	inv.Segments[5].RowGroups[0].Rows = 7
	if _, err := Inspect(testSpec(hour, 0, true, daily), inv); err == nil || !strings.Contains(err.Error(), "row group 0: 7 rows do not fit") {
		t.Error(err)
	}
}

// A log without offsets, and one whose last segment has no end, are told as they are.
func TestInspectionOfWhatIsNotKnown(t *testing.T) {
	number := func(s Segment) Segment { s.Quality = Unknown; return s }
	in, err := Inspect(testSpec(hour, 0, false, daily), Inventory{Topic: "t", AtLeastOnce: true, Segments: []Segment{number(dense(0, 0, 100)), number(dense(0, 100, 150))}})
	if err != nil || !in.AtLeastOnce || len(in.Partitions[0].Cover) != 1 || in.Partitions[0].Cover[0].By != ByNumber || in.Partitions[0].Cover[0].Segments != 2 {
		t.Errorf("%+v, %v", in, err)
	}
	open := dense(0, 100, openEnd)
	unknown(&open)
	in, err = Inspect(testSpec(hour, 0, false, daily), Inventory{Topic: "t", Segments: []Segment{dense(0, 0, 100), open}})
	if err != nil {
		t.Fatal(err)
	}
	p := in.Partitions[0]
	if len(p.Cover) != 2 || p.Cover[1].Offsets.String() != "100-" || len(p.Gaps) != 1 || !strings.Contains(p.Gaps[0].Unusable, "it lost rows") || len(p.Unusable) != 1 {
		t.Errorf("%+v", p)
	}
	if !slices.IsSortedFunc(p.Cover, func(a, b Stretch) int { return int(a.Offsets.First - b.Offsets.First) }) {
		t.Errorf("%+v", p.Cover)
	}
}
