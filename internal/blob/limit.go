package blob

import (
	"context"
	"fmt"
	"io"
	"math"

	"golang.org/x/time/rate"

	"hindcast/internal/unit"
)

// LimitOptions bound what is asked of a store. Zero is no bound. After a pause
// up to a second's worth may go at once.
type LimitOptions struct {
	RequestsPerSecond float64
	// BytesPerSecond counts what is read and what is written together.
	BytesPerSecond unit.Bytes
}

// Limit slows calls of s down to the given rates, summed over all callers. Below
// Retry, as in Retry(Limit(s)), it counts retries as well.
func Limit(s Store, opts LimitOptions) Store {
	l := &limited{store: s, requests: rate.NewLimiter(rate.Inf, 0), bytes: rate.NewLimiter(rate.Inf, 0)}
	if r := opts.RequestsPerSecond; r > 0 {
		l.requests = rate.NewLimiter(rate.Limit(r), int(math.Ceil(r)))
	}
	if b := opts.BytesPerSecond; b > 0 {
		l.bytes = rate.NewLimiter(rate.Limit(b), int(b))
	}
	return l
}

type limited struct {
	store           Store
	requests, bytes *rate.Limiter
}

func (l *limited) request(ctx context.Context) error {
	if err := l.requests.Wait(ctx); err != nil {
		return waitErr(ctx, err)
	}
	return nil
}

// transfer waits until n bytes may go.
func (l *limited) transfer(ctx context.Context, n int64) error {
	if l.bytes.Limit() == rate.Inf {
		return nil
	}
	for n > 0 {
		part := min(n, int64(l.bytes.Burst()))
		if err := l.bytes.WaitN(ctx, int(part)); err != nil {
			return waitErr(ctx, err)
		}
		n -= part
	}
	return nil
}

// waitErr tells of a deadline that would pass before it does.
func waitErr(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return fmt.Errorf("wait for the request limit: %w (%w)", context.DeadlineExceeded, err)
	}
	return fmt.Errorf("wait for the request limit: %w", ctx.Err())
}

func (l *limited) Get(ctx context.Context, key string, opts GetOptions) (*Object, error) {
	if err := l.request(ctx); err != nil {
		return nil, err
	}
	o, err := l.store.Get(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	if l.bytes.Limit() != rate.Inf {
		o.Body = &limitedBody{ReadCloser: o.Body, ctx: ctx, l: l}
	}
	return o, nil
}

type limitedBody struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // the request's
	l   *limited
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.l.bytes.Burst())])
	if waitErr := b.l.transfer(b.ctx, int64(n)); waitErr != nil {
		return n, waitErr
	}
	return n, err
}

func (l *limited) Head(ctx context.Context, key string) (Info, error) {
	if err := l.request(ctx); err != nil {
		return Info{}, err
	}
	return l.store.Head(ctx, key)
}

func (l *limited) List(ctx context.Context, prefix, after string, limit int) ([]Info, error) {
	if err := l.request(ctx); err != nil {
		return nil, err
	}
	return l.store.List(ctx, prefix, after, limit)
}

func (l *limited) Put(ctx context.Context, key string, body io.ReadSeeker, cond Condition) (Info, error) {
	if err := l.request(ctx); err != nil {
		return Info{}, err
	}
	// Counted here and not as it is read: drivers read a body twice, to sign it.
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return Info{}, fmt.Errorf("put %s: %w", key, err)
	}
	if err := l.transfer(ctx, size); err != nil {
		return Info{}, err
	}
	return l.store.Put(ctx, key, body, cond)
}

func (l *limited) Delete(ctx context.Context, key string) error {
	if err := l.request(ctx); err != nil {
		return err
	}
	return l.store.Delete(ctx, key)
}
