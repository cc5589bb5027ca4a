package blob

import (
	"context"
	"io"
	"slices"
	"sync"

	"hindcast/internal/spare"
)

// part is the most that one request reads ahead: larger ranges are cut, so that their parts come side by side.
const part = 8 << 20

// behind is how many bytes of capacity there are behind a range, for who may look past its end: column.Padding.
const behind = 64

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
}

// NewAhead returns an Ahead that holds at most budget bytes that nobody has asked for yet (of a range that is asked for in parts, until the last one), and has at most requests of them
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
	lent   [][]byte // guarded by a.mu
}

// wanted is a range that will be asked for.
type wanted struct {
	off, size int64
	pieces    []*piece
	left      int    // of the pieces: those that are not released
	buf       []byte // nil before the first of them is begun
}

// piece is what one request reads of a range.
type piece struct {
	of        *AheadReader
	in        *wanted
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
	w := &wanted{off: off, size: length}
	for n := (length + part - 1) / part; n > 0; n-- {
		p := &piece{of: r, in: w, off: off, size: length / n, done: make(chan struct{})}
		off, length = off+p.size, length-p.size
		w.pieces = append(w.pieces, p)
	}
	w.left = len(w.pieces)
	r.pieces = append(r.pieces, w.pieces...)
	r.a.queue = append(r.a.queue, w.pieces...)
	r.a.pump()
}

// Lend waits for a range that was wanted just so, and of which nothing was read, and returns its bytes, behind which there is some capacity: they are the caller's until
// [AheadReader.Return] or [AheadReader.Drop]. It returns nil where there is no such range.
func (r *AheadReader) Lend(off, length int64) ([]byte, error) {
	r.a.mu.Lock()
	var w *wanted
	for _, p := range r.pieces {
		if p.in.off == off && p.in.size == length && p.off == off && p.in.left == len(p.in.pieces) {
			w = p.in
			break
		}
	}
	if w == nil {
		r.a.mu.Unlock()
		return nil, nil
	}
	for _, p := range w.pieces {
		if !p.begun {
			r.a.begin(p)
		}
	}
	r.a.mu.Unlock()
	for _, p := range w.pieces {
		select {
		case <-p.done:
		case <-r.a.ctx.Done():
			return nil, r.a.ctx.Err()
		}
		if p.err != nil {
			return nil, p.err
		}
	}
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	buf := w.buf
	r.lent, w.buf = append(r.lent, buf), nil
	for _, p := range w.pieces {
		r.drop(p)
	}
	r.a.pump()
	return buf, nil
}

// Return gives back what was lent.
func (r *AheadReader) Return() {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	r.giveBack()
}

func (r *AheadReader) giveBack() {
	for _, b := range r.lent {
		spare.Put(b)
	}
	r.lent = nil
}

// Drop gives up what was wanted and is not read, and gives back what was lent.
func (r *AheadReader) Drop() {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	r.giveBack()
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
	w := p.in
	if w.buf == nil {
		w.buf = spare.Get(int(w.size) + behind)[:w.size]
	}
	buf := w.buf[p.off-w.off:][:p.size]
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

// release takes back the memory of a piece, with the last one of a range.
func (a *Ahead) release(p *piece) {
	a.held -= p.size
	p.data = nil
	if p.in.left--; p.in.left == 0 && p.in.buf != nil {
		spare.Put(p.in.buf)
		p.in.buf = nil
	}
}

var _ io.ReaderAt = (*AheadReader)(nil)
