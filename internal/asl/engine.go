package asl

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"time"

	"hindcast/internal/asl/expr"
)

var executionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,79}$`)

// Start runs a new execution to its end. A Result of any status comes with a nil error; an
// error means that the execution did not end: it was refused, or interrupted by ctx or by
// a failing history, and [Engine.Resume] continues it.
func (e *Engine) Start(ctx context.Context, m *Machine, name string, input json.RawMessage) (Result, error) {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if len(input) > MaxPayload {
		return Result{}, fmt.Errorf("start execution %s: the input has %d bytes, %d are allowed", name, len(input), MaxPayload)
	}
	if _, err := expr.Decode(input); err != nil {
		return Result{}, fmt.Errorf("start execution %s: input: %w", name, err)
	}
	x, ctx, err := e.open(ctx, m, name)
	if err != nil {
		return Result{}, fmt.Errorf("start execution %s: %w", name, err)
	}
	if len(x.past) > 0 {
		return Result{}, errors.Join(fmt.Errorf("start execution %s: %w", name, ErrExists), x.rec.close())
	}
	result, err := x.run(ctx, m.top, input)
	if err = errors.Join(err, x.rec.close()); err != nil {
		return Result{}, fmt.Errorf("execution %s: %w", name, err)
	}
	return result, nil
}

// Resume continues an execution from its history, or returns its result if it has ended.
// Errors are as for [Engine.Start].
func (e *Engine) Resume(ctx context.Context, m *Machine, name string) (Result, error) {
	x, ctx, err := e.open(ctx, m, name)
	if err != nil {
		return Result{}, fmt.Errorf("resume execution %s: %w", name, err)
	}
	result, err := x.resume(ctx, m)
	if err = errors.Join(err, x.rec.close()); err != nil {
		return Result{}, fmt.Errorf("resume execution %s: %w", name, err)
	}
	return result, nil
}

// Redrive continues an execution that failed, timed out or was aborted, as RedriveExecution does: with the same definition
// and input, from the states that did not succeed; see [Engine.Redrivable] for what is refused. States that were entered
// and not left run again, with their retries and time limits from the start, in a history that goes on with
// ExecutionRedriven. Of Parallel and inline Map states only the branches and iterations run that did not succeed; of a Map
// Run the child executions that failed, were aborted or had not begun. What was left, a Map with tolerated failures or a
// caught error included, does not run again. If the redrive is interrupted, [Engine.Resume] continues it. Errors are as
// for [Engine.Start].
func (e *Engine) Redrive(ctx context.Context, m *Machine, name string) (Result, error) {
	x, ctx, err := e.open(ctx, m, name)
	if err != nil {
		return Result{}, fmt.Errorf("redrive execution %s: %w", name, err)
	}
	var result Result
	input, err := x.redrivable(m)
	if err == nil {
		x.redrive = true
		result, err = x.run(ctx, m.top, input)
	}
	if err = errors.Join(err, x.rec.close()); err != nil {
		return Result{}, fmt.Errorf("redrive execution %s: %w", name, err)
	}
	return result, nil
}

// Redrivable returns nil if [Engine.Redrive] would be accepted now. Else it is [ErrNotRedrivable] with the reason: the
// execution runs, was interrupted or has succeeded; it ended more than 14 days ago or began more than a year ago; or its
// history is full. [ErrDefinitionChanged] and [ErrNoExecution] are refused too.
func (e *Engine) Redrivable(ctx context.Context, m *Machine, name string) error {
	x, _, err := e.open(ctx, m, name)
	if err == nil {
		_, err = x.redrivable(m)
		err = errors.Join(err, x.rec.close())
	}
	if err != nil {
		return fmt.Errorf("redrive execution %s: %w", name, err)
	}
	return nil
}

// Stop ends an execution for good that was interrupted, as StopExecution does. One that runs is stopped by cancelling its
// context with an [Abort]. Child executions that were running are ended when the execution is redriven.
func (e *Engine) Stop(ctx context.Context, m *Machine, name string, why Abort) (Result, error) {
	x, ctx, err := e.open(ctx, m, name)
	if err != nil {
		return Result{}, fmt.Errorf("stop execution %s: %w", name, err)
	}
	stopped, stop := context.WithCancelCause(ctx)
	stop(&why)
	result, err := x.resume(stopped, m)
	if err = errors.Join(err, x.rec.close()); err != nil {
		return Result{}, fmt.Errorf("stop execution %s: %w", name, err)
	}
	return result, nil
}

// open opens the history of an execution and reads it. The context that it returns ends
// with the one given or when the history fails.
func (e *Engine) open(ctx context.Context, m *Machine, name string) (*execution, context.Context, error) {
	if !executionName.MatchString(name) {
		return nil, nil, errors.New("a name has 1 to 80 letters, digits, _, . and -, the first of them no sign")
	}
	history, err := e.histories().Open(ctx, HistoryName{Execution: name})
	if err != nil {
		return nil, nil, err
	}
	x := &execution{
		engine: e, name: name, machine: m,
		arn:        arn("execution", m.Name+":"+name),
		machineARN: arn("stateMachine", m.Name),
		past:       map[string][]Event{},
		answers:    map[string]answer{},
	}
	for ev, err := range history.Events(ctx) {
		if err == nil {
			err = x.remember(ev)
		}
		if err != nil {
			return nil, nil, errors.Join(err, history.Close())
		}
	}
	x.rec, ctx = newRecorder(ctx, history)
	return x, ctx, nil
}

func (e *Engine) histories() Histories {
	if e.Histories == nil {
		return &e.memory
	}
	return e.Histories
}

func (e *Engine) clock() Clock {
	if e.Clock == nil {
		return systemClock{}
	}
	return e.Clock
}

func (e *Engine) now() time.Time { return e.clock().Now().UTC().Truncate(time.Microsecond) }

func (e *Engine) observe(ev Event) {
	if e.Observe == nil {
		return
	}
	e.observing.Lock()
	defer e.observing.Unlock()
	e.Observe(ev)
}

// derived returns random bits that depend on what they are for only: what is made of them
// is the same after an interruption.
func derived(purpose ...any) *rand.Rand {
	h := fnv.New128a()
	for _, p := range purpose {
		fmt.Fprintf(h, "%v\x00", p)
	}
	var seed [32]byte
	h.Sum(seed[:0])
	return rand.New(rand.NewChaCha8(seed))
}

// bits returns random bits that nobody can guess.
func (e *Engine) bits() uint64 {
	var b [8]byte
	_, _ = crand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

// arn makes an Amazon resource name of an account and Region that do not exist.
func arn(kind, rest string) string { return "arn:aws:states:local:000000000000:" + kind + ":" + rest }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
