package blob

import (
	"context"
	"sync/atomic"
)

// Counted counts what is asked of a store to read: requests, and the bytes that they were for. It may be used concurrently, as its store may.
type Counted struct {
	Store
	requests, bytes atomic.Int64
}

// Count counts what is asked of s from now on.
func Count(s Store) *Counted { return &Counted{Store: s} }

// Requests returns how many reads, heads and pages of listings there were.
func (c *Counted) Requests() int64 { return c.requests.Load() }

// Bytes returns how many bytes the reads were for.
func (c *Counted) Bytes() int64 { return c.bytes.Load() }

// Get implements [Store].
func (c *Counted) Get(ctx context.Context, key string, opts GetOptions) (*Object, error) {
	c.requests.Add(1)
	o, err := c.Store.Get(ctx, key, opts)
	if err == nil {
		if from, to, err := opts.Range(o.Size); err == nil {
			c.bytes.Add(to - from)
		}
	}
	return o, err
}

// Head implements [Store].
func (c *Counted) Head(ctx context.Context, key string) (Info, error) {
	c.requests.Add(1)
	return c.Store.Head(ctx, key)
}

// List implements [Store].
func (c *Counted) List(ctx context.Context, prefix, after string, limit int) ([]Info, error) {
	c.requests.Add(1)
	return c.Store.List(ctx, prefix, after, limit)
}
