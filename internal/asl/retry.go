package asl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hindcast/internal/asl/expr"
)

// policy is the Retry and Catch of a Task, Parallel or Map state.
type policy struct {
	retry []retrier
	catch []catcher
}

type retrier struct {
	errors   []string
	interval float64 // seconds
	attempts int64
	backoff  float64
	maxDelay float64 // seconds; 0: none
	jitter   bool
}

type catcher struct {
	errors []string
	next   string
	result resultPath
	assign *expr.Template
}

func loadPolicy(f *fields) policy {
	var p policy
	retries, _ := f.objects("Retry")
	for i, r := range retries {
		t := retrier{interval: 1, attempts: 3, backoff: 2}
		t.errors = loadErrors(r, i == len(retries)-1)
		if v, ok := r.integer("IntervalSeconds", 1, maxSeconds); ok {
			t.interval = float64(v)
		}
		if v, ok := r.integer("MaxAttempts", 0, maxSeconds); ok {
			t.attempts = v
		}
		if v, ok := r.float("BackoffRate", 1, math.MaxFloat64); ok {
			t.backoff = v
		}
		if v, ok := r.integer("MaxDelaySeconds", 1, 31_622_399); ok {
			t.maxDelay = float64(v)
			if t.maxDelay <= t.interval {
				r.problem("MaxDelaySeconds", "must be more than IntervalSeconds (%v)", t.interval)
			}
		}
		jitter, _ := r.oneOf("JitterStrategy", "FULL", "NONE")
		t.jitter = jitter == "FULL"
		r.done()
		p.retry = append(p.retry, t)
	}
	catches, _ := f.objects("Catch")
	for i, c := range catches {
		t := catcher{errors: loadErrors(c, i == len(catches)-1)}
		t.next, _ = c.required("Next")
		t.result = c.resultPath()
		t.assign = c.assign()
		c.done()
		p.catch = append(p.catch, t)
	}
	return p
}

func loadErrors(f *fields, last bool) []string {
	if !f.has("ErrorEquals") {
		f.problem("ErrorEquals", "is missing")
	}
	names := f.texts("ErrorEquals")
	if slices.Contains(names, errAll) && (len(names) > 1 || !last) {
		f.problem("ErrorEquals", "%s stands alone, and in the last entry", errAll)
	}
	return names
}

// targets are the transitions of a state with a policy.
func (p *policy) targets(c *common) []target {
	out := c.targets()
	for i, t := range p.catch {
		out = append(out, target{fmt.Sprintf("/Catch/%d", i), "Next", t.next})
	}
	return out
}

// matches reports whether an ErrorEquals names the error. Recorded of AWS: a task's own
// answer that is too large is matched by States.ALL, a state's output that is too large is not.
func matches(names []string, e *Error, task bool) bool {
	if e.Name == errRuntime {
		return false
	}
	for _, name := range names {
		switch name {
		case e.Name:
			return true
		case errAll:
			if e.Name != errDataLimit || task {
				return true
			}
		case errTaskFailed:
			if task && e.Name != errTimeout {
				return true
			}
		case errTimeout:
			if e.Name == errHeartbeat {
				return true
			}
		}
	}
	return false
}

// attempts calls attempt until it succeeds or no retrier applies. inside tells whether an
// error came from branches or iterations; then the event failed, if any, records it.
func (f *frame) attempts(
	ctx context.Context, p *policy, failed EventType, attempt func(n int) (result any, inside bool, err error),
) (any, error) {
	counts := make([]int64, len(p.retry))
	for n := 0; ; n++ {
		var failure *Error
		var result any
		var inside bool
		var err error
		if f.peek() == NoteRetry { // the attempt failed before it made an event
			err = &Error{f.past[0].Error, f.past[0].Cause}
		} else {
			result, inside, err = attempt(n)
		}
		if err == nil || !errors.As(err, &failure) {
			return result, err
		}
		i := slices.IndexFunc(p.retry, func(r retrier) bool { return matches(r.errors, failure, failed == "") })
		if i < 0 || counts[i] >= p.retry[i].attempts {
			if inside && failed != "" {
				if _, err := f.emit(Event{Type: failed, State: f.state.name, Error: failure.Name, Cause: failure.Cause}); err != nil {
					return nil, err
				}
			}
			return nil, failure
		}
		until := f.x.engine.now().Add(f.delay(&p.retry[i], counts[i], n))
		counts[i]++
		note, err := f.emit(Event{
			Type: NoteRetry, State: f.state.name, Error: failure.Name, Cause: failure.Cause, Until: &until, Retrier: &i,
		})
		if err != nil {
			return nil, err
		}
		if note.Until == nil {
			return nil, fmt.Errorf("%s of %q does not say when the next attempt begins: %w", note.Type, note.State, errDiverged)
		}
		if err := f.x.engine.clock().Sleep(ctx, *note.Until); err != nil {
			return nil, err
		}
	}
}

func (f *frame) delay(r *retrier, count int64, n int) time.Duration {
	limit := float64(maxSeconds)
	if r.maxDelay > 0 {
		limit = r.maxDelay
	}
	seconds := min(r.interval*math.Pow(r.backoff, float64(count)), limit)
	if r.jitter {
		seconds *= derived("retry", f.x.engine.Seed, f.x.arn, f.id, n).Float64()
	}
	return time.Duration(seconds * float64(time.Second))
}

// recover leaves the state by the first catcher that names the error.
func (f *frame) recover(p *policy, task bool, err error) (exit, error) {
	var failure *Error
	if !errors.As(err, &failure) {
		return exit{}, err
	}
	i := slices.IndexFunc(p.catch, func(c catcher) bool { return matches(c.errors, failure, task) })
	if i < 0 {
		return exit{}, err
	}
	c := &p.catch[i]
	caught := map[string]any{"Error": failure.Name, "Cause": failure.Cause}
	assigned, err := f.assigned(c.assign, caught)
	if err != nil {
		return exit{}, err
	}
	out, err := f.place(caught, c.result)
	return exit{output: out, next: c.next, assigned: assigned}, err
}
