package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"hindcast/internal/spec"
	"hindcast/internal/unit"
)

// Format is the version of the plan's JSON.
const Format = 1

// Build decides what a run reads. Window is nil for a run over the whole log,
// which a job with a table cut by key bucket always is.
//
// Errors say what the user can do; a [GapError] and a [LatenessError] may come joined.
func Build(s *spec.Spec, w *spec.Window, inv Inventory, opts Options) (*Plan, error) {
	if err := checkWindow(s, w, inv); err != nil {
		return nil, err
	}
	logs, err := load(s, inv, opts.NoPrune && w != nil)
	if err != nil {
		return nil, err
	}
	p := &Plan{
		Format: Format, Code: opts.Code, SpecDigest: s.Digest(), Spec: s,
		Topic: inv.Topic, TopicID: inv.TopicID, AsOf: inv.AsOf, Window: w,
		ShardRows: cmp.Or(opts.ShardRows, DefaultShardRows), Merges: opts.Merges, NoPrune: opts.NoPrune, Ignored: inv.Ignored, AtLeastOnce: inv.AtLeastOnce, Listed: inv.Listed,
		Warnings: slices.Clone(inv.Notes),
	}
	if p.ShardRows < 0 {
		return nil, fmt.Errorf("shards of %d rows: there must be at least one", p.ShardRows)
	}
	accepted := acceptable(opts.AcceptGaps)
	var found []Gap
	late := &LatenessError{Lateness: s.Source.Event.Lateness, Ahead: s.Source.Event.Ahead}
	var gaps []Gap
	shown, by := shownLateness(logs, s.Source.Event.Lateness)
	var open []int32 // partitions whose later records might matter, with no tail to read them from
	for _, l := range logs {
		if len(l.segments) == 0 && l.broker == nil && l.stored == nil {
			g := Gap{Partition: l.partition, Offsets: Range{0, openEnd}, Unusable: l.unusableIn(Range{0, openEnd})}
			found, gaps = append(found, g), p.missing(g, accepted, gaps)
			continue
		}
		r := l.read(newReach(w, s.Source.Event, shown))
		if err := l.checkBroker(s, r); err != nil {
			return nil, err
		}
		part := Partition{Partition: l.partition, Tail: r.tail, Stored: r.stored, Empty: r.empty, Broker: l.broker}
		all := append(slices.Clone(r.tail), r.empty...)
		for _, g := range r.missing {
			before := len(gaps)
			found = append(found, g)
			// What is accepted without an end is not known to be there: it has no place in the account.
			if gaps = p.missing(g, accepted, gaps); len(gaps) == before && g.Offsets.Next != openEnd {
				part.Absent = part.Absent.Union(Ranges{g.Offsets})
			}
		}
		for i, kept := range r.kept {
			if len(kept) == 0 {
				continue
			}
			all = append(all, kept...)
			use := Use{Segment: l.segments[i]}
			if kept.Len() < use.Rows {
				use.Keep = kept
			}
			part.Segments = append(part.Segments, use)
		}
		part.Read = RangesOf(append(all, part.Absent...)...)
		p.Partitions = append(p.Partitions, part)
		if r.needs && l.broker == nil {
			open = append(open, l.partition)
		}
		late.Found = append(late.Found, r.late...)
		p.Warnings = append(p.Warnings, r.notes...)
	}
	for _, c := range late.Found {
		if c.Ahead {
			late.NeedAhead = max(late.NeedAhead, c.need(*w))
		} else {
			late.NeedLateness = max(late.NeedLateness, c.need(*w))
		}
	}
	if err := refusals(&GapError{Gaps: gaps, Unused: unused(opts.AcceptGaps, found), Found: found}, late); err != nil {
		return nil, err
	}
	if err := p.checkSlots(); err != nil {
		return nil, err
	}
	if shown > 0 && w != nil {
		p.Warnings = append(p.Warnings, fmt.Sprintf("lateness: %s is contradicted by segment %s, among others: its events are up to %s late; "+
			"so much is allowed for in what lies past the segments, but declare it", s.Source.Event.Lateness, by, roundUp(int64(shown))))
	}
	p.warn(open, inv)
	return p, nil
}

// missing records a gap that the user accepts, or else adds it to those that refuse the plan.
func (p *Plan) missing(g Gap, accepted map[int32]Ranges, gaps []Gap) []Gap {
	if accepted[g.Partition].ContainsAll(Ranges{g.Offsets}) {
		p.AcceptedGaps = append(p.AcceptedGaps, g)
		return gaps
	}
	return append(gaps, g)
}

func acceptable(gaps []Gap) map[int32]Ranges {
	out := map[int32]Ranges{}
	for _, g := range gaps {
		out[g.Partition] = out[g.Partition].Union(Ranges{g.Offsets})
	}
	return out
}

// unused returns the acceptances that do not name gaps that were found: those with offsets that are in none, and those with an open end
// that accept none.
func unused(accepted, found []Gap) []Gap {
	of := acceptable(found)
	var out []Gap
	for _, g := range accepted {
		used := of[g.Partition].ContainsAll(Ranges{g.Offsets})
		if g.Offsets.Next == openEnd {
			used = slices.ContainsFunc(found, func(f Gap) bool { return f.Partition == g.Partition && f.Offsets.First >= g.Offsets.First })
		}
		if !used {
			out = append(out, g)
		}
	}
	return out
}

func checkWindow(s *spec.Spec, w *spec.Window, inv Inventory) error {
	if inv.Topic != s.Source.Topic {
		return fmt.Errorf("the inventory is of topic %s, the job reads %s", inv.Topic, s.Source.Topic)
	}
	if w == nil {
		return nil
	}
	if s.WholeLog() {
		return errors.New("a table cut by key bucket is computed from the whole log: give no window")
	}
	if w.From >= w.To {
		return fmt.Errorf("the window %s is empty", w)
	}
	if inv.AsOf != 0 && w.To > inv.AsOf {
		return fmt.Errorf("the window %s ends after %s, the instant of the plan: its last events have not happened yet",
			w, spec.FormatInstant(inv.AsOf))
	}
	for _, scheme := range s.Schemes() {
		ok, err := scheme.Aligned(w.From, w.To)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("the window %s cuts a partition by %s", w, scheme)
		}
	}
	return nil
}

// load checks the inventory, and covers the log of each topic partition, ascending.
func load(s *spec.Spec, inv Inventory, noBounds bool) ([]*log, error) {
	logs := map[int32]*log{}
	of := func(partition int32) *log {
		if logs[partition] == nil {
			logs[partition] = &log{partition: partition}
		}
		return logs[partition]
	}
	segments := slices.Clone(inv.Segments)
	sortSegments(segments)
	keys := make(map[string]bool, len(segments))
	for _, seg := range segments {
		if keys[seg.Key] {
			return nil, fmt.Errorf("segment %s is listed twice", seg.Key)
		}
		keys[seg.Key] = true
		if seg.Captured {
			return nil, fmt.Errorf("segment %s: what a run captured is no part of a plan", seg.Key)
		}
		if seg.TopicID != "" && inv.TopicID != "" && seg.TopicID != inv.TopicID {
			return nil, fmt.Errorf("segment %s was copied of a topic %s with the id %s, but the brokers have one with the id %s: the topic was deleted and created again, "+
				"and its offsets are others: leave the tail out, or read segments of this topic", seg.Key, inv.Topic, seg.TopicID, inv.TopicID)
		}
		if seg.Quality == Unknown && !inv.AtLeastOnce {
			if seg.Partition < 0 || seg.Partition > maxPartition || seg.First < 0 || seg.Next <= seg.First {
				return nil, fmt.Errorf("segment %s: partition %d and the offsets %d to %d make no sense", seg.Key, seg.Partition, seg.First, seg.Next)
			}
			of(seg.Partition).unusable = append(of(seg.Partition).unusable, seg)
			continue
		}
		seg.normalize(noBounds)
		if err := seg.validate(); err != nil {
			return nil, err
		}
		if inv.AtLeastOnce && (seg.Quality != Unknown || seg.Partition != 0) {
			return nil, fmt.Errorf("segment %s: a log without offsets has one partition, and segments of which none is known", seg.Key)
		}
		of(seg.Partition).segments = append(of(seg.Partition).segments, seg)
	}
	if inv.AtLeastOnce && inv.HasTail {
		return nil, errors.New("segments without offsets cannot be joined to a tail: where they end in the log is not known")
	}
	if !inv.HasTail && len(inv.Tails) > 0 {
		return nil, errors.New("the inventory has offsets of brokers, but says that there is no tail")
	}
	for i, t := range inv.Tails {
		if t.Partition < 0 || t.Partition > maxPartition || t.Start < 0 || t.End < t.Start {
			return nil, fmt.Errorf("the brokers' offsets of partition %d, %d to %d, make no sense", t.Partition, t.Start, t.End)
		}
		if of(t.Partition).broker != nil {
			return nil, fmt.Errorf("the brokers' offsets of partition %d are listed twice", t.Partition)
		}
		of(t.Partition).broker = &inv.Tails[i]
	}
	for i := range inv.Stored {
		st := &inv.Stored[i]
		if err := st.validate(); err != nil {
			return nil, err
		}
		l := of(st.Partition)
		if l.stored != nil || len(l.segments) > 0 || len(l.unusable) > 0 {
			return nil, fmt.Errorf("what tiered storage has of partition %d is listed twice, or beside other segments", st.Partition)
		}
		if noBounds {
			st = st.unbounded()
		}
		l.stored = st
	}
	if len(logs) == 0 {
		return nil, fmt.Errorf("no segments of topic %s were found in %s: are topic and location right?", s.Source.Topic, s.Source.Segments.Located())
	}
	// Partitions are numbered from 0: one that is not there was lost, or never had a record.
	for id := range slices.Max(slices.Collect(maps.Keys(logs))) {
		of(id)
	}
	out := make([]*log, 0, len(logs))
	for _, id := range slices.Sorted(maps.Keys(logs)) {
		l := logs[id]
		if inv.HasTail && l.broker == nil {
			return nil, fmt.Errorf("there are segments of partition %d or higher, but the brokers have no partition %d: the topic was recreated, or is another",
				id, id)
		}
		l.cover()
		out = append(out, l)
	}
	return out, nil
}

// normalize gives row groups without rows their place, and drops bounds that are not to be trusted. It leaves the caller's groups alone.
func (s *Segment) normalize(noBounds bool) {
	s.RowGroups = slices.Clone(s.RowGroups)
	next := s.First
	for i := range s.RowGroups {
		g := &s.RowGroups[i]
		if g.Rows == 0 {
			g.First, g.Next = next, next
		}
		next = g.Next
		if noBounds {
			g.RecordTime, g.EventTime = nil, nil
		}
	}
}

// checkBroker refuses a tail that does not continue the segments.
func (l *log) checkBroker(s *spec.Spec, r reading) error {
	switch b := l.broker; {
	case b == nil && r.needs && s.Source.Tail != nil:
		return fmt.Errorf("partition %d: events of the window may lie past the last segment, and the brokers were not asked where the log ends", l.partition)
	case b != nil && b.End < l.end() && (r.needs || len(r.tail) > 0):
		return fmt.Errorf("partition %d: the brokers' log ends at offset %d, but segments go to %d: "+
			"the topic was recreated or truncated, a transaction is open, or these are segments of another topic", l.partition, b.End, l.end())
	}
	return nil
}

func (p *Plan) warn(open []int32, inv Inventory) {
	if p.AtLeastOnce {
		p.Warnings = append(p.Warnings, fmt.Sprintf("at-least-once: the segments have no offsets, so events are cut by %s and deduped by %s; "+
			"that none is missing, and that none is there twice under two ids, is not proven", p.Spec.Source.Event.Time, p.Spec.Source.Event.ID))
	}
	if len(open) > 0 && !p.AtLeastOnce {
		text := "the job has no tail: of partitions %v, what entered the log after the last segment is not seen"
		if p.Window != nil {
			text += ", though events of the window may be among it"
		}
		p.Warnings = append(p.Warnings, fmt.Sprintf(text, open))
	}
	p.warnOfSegments(inv)
	p.notesOfStored(inv)
	for _, g := range p.AcceptedGaps {
		p.Warnings = append(p.Warnings, "accepted: "+g.describe())
	}
}

// Segments smaller than tinySegment on average are warned about where there are manySegments: reading them costs requests, not bytes.
const (
	tinySegment  = 256 << 10
	manySegments = 100
)

// warnOfSegments says what is weak about the segments that are read: derived offsets, unknown record times, a size that makes requests.
func (p *Plan) warnOfSegments(inv Inventory) {
	derived, untimed, example := 0, 0, ""
	for i := range p.Partitions {
		for _, use := range p.Partitions[i].Segments {
			if use.Quality == Derived {
				derived++
			}
			if slices.ContainsFunc(use.RowGroups, func(g RowGroup) bool { return g.Rows > 0 && g.RecordTime == nil }) {
				if untimed++; example == "" {
					example = use.Key
				}
			}
		}
	}
	if derived > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the offsets of %d segments are derived: they have no column %s, and exactly the rows that their names leave room for",
			derived, p.Spec.Source.Segments.Columns.Offset))
	}
	if untimed > 0 && p.Window != nil && !p.NoPrune && !p.AtLeastOnce {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the record times of %d segments are not known, as of %s: nothing of them is left out by lateness, "+
			"and a lateness that is too small is not noticed there", untimed, example))
	}
	var size, rows int64
	for i := range inv.Segments {
		size, rows = size+int64(inv.Segments[i].Size), rows+inv.Segments[i].Rows
	}
	if n := int64(len(inv.Segments)); n >= manySegments && size/n < tinySegment {
		p.Warnings = append(p.Warnings, fmt.Sprintf("tiny segments: %d of %s and %d rows on average; each costs at least one request for its footer and one a shard for its rows: "+
			"have the exporter write larger ones, or compact them", n, unit.Bytes(size/n), rows/n))
	}
}

// checkSlots refuses a run over the whole log whose tables cut by time would have unknown partitions, or too many.
func (p *Plan) checkSlots() error {
	if p.Window != nil || !slices.ContainsFunc(p.Spec.Outputs, spec.Output.ByTime) {
		return nil
	}
	for _, part := range p.Partitions {
		for _, use := range part.Segments {
			for i, g := range use.RowGroups {
				if g.Rows > 0 && g.EventTime == nil && !g.Untimed {
					return fmt.Errorf("segment %s, row group %d: its footer does not tell which event times it holds, so that the partitions of a table cut by time are unknown: "+
						"write that table by a job of its own, which has a window", use.Key, i)
				}
			}
		}
	}
	// What the segments tell already is refused before the tail is captured.
	for _, scheme := range p.Spec.Schemes() {
		if scheme.ByTime() {
			if _, err := p.slots(scheme, p.pieces(nil)); err != nil {
				return err
			}
		}
	}
	return nil
}
