package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"hindcast/internal/partition"
	"hindcast/internal/spec"
	"hindcast/internal/testenv"
)

func counts(reduced, full int) int {
	if testenv.Full() {
		return full
	}
	return reduced
}

// randomWindow is some London days around the model's.
func randomWindow(rng *rand.Rand) *spec.Window {
	from := nov1 + (rng.Int64N(20)-4)*day
	from, to, err := daily.Expand(from, from+rng.Int64N(4)*day+1)
	if err != nil {
		panic(err)
	}
	return &spec.Window{From: from, To: to}
}

// outcomes counts what random plans came to, so that a test notices when it tests nothing.
type outcomes struct{ plans, gaps, late, other int }

func (o *outcomes) of(t *testing.T, err error) {
	t.Helper()
	var gap *GapError
	var late *LatenessError
	switch {
	case err == nil:
		o.plans++
	case errors.As(err, &gap):
		o.gaps++
	case errors.As(err, &late):
		o.late++
	default:
		o.other++
	}
}

func TestPlansAgainstNaiveModel(t *testing.T) {
	for name, sh := range map[string]shape{
		"whole":    {},
		"damaged":  {missing: true, holes: true},
		"late":     {late: true, untimed: true},
		"unknown":  {unknown: true, untimed: true, disorder: true},
		"quality":  {quality: true},
		"weak":     {quality: true, missing: true, holes: true, disorder: true},
		"copied":   {copied: true, holes: true, missing: true, disorder: true},
		"anything": {missing: true, holes: true, late: true, untimed: true, unknown: true, disorder: true},
	} {
		t.Run(name, func(t *testing.T) {
			var seen outcomes
			for seed := range uint64(counts(50, 2_000)) {
				rng := rand.New(rand.NewPCG(seed, 7))
				m := newModel(rng, sh, daily, partition.Scheme{Unit: partition.Hour, Column: "t", Zone: "UTC"}, daily)
				w := randomWindow(rng)
				p, err := Build(m.spec, w, m.inventory(rng), Options{})
				seen.of(t, err)
				if msg := m.check(p, err, w, sh, rng); msg != "" {
					t.Fatalf("seed %d, window %s: %s", seed, w, msg)
				}
			}
			t.Logf("%+v", seen)
			if seen.plans == 0 || ((sh.missing || sh.quality) && seen.gaps == 0) || (sh.late && seen.late == 0) {
				t.Errorf("outcomes %+v", seen)
			}
		})
	}
	if t.Logf("%d shards in slices, %d by keys", divided[0], divided[1]); !t.Failed() && (divided[0] == 0 || divided[1] == 0) {
		t.Error("nothing was divided")
	}
}

func TestWholeLogPlansAgainstNaiveModel(t *testing.T) {
	var seen outcomes
	for seed := range uint64(counts(50, 2_000)) {
		rng := rand.New(rand.NewPCG(seed, 8))
		sh := shape{late: true, untimed: seed%2 == 0, missing: seed%3 == 0, disorder: true, quality: seed%5 == 0, copied: seed%4 == 0, holes: seed%4 == 0}
		m := newModel(rng, sh, partition.Scheme{Buckets: 4}, partition.Scheme{Unit: partition.Month, Column: "t", Zone: "Europe/London"})
		p, err := Build(m.spec, nil, m.inventory(rng), Options{})
		seen.of(t, err)
		if msg := m.check(p, err, nil, sh, rng); msg != "" {
			t.Fatalf("seed %d: %s", seed, msg)
		}
	}
	if seen.plans == 0 || seen.gaps == 0 || seen.late > 0 {
		t.Errorf("outcomes %+v", seen)
	}
}

// check compares the outcome with the model; it returns what is wrong.
func (m *model) check(p *Plan, err error, w *spec.Window, sh shape, rng *rand.Rand) string {
	opts := Options{ShardRows: 1 + rng.Int64N([]int64{2, 60}[rng.IntN(2)]), NoPrune: rng.IntN(10) == 0}
	for _, o := range m.spec.Outputs {
		if rng.IntN(3) > 0 {
			opts.Merges = append(opts.Merges, o.Table)
		}
	}
	if gap, ok := errors.AsType[*GapError](err); ok {
		if msg := m.checkRefusal(err, w, sh); msg != "" {
			return msg
		}
		// What is accepted by name refuses no longer, and is accounted for.
		for _, g := range gap.Gaps {
			read, err := ParseGap(g.String())
			if err != nil {
				return err.Error()
			}
			opts.AcceptGaps = append(opts.AcceptGaps, read)
		}
		p, err = Build(m.spec, w, m.inventory(rng), opts)
		if opts.NoPrune && isGap(err) {
			return "" // more is read, and more is missing
		}
	} else if err == nil {
		p, err = Build(m.spec, w, m.inventory(rng), opts)
		if opts.NoPrune && isGap(err) {
			return ""
		}
	}
	if err != nil {
		return m.checkRefusal(err, w, sh)
	}
	again, err := Build(m.spec, w, m.inventory(rng), opts)
	if err != nil {
		return err.Error()
	}
	text := encoded(p)
	if encoded(again) != text {
		return "another order of listing gives another plan"
	}
	var back Plan
	if err := json.Unmarshal([]byte(text), &back); err != nil || encoded(&back) != text {
		return fmt.Sprintf("the plan does not read back: %v", err)
	}
	if msg := m.checkCover(p, w, sh); msg != "" {
		return msg
	}
	captured := m.capture(p, rng)
	shards, skipped, err := Shards(p, captured)
	if err != nil {
		return err.Error()
	}
	if msg := m.checkShards(p, shards, skipped, captured); msg != "" {
		return msg
	}
	if opts.NoPrune && slices.ContainsFunc(skipped, func(s Skip) bool { return s.Reason == Pruned }) {
		return "pruned, though it must not"
	}
	if len(captured) > 0 {
		if _, _, err := Shards(p, captured[1:]); err == nil {
			return "a lost captured segment is not noticed"
		}
	}
	sum, err := p.Summary()
	if err != nil {
		return err.Error()
	}
	var rows, tail int64
	for i := range p.Partitions {
		s, t := p.Partitions[i].Offsets()
		rows, tail = rows+s.Len(), tail+t.Len()
	}
	if sum.Rows != rows || sum.TailRecords != tail || (sum.ReadRows > 0 && sum.Amplification < 1) {
		return fmt.Sprintf("summary %+v, want %d rows and %d of the tail", sum, rows, tail)
	}
	return ""
}

func isGap(err error) bool {
	_, ok := errors.AsType[*GapError](err)
	return ok
}

// checkCover: every offset of the read range is used once, and every event of the window is in it.
func (m *model) checkCover(p *Plan, w *spec.Window, sh shape) string {
	for _, part := range p.Partitions {
		mp := m.partitions[part.Partition]
		for o := range int64(len(mp.events)) + 5 {
			used := 0
			for _, use := range part.Segments {
				keep := use.Keep
				if keep == nil {
					keep = use.offsets()
				}
				if keep.Contains(o) {
					used++
					if use.Quality == Unknown || use.Quality == Derived && m.exact(mp, o) {
						return fmt.Sprintf("offset %d:%d is read from %s, whose offsets are %s", mp.id, o, use.Key, use.Quality)
					}
					if !use.offsets().Contains(o) {
						return fmt.Sprintf("offset %d:%d is read from %s, which does not have it", mp.id, o, use.Key)
					}
				}
			}
			if part.Tail.Contains(o) {
				used++
				if o < mp.tail.Start || o >= mp.tail.End {
					return fmt.Sprintf("offset %d:%d is captured, the brokers have %+v", mp.id, o, mp.tail)
				}
				for _, s := range m.segments {
					if s.Partition == mp.id && s.Quality != Unknown && s.offsets().Contains(o) {
						return fmt.Sprintf("offset %d:%d is captured, though segment %s has it", mp.id, o, s.Key)
					}
				}
			}
			if part.Absent.Contains(o) {
				used++
				if m.holds(mp, o) {
					return fmt.Sprintf("offset %d:%d is not absent", mp.id, o)
				}
			}
			if part.Empty.Contains(o) {
				used++
				if !m.vouched(mp, o) {
					return fmt.Sprintf("offset %d:%d is empty, which nothing vouches for", mp.id, o)
				}
			}
			if (part.Tail.Contains(o) || part.Absent.Contains(o)) && m.vouched(mp, o) {
				return fmt.Sprintf("offset %d:%d is asked for, though a segment vouches that it is empty", mp.id, o)
			}
			if part.Read.Contains(o) != (used == 1) || used > 1 {
				return fmt.Sprintf("offset %d:%d is used %d times; in the read range: %v", mp.id, o, used, part.Read.Contains(o))
			}
			if o >= int64(len(mp.events)) || used == 1 {
				continue
			}
			e := mp.events[o]
			if e.hole || !m.needed(e, w) {
				continue
			}
			// What is later than declared is found where a segment has it, and says so. Of other offsets more is known only if
			// record times ascend. Without a tail, the plan warns of what came after the segments.
			late := e.event < e.record-int64(m.spec.Source.Event.Lateness) || e.event > e.record+int64(m.spec.Source.Event.Ahead)
			if late && sh.unknown || !m.exported(mp, o) && (late || sh.disorder || !m.hasTail && o >= m.exportedEnd(mp) && !m.claimed(mp, o)) {
				continue
			}
			if slices.ContainsFunc(p.AcceptedGaps, func(g Gap) bool {
				return g.Partition == mp.id && g.Offsets.Next == openEnd && g.Offsets.Contains(o)
			}) {
				continue
			}
			return fmt.Sprintf("offset %d:%d, event %s, record %s, is not read", mp.id, o, spec.FormatInstant(e.event), spec.FormatInstant(e.record))
		}
	}
	return ""
}

// needed reports whether an event is one of the window.
func (m *model) needed(e event, w *spec.Window) bool {
	return w == nil || !e.untimed && w.Contains(e.event)
}

// checkRefusal: what refuses a plan is true.
func (m *model) checkRefusal(err error, w *spec.Window, sh shape) string {
	var gap *GapError
	if errors.As(err, &gap) {
		for _, g := range gap.Gaps {
			if g.Offsets.Next == openEnd {
				if m.hasTail {
					return err.Error()
				}
				continue
			}
			if !sh.missing && !sh.holes && !sh.quality {
				return "nothing is missing: " + err.Error()
			}
			for o := range (Ranges{g.Offsets}).All() {
				if p := m.partitions[g.Partition]; m.holds(p, o) || m.vouched(p, o) {
					return fmt.Sprintf("offset %d:%d is no gap: %v", g.Partition, o, err)
				}
			}
		}
	}
	var late *LatenessError
	if !errors.As(err, &late) {
		if gap == nil && (w != nil || !m.undated()) && (len(m.segments) > 0 || m.hasTail) {
			return "refused: " + err.Error()
		}
		return ""
	}
	for _, c := range late.Found {
		found := false
		for o := c.Offsets.First; o < c.Offsets.Next; o++ {
			e := m.partitions[c.Partition].events[o]
			found = found || !e.hole && !e.untimed && w.Contains(e.event)
		}
		if !found {
			return fmt.Sprintf("%+v holds no event of the window", c)
		}
	}
	if gap != nil {
		return ""
	}
	s := *m.spec
	s.Source.Event.Lateness, s.Source.Event.Ahead = max(late.Lateness, late.NeedLateness), max(late.Ahead, late.NeedAhead)
	_, err = Build(&s, w, m.inventory(rand.New(rand.NewPCG(1, 1))), Options{})
	if errors.As(err, &late) {
		return fmt.Sprintf("what would do does not: %v", err)
	}
	return ""
}

// undated reports whether a row group does not say which event times it holds.
func (m *model) undated() bool {
	for _, s := range m.segments {
		for _, g := range s.RowGroups {
			if g.EventTime == nil {
				return true
			}
		}
	}
	return false
}

// divided counts shards that had parts: in slices, by keys.
var divided [2]int

// checkParts: slices are stretches of the log that have each row of the shard once; shares of keys read all of it. Each offset that the shard owns has one owner.
func (m *model) checkParts(p *Plan, sh *Shard, segments map[string]*Segment) string {
	if sh.Parts == nil {
		return ""
	}
	merges := !slices.ContainsFunc(sh.Tables, func(t string) bool { return !slices.Contains(p.Merges, t) })
	if len(sh.Parts) < 2 || len(sh.Slots) != 1 || !merges && len(sh.Parts) > MaxReadings {
		return "too few, or too many, or of several slots"
	}
	offsets := func(of *Shard) (out [][2]int64, owned map[int32]Ranges, rows int64) {
		for _, in := range of.Inputs {
			for o := range in.read(segments[in.Segment]).All() {
				out = append(out, [2]int64{int64(in.Partition), o})
			}
			rows += in.Rows
		}
		slices.SortFunc(out, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
		return out, of.Owned(), rows
	}
	want, owned, _ := offsets(sh)
	var all [][2]int64
	ownedBy := map[int32]Ranges{}
	for i := range sh.Parts {
		part := &sh.Parts[i]
		read, own, rows := offsets(part)
		if part.ID != fmt.Sprintf("%s-%d", sh.ID, i) || rows != part.Rows || part.Scheme != sh.Scheme || !slices.Equal(part.Tables, sh.Tables) || part.Slots[0] != sh.Slots[0] {
			return "part " + part.ID + " is not of the shard"
		}
		for tp, ranges := range own {
			if len(ownedBy[tp].Intersect(ranges)) > 0 {
				return "an offset has two owners"
			}
			ownedBy[tp] = ownedBy[tp].Union(ranges)
		}
		if part.Slice != merges || merges != (part.Keys == Share{}) || !merges && part.Keys != (Share{i, len(sh.Parts)}) {
			return "part " + part.ID + " is of another kind"
		}
		if merges {
			all = append(all, read...)
		} else if !slices.Equal(read, want) {
			return "part " + part.ID + " does not read all"
		}
	}
	for tp, ranges := range owned {
		if ranges.String() != ownedBy[tp].String() {
			return fmt.Sprintf("of partition %d the parts own %s, the shard %s", tp, ownedBy[tp], ranges)
		}
	}
	if merges && !slices.Equal(all, want) {
		return "slices do not have the shard's rows, in the order of the log"
	}
	divided[map[bool]int{true: 0, false: 1}[merges]]++
	return ""
}

// checkShards: of each scheme, every offset of the read range is accounted for by one owner, and every event is read by the shard of its slot.
func (m *model) checkShards(p *Plan, shards []Shard, skipped Skipped, captured []Segment) string {
	segments := map[string]*Segment{}
	for i := range m.segments {
		segments[m.segments[i].Key] = &m.segments[i]
	}
	for i := range captured {
		segments[captured[i].Key] = &captured[i]
	}
	type key struct {
		partition int32
		offset    int64
	}
	ids := map[string]bool{}
	for _, scheme := range p.Spec.Schemes() {
		owned, readers := map[key]int{}, map[key][]*Shard{}
		var last *Shard
		for i := range shards {
			sh := &shards[i]
			if sh.Scheme != scheme {
				continue
			}
			if ids[sh.ID] {
				return "two shards are called " + sh.ID
			}
			ids[sh.ID] = true
			if scheme.ByTime() != (sh.TopicPartition == nil) {
				return "a shard has a topic partition and slots, or neither"
			}
			if last != nil && len(sh.Slots) > 0 && last.Slots[len(last.Slots)-1].To != sh.Slots[0].From {
				return "the shards' slots do not tile"
			}
			last = sh
			var rows int64
			for _, in := range sh.Inputs {
				offsets := in.read(segments[in.Segment])
				if offsets.Len() != in.Rows || in.Captured != segments[in.Segment].Captured || !offsets.ContainsAll(in.Owned) || len(offsets) == 0 {
					return fmt.Sprintf("input %+v reads %s", in, offsets)
				}
				if s := segments[in.Segment]; (in.FirstOffset != nil) != (s.Quality == Derived) || in.FirstOffset != nil && *in.FirstOffset != s.First {
					return fmt.Sprintf("input %+v of a segment whose offsets are %s", in, s.Quality)
				}
				rows += in.Rows
				for o := range offsets.All() {
					readers[key{in.Partition, o}] = append(readers[key{in.Partition, o}], sh)
				}
				for o := range in.Owned.All() {
					owned[key{in.Partition, o}]++
				}
			}
			if rows != sh.Rows {
				return "a shard's rows are not those of its inputs"
			}
			if msg := m.checkParts(p, sh, segments); msg != "" {
				return fmt.Sprintf("shard %s, %d parts: %s", sh.ID, len(sh.Parts), msg)
			}
		}
		if scheme.ByTime() && p.Window != nil {
			slots, _ := scheme.Slots(p.Window.From, p.Window.To)
			var of []partition.Slot
			for _, sh := range shards {
				if sh.Scheme == scheme {
					of = append(of, sh.Slots...)
				}
			}
			if fmt.Sprint(of) != fmt.Sprint(slots) {
				return fmt.Sprintf("slots %v, want %v", of, slots)
			}
		}
		for _, s := range skipped {
			for o := range s.Offsets.All() {
				owned[key{s.Partition, o}]++
				mp := m.partitions[s.Partition]
				part := p.Partitions[slices.IndexFunc(p.Partitions, func(q Partition) bool { return q.Partition == s.Partition })]
				e := event{hole: true}
				if o < int64(len(mp.events)) {
					e = mp.events[o]
				}
				ok := map[SkipReason]bool{
					Pruned: p.Window != nil && !e.hole && !e.untimed && !p.Window.Contains(e.event) && s.Captured == part.Tail.Contains(o),
					NoData: e.hole && (s.Captured && part.Tail.Contains(o) || !s.Captured && part.Empty.Contains(o)),
					Absent: part.Absent.Contains(o),
				}[s.Reason]
				if !ok || len(readers[key{s.Partition, o}]) > 0 && s.Reason != Pruned {
					return fmt.Sprintf("offset %d:%d is skipped as %s: %+v", s.Partition, o, s.Reason, e)
				}
			}
		}
		total := 0
		for _, part := range p.Partitions {
			mp := m.partitions[part.Partition]
			for o := range part.Read.All() {
				k := key{part.Partition, o}
				total++
				if owned[k] != 1 {
					return fmt.Sprintf("offset %d:%d has %d owners", part.Partition, o, owned[k])
				}
				if o >= int64(len(mp.events)) {
					continue
				}
				e := mp.events[o]
				if e.hole || e.untimed || p.Window != nil && !p.Window.Contains(e.event) || part.Absent.Contains(o) {
					continue
				}
				in := 0
				for _, sh := range readers[k] {
					if sh.TopicPartition != nil && *sh.TopicPartition == part.Partition {
						in++
					}
					for _, slot := range sh.Slots {
						if slot.Contains(e.event) {
							in++
						}
					}
				}
				if in != 1 {
					return fmt.Sprintf("the event of offset %d:%d is read %d times by the shard of its slot", part.Partition, o, in)
				}
			}
		}
		if len(owned) != total {
			return fmt.Sprintf("%d offsets are accounted for, the read range has %d", len(owned), total)
		}
	}
	return ""
}

// read returns the offsets that an input reads of its segment.
func (in *Input) read(s *Segment) Ranges {
	var out Ranges
	for _, i := range in.RowGroups {
		out = out.Union(s.offsets().Clip(Range{s.RowGroups[i].First, s.RowGroups[i].Next}))
	}
	if in.Keep != nil {
		out = out.Intersect(in.Keep)
	}
	return out
}

func TestRangesAgainstSets(t *testing.T) {
	for seed := range uint64(counts(500, 20_000)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		random := func() (Ranges, map[int64]bool) {
			var rs []Range
			set := map[int64]bool{}
			for range rng.IntN(6) {
				r := Range{rng.Int64N(40), rng.Int64N(40)}
				rs = append(rs, r)
				for o := r.First; o < r.Next; o++ {
					set[o] = true
				}
			}
			return RangesOf(rs...), set
		}
		a, inA := random()
		b, inB := random()
		clip := Range{rng.Int64N(40), rng.Int64N(40)}
		for name, c := range map[string]struct {
			got  Ranges
			want func(o int64) bool
		}{
			"of":        {a, func(o int64) bool { return inA[o] }},
			"union":     {a.Union(b), func(o int64) bool { return inA[o] || inB[o] }},
			"intersect": {a.Intersect(b), func(o int64) bool { return inA[o] && inB[o] }},
			"minus":     {a.Minus(b), func(o int64) bool { return inA[o] && !inB[o] }},
			"clip":      {a.Clip(clip), func(o int64) bool { return inA[o] && clip.Contains(o) }},
		} {
			n := int64(0)
			for o := range int64(50) {
				if c.want(o) {
					n++
				}
				if c.got.Contains(o) != c.want(o) {
					t.Fatalf("seed %d: %s of %s, %s, %s is %s: wrong at %d", seed, name, a, b, clip, c.got, o)
				}
			}
			for i, r := range c.got {
				if r.Empty() || i > 0 && c.got[i-1].Next >= r.First {
					t.Fatalf("seed %d: %s gives %s, which is not canonical", seed, name, c.got)
				}
			}
			if c.got.Len() != n {
				t.Fatalf("seed %d: %s has %d offsets, want %d", seed, name, c.got.Len(), n)
			}
		}
		if a.ContainsAll(b) != (a.Union(b).String() == a.String()) {
			t.Fatalf("seed %d: %s contains all of %s: %v", seed, a, b, a.ContainsAll(b))
		}
	}
}
