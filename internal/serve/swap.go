package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/table"
)

// operation is a swap to be made.
type operation struct {
	nonce string
	// since is a generation up to which no version can have the nonce.
	since int64
	// ready, where set, is asked once, before the pointer is moved: whether the files that it is to name are there.
	ready func(context.Context) error
	// build makes the version that follows now, nil for none, or refuses. It is pure.
	build func(now *table.Snapshot, l link) (*table.Manifest, error)
}

// link is what a version says of its place in the history.
type link struct {
	nonce  string
	parent *table.Ref
}

func (l link) of(c table.Commit) table.Commit {
	c.Nonce, c.Parent = l.nonce, l.parent
	return c
}

const (
	// maxAttempts bounds how often a swap is tried that loses to others each time.
	maxAttempts = 50
	// maxRefusals bounds how often a pending put is followed up while the store fails in a way not known to go away by itself.
	maxRefusals = 3
)

// swap carries out an operation: see the package documentation. It alone writes the pointer.
func (d *Dataset) swap(ctx context.Context, op operation) (Result, error) {
	s := swapping{Dataset: d, op: op, ctx: ctx, work: ctx}
	defer s.settled()
	for attempt := 1; attempt <= maxAttempts || s.pending != nil; attempt++ {
		if attempt > 1 {
			if err := pause(s.work, attempt); err != nil {
				return Result{}, s.fail(err)
			}
		}
		res, done, err := s.round()
		if err != nil && !blob.IsTransient(err) {
			s.refusals++
		}
		if err != nil && (s.pending == nil || s.work.Err() != nil || s.refusals >= maxRefusals) {
			return Result{}, s.fail(err)
		}
		if done {
			return res, nil
		}
	}
	return Result{}, fmt.Errorf("%w, %d times", ErrBusy, maxAttempts)
}

// swapping is a swap under way.
type swapping struct {
	*Dataset
	op  operation
	ctx context.Context //nolint:containedctx // lives as long as the call of swap
	// pending is the error of a put that was not answered: it may have landed, or may
	// yet, while the pointer's ETag is on.
	pending  error
	on       blob.ETag
	refusals int
	ready    bool // the store and the files were looked at
	// work is ctx while nothing is pending; then it outlives ctx, for as long as is waited for an answer.
	work   context.Context //nolint:containedctx // as ctx
	cancel context.CancelFunc
}

// round is one pass over the steps of the protocol. An error ends the swap, unless something is pending.
func (s *swapping) round() (res Result, done bool, err error) {
	now, etag, err := s.read(s.work)
	if err != nil {
		return Result{}, false, err
	}
	made, err := search(s.work, now, s.op.since, func(v *table.Snapshot) bool { return v.Ref.Nonce == s.op.nonce })
	if err != nil {
		return Result{}, false, err
	}
	if made != nil {
		return repeated(made, now), true, nil
	}
	if s.pending != nil && etag != s.on {
		s.settled() // its condition can never hold again, and it is not in the history: it has not landed
	}
	if s.pending == nil && s.ctx.Err() != nil {
		return Result{}, false, s.ctx.Err()
	}
	if !s.ready {
		// Not before: a repeat of what was done writes nothing, and does not ask for files that were cleaned up since.
		if err := s.probe(s.work); err != nil {
			return Result{}, false, err
		}
		if s.op.ready != nil {
			if err := s.op.ready(s.work); err != nil {
				return Result{}, false, err
			}
		}
		s.ready = true
	}
	var parent *table.Ref
	if now != nil {
		parent = &now.Ref
	}
	next, err := s.op.build(now, link{s.op.nonce, parent})
	if err != nil {
		return Result{}, false, err
	}
	body, ref, err := next.Encode()
	if err != nil {
		return Result{}, false, err
	}
	if err := table.PutOnce(s.work, s.store, ref.Manifest, bytes.NewReader(body), ref.Digest); err != nil {
		return Result{}, false, fmt.Errorf("write manifest: %w", err)
	}
	err = s.point(table.PointTo(ref, next.Commit), etag)
	switch {
	case err == nil:
		return Result{Version: ref, Commit: next.Commit, Served: ref}, true, nil
	case errors.Is(err, blob.ErrPrecondition):
		return Result{}, false, nil // somebody moved it, or an earlier put of ours did: the next round finds out
	default:
		return Result{}, false, err
	}
}

// point puts the pointer, if its ETag is still etag ("" for none yet). An error other than ErrPrecondition leaves the put pending.
func (s *swapping) point(p table.Pointer, etag blob.ETag) error {
	b, err := p.Encode()
	if err != nil {
		return err
	}
	if s.pending == nil {
		// From here on the caller's context must not end the work: it could leave a put behind that lands later.
		s.settled()
		s.work, s.cancel = context.WithTimeout(context.WithoutCancel(s.ctx), s.settle)
	}
	_, err = blob.PutBytes(s.work, s.store, table.PointerKey, b, blob.Condition{IfAbsent: etag == "", IfMatch: etag})
	if err == nil || errors.Is(err, blob.ErrPrecondition) {
		if s.pending == nil {
			s.settled()
		}
		return err
	}
	s.pending, s.on = err, etag
	return err
}

// settled goes back to the caller's context: no put is pending.
func (s *swapping) settled() {
	if s.cancel != nil {
		s.cancel()
	}
	s.pending, s.work, s.cancel = nil, s.ctx, nil
}

// fail is the error of a swap that gives up for err.
func (s *swapping) fail(err error) error {
	if s.pending == nil {
		return err
	}
	return fmt.Errorf("%w: the pointer's put was not answered (%w), and could not be settled: %w: run the same again to find out", ErrOutcomeUnknown, s.pending, err)
}

// read opens the version that is served, with the pointer's ETag. Both are zero where there is none yet.
func (d *Dataset) read(ctx context.Context) (*table.Snapshot, blob.ETag, error) {
	p, etag, err := table.ReadPointer(ctx, d.store)
	if errors.Is(err, table.ErrNoVersion) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if p.Dataset != d.name {
		return nil, "", fmt.Errorf("the store holds the dataset %s, not %s", p.Dataset, d.name)
	}
	s, err := table.OpenRef(ctx, d.store, p.Ref)
	return s, etag, err
}

// probe proves, once, that the store honours conditions.
func (d *Dataset) probe(ctx context.Context) error {
	if d.proven.Load() {
		return nil
	}
	if err := blob.Probe(ctx, d.store, "probe"); err != nil {
		return err
	}
	d.proven.Store(true)
	return nil
}

// pause waits before attempt, longer each time up to a second, and at random so that contenders part.
func pause(ctx context.Context, attempt int) error {
	longest := min(time.Second, 5*time.Millisecond<<min(attempt, 10))
	return blob.Sleep(ctx, mathrand.N(longest))
}
