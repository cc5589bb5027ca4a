package blob

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// RetryOptions bound how long and how often Retry tries again.
type RetryOptions struct {
	// For is how long one call is tried again after it first failed, or, while
	// a body is read, after the last byte came. Default: 2 minutes.
	For time.Duration
	// First is the longest wait before the first retry, and each further wait is
	// twice as long, up to Most. Half of each wait is random. Defaults: 100 ms and 10 s.
	First, Most time.Duration
	// Total is how many retries there are over the store's lifetime, since each
	// is paid for. Default: 10,000.
	Total int64
}

func (o RetryOptions) withDefaults() RetryOptions {
	if o.For == 0 {
		o.For = 2 * time.Minute
	}
	if o.First == 0 {
		o.First = 100 * time.Millisecond
	}
	if o.Most == 0 {
		o.Most = 10 * time.Second
	}
	if o.Total == 0 {
		o.Total = 10_000
	}
	return o
}

// Retry tries again what ended with ErrTransient; a body that breaks off is read
// on from there, pinned to its ETag. It is the only retrier: callers and drivers do not retry.
//
// A conditional put is never tried again, since the first try may have taken
// effect and would make the second fail: its caller reads back and decides.
func Retry(s Store, opts RetryOptions) Store {
	return &retrier{store: s, opts: opts.withDefaults()}
}

type retrier struct {
	store Store
	opts  RetryOptions
	spent atomic.Int64
}

// series is a call and its retries.
type series struct {
	r     *retrier
	began time.Time // of the first failure
	wait  time.Duration
	tries int
}

// again waits and returns nil if the call that ended with err is to be tried again, and otherwise what to return.
func (s *series) again(ctx context.Context, err error) error {
	if !IsTransient(err) {
		return err
	}
	s.tries++
	if s.began.IsZero() {
		s.began = time.Now()
		s.wait = s.r.opts.First
	}
	wait := s.wait/2 + rand.N(s.wait/2+1)
	s.wait = min(2*s.wait, s.r.opts.Most)
	if time.Since(s.began)+wait > s.r.opts.For {
		return fmt.Errorf("%w (tried %d times in %v)", err, s.tries, time.Since(s.began).Round(time.Second))
	}
	if s.r.spent.Add(1) > s.r.opts.Total {
		return fmt.Errorf("%w (not tried again: the %d retries of this process are used up)", err, s.r.opts.Total)
	}
	if stopped := Sleep(ctx, wait); stopped != nil {
		return fmt.Errorf("%w, after: %v", stopped, err) //nolint:errorlint // only one of them is the reason
	}
	return nil
}

// do calls f until it ends otherwise than with a transient error.
func (s *series) do(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		if err := s.again(ctx, err); err != nil {
			return err
		}
	}
}

func (r *retrier) do(ctx context.Context, f func() error) error {
	return (&series{r: r}).do(ctx, f)
}

func (r *retrier) Get(ctx context.Context, key string, opts GetOptions) (o *Object, err error) {
	err = r.do(ctx, func() error {
		o, err = r.store.Get(ctx, key, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	from, to, err := opts.Range(o.Size)
	if err != nil {
		o.Body.Close()
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return &Object{Info: o.Info, Body: &retryBody{r: r, ctx: ctx, info: o.Info, body: o.Body, off: from, end: to}}, nil
}

// retryBody reads on after a break.
type retryBody struct {
	r        *retrier
	ctx      context.Context //nolint:containedctx // the request's
	info     Info
	body     io.ReadCloser
	off, end int64
	series   *series // since the last byte
}

func (b *retryBody) Read(p []byte) (int, error) {
	for {
		n, err := b.body.Read(p)
		b.off += int64(n)
		if n > 0 {
			b.series = nil
		}
		if n > 0 && IsTransient(err) {
			return n, nil // it will come again, or not
		}
		if !IsTransient(err) {
			return n, err
		}
		if b.off >= b.end {
			return 0, io.EOF // all bytes are there; only the end was lost
		}
		if b.series == nil {
			b.series = &series{r: b.r}
		}
		if err := b.series.again(b.ctx, err); err != nil {
			return 0, err
		}
		var o *Object
		err = b.series.do(b.ctx, func() error {
			o, err = b.r.store.Get(b.ctx, b.info.Key, GetOptions{Offset: b.off, Length: b.end - b.off, IfMatch: b.info.ETag})
			return err
		})
		if err != nil {
			return 0, err
		}
		b.body.Close()
		b.body = o.Body
	}
}

func (b *retryBody) Close() error { return b.body.Close() }

func (r *retrier) Head(ctx context.Context, key string) (info Info, err error) {
	err = r.do(ctx, func() error {
		info, err = r.store.Head(ctx, key)
		return err
	})
	return info, err
}

func (r *retrier) List(ctx context.Context, prefix, after string, limit int) (page []Info, err error) {
	err = r.do(ctx, func() error {
		page, err = r.store.List(ctx, prefix, after, limit)
		return err
	})
	return page, err
}

func (r *retrier) Put(ctx context.Context, key string, body io.ReadSeeker, cond Condition) (info Info, err error) {
	if !cond.IsZero() {
		return r.store.Put(ctx, key, body, cond)
	}
	err = r.do(ctx, func() error {
		info, err = r.store.Put(ctx, key, body, cond)
		return err
	})
	return info, err
}

func (r *retrier) Delete(ctx context.Context, key string) error {
	return r.do(ctx, func() error { return r.store.Delete(ctx, key) })
}

// Sleep waits, or returns the context's error.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
