package blob

import (
	"context"
	"io"
	"slices"
	"sync"
)

// part is the most that one request reads ahead: larger ranges are cut, so that their parts come side by side.
const part = 8 << 20

// Ahead reads ranges of objects before they are asked for, so that whoever decodes them need not wait for the store. It is told of ranges in the
// order in which they will be asked for; a range that is asked for out of turn is read at once. All methods may be called concurrently.
type Ahead struct {
	ctx      context.Context //nolint:containedctx // io.ReaderAt has no context of its own
	cancel   context.CancelFunc
	budget   int64
	requests int
	wg       sync.WaitGroup

	mu     sync.Mutex
	queue  []*piece // not begun
	active int      // requests under way
	held   int64    // bytes of pieces that are begun and not taken
	spare  [][]byte
	kept   int64 // bytes of spare
}

// NewAhead returns an Ahead that holds at most budget bytes that nobody has asked for yet, and has at most requests of them
// under way; what was asked for comes on top. Its reads end when ctx does, and at [Ahead.Close].
func NewAhead(ctx context.Context, budget int64, requests int) *Ahead {
	a := &Ahead{budget: budget, requests: requests}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// Close ends all reads, and returns when none is under way.
func (a *Ahead) Close() {
	a.cancel()
	a.wg.Wait()
}

// Reader reads as [ReaderAt] does.
func (a *Ahead) Reader(s Store, info Info) *AheadReader {
	return &AheadReader{a: a, direct: &readerAt{ctx: a.ctx, store: s, info: info}}
}

// AheadReader is an [io.ReaderAt] of one object, pinned to its ETag, some of whose ranges are read ahead.
type AheadReader struct {
	a      *Ahead
	direct *readerAt
	pieces []*piece // that are not taken; guarded by a.mu
}

// piece is a range that one request reads.
type piece struct {
	of        *AheadReader
	off, size int64
	begun     bool
	dropped   bool
	done      chan struct{} // closed when data and err are there
	data      []byte
	err       error
}

func (p *piece) end() int64 { return p.off + p.size }

// Want says that length bytes from off on will be read, once and in order, after all that was wanted before.
func (r *AheadReader) Want(off, length int64) {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	r.direct.forget() // what the opening of the object needed
	for n := (length + part - 1) / part; n > 0; n-- {
		p := &piece{of: r, off: off, size: length / n, done: make(chan struct{})}
		off, length = off+p.size, length-p.size
		r.pieces = append(r.pieces, p)
		r.a.queue = append(r.a.queue, p)
	}
	r.a.pump()
}

// Drop gives up what was wanted and is not read.
func (r *AheadReader) Drop() {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	for _, p := range slices.Clone(r.pieces) {
		r.drop(p)
	}
	r.a.pump()
}

// ReadAt implements [io.ReaderAt].
func (r *AheadReader) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		p, until := r.need(off+int64(n), off+int64(len(b)))
		if p == nil {
			m, err := r.direct.ReadAt(b[n:until-off], off+int64(n))
			if n += m; err != nil {
				return n, err
			}
			continue
		}
		select {
		case <-p.done:
		case <-r.a.ctx.Done():
			return n, r.a.ctx.Err()
		}
		if p.err != nil {
			return n, p.err
		}
		at := off + int64(n)
		n += copy(b[n:], p.data[at-p.off:])
		if off+int64(n) == p.end() {
			r.taken(p)
		}
	}
	return n, nil
}

// need begins to read the pieces of [from, to) and returns the one that from lies in. Where there is none, until is where the next one begins, or to.
func (r *AheadReader) need(from, to int64) (in *piece, until int64) {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	until = to
	for _, p := range r.pieces {
		if p.end() <= from || p.off >= to {
			continue
		}
		if !p.begun {
			r.a.begin(p)
		}
		if p.off <= from {
			in = p
		} else {
			until = min(until, p.off)
		}
	}
	return in, until
}

// taken lets go of a piece that was read to its end.
func (r *AheadReader) taken(p *piece) {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	r.drop(p)
	r.a.pump()
}

func (r *AheadReader) drop(p *piece) {
	r.pieces = slices.DeleteFunc(r.pieces, func(o *piece) bool { return o == p })
	p.dropped = true
	select {
	case <-p.done:
		r.a.release(p)
	default: // it is released when it is there, if it ever is begun
	}
}

// pump begins what the budget has room for. One piece may be larger.
func (a *Ahead) pump() {
	for len(a.queue) > 0 && a.ctx.Err() == nil {
		p := a.queue[0]
		if !p.begun && !p.dropped {
			if a.active >= a.requests || a.held > 0 && a.held+p.size > a.budget {
				return
			}
			a.begin(p)
		}
		a.queue = a.queue[1:]
	}
}

func (a *Ahead) begin(p *piece) {
	p.begun = true
	a.held += p.size
	a.active++
	buf := a.buffer(p.size)
	a.wg.Go(func() {
		err := p.of.direct.fetch(buf, p.off)
		a.mu.Lock()
		defer a.mu.Unlock()
		p.data, p.err = buf, err
		close(p.done)
		a.active--
		if p.dropped {
			a.release(p)
		}
		a.pump()
	})
}

// release takes back the memory of a piece.
func (a *Ahead) release(p *piece) {
	a.held -= p.size
	if size := int64(cap(p.data)); a.held+a.kept+size <= a.budget {
		a.spare = append(a.spare, p.data)
		a.kept += size
	}
	p.data = nil
}

// buffer returns memory for size bytes.
func (a *Ahead) buffer(size int64) []byte {
	for i, b := range a.spare {
		if have := int64(cap(b)); have >= size && have <= 2*size {
			a.spare = slices.Delete(a.spare, i, i+1)
			a.kept -= have
			return b[:size]
		}
	}
	a.spare, a.kept = nil, 0 // none of them fits what is read now
	return make([]byte, size, size+size/8)
}

var _ io.ReaderAt = (*AheadReader)(nil)
