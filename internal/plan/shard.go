package plan

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"sort"

	"hindcast/internal/partition"
	"hindcast/internal/spec"
	"hindcast/internal/unit"
)

// maxSlots bounds how many partitions of a table a run replaces. A window says what is wanted: hours of twenty years. What a run over
// the whole log replaces follows from its events, of which one with a stray time would be enough for a table of mostly empty partitions.
func maxSlots(window bool, unit partition.Unit) int64 {
	switch {
	case window:
		return 200_000
	case unit == partition.Month:
		return 200 * 12
	case unit == partition.Day:
		return 10_000 // 27 years
	default:
		return 50_000 // hours of 5 years
	}
}

// Shards divides a run. Captured are the segments that the capture of the
// plan's tail made; they must tile it. The shards of each scheme own, together with
// what is skipped, every offset of the read range once.
func Shards(p *Plan, captured []Segment) ([]Shard, Skipped, error) {
	captured, err := p.checkCaptured(captured)
	if err != nil {
		return nil, nil, err
	}
	return p.shards(captured)
}

// piece is the rows of a row group that a run reads.
type piece struct {
	partition int32
	seg       *Segment
	group     int
	from      Ranges // the offsets that are read of the segment; those of the group are of this piece
	rows      int64
	whole     bool // every row of the group is kept
	event     *Span
	timed     bool
	// Of one scheme: the first and last slot that its events may lie in.
	first, last int
	owner       int // the shard that owns it
}

// span returns the group's span of offsets.
func (c *piece) span() Range {
	g := &c.seg.RowGroups[c.group]
	return Range{g.First, g.Next}
}

// addTo appends the piece's offsets to those of pieces before it.
func (c *piece) addTo(rs Ranges) Ranges {
	lo, hi := c.from.within(c.span())
	for _, r := range c.from[lo:hi] {
		rs = rs.add(r.Clip(c.span()))
	}
	return rs
}

func (c *piece) bytes() unit.Bytes { return c.seg.RowGroups[c.group].Bytes }

func (p *Plan) shards(captured []Segment) ([]Shard, Skipped, error) {
	pieces := p.pieces(captured)
	pieces, skipped := p.skip(pieces, captured)
	var shards []Shard
	for _, scheme := range p.Spec.Schemes() {
		var tables []string
		for _, o := range p.Spec.Outputs {
			if o.Scheme == scheme {
				tables = append(tables, o.Table)
			}
		}
		var of []Shard
		if scheme.ByTime() {
			slots, err := p.slots(scheme, pieces)
			if err != nil {
				return nil, nil, err
			}
			merges := !slices.ContainsFunc(tables, func(t string) bool { return !slices.Contains(p.Merges, t) })
			of = cut(pieces, slots, p.ShardRows, merges)
		} else {
			of = byPartition(p, pieces)
		}
		for _, s := range of {
			s.ID, s.Tables, s.Scheme = fmt.Sprintf("%05d", len(shards)), tables, scheme
			for i := range s.Parts {
				part := &s.Parts[i]
				part.ID, part.Tables, part.Scheme = fmt.Sprintf("%s-%d", s.ID, i), tables, scheme
			}
			shards = append(shards, s)
		}
	}
	return shards, skipped, nil
}

// checkCaptured sorts captured segments and proves that they tile the plan's tail.
func (p *Plan) checkCaptured(captured []Segment) ([]Segment, error) {
	captured = slices.Clone(captured)
	sortSegments(captured)
	rest := captured
	for _, part := range p.Partitions {
		for _, want := range part.Tail {
			for at := want.First; at < want.Next; {
				if len(rest) == 0 || rest[0].Partition != part.Partition || rest[0].First != at || rest[0].Next > want.Next || rest[0].Next <= at {
					return nil, fmt.Errorf("capture of partition %d, offsets %s: no segment begins at offset %d and ends before %d: the capture is not complete",
						part.Partition, want, at, want.Next)
				}
				at, rest = rest[0].Next, rest[1:]
			}
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("captured segment %s (partition %d, offsets %d-%d) is no part of the plan's tail",
			rest[0].Key, rest[0].Partition, rest[0].First, rest[0].Next)
	}
	for i := range captured {
		s := &captured[i]
		if !s.Captured {
			return nil, fmt.Errorf("segment %s was not captured by the run", s.Key)
		}
		s.normalize(p.NoPrune && p.Window != nil)
		if err := s.validate(); err != nil {
			return nil, err
		}
	}
	return captured, nil
}

// pieces lists what is read, by topic partition, then first offset.
func (p *Plan) pieces(captured []Segment) []piece {
	groups := 0
	for i := range captured {
		groups += len(captured[i].RowGroups)
	}
	for i := range p.Partitions {
		for j := range p.Partitions[i].Segments {
			groups += len(p.Partitions[i].Segments[j].RowGroups)
		}
	}
	out := make([]piece, 0, groups)
	for i := range p.Partitions {
		part := &p.Partitions[i]
		from := len(out)
		for j := range part.Segments {
			use := &part.Segments[j]
			out = use.pieces(use.Keep, out)
		}
		for ; len(captured) > 0 && captured[0].Partition == part.Partition; captured = captured[1:] {
			out = captured[0].pieces(nil, out)
		}
		slices.SortStableFunc(out[from:], func(a, b piece) int {
			return cmp.Or(cmp.Compare(a.seg.First, b.seg.First), cmp.Compare(a.seg.Next, b.seg.Next), cmp.Compare(a.seg.Key, b.seg.Key))
		})
	}
	return out
}

func (s *Segment) pieces(keep Ranges, out []piece) []piece {
	if keep == nil {
		keep = s.offsets()
	}
	for i, g := range s.RowGroups {
		if n := keep.count(Range{g.First, g.Next}); n > 0 {
			out = append(out, piece{partition: s.Partition, seg: s, group: i, from: keep, rows: n, whole: n == g.Rows, event: g.EventTime, timed: g.Timed && placeable(g.EventTime)})
		}
	}
	return out
}

// placeable reports whether a table can be cut by all times of a span.
func placeable(s *Span) bool {
	return s == nil || partition.Placeable(s.Min) && partition.Placeable(s.Max)
}

// skip takes out the pieces whose bounds prove that no row lies in the window, and lists all that no shard reads.
func (p *Plan) skip(pieces []piece, captured []Segment) ([]piece, Skipped) {
	var out Skipped
	read := pieces[:0] // never ahead of what is looked at
	for _, part := range p.Partitions {
		pruned := [2]Skip{} // of segments, of the tail; their offsets as they come
		for ; len(pieces) > 0 && pieces[0].partition == part.Partition; pieces = pieces[1:] {
			c := &pieces[0]
			outside := p.Window != nil && c.event != nil && c.timed && (c.event.Max < p.Window.From || c.event.Min >= p.Window.To)
			if !outside {
				read = append(read, *c)
				continue
			}
			of := &pruned[0]
			if c.seg.Captured {
				of = &pruned[1]
			}
			of.Offsets, of.Bytes = append(of.Offsets, c.from.Clip(c.span())...), of.Bytes+c.bytes()
		}
		for i, s := range pruned {
			if len(s.Offsets) > 0 {
				out = append(out, Skip{Partition: part.Partition, Captured: i == 1, Reason: Pruned, Offsets: RangesOf(s.Offsets...), Bytes: s.Bytes})
			}
		}
		var has []Range
		for ; len(captured) > 0 && captured[0].Partition == part.Partition; captured = captured[1:] {
			has = append(has, captured[0].offsets()...)
		}
		if empty := part.Tail.Minus(RangesOf(has...)); len(empty) > 0 {
			out = append(out, Skip{Partition: part.Partition, Captured: true, Reason: NoData, Offsets: empty})
		}
		if len(part.Empty) > 0 {
			out = append(out, Skip{Partition: part.Partition, Reason: NoData, Offsets: part.Empty})
		}
		if len(part.Absent) > 0 {
			out = append(out, Skip{Partition: part.Partition, Reason: Absent, Offsets: part.Absent})
		}
	}
	return read, out
}

// slots returns the partitions of a table that a run replaces: those of the window; without one, those from the first event to the last.
func (p *Plan) slots(scheme partition.Scheme, pieces []piece) ([]partition.Slot, error) {
	w := p.Window
	var first, last *piece
	if w == nil {
		for i := range pieces {
			c := &pieces[i]
			if c.event == nil || c.event.Min == c.event.Max && !placeable(c.event) {
				continue // none of its rows has a time that a table can be cut by
			}
			if first == nil || c.event.Min < first.event.Min {
				first = c
			}
			if last == nil || c.event.Max > last.event.Max {
				last = c
			}
		}
		if first == nil {
			return nil, nil
		}
		w = &spec.Window{From: first.event.Min, To: last.event.Max + 1}
	}
	// A cheap guess first: a stray time may span millions of hours.
	length := map[partition.Unit]spec.Duration{partition.Hour: spec.Hour, partition.Day: spec.Day, partition.Month: 28 * spec.Day}[scheme.Unit]
	var slots []partition.Slot
	most := maxSlots(p.Window != nil, scheme.Unit)
	what := "the window"
	if p.Window == nil {
		what = "the time from the first event to the last,"
	}
	tooMany := fmt.Errorf("%s %s has more than %d partitions by %s", what, w, most, scheme.Unit)
	err := tooMany
	if w.To/int64(length)-w.From/int64(length) <= most+most/8 {
		if slots, err = scheme.Slots(w.From, w.To); err == nil && int64(len(slots)) > most {
			slots, err = nil, tooMany
		}
	}
	if err != nil && first != nil {
		err = fmt.Errorf("%w: the first event is in segment %s, offsets %s, the last in %s, offsets %s; if its time is a stray one, "+
			"write the tables cut by time by a job of their own, which has a window", err, first.seg.Key, first.span(), last.seg.Key, last.span())
	}
	return slots, err
}

// cut groups contiguous slots into shards of about rows rows. A shard reads each piece that may hold events of its slots. One of a single slot that has very many is
// divided; merges says that all its tables can be merged of parts.
func cut(pieces []piece, slots []partition.Slot, rows int64, merges bool) []Shard {
	if len(slots) == 0 {
		if len(pieces) == 0 {
			return nil
		}
		return []Shard{newShard(nil, nil, pieces, func(*piece) bool { return true })}
	}
	// A shard's size is what its slots hold, not what is read for them: the more of a piece's slots a shard has, the fewer shards read the piece.
	holds := newDensity(slots)
	for i := range pieces {
		c := &pieces[i]
		c.first, c.last = slotsOf(c.event, slots)
		holds.add(c)
	}
	var starts []int // the first slot of each shard
	var size int64
	for i, n := range holds.rows() {
		if size += n; i == 0 || size > rows {
			starts, size = append(starts, i), n
		}
	}
	shardOf := func(slot int) int {
		return sort.Search(len(starts), func(i int) bool { return starts[i] > slot }) - 1
	}
	read := make([]int64, len(starts)) // rows, by shard
	for _, c := range pieces {
		for i, last := shardOf(c.first), shardOf(c.last); i <= last; i++ {
			read[i] += c.rows
		}
	}
	shards := make([][]piece, len(starts))
	for _, c := range pieces {
		first, last := shardOf(c.first), shardOf(c.last)
		// Whoever owns a piece reads more of it than the others who read it: so it is the one that reads least.
		c.owner = first
		for i := first; i <= last; i++ {
			if read[i] < read[c.owner] {
				c.owner = i
			}
		}
		for i := first; i <= last; i++ {
			shards[i] = append(shards[i], c)
		}
	}
	out := make([]Shard, len(starts))
	for i, start := range starts {
		next := len(slots)
		if i+1 < len(starts) {
			next = starts[i+1]
		}
		owned := func(c *piece) bool { return c.owner == i }
		out[i] = newShard(slots[start:next], nil, shards[i], owned)
		if next == start+1 {
			out[i].Parts = divide(&out[i], shards[i], rows, merges, owned)
		}
	}
	return out
}

// divide divides a shard of one slot among workers, where there is enough for them. Slices read each of its rows once. Where tables do not merge it is the keys that
// are divided; each part reads all of the rows, so those that other slots may need do not count as a reason: others read them, too.
func divide(s *Shard, pieces []piece, rows int64, merges bool, owned func(*piece) bool) []Shard {
	var much int64
	for i := range pieces {
		if c := &pieces[i]; merges || c.first == c.last {
			much += c.rows
		}
	}
	parts := int(min(much/rows/partShards, 1<<16))
	if parts < 2 {
		return nil
	}
	if !merges {
		out := make([]Shard, min(parts, MaxReadings))
		for i := range out {
			own := owned
			if i > 0 {
				own = func(*piece) bool { return false }
			}
			out[i] = newShard(s.Slots, nil, pieces, own)
			out[i].Keys = Share{i, len(out)}
		}
		return out
	}
	var out []Shard
	for _, some := range stretches(pieces, s.Rows/int64(parts)) {
		part := newShard(s.Slots, nil, some, owned)
		part.Slice = true
		out = append(out, part)
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// stretches divides pieces into those of stretches of the log that have about so many rows. Pieces of interleaved segments stay together.
func stretches(pieces []piece, rows int64) [][]piece {
	order := make([]int, len(pieces))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &pieces[i], &pieces[j]
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.span().First, b.span().First))
	})
	of := make([]int, len(pieces)) // the stretch of each
	stretch, size, end := 0, int64(0), int64(0)
	for n, i := range order {
		c := &pieces[i]
		other := n > 0 && pieces[order[n-1]].partition != c.partition
		if size >= rows && (other || c.span().First >= end) {
			stretch, size = stretch+1, 0
		}
		if other {
			end = 0
		}
		of[i], size, end = stretch, size+c.rows, max(end, c.span().Next)
	}
	out := make([][]piece, stretch+1)
	for i, c := range pieces { // as they come: newShard wants those of a segment together
		out[of[i]] = append(out[of[i]], c)
	}
	return out
}

// density estimates how many rows lie in each slot: those of a piece are taken to be spread evenly over its event times.
type density struct {
	slots []partition.Slot
	edges []int64 // by slot, of pieces that begin or end in it
	steps []int64 // by slot, how many more are within pieces than in the slot before
}

func newDensity(slots []partition.Slot) *density {
	return &density{slots, make([]int64, len(slots)), make([]int64, len(slots))}
}

func (d *density) add(c *piece) {
	first, last := c.first, c.last
	at := Span{d.slots[first].From, d.slots[last].To - 1}
	if c.event != nil && placeable(c.event) {
		at = *c.event
	}
	// in is the number of the piece's rows that lie in [from, to).
	in := func(from, to int64) int64 {
		from, to = max(from, at.Min), min(to, at.Max+1)
		if from >= to {
			return 0
		}
		hi, lo := bits.Mul64(uint64(c.rows), uint64(to-from))
		n, _ := bits.Div64(hi, lo, uint64(at.Max-at.Min)+1)
		return int64(n)
	}
	d.edges[first] += in(d.slots[first].From, d.slots[first].To)
	if first == last {
		return
	}
	d.edges[last] += in(d.slots[last].From, d.slots[last].To)
	if within := int64(last - first - 1); within > 0 {
		each := in(d.slots[first].To, d.slots[last].From) / within
		d.steps[first+1] += each
		d.steps[last] -= each
	}
}

func (d *density) rows() []int64 {
	out, within := make([]int64, len(d.slots)), int64(0)
	for i := range out {
		within += d.steps[i]
		out[i] = d.edges[i] + within
	}
	return out
}

// slotsOf returns the first and the last slot that events of such bounds may lie in. Where there is
// none, rows without a time have nevertheless to be read by someone: that is the first slot's shard.
func slotsOf(event *Span, slots []partition.Slot) (first, last int) {
	if event == nil {
		return 0, len(slots) - 1
	}
	first = sort.Search(len(slots), func(i int) bool { return slots[i].To > event.Min })
	last = sort.Search(len(slots), func(i int) bool { return slots[i].From > event.Max }) - 1
	if first > last {
		return 0, 0
	}
	return first, last
}

// byPartition makes one shard of each topic partition.
func byPartition(p *Plan, pieces []piece) []Shard {
	var out []Shard
	for i := range p.Partitions {
		id := p.Partitions[i].Partition
		n := sort.Search(len(pieces), func(i int) bool { return pieces[i].partition > id })
		out = append(out, newShard(nil, &id, pieces[:n], func(*piece) bool { return true }))
		pieces = pieces[n:]
	}
	return out
}

// newShard makes a shard that reads pieces, which are in order. It owns those that owned says, each of which no other shard of its scheme owns.
func newShard(slots []partition.Slot, topicPartition *int32, pieces []piece, owned func(*piece) bool) Shard {
	s := Shard{Slots: slots, TopicPartition: topicPartition, Inputs: []Input{}}
	for len(pieces) > 0 {
		seg := pieces[0].seg
		in := Input{Partition: seg.Partition, Segment: seg.Key, ETag: seg.ETag, Size: seg.Size, Captured: seg.Captured}
		if seg.Quality != Exact {
			in.FirstOffset = &seg.First
		}
		whole := true
		var keep Ranges
		for ; len(pieces) > 0 && pieces[0].seg == seg; pieces = pieces[1:] {
			c := &pieces[0]
			in.RowGroups = append(in.RowGroups, c.group)
			in.Rows += c.rows
			keep = c.addTo(keep)
			whole = whole && c.whole
			if owned(c) {
				in.Owned = c.addTo(in.Owned)
			}
			s.Bytes += c.bytes()
		}
		if !whole {
			in.Keep = keep
		}
		s.Rows += in.Rows
		s.Inputs = append(s.Inputs, in)
	}
	return s
}

// Owned returns, by topic partition, the offsets that the shard accounts for; see [Input].
func (s *Shard) Owned() map[int32]Ranges {
	out := map[int32]Ranges{}
	for _, in := range s.Inputs {
		out[in.Partition] = out[in.Partition].Union(in.Owned)
	}
	return out
}

// Offsets returns those of the read range that lie in segments of the source, and those that come from the tail.
func (p *Partition) Offsets() (segments, tail Ranges) {
	return p.Read.Minus(p.Tail).Minus(p.Absent).Minus(p.Empty), p.Tail
}
