package blob

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
)

// IsTransient reports whether err may go away by itself.
func IsTransient(err error) bool { return errors.Is(err, ErrTransient) }

// ReadAll reads a whole object into memory.
func ReadAll(ctx context.Context, s Store, key string) ([]byte, Info, error) {
	o, err := s.Get(ctx, key, GetOptions{})
	if err != nil {
		return nil, Info{}, err
	}
	defer o.Body.Close()
	b := make([]byte, o.Size)
	if _, err := io.ReadFull(o.Body, b); err != nil {
		return nil, Info{}, fmt.Errorf("read %s: %w", key, err)
	}
	// The read past the end is where drivers notice that the object changed meanwhile.
	if n, err := o.Body.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return nil, Info{}, fmt.Errorf("read %s: %w", key, cmp.Or(err, errLonger))
	}
	return b, o.Info, nil
}

var errLonger = errors.New("the object is longer than announced")

// PutBytes puts b as a whole object.
func PutBytes(ctx context.Context, s Store, key string, b []byte, cond Condition) (Info, error) {
	return s.Put(ctx, key, bytes.NewReader(b), cond)
}

// pageSize is how many objects All asks for at once: the most that S3 gives.
const pageSize = 1000

// All yields the objects whose keys begin with prefix, in key order. It ends after the first error.
func All(ctx context.Context, s Store, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		after := ""
		for {
			page, err := s.List(ctx, prefix, after, pageSize)
			if err != nil {
				yield(Info{}, err)
				return
			}
			if len(page) == 0 {
				return
			}
			for _, info := range page {
				if !yield(info, nil) {
					return
				}
			}
			after = page[len(page)-1].Key
		}
	}
}

const (
	// readWindow is the least that ReaderAt asks a store for: a request costs
	// as much time as a few hundred kB on S3.
	readWindow = 256 << 10
	// readWindows is how many of them are kept: a few columns are read side by side.
	readWindows = 4
)

// ReaderAt reads the object that info describes, pinned to its ETag: once it is
// another, reads fail with ErrPrecondition. Small reads are widened and served
// from a few kept windows (at most 1 MiB); a small read near the end fetches the
// object's end. It may be used concurrently, for as long as ctx lives.
func ReaderAt(ctx context.Context, s Store, info Info) io.ReaderAt {
	return &readerAt{ctx: ctx, store: s, info: info}
}

type readerAt struct {
	ctx   context.Context //nolint:containedctx // io.ReaderAt has no context of its own
	store Store
	info  Info

	mu      sync.Mutex
	windows [readWindows]window
	next    int // the window to replace
}

type window struct {
	off  int64
	data []byte
}

func (r *readerAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read %s: negative offset %d", r.info.Key, off)
	}
	if off >= r.info.Size {
		return 0, io.EOF
	}
	var end error
	if rest := r.info.Size - off; int64(len(p)) > rest {
		p, end = p[:rest], io.EOF
	}
	if len(p) == 0 {
		return 0, end
	}
	if len(p) >= readWindow {
		if err := r.fetch(p, off); err != nil {
			return 0, err
		}
		return len(p), end
	}
	w, ok := r.kept(off, len(p))
	if !ok {
		start := max(0, min(off, r.info.Size-readWindow))
		w = window{off: start, data: make([]byte, min(readWindow, r.info.Size-start))}
		if err := r.fetch(w.data, w.off); err != nil {
			return 0, err
		}
		r.keep(w)
	}
	return copy(p, w.data[off-w.off:]), end
}

func (r *readerAt) kept(off int64, n int) (window, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.windows {
		if off >= w.off && off+int64(n) <= w.off+int64(len(w.data)) {
			return w, true
		}
	}
	return window{}, false
}

func (r *readerAt) keep(w window) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.windows[r.next] = w
	r.next = (r.next + 1) % readWindows
}

// forget lets go of what is kept.
func (r *readerAt) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.windows = [readWindows]window{}
}

// fetch fills p, which lies within the object, from off.
func (r *readerAt) fetch(p []byte, off int64) error {
	o, err := r.store.Get(r.ctx, r.info.Key, GetOptions{Offset: off, Length: int64(len(p)), IfMatch: r.info.ETag})
	if err != nil {
		return err
	}
	defer o.Body.Close()
	if _, err := io.ReadFull(o.Body, p); err != nil {
		return fmt.Errorf("read %s at %d: %w", r.info.Key, off, err)
	}
	return nil
}
