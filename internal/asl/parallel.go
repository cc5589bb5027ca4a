package asl

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"hindcast/internal/asl/expr"
)

// parallelState is a Parallel state.
type parallelState struct {
	common
	policy
	branches   []*scope
	parameters *expr.Template
	selector   *expr.Template
	resultPath resultPath
}

func loadParallel(c common, f *fields) state {
	st := &parallelState{common: c}
	branches, ok := f.objects("Branches")
	if !ok && !f.has("Branches") || ok && len(branches) == 0 {
		f.problem("Branches", "needs a branch")
	}
	for _, b := range branches {
		st.branches = append(st.branches, f.loader.scope(b))
		b.done()
	}
	st.parameters = f.template("Parameters")
	st.selector = f.template("ResultSelector")
	st.resultPath = f.resultPath()
	st.policy = loadPolicy(f)
	return st
}

func (st *parallelState) scopes() []*scope  { return st.branches }
func (st *parallelState) targets() []target { return st.policy.targets(&st.common) }

func (st *parallelState) run(ctx context.Context, f *frame) (exit, error) {
	input, err := f.selectPath(st.input, f.raw)
	if err != nil {
		return exit{}, err
	}
	if st.parameters != nil {
		if input, err = f.fill(st.parameters, input); err != nil {
			return f.recover(&st.policy, false, err)
		}
	}
	raw, err := expr.Encode(input)
	if err != nil {
		return exit{}, err
	}
	result, err := f.attempts(ctx, &st.policy, ParallelStateFailed, func(attempt int) (any, bool, error) {
		began, err := f.emit(Event{Type: ParallelStateStarted, State: f.state.name})
		if err != nil {
			return nil, false, err
		}
		if failure := f.failedBefore(ParallelStateFailed); failure != nil {
			return nil, true, failure
		}
		g := group{frame: f, began: began.ID, attempt: attempt, n: len(st.branches), limit: len(st.branches), failed: NoteBranchFailed}
		outputs, err := g.run(ctx, func(ctx context.Context, s *strand, i int) (json.RawMessage, error) {
			return s.run(ctx, st.branches[i], raw)
		})
		if err != nil {
			return nil, true, err
		}
		_, err = f.emit(Event{Type: ParallelStateSucceeded, State: f.state.name})
		return outputs, false, err
	})
	if err == nil {
		var e exit
		if e, err = f.combine(result, st.selector, st.resultPath); err == nil {
			return e, nil
		}
	}
	return f.recover(&st.policy, false, err)
}

// failedBefore returns the error with which the attempt that has just begun failed
// according to the history, so that its branches or iterations need not be looked at.
func (f *frame) failedBefore(failed EventType) *Error {
	if next := f.peek(); next != NoteRetry && next != failed {
		return nil
	}
	return &Error{f.past[0].Error, f.past[0].Cause}
}

// group runs strands that begin with one event: branches or iterations.
type group struct {
	*frame
	began   int64 // the event
	attempt int
	n       int
	limit   int       // how many run at once
	failed  EventType // the event that records the failure of one, in its strand

	started, succeeded, aborted EventType // further events of iterations; empty for branches
}

// run calls body for each strand, in order, and returns their outputs. The first that
// fails ends the others. The frame's strand then follows the last one.
func (g *group) run(ctx context.Context, body func(context.Context, *strand, int) (json.RawMessage, error)) ([]any, error) {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		next    int
		outputs = make([]any, g.n)
		first   *Error
		broken  error // not a failure of a strand: interrupted
		last    = g.prev
	)
	// A failure that the history has is the one that counts, and nothing begins any more.
	for i := range g.n {
		for _, ev := range g.x.past[strandKey(g.began, i)] {
			if ev.Type == g.failed && first == nil {
				first = &Error{ev.Error, ev.Cause}
				stop(errAbandoned)
			}
		}
	}
	worker := func() {
		follows := g.began
		for {
			mu.Lock()
			i := next
			next++
			mu.Unlock()
			if i >= g.n {
				return
			}
			s := g.fork(g.began, g.attempt, i)
			if inner.Err() != nil && len(s.past) == 0 {
				return
			}
			if n := len(s.past); n > 0 && s.past[n-1].Type != "" && (s.past[n-1].Type == g.failed || s.past[n-1].Type == g.aborted) {
				mu.Lock() // it has ended, and that it failed is known already
				follows = s.past[n-1].Previous
				last = max(last, follows)
				mu.Unlock()
				continue
			}
			s.prev = follows
			output, end, err := g.strand(inner, s, i, body)
			var value any
			if err == nil {
				value, err = expr.Decode(output)
			}
			mu.Lock()
			last = max(last, s.prev)
			var failure *Error
			switch {
			case err == nil:
				outputs[i] = value
				last = max(last, end)
			case errors.As(err, &failure):
				if first == nil {
					first = failure
				}
				stop(errAbandoned)
			case !errors.Is(err, errAbandoned) || ctx.Err() != nil:
				if broken == nil {
					broken = err
				}
				stop(err)
			}
			follows = s.prev
			mu.Unlock()
		}
	}
	for range min(g.limit, g.n) {
		wg.Go(worker)
	}
	wg.Wait()
	g.prev = last
	switch {
	case broken != nil:
		return nil, broken
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case first != nil:
		return nil, first
	}
	return outputs, nil
}

// strand runs one strand with the events around it. What follows the strand follows its
// last own event, not the one that tells of its end, which is returned: so AWS has it.
func (g *group) strand(
	ctx context.Context, s *strand, i int, body func(context.Context, *strand, int) (json.RawMessage, error),
) (output json.RawMessage, end int64, err error) {
	if g.started != "" {
		if _, err := s.emit(Event{Type: g.started, State: g.state.name, Index: &i}); err != nil {
			return nil, 0, err
		}
	}
	output, err = body(ctx, s, i)
	ev := Event{Type: g.succeeded, State: g.state.name, Index: &i}
	var failure *Error
	switch {
	case err == nil:
	case errors.As(err, &failure):
		ev.Type, ev.Error, ev.Cause = g.failed, failure.Name, failure.Cause
	case errors.Is(err, errAbandoned):
		ev.Type = g.aborted
	default:
		return nil, 0, err
	}
	if ev.Type == "" {
		return output, 0, err
	}
	prev := s.prev
	ev, failed := s.emit(ev)
	s.prev = prev
	if failed != nil {
		return nil, 0, failed
	}
	return output, ev.ID, err
}
