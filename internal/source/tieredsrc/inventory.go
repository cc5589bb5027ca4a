package tieredsrc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"hindcast/internal/blob"
)

// The parts of a segment, by the ends of their keys.
const (
	partLog      = ".log"
	partManifest = ".rsm-manifest"            // Aiven
	partIndexes  = ".indexes"                 // Aiven: those below in one object
	partOffsets  = ".index"                   // Local
	partTxns     = ".txnindex"                // Local, only where there is an aborted transaction
	partEpochs   = ".leader_epoch_checkpoint" // Local
	partSnapshot = ".snapshot"                // Local, written last
	partTimes    = ".timeindex"               // Local, not read
)

// segment is what the store has of one.
type segment struct {
	layout    Layout
	partition int32
	base      int64
	id, stem  string // stem is the key without the part
	parts     map[string]blob.Info

	// What it says of itself.
	next         int64   // the offset after its last
	epochs       []Epoch // of the leaders that wrote it, ascending; the first begins at base or later
	maxTimestamp int64
	size         int64
	manifest     *manifest // Aiven
	broken       error     // why it cannot be read, though it is there
}

func (s *segment) objects() []Object {
	var out []Object
	for _, info := range s.parts {
		if p := strings.TrimPrefix(info.Key, s.stem); p != partTimes {
			out = append(out, Object{Key: info.Key, ETag: info.ETag, Size: info.Size})
		}
	}
	return out
}

// inventory finds the segments.
type inventory struct {
	store   blob.Store
	opts    Options
	topicID string
	ignored int
}

// take returns the described segments by partition. What is deleted meanwhile may be half gone: it looks again, once.
func (in *inventory) take(ctx context.Context) ([][]*segment, error) {
	found, again, err := in.look(ctx, false)
	if err == nil && again || errors.Is(err, ErrChanged) {
		found, _, err = in.look(ctx, true)
	}
	return found, err
}

func (in *inventory) look(ctx context.Context, last bool) (found [][]*segment, again bool, err error) {
	segments, err := in.segments(ctx)
	if err != nil {
		return nil, false, err
	}
	again = slices.ContainsFunc(segments, func(s *segment) bool { return s.broken != nil })
	if again && !last && in.opts.Objects == nil {
		return nil, true, nil
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(describeAtOnce)
	for _, s := range segments {
		g.Go(func() error { return s.describe(gctx, in.store, in.opts) })
	}
	if err := g.Wait(); err != nil {
		return nil, false, err
	}
	byPartition := map[int32][]*segment{}
	for _, s := range segments {
		if s.next > s.base { // else it has no offsets
			byPartition[s.partition] = append(byPartition[s.partition], s)
		}
	}
	return slices.Collect(maps.Values(byPartition)), false, nil
}

// describeAtOnce is how many segments are described side by side.
const describeAtOnce = 16

// segments lists those that a copy has completed.
func (in *inventory) segments(ctx context.Context) ([]*segment, error) {
	in.ignored = 0
	all := map[string]*segment{} // by stem
	ids := map[string]int{}
	err := in.each(ctx, func(key string, info blob.Info) error {
		n, ok := parseName(in.opts.Layout, key)
		if !ok {
			return in.stray(key, info)
		}
		if n.topic != in.opts.Topic {
			return nil
		}
		if in.opts.TopicID != "" && n.topicID != in.opts.TopicID {
			ids[n.topicID]++
			return nil
		}
		stem := strings.TrimSuffix(info.Key, n.part)
		s := all[stem]
		if s == nil {
			ids[n.topicID]++
			in.topicID = n.topicID
			s = &segment{
				layout: in.opts.Layout, partition: n.partition, base: n.base, id: n.id, stem: stem, parts: map[string]blob.Info{}, maxTimestamp: -1,
			}
			all[stem] = s
		}
		s.parts[n.part] = info
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := in.oneTopic(ids, len(all)); err != nil {
		return nil, err
	}
	var out []*segment
	for _, stem := range slices.Sorted(maps.Keys(all)) {
		s := all[stem]
		switch {
		case len(in.opts.Partitions) > 0 && !slices.Contains(in.opts.Partitions, s.partition):
		case s.complete():
			out = append(out, s)
		default:
			in.ignored += len(s.parts)
		}
	}
	return out, nil
}

// complete reports whether the segment was copied to its end, and has not been deleted since. One that should be there but is not whole is broken.
func (s *segment) complete() bool {
	if s.layout == Local {
		for _, p := range []string{partLog, partEpochs, partSnapshot} {
			if _, ok := s.parts[p]; !ok {
				return false
			}
		}
		return true
	}
	if _, ok := s.parts[partManifest]; !ok {
		return false
	}
	for _, p := range []string{partLog, partIndexes} {
		if _, ok := s.parts[p]; !ok {
			s.broken = fmt.Errorf("%s is there, but not %s, as while it is deleted: list again, or restore it: %w",
				s.stem+partManifest, s.stem+p, ErrChanged)
		}
	}
	return true
}

func (in *inventory) oneTopic(ids map[string]int, segments int) error {
	names := slices.Sorted(maps.Keys(ids))
	where := fmt.Sprintf("under %q", in.prefixes())
	switch {
	case in.opts.TopicID != "" && segments == 0 && len(ids) > 0:
		return fmt.Errorf("there is no topic %s with the id %s %s, only %s",
			in.opts.Topic, in.opts.TopicID, where, strings.Join(names, ", "))
	case segments == 0:
		return fmt.Errorf("there is no segment of the topic %s: is the prefix what the brokers have as key.prefix, to the letter, and was it always?",
			where)
	case in.opts.TopicID == "" && len(ids) > 1:
		return fmt.Errorf("there are several topics of that name, as after one was deleted and created again: say which by its id: %s",
			strings.Join(names, ", "))
	}
	return nil
}

// stray decides about an object that has no name of the layout, in a folder that may not be the topic's.
func (in *inventory) stray(key string, info blob.Info) error {
	dir, rest, _ := strings.Cut(key, "/")
	topic, _, ok := cutID(dir)
	if ok && in.opts.Layout == Local {
		topic, _, ok = cutLast(topic, "-")
	}
	if !ok || topic != in.opts.Topic {
		return nil
	}
	if base := path.Base(rest); info.Size == 0 && strings.HasSuffix(key, "/") || base[0] == '.' || base[0] == '_' {
		in.ignored++
		return nil
	}
	return fmt.Errorf("object %s lies among the topic's segments, but has no name of the layout %q: move it away", info.Key, in.opts.Layout)
}

func (in *inventory) prefixes() []string {
	if len(in.opts.Prefixes) == 0 {
		return []string{""}
	}
	return in.opts.Prefixes
}

// each calls f with all objects that may be the topic's, and their keys without the prefix.
func (in *inventory) each(ctx context.Context, f func(key string, info blob.Info) error) error {
	for _, prefix := range in.prefixes() {
		under := prefix + in.opts.Topic + "-"
		if in.opts.Objects != nil {
			for _, o := range in.opts.Objects {
				if strings.HasPrefix(o.Key, under) {
					if err := f(o.Key[len(prefix):], blob.Info{Key: o.Key, ETag: o.ETag, Size: o.Size}); err != nil {
						return err
					}
				}
			}
			continue
		}
		if in.opts.TopicID != "" && in.opts.Layout == Aiven && len(in.opts.Partitions) == 1 {
			under = fmt.Sprintf("%s%s/%d/", under, in.opts.TopicID, in.opts.Partitions[0])
		}
		for info, err := range blob.All(ctx, in.store, under) {
			if err != nil {
				return err
			}
			if err := f(info.Key[len(prefix):], info); err != nil {
				return err
			}
		}
	}
	return nil
}

// describe reads what the segment says of itself.
func (s *segment) describe(ctx context.Context, store blob.Store, opts Options) error {
	var err error
	if s.layout == Aiven {
		err = s.describeAiven(ctx, store, opts)
	} else {
		err = s.describeLocal(ctx, store)
	}
	if err != nil {
		return fmt.Errorf("segment %s: %w", s.stem, err)
	}
	return nil
}

// get reads length bytes of an object that was listed, from off on. They must lie within it.
func get(ctx context.Context, store blob.Store, info blob.Info, off, length int64) ([]byte, error) {
	if off < 0 || length < 0 || off > info.Size || length > info.Size-off {
		return nil, fmt.Errorf("bytes %d to %d of %s are needed, it has %d: it is cut off", off, off+length, info.Key, info.Size)
	}
	if length == 0 {
		return nil, nil
	}
	o, err := store.Get(ctx, info.Key, blob.GetOptions{Offset: off, Length: length, IfMatch: info.ETag})
	if err != nil {
		return nil, changed(err)
	}
	defer o.Body.Close()
	out := make([]byte, length)
	if _, err := io.ReadFull(o.Body, out); err != nil {
		return nil, fmt.Errorf("read %s at %d: %w", info.Key, off, err)
	}
	return out, nil
}

// whole reads an object of at most limit bytes.
func whole(ctx context.Context, store blob.Store, info blob.Info, limit int64) ([]byte, error) {
	if info.Size > limit {
		return nil, fmt.Errorf("%s has %d bytes: at most %d are read", info.Key, info.Size, limit)
	}
	return get(ctx, store, info, 0, info.Size)
}

// changed marks the errors of a store that mean that an object is no longer what was listed.
func changed(err error) error {
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrPrecondition) {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return err
}
