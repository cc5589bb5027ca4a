package check

import (
	"bufio"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"hindcast/internal/transform"
)

// ids asks that no event id came with two contents: within a shard, where both contents were seen, or in two
// shards of one scheme. Fingerprints tell which events of two shards to look at; those are read again.
func ids(ctx context.Context, e *evidence) (Result, error) {
	r := Result{Status: OK, Total: e.Conflicts}
	for _, c := range e.FirstConflicts[:min(len(e.FirstConflicts), MaxFindings)] {
		r.Findings = append(r.Findings, describeConflict(c))
	}
	told := map[transform.Conflict]bool{} // once, though shards of several schemes have it
	for _, c := range e.FirstConflicts {
		told[c] = true
	}
	seen, err := acrossShards(ctx, e.IDs, told, &r)
	if err != nil {
		return Result{}, err
	}
	r.Figures = map[string]int64{"compared": seen, "conflicts": r.Total}
	if r.Total == 0 {
		r.Summary = "No event id came with two contents."
		return r, nil
	}
	r.Status = Fail
	r.Summary = fmt.Sprintf("%s event ids came with two contents: which is right cannot be known.", count(r.Total))
	r.Do = "Find out what writes an id twice. If an event may be written again with changes, name another column as the event's id."
	return r, nil
}

func describeConflict(c transform.Conflict) string {
	differs := ""
	if c.Column != "" {
		differs = "; they differ in " + c.Column
	}
	return fmt.Sprintf("id %q is at %s and, with other contents, at %s%s", c.ID, c.First, c.Second, differs)
}

// meeting is a fingerprint that two shards of a scheme have.
type meeting struct {
	a, b        *idStream
	fingerprint uint64
}

// maxMeetings bounds how many are looked at. Ids of which more come twice are no ids: the rest counts as found.
const maxMeetings = 1 << 20

// acrossShards merges the shards' sorted ids, scheme by scheme.
func acrossShards(ctx context.Context, shards []ShardIDs, told map[transform.Conflict]bool, r *Result) (seen int64, err error) {
	var open []io.Closer
	defer func() {
		for _, c := range open {
			err = errors.Join(err, c.Close())
		}
	}()
	var h idHeap
	for _, s := range shards {
		body, err := s.Open(ctx)
		if err != nil {
			return 0, err
		}
		open = append(open, body)
		in := &idStream{ShardIDs: s, name: s.Scheme.String() + " " + s.Shard, r: bufio.NewReaderSize(body, 64<<10)}
		more, err := in.next()
		if err != nil {
			return 0, err
		}
		if more {
			h = append(h, in)
		}
	}
	heap.Init(&h)
	var met []meeting
	var last *idStream // the shard that had the id before
	var lastID uint64
	for len(h) > 0 {
		in := h[0]
		if seen++; seen%(1<<16) == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if last != nil && in != last && in.id == lastID && in.Scheme == last.Scheme {
			if len(met) < maxMeetings {
				met = append(met, meeting{last, in, in.id})
			} else {
				r.Total++
			}
		}
		last, lastID = in, in.id
		more, err := in.next()
		if err != nil {
			return 0, err
		}
		if more {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return seen, compare(ctx, met, told, r)
}

// compare looks at the events that the meetings are of, and tells those that conflict, but for those that were told.
func compare(ctx context.Context, met []meeting, told map[transform.Conflict]bool, r *Result) error {
	wanted := map[*idStream][]uint64{}
	for _, m := range met {
		wanted[m.a] = append(wanted[m.a], m.fingerprint)
		wanted[m.b] = append(wanted[m.b], m.fingerprint)
	}
	sightings := map[*idStream]map[uint64][]transform.Sighting{}
	for in, fingerprints := range wanted {
		found, err := in.Locate(ctx, fingerprints)
		if err != nil {
			return fmt.Errorf("look for event ids in shard %s: %w", in.Shard, err)
		}
		by := map[uint64][]transform.Sighting{}
		for _, s := range found {
			by[s.Fingerprint] = append(by[s.Fingerprint], s)
		}
		sightings[in] = by
	}
	for _, m := range met {
		for _, a := range sightings[m.a][m.fingerprint] {
			for _, b := range sightings[m.b][m.fingerprint] {
				if c, ok := a.Conflict(b); ok && !told[c] {
					told[c] = true
					r.find("%s", describeConflict(c))
				}
			}
		}
	}
	return nil
}

type idStream struct {
	ShardIDs
	name string // of its scheme, then its shard
	r    *bufio.Reader
	id   uint64
}

func (s *idStream) next() (more bool, err error) {
	var b [8]byte
	if _, err := io.ReadFull(s.r, b[:]); err == io.EOF {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("event ids of shard %s: %w", s.Shard, err)
	}
	id := binary.LittleEndian.Uint64(b[:])
	if id < s.id {
		return false, fmt.Errorf("event ids of shard %s: they are not sorted", s.Shard)
	}
	s.id = id
	return true, nil
}

// idHeap orders streams by scheme within equal ids, so that those of one scheme are neighbours, and then by shard.
type idHeap []*idStream

func (h idHeap) Len() int { return len(h) }

func (h idHeap) Less(i, j int) bool {
	if h[i].id != h[j].id {
		return h[i].id < h[j].id
	}
	return h[i].name < h[j].name
}

func (h idHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *idHeap) Push(x any) { *h = append(*h, x.(*idStream)) }

// Pop implements heap.Interface.
func (h *idHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
