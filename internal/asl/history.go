package asl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
)

// HistoryName names a history: that of an execution, or, with MapRun set, that which the
// child executions of one of its Map Runs share.
type HistoryName struct {
	Execution string
	MapRun    string // label of the Map Run, unique in the execution; below a child, "/" separates the levels
}

// String returns the name for messages.
func (n HistoryName) String() string {
	if n.MapRun == "" {
		return n.Execution
	}
	return n.Execution + "/" + n.MapRun
}

// Histories keeps histories.
type Histories interface {
	// Open opens a history, which is created if there is none. A history that is open
	// already, here or in another process, is refused.
	Open(ctx context.Context, name HistoryName) (History, error)
}

// History is a durable, append-only list of events. One goroutine uses it at a time.
type History interface {
	// Events yields what is recorded, oldest first. It ends with an error where the record
	// is damaged. It is called once, before the first Append.
	Events(ctx context.Context) iter.Seq2[Event, error]
	// Append adds events in order. They are durable when it returns nil; if it fails, any
	// number of them, in order, may have become durable. It must not keep the slice.
	Append(ctx context.Context, events []Event) error
	// Close releases the history.
	Close() error
}

// memoryHistories keeps histories for as long as the engine lives.
type memoryHistories struct {
	mu   sync.Mutex
	logs map[HistoryName]*memoryHistory
}

type memoryHistory struct {
	owner  *memoryHistories
	open   bool
	events []Event
}

func (m *memoryHistories) Open(_ context.Context, name HistoryName) (History, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.logs == nil {
		m.logs = map[HistoryName]*memoryHistory{}
	}
	h := m.logs[name]
	if h == nil {
		h = &memoryHistory{owner: m}
		m.logs[name] = h
	}
	if h.open {
		return nil, fmt.Errorf("open history %s: it is open already", name)
	}
	h.open = true
	return h, nil
}

func (h *memoryHistory) Events(context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, ev := range slices.Clone(h.events) {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func (h *memoryHistory) Append(_ context.Context, events []Event) error {
	h.events = append(h.events, events...)
	return nil
}

func (h *memoryHistory) Close() error {
	h.owner.mu.Lock()
	defer h.owner.mu.Unlock()
	h.open = false
	return nil
}

// recorder feeds a history: it takes events without waiting, and writes all that have
// gathered while the write before was under way as one group. Its order is the history's.
type recorder struct {
	history History

	mu      sync.Mutex
	change  sync.Cond
	pending []Event
	queued  int64 // events taken so far
	durable int64 // events written so far
	err     error
	closing bool
	done    chan struct{}
	stop    context.CancelCauseFunc // of the context that newRecorder returned
}

var errRecorderClosed = errors.New("history is closed")

// newRecorder starts the writer of h; close ends it. The context that it returns is
// cancelled when the history fails: without it nothing may go on.
func newRecorder(ctx context.Context, h History) (*recorder, context.Context) {
	r := &recorder{history: h, done: make(chan struct{})}
	r.change.L = &r.mu
	ctx, r.stop = context.WithCancelCause(ctx)
	// What was taken is written even if the run is interrupted: the shorter the queue that
	// is lost, the less is done again.
	go r.write(context.WithoutCancel(ctx))
	return r, ctx
}

func (r *recorder) write(ctx context.Context) {
	defer close(r.done)
	r.mu.Lock()
	defer r.mu.Unlock()
	var spare []Event // the group before, to be filled anew
	for {
		for len(r.pending) == 0 && !r.closing {
			r.change.Wait()
		}
		if len(r.pending) == 0 || r.err != nil {
			return
		}
		// A write costs far more than the events in it. So those that can run now may add theirs first: what was
		// started by the write before, each with an event that it waits for.
		for n := int64(-1); n != r.queued && !r.closing; {
			n = r.queued
			r.mu.Unlock()
			runtime.Gosched()
			r.mu.Lock()
		}
		group := r.pending
		r.pending = spare
		r.mu.Unlock()
		err := r.history.Append(ctx, group)
		r.mu.Lock()
		if err != nil {
			r.err = fmt.Errorf("write the history: %w", err)
			r.stop(r.err)
		} else {
			r.durable += int64(len(group))
			clear(group)
			spare = group[:0]
		}
		r.change.Broadcast()
		if err != nil {
			return
		}
	}
}

// add queues an event and returns its number, for wait.
func (r *recorder) add(ev Event) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return 0, r.err
	case r.closing:
		return 0, errRecorderClosed
	}
	r.pending = append(r.pending, ev)
	r.queued++
	r.change.Broadcast()
	return r.queued, nil
}

// wait returns when the events up to the given number are durable.
func (r *recorder) wait(n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.durable < n && r.err == nil {
		r.change.Wait()
	}
	if r.durable >= n {
		return nil
	}
	return r.err
}

// sync returns when all events so far are durable.
func (r *recorder) sync() error {
	r.mu.Lock()
	n := r.queued
	r.mu.Unlock()
	return r.wait(n)
}

// close writes what is queued and closes the history.
func (r *recorder) close() error {
	r.mu.Lock()
	r.closing = true
	r.change.Broadcast()
	r.mu.Unlock()
	<-r.done
	r.stop(nil)
	return errors.Join(r.err, r.history.Close())
}
