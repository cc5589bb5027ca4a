package tieredsrc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// parseCheckpoint reads a leader epoch checkpoint: lines of text, the first 0, the second the number of the others, each with
// an epoch and the offset that it starts at.
func parseCheckpoint(raw []byte) ([]Epoch, error) {
	text, whole := strings.CutSuffix(string(raw), "\n")
	lines := strings.Split(text, "\n")
	if len(lines) < 2 || lines[0] != "0" {
		return nil, errors.New("the leader epoch checkpoint has not the version 0")
	}
	if !whole {
		return nil, errors.New("the leader epoch checkpoint does not end with a line: it is cut off")
	}
	if n, err := strconv.Atoi(lines[1]); err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("the leader epoch checkpoint has %d entries and should have %q: it is cut off", len(lines)-2, lines[1])
	}
	out := make([]Epoch, 0, len(lines)-2)
	for _, line := range lines[2:] {
		e, at, _ := strings.Cut(line, " ")
		epoch, ok := number(e, math.MaxInt32)
		first, ok2 := number(at, math.MaxInt64)
		if !ok || !ok2 {
			return nil, fmt.Errorf("the leader epoch checkpoint has a line %q: want an epoch and an offset", line)
		}
		out = append(out, Epoch{Epoch: int32(epoch), First: first})
	}
	return out, nil
}

// within returns the epochs that offsets of [base, next) have: those without one are left out.
func within(list []Epoch, base, next int64) ([]Epoch, error) {
	var out []Epoch
	for i, e := range list {
		end := next
		if i+1 < len(list) {
			after := list[i+1]
			if after.Epoch <= e.Epoch || after.First < e.First {
				return nil, fmt.Errorf("leader epoch %d starts at offset %d, and epoch %d at %d: they do not ascend",
					e.Epoch, e.First, after.Epoch, after.First)
			}
			end = min(next, after.First)
		}
		if first := max(e.First, base); first < end {
			out = append(out, Epoch{Epoch: e.Epoch, First: first})
		}
	}
	if len(out) == 0 && base < next {
		return nil, fmt.Errorf("no leader epoch is known of the offsets %d-%d", base, next)
	}
	return out, nil
}

// epochAt returns the epoch of an offset that is not before the first.
func epochAt(list []Epoch, offset int64) int32 {
	i, found := slices.BinarySearchFunc(list, offset, func(e Epoch, o int64) int { return cmp.Compare(e.First, o) })
	if !found {
		i--
	}
	return list[i].Epoch
}

// common returns the offsets [first, next) of a segment whose records are the lineage's: from where the log started up to
// where its epochs leave the lineage.
func (s *segment) common(lineage []Epoch) (first, next int64) {
	first, next = -1, -1
	for i, own := range s.epochs {
		end := s.next
		if i+1 < len(s.epochs) {
			end = s.epochs[i+1].First
		}
		at := slices.IndexFunc(lineage, func(e Epoch) bool { return e.Epoch == own.Epoch })
		if at < 0 {
			if first < 0 {
				continue // from before the log's start, or stale
			}
			break
		}
		l, lend := lineage[at].First, int64(math.MaxInt64)
		if at+1 < len(lineage) {
			lend = lineage[at+1].First
		}
		// The lineage's first epoch is cut at the log's start; any other starts where it starts.
		if l > own.First && at > 0 {
			break
		}
		from, to := max(own.First, l), min(end, lend)
		if from >= to {
			if first < 0 {
				continue
			}
			break
		}
		if first < 0 {
			first = from
		} else if from != next {
			break
		}
		next = to
		if to < end {
			break
		}
	}
	return first, next
}

// piece is what is read of a segment.
type piece struct {
	seg         *segment
	first, next int64
}

// run is a range without a hole.
type run struct {
	pieces      []piece
	first, next int64
	decided     int64 // where what the segments decide ends
	open        string
}

// arrange decides which offsets of a partition are read from which segment.
func (l *Log) arrange(ctx context.Context, segments []*segment) (*Partition, error) {
	p := &Partition{Partition: segments[0].partition}
	slices.SortFunc(segments, func(a, b *segment) int { return cmp.Or(cmp.Compare(a.base, b.base), strings.Compare(a.stem, b.stem)) })
	sound := map[bool]int{true: 1}
	newest := slices.MaxFunc(segments, func(a, b *segment) int {
		return cmp.Or(cmp.Compare(a.epochs[len(a.epochs)-1].Epoch, b.epochs[len(b.epochs)-1].Epoch), cmp.Compare(a.next, b.next),
			cmp.Compare(sound[a.broken == nil], sound[b.broken == nil]))
	})
	if newest.broken != nil {
		return nil, fmt.Errorf("the newest segment alone says which records are the log's: %w", newest.broken)
	}
	raw, err := newest.index(ctx, l.store, indexEpochs)
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", newest.stem, err)
	}
	history, err := parseCheckpoint(raw)
	if err == nil {
		p.Epochs, err = within(history, 0, newest.next)
	}
	if err == nil && !slices.Equal(newest.epochs, last(p.Epochs, newest)) {
		err = fmt.Errorf("its leader epochs are %v by its manifest and %v by its index", newest.epochs, last(p.Epochs, newest))
	}
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", newest.stem, err)
	}
	p.lineage = newest

	p.runs = sweep(segments, p.Epochs, &p.Stale)
	end := int64(-1)
	for i := range p.runs {
		r := &p.runs[i]
		if end >= 0 {
			p.Gaps = append(p.Gaps, Gap{Range{end, r.first}, why(segments, p.Epochs, end, r.first)})
		}
		end = r.next
		if err := l.decide(ctx, r); err != nil {
			return nil, err
		}
		if r.decided > r.first {
			p.Ranges = append(p.Ranges, Range{r.first, r.decided})
		}
		if r.decided < r.next {
			p.Gaps = append(p.Gaps, Gap{Range{r.decided, r.next}, r.open})
		}
		for _, piece := range r.pieces {
			s := piece.seg
			log := s.parts[partLog]
			p.Segments = append(p.Segments, Segment{
				Log: Object{log.Key, log.ETag, log.Size}, Range: Range{piece.first, piece.next}, Whole: Range{s.base, s.next},
				MaxTimestamp: s.maxTimestamp, Size: s.size,
			})
		}
	}
	return p, nil
}

// last is the part of a lineage that lies within a segment.
func last(lineage []Epoch, s *segment) []Epoch {
	out, err := within(lineage, max(s.base, s.epochs[0].First), s.next)
	if err != nil {
		return nil
	}
	return out
}

// sweep covers the offsets with the segments' good parts, each from the one that reaches farthest.
func sweep(segments []*segment, lineage []Epoch, stale *[]string) []run {
	var good []piece
	for _, s := range segments {
		first, next := s.common(lineage)
		if next < s.next && s.next > lineage[0].First { // else it is what a deletion left
			*stale = append(*stale, s.stem)
		}
		if first >= 0 && s.broken == nil {
			good = append(good, piece{s, first, next})
		}
	}
	slices.SortStableFunc(good, func(a, b piece) int { return cmp.Compare(a.first, b.first) })
	var runs []run
	cursor := int64(-1)
	for i := 0; i < len(good); {
		if cursor < good[i].first {
			cursor = good[i].first
			runs = append(runs, run{first: cursor})
		}
		best := -1
		for ; i < len(good) && good[i].first <= cursor; i++ {
			if good[i].next > cursor && (best < 0 || good[i].next > good[best].next) {
				best = i
			}
		}
		if best < 0 {
			continue // they lie within what is covered
		}
		r := &runs[len(runs)-1]
		r.pieces = append(r.pieces, piece{good[best].seg, cursor, good[best].next})
		cursor = good[best].next
		r.next = cursor
	}
	return runs
}

// why says why no segment gives the offsets.
func why(segments []*segment, lineage []Epoch, first, next int64) string {
	text := "no segment has them"
	for _, s := range segments {
		if s.base >= next || s.next <= first {
			continue
		}
		if s.broken != nil {
			return s.broken.Error()
		}
		if _, good := s.common(lineage); good <= first {
			text = fmt.Sprintf("only %s has them, whose records there are not the log's any more (an unclean leader election)", s.stem)
		}
	}
	return text
}
