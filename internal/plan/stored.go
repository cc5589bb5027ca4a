package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hindcast/internal/unit"
)

// validate says what is wrong with the description of what tiered storage has.
func (s *Stored) validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("tiered storage, partition %d: %s", s.Partition, fmt.Sprintf(format, args...))
	}
	if s.Partition < 0 || s.Partition > maxPartition {
		return bad("there is no such partition")
	}
	if len(s.Segments) == 0 {
		return bad("it has no segment")
	}
	for i, r := range s.Offsets {
		if r.Empty() || r.First < 0 || i > 0 && r.First <= s.Offsets[i-1].Next {
			return bad("its offsets %s are not in order", s.Offsets)
		}
	}
	var has Ranges
	for i, g := range s.Segments {
		if g.Offsets.Empty() || g.Offsets.First < 0 || i > 0 && g.Offsets.First < s.Segments[i-1].Offsets.Next {
			return bad("segment %s: its offsets %s are not in order", g.Key, g.Offsets)
		}
		has = has.add(g.Offsets)
	}
	if !has.ContainsAll(s.Offsets) {
		return bad("its segments have %s, not all of %s", has, s.Offsets)
	}
	return nil
}

// unbounded returns a copy without bounds of record times.
func (s *Stored) unbounded() *Stored {
	c := *s
	c.Segments = slices.Clone(s.Segments)
	for i := range c.Segments {
		c.Segments[i].Latest = nil
	}
	return &c
}

// end is the offset after the last that it has.
func (s *Stored) end() int64 { return s.Offsets.Hull().Next }

// afterOld is what of a log that tiered storage has may hold events of the window: all past the first segments whose records are all too old for it.
// A segment's least record time is not known, so that nothing is left out at the end.
func (l *log) afterOld(r reach) hole {
	from := int64(0)
	for _, g := range l.stored.Segments {
		if r.window == nil || g.Latest == nil || *g.Latest > r.earliest {
			break
		}
		from = g.Offsets.Next
	}
	to := l.stored.end()
	if l.broker != nil {
		to = max(to, l.broker.End)
	} else if to == 0 { // it has nothing that is decided
		to = l.stored.Segments[len(l.stored.Segments)-1].Offsets.Next
	}
	return hole{Range: Range{from, to}, before: -1, after: -1}
}

// ranges describes offsets of it as what is read in one go each.
func (s *Stored) ranges(offsets Ranges) []StoredRange {
	var out []StoredRange
	for _, r := range offsets {
		u := StoredRange{Offsets: r, Epoch: s.epoch(r.Next - 1)}
		for _, g := range s.Segments {
			if part := g.Offsets.Clip(r); !part.Empty() {
				u.Segments++
				share := float64(part.Len()) / float64(g.Offsets.Len())
				u.Bytes += unit.Bytes(math.Round(share * float64(g.Bytes)))
			}
		}
		out = append(out, u)
	}
	return out
}

// epoch is that of the leader that took an offset in; -1 where it is not known.
func (s *Stored) epoch(offset int64) int32 {
	at := int32(-1)
	for _, e := range s.Epochs {
		if e.First <= offset {
			at = e.Epoch
		}
	}
	return at
}

// gap describes offsets that neither it has nor the brokers.
func (s *Stored) gap(missing Range) Gap {
	g := Gap{Partition: s.Partition, Offsets: missing}
	for _, seg := range s.Segments {
		if seg.Offsets.First < missing.First {
			g.After = seg.Key
		}
		if seg.Offsets.Next > missing.Next && g.Before == "" {
			g.Before = seg.Key
		}
	}
	var why []string
	for _, l := range s.Lacking {
		if !l.Offsets.Clip(missing).Empty() {
			why = append(why, l.Why)
		}
	}
	if len(why) > 0 {
		g.Unusable = "tiered storage does not give them: " + strings.Join(why, "; ")
	}
	return g
}

// notesOfStored says what of tiered storage is not read for reasons of its own.
func (p *Plan) notesOfStored(inv Inventory) {
	if inv.HasTail {
		return // the brokers go on from there, or it is a gap
	}
	for i := range inv.Stored {
		s := &inv.Stored[i]
		for _, l := range s.Lacking {
			if l.Offsets.First >= s.end() && s.end() > 0 {
				p.Warnings = append(p.Warnings, fmt.Sprintf("partition %d: what is read ends at offset %d, and tiered storage has segments up to %d: %s",
					s.Partition, s.end(), l.Offsets.Next, l.Why))
			}
		}
	}
}
