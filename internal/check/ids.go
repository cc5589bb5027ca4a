package check

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"hindcast/internal/partition"
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

// acrossShards looks for fingerprints that two shards of a scheme have: group by group, so that it holds some of them at a time.
func acrossShards(ctx context.Context, shards []ShardIDs, told map[transform.Conflict]bool, r *Result) (seen int64, err error) {
	var open []io.Closer
	defer func() {
		for _, c := range open {
			err = errors.Join(err, c.Close())
		}
	}()
	schemes := map[partition.Scheme][]*idStream{}
	var order []partition.Scheme
	for _, s := range shards {
		in, err := openIDs(ctx, s, len(shards))
		if err != nil {
			return 0, err
		}
		open = append(open, in.body)
		if schemes[s.Scheme] == nil {
			order = append(order, s.Scheme)
		}
		schemes[s.Scheme] = append(schemes[s.Scheme], in)
	}
	var met []meeting
	for _, scheme := range order {
		streams := schemes[scheme]
		var group idGroup
		for g := range transform.FingerprintGroups {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			if err := group.read(streams, g); err != nil {
				return 0, err
			}
			seen += int64(len(group.ids))
			group.meet(func(id uint64, a, b uint32) {
				if len(met) < maxMeetings {
					met = append(met, meeting{streams[a], streams[b], id})
				} else {
					r.Total++
				}
			})
		}
	}
	slices.SortStableFunc(met, func(a, b meeting) int { return cmp.Compare(a.fingerprint, b.fingerprint) })
	return seen, compare(ctx, met, told, r)
}

// GatherIDs writes all the fingerprints that shards left to dst, by group, as one shard leaves them. Shared says that two shards have one in common.
func GatherIDs(ctx context.Context, shards []ShardIDs, dst io.Writer) (shared bool, err error) {
	var streams []*idStream
	defer func() {
		for _, s := range streams {
			err = errors.Join(err, s.body.Close())
		}
	}()
	for _, s := range shards {
		in, err := openIDs(ctx, s, len(shards))
		if err != nil {
			return false, err
		}
		streams = append(streams, in)
	}
	var group idGroup
	var out []byte
	for g := range transform.FingerprintGroups {
		if err := cmp.Or(ctx.Err(), group.read(streams, g)); err != nil {
			return false, err
		}
		group.meet(func(uint64, uint32, uint32) { shared = true })
		out = out[:0]
		for _, id := range group.ids {
			out = binary.LittleEndian.AppendUint64(out, id)
		}
		if _, err := dst.Write(out); err != nil {
			return false, fmt.Errorf("write fingerprints: %w", err)
		}
	}
	return shared, nil
}

// openIDs opens what one of so many shards left.
func openIDs(ctx context.Context, s ShardIDs, shards int) (*idStream, error) {
	body, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	buffer := min(64<<10, max(64<<20/shards, 4<<10))
	return &idStream{ShardIDs: s, body: body, r: bufio.NewReaderSize(body, buffer)}, nil
}

// idGroup is a group of fingerprints of the shards of a scheme.
type idGroup struct {
	ids    []uint64
	shards []uint32 // whose they are
	index  []uint32 // open addressing: 1 + a place in ids, or 0
}

// read reads the streams to the group's end.
func (g *idGroup) read(streams []*idStream, group int) (err error) {
	g.ids, g.shards = g.ids[:0], g.shards[:0]
	for n, in := range streams {
		if g.ids, err = in.appendTo(g.ids, group); err != nil {
			return err
		}
		for len(g.shards) < len(g.ids) {
			g.shards = append(g.shards, uint32(n))
		}
	}
	return nil
}

// meet tells which ids a shard has after another one.
func (g *idGroup) meet(tell func(id uint64, before, shard uint32)) {
	size := 64
	for size < 2*len(g.ids) {
		size *= 2
	}
	g.index = slices.Grow(g.index[:0], size)[:size]
	clear(g.index)
	mask := uint64(size - 1)
	for i, id := range g.ids {
		at := id & mask
		for g.index[at] != 0 && g.ids[g.index[at]-1] != id {
			at = (at + 1) & mask
		}
		if before := g.index[at]; before != 0 && g.shards[before-1] != g.shards[i] {
			tell(id, g.shards[before-1], g.shards[i])
		}
		g.index[at] = uint32(i + 1)
	}
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
	body io.Closer
	r    *bufio.Reader
}

// appendTo appends the ids of a group. Groups are asked for in order.
func (s *idStream) appendTo(ids []uint64, group int) ([]uint64, error) {
	for {
		b, err := s.r.Peek(8)
		switch {
		case len(b) == 0 && errors.Is(err, io.EOF):
			return ids, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("event ids of shard %s: %w", s.Shard, io.ErrUnexpectedEOF)
		case err != nil:
			return nil, fmt.Errorf("event ids of shard %s: %w", s.Shard, err)
		}
		b, _ = s.r.Peek(s.r.Buffered()) // it is there
		n := 0
		for ; n+8 <= len(b); n += 8 {
			id := binary.LittleEndian.Uint64(b[n:])
			of := transform.FingerprintGroup(id)
			if of < group {
				return nil, fmt.Errorf("event ids of shard %s: they are not sorted by group", s.Shard)
			}
			if of > group {
				_, err := s.r.Discard(n)
				return ids, err
			}
			ids = append(ids, id)
		}
		if _, err := s.r.Discard(n); err != nil {
			return nil, err
		}
	}
}
