package step

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/blob"
	"hindcast/internal/plan"
	"hindcast/internal/source/tailsrc"
	"hindcast/internal/source/tieredsrc"
	"hindcast/internal/spec"
	"hindcast/internal/unit"
)

// tiered lists what tiered storage has of a job's topic, and adds to cost what that takes. Opts says what of it; the rest of the options is the spec's.
func (e *Env) tiered(ctx context.Context, src spec.Source, opts tieredsrc.Options, cost *plan.Cost) (*tieredsrc.Log, error) {
	t := src.Segments.Tiered
	location, prefixes := t.Store()
	opened, err := e.Open(ctx, e.Locate(location))
	if err != nil {
		return nil, fmt.Errorf("open tiered storage: %w", err)
	}
	store := blob.Count(opened)
	defer func() {
		cost.Requests, cost.Bytes = cost.Requests+store.Requests(), cost.Bytes+unit.Bytes(store.Bytes())
	}()
	opts.Topic, opts.Layout, opts.Prefixes = src.Topic, tieredsrc.Layout(t.Layout), prefixes
	if opts.Keys, err = e.tieredKeys(t); err != nil {
		return nil, err
	}
	return tieredsrc.List(ctx, store, opts)
}

// tieredKeys reads the keys' files, whose contents go nowhere else.
func (e *Env) tieredKeys(t *spec.Tiered) (map[string]*rsa.PrivateKey, error) {
	keys := map[string]*rsa.PrivateKey{}
	for _, id := range slices.Sorted(maps.Keys(t.Keys)) {
		bad := func(err error) (map[string]*rsa.PrivateKey, error) {
			return nil, &Error{Invalid, fmt.Errorf("source.segments.key.%s: %w", id, err)}
		}
		file, err := spec.Expand(t.Keys[id], e.lookupEnv)
		if err != nil {
			return bad(err)
		}
		text, err := os.ReadFile(e.Locate(file))
		if err != nil {
			return bad(err)
		}
		if keys[id], err = tieredsrc.ParseKey(text); err != nil {
			return bad(fmt.Errorf("%s: %w", file, err))
		}
	}
	return keys, nil
}

// stored adds what tiered storage has to an inventory, where the job reads that; else it returns nil. The brokers have been asked before: the topic
// is theirs, where there are several of the name.
func (e *Env) stored(ctx context.Context, src spec.Source, inv *plan.Inventory) (*tieredsrc.Log, error) {
	if src.Segments.Tiered == nil {
		return nil, nil //nolint:nilnil // the doc says what nil is
	}
	log, err := e.tiered(ctx, src, tieredsrc.Options{TopicID: inv.TopicID}, &inv.Listed)
	if named, ok := errors.AsType[*Error](err); ok {
		return nil, named // of a key
	}
	if err != nil {
		return nil, refusedUnlessTransient(err)
	}
	if !inv.HasTail {
		inv.TopicID = log.TopicID
	}
	inv.Ignored += log.Ignored
	for _, p := range log.Partitions {
		if len(p.Segments) == 0 {
			continue // all that there is of it is stale
		}
		s := plan.Stored{Partition: p.Partition}
		var ranges []plan.Range
		for _, r := range p.Ranges {
			ranges = append(ranges, plan.Range(r))
		}
		s.Offsets = plan.RangesOf(ranges...)
		for _, seg := range p.Segments {
			out := plan.StoredSegment{Key: seg.Log.Key, Offsets: plan.Range(seg.Range), Bytes: unit.Bytes(seg.Size)}
			if at, ok := plan.MillisTime(seg.MaxTimestamp); ok {
				out.Latest = &at
			}
			s.Segments = append(s.Segments, out)
		}
		for _, g := range p.Gaps {
			s.Lacking = append(s.Lacking, plan.Lack{Offsets: plan.Range(g.Range), Why: g.Why})
		}
		for _, ep := range p.Epochs {
			s.Epochs = append(s.Epochs, plan.Epoch(ep))
		}
		inv.Stored = append(inv.Stored, s)
		if n := len(p.Stale); n > 0 {
			inv.Notes = append(inv.Notes, fmt.Sprintf("partition %d: %d tiered segments are not read, or in part, since the log has other records there by now "+
				"(an unclean leader election), as %s", p.Partition, n, p.Stale[0]))
		}
	}
	return log, nil
}

// pinStored writes into a plan which objects of tiered storage are read, and asks the brokers whether they continue what these hold.
func (e *Env) pinStored(ctx context.Context, src spec.Source, log *tieredsrc.Log, p *plan.Plan) error {
	if log == nil {
		return nil
	}
	for i := range p.Partitions {
		part := &p.Partitions[i]
		for j := range part.Stored {
			r := &part.Stored[j]
			r.Objects = []plan.StoredObject{}
			for _, o := range log.Find(part.Partition).Objects(r.Offsets.First, r.Offsets.Next) {
				r.Objects = append(r.Objects, plan.StoredObject{Key: o.Key, ETag: o.ETag, Size: unit.Bytes(o.Size)})
			}
		}
		if err := e.continues(ctx, src, p, part); err != nil {
			if errors.Is(err, tailsrc.ErrChanged) {
				return &Error{PlanRefused, fmt.Errorf("%w; plan again once the new leader has copied its segments, which say what the log is", err)}
			}
			return refusedUnlessTransient(err)
		}
	}
	return nil
}

// continues asks the brokers whether their log is the one of which tiered storage has the offsets that a plan reads there.
func (e *Env) continues(ctx context.Context, src spec.Source, p *plan.Plan, part *plan.Partition) error {
	if src.Tail == nil || len(part.Stored) == 0 {
		return nil
	}
	last := part.Stored[len(part.Stored)-1]
	if last.Epoch < 0 {
		return nil
	}
	access, err := e.Brokers(ctx, src.Tail, src.Topic)
	if err != nil {
		return err
	}
	return tailsrc.Continues(ctx, access, tailsrc.Log{
		Topic: p.Topic, TopicID: p.TopicID, Partition: part.Partition, Epoch: last.Epoch, Next: last.Offsets.Next,
	})
}

// storedRecords are those of a plan's range, read from the very objects that the plan pinned.
type storedRecords struct {
	*tieredsrc.Reader
	failed *error // what reading failed with, if it was that
}

func (r storedRecords) Next(ctx context.Context) ([]*kgo.Record, error) {
	records, err := r.Reader.Next(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		*r.failed = err
	}
	return records, err
}

// captureStored captures one range from tiered storage. Opts says all but where records come from.
func (e *Env) captureStored(ctx context.Context, src spec.Source, p *plan.Plan, partition int32, r plan.StoredRange, opts tailsrc.CaptureOptions) ([]plan.Segment, error) {
	pinned := tieredsrc.Options{TopicID: p.TopicID, Partitions: []int32{partition}, Objects: []tieredsrc.Object{}}
	for _, o := range r.Objects {
		pinned.Objects = append(pinned.Objects, tieredsrc.Object{Key: o.Key, ETag: o.ETag, Size: int64(o.Size)})
	}
	var failed error
	opts.From, opts.To = r.Offsets.First, r.Offsets.Next
	opts.Read = func(ctx context.Context, from int64) (tailsrc.Records, error) {
		log, err := e.tiered(ctx, src, pinned, &plan.Cost{})
		if err == nil {
			var in *tieredsrc.Reader
			if in, err = log.Read(ctx, partition, from, opts.To); err == nil {
				return storedRecords{in, &failed}, nil
			}
		}
		failed = err
		return nil, err
	}
	segments, err := tailsrc.Capture(ctx, opts)
	if err != nil && failed != nil {
		return nil, readError(err)
	}
	return segments, err
}
