package asl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"hindcast/internal/asl/expr"
)

// execution is one execution: that which was started, or a child of a Distributed Map.
type execution struct {
	engine  *Engine
	machine *Machine
	rec     *recorder // shared by the children of a Map Run
	name    string    // of the execution that was started
	child   string    // empty for that
	level   string    // path of Map Runs down to this execution, for names of histories

	arn, machineARN string
	input           any
	started         time.Time

	// past are the recorded events by strand that the strands have not gone through again.
	past map[string][]Event
	// answers are those to task tokens that the past has.
	answers map[string]answer

	redrive  bool  // run begins with a redrive
	redrives int   // that are recorded
	redriven Event // the last of them

	mu       sync.Mutex
	lastID   int64
	recorded int64     // number of the last event in the recorder
	lastTime time.Time // of the last event: a history's times do not go back
	end      *Event    // the last event of an execution that has ended
}

// Causes with which a context is cancelled to end states for good.
var (
	errAbandoned        = errors.New("abandoned: a sibling failed")
	errExecutionTimeout = errors.New("the execution timed out")
	// errStopped: the execution has ended already, and that is recorded. Nothing follows.
	errStopped = errors.New("the execution was stopped")
)

// errDiverged says that a history does not follow from the definition.
var errDiverged = errors.New("the history does not follow from the definition")

// remember takes an event that was read from the history.
func (x *execution) remember(ev Event) error {
	if !ev.Note() {
		if ev.ID != x.lastID+1 {
			return fmt.Errorf("event %d follows event %d: %w", ev.ID, x.lastID, errDiverged)
		}
		x.lastID = ev.ID
	}
	if x.end != nil && ev.Type != ExecutionRedriven {
		return fmt.Errorf("event %d, %s, follows the end: %w", ev.ID, ev.Type, errDiverged)
	}
	if ev.Time.After(x.lastTime) {
		x.lastTime = ev.Time
	}
	switch {
	case ev.Type == ExecutionRedriven:
		if x.end == nil {
			return fmt.Errorf("event %d is %s of an execution that has not ended: %w", ev.ID, ev.Type, errDiverged)
		}
		x.reopen(ev)
		return nil
	case ev.Type.terminal():
		x.end = &ev
	case ev.Type == ExecutionStarted:
		x.started = ev.Time
	case ev.Type == NoteAnswer:
		x.answers[ev.Token] = answered(ev)
		return nil
	}
	x.past[ev.Strand] = append(x.past[ev.Strand], ev)
	return nil
}

// begun returns the input of an execution that was read from its history, or why the machine cannot go on with it.
func (x *execution) begun(m *Machine) (json.RawMessage, error) {
	events := x.past[""]
	if len(events) == 0 {
		return nil, ErrNoExecution
	}
	first := events[0]
	if first.Type != ExecutionStarted {
		return nil, fmt.Errorf("event 1 is %s: %w", first.Type, errDiverged)
	}
	if first.Machine != x.machineARN {
		return nil, fmt.Errorf("%w (its machine is %s, not %s)", ErrDefinitionChanged, x.machineARN, first.Machine)
	}
	if first.Definition != m.SHA256 {
		return nil, fmt.Errorf("%w (it has SHA-256 %.12s…, not %.12s…)", ErrDefinitionChanged, m.SHA256, first.Definition)
	}
	return first.Input, nil
}

// resume continues an execution that was read from its history.
func (x *execution) resume(ctx context.Context, m *Machine) (Result, error) {
	input, err := x.begun(m)
	if err != nil {
		return Result{}, err
	}
	if x.end != nil {
		return outcome(x.end), nil
	}
	return x.run(ctx, m.top, input)
}

// outcome returns the result that an execution's last event tells; its Status is empty if the event is no last one.
func outcome(ev *Event) Result {
	status := map[EventType]Status{
		ExecutionSucceeded: Succeeded, ExecutionFailed: Failed, ExecutionTimedOut: TimedOut, ExecutionAborted: Aborted,
	}[ev.Type]
	return Result{Status: status, Output: ev.Output, Error: ev.Error, Cause: ev.Cause}
}

// run runs the execution, from where its past ends, to its end.
func (x *execution) run(ctx context.Context, sc *scope, input json.RawMessage) (Result, error) {
	if x.redrive {
		if err := x.recordRedrive(); err != nil {
			return Result{}, err
		}
	}
	s := &strand{x: x, past: x.past[""]}
	first := Event{Type: ExecutionStarted, Input: input, Machine: x.machineARN}
	if x.child == "" {
		first.Definition = x.machine.SHA256
	}
	first, err := s.emit(first)
	if err != nil {
		return Result{}, err
	}
	if x.input, err = expr.Decode(first.Input); err != nil {
		return Result{}, err
	}
	x.started = first.Time
	s.prev = 0 // as AWS has it: the first state's event follows nothing

	inner, release := x.stoppable(ctx)
	output, err := s.run(inner, sc, first.Input)
	release()
	var failure *Error
	switch {
	case err == nil:
		_, err = s.emit(Event{Type: ExecutionSucceeded, Output: output})
	case errors.As(err, &failure):
		_, err = s.emit(Event{Type: ExecutionFailed, Error: failure.Name, Cause: failure.Cause})
	}
	if err != nil && !errors.Is(err, errStopped) {
		return Result{}, err
	}
	if x.child == "" { // the result of a child becomes durable with the events that follow
		if err := x.sync(); err != nil {
			return Result{}, err
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return outcome(x.end), nil
}

// stoppable returns the context in which the states run. When ctx is done in a way that ends the execution for good, or
// its time is up, that is recorded before anything below learns of it: what is aborted belongs to what has ended. release
// returns when nothing watches any more.
func (x *execution) stoppable(ctx context.Context) (inner context.Context, release func()) {
	inner, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	unhook := func() bool { return false }
	if ctx.Err() != nil {
		stop(x.stopped(context.Cause(ctx)))
	} else {
		watching.Add(1)
		unhook = context.AfterFunc(ctx, func() {
			defer watching.Done()
			stop(x.stopped(context.Cause(ctx)))
		})
	}
	if x.machine.timeout > 0 && x.child == "" {
		from := x.started
		if x.redrives > 0 {
			from = x.redriven.Time
		}
		watching.Go(func() {
			if x.engine.clock().Sleep(inner, from.Add(time.Duration(x.machine.timeout)*time.Second)) == nil {
				stop(x.stopped(errExecutionTimeout))
			}
		})
	}
	return inner, func() {
		if unhook() {
			watching.Done()
		}
		stop(nil)
		watching.Wait()
	}
}

// stopped records that the execution has ended, if that is what the cause says, and returns the cause for what it consists of.
func (x *execution) stopped(cause error) error {
	last := Event{Type: ExecutionAborted} // AWS was recorded to let it follow nothing, and to abort no state
	var abort *Abort
	switch {
	case x.child == "" && errors.As(cause, &abort):
		last.Error, last.Cause = abort.Name, abort.Cause
	case errors.Is(cause, errExecutionTimeout):
		last.Type = ExecutionTimedOut
	case x.child != "" && (errors.Is(cause, errStopped) || errors.Is(cause, errAbandoned)):
	default:
		return cause
	}
	if _, err := x.append(last); err != nil {
		return err
	}
	if x.child == "" {
		if err := x.sync(); err != nil {
			return err
		}
	}
	return errStopped
}

// sync returns when all events so far are durable.
func (x *execution) sync() error {
	x.mu.Lock()
	n := x.recorded
	x.mu.Unlock()
	return x.rec.wait(n)
}

// append gives the event its number and time and puts it in the history's queue. After the last event the error is errStopped.
func (x *execution) append(ev Event) (Event, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.end != nil && ev.Type != ExecutionRedriven {
		return ev, errStopped
	}
	if !ev.Type.note() {
		if x.lastID+1 >= MaxEvents && !ev.Type.terminal() {
			return ev, &Error{
				Name:  errRuntime,
				Cause: fmt.Sprintf("The execution reached the maximum number of history events (%d).", MaxEvents),
			}
		}
		x.lastID++
		ev.ID = x.lastID
	}
	ev.Child = x.child
	ev.Time = x.engine.now()
	if ev.Time.Before(x.lastTime) {
		ev.Time = x.lastTime
	}
	x.lastTime = ev.Time
	n, err := x.rec.add(ev)
	if err != nil {
		return ev, fmt.Errorf("append %s to the history: %w", ev.Type, err)
	}
	x.recorded = n
	if ev.Type.terminal() {
		x.end = &ev
	}
	x.engine.observe(ev)
	return ev, nil
}

// strand is a line of control: the execution's main one, a branch or an iteration.
type strand struct {
	x    *execution
	key  string  // see [Event.Strand]
	past []Event // recorded and not yet gone through again
	prev int64   // the event that the next one follows
	vars *variables
	item map[string]any // the context object's Map, in an iteration

	// path and visits name what happens here independently of the numbers of events, which
	// depend on what runs at the same time: identifiers and jitter are derived from them.
	path   string
	visits map[string]int // of states
}

// variables are the variables of a scope; inner scopes read those of outer ones.
type variables struct {
	outer  *variables
	values map[string]any
}

func (v *variables) get(name string) (any, bool) {
	for ; v != nil; v = v.outer {
		if value, ok := v.values[name]; ok {
			return value, true
		}
	}
	return nil, false
}

// emit records an event that follows the strand's last one. If the history has it already
// that one is returned, with what it says.
func (s *strand) emit(ev Event) (Event, error) {
	if len(s.past) > 0 {
		old := s.past[0]
		if old.Type != ev.Type || old.State != ev.State {
			return ev, fmt.Errorf("event %d is %s of %q where %s of %q is due: %w", old.ID, old.Type, old.State, ev.Type, ev.State, errDiverged)
		}
		s.past = s.past[1:]
		ev = old
	} else {
		ev.Strand, ev.Previous = s.key, s.prev
		var err error
		if ev, err = s.x.append(ev); err != nil {
			return ev, err
		}
	}
	if !ev.Note() {
		s.prev = ev.ID
	}
	return ev, nil
}

// peek returns the type of the recorded event that comes next; empty if there is none.
func (s *strand) peek() EventType {
	if len(s.past) == 0 {
		return ""
	}
	return s.past[0].Type
}

// fork returns a new strand of an attempt of a state, which began with the given event.
func (f *frame) fork(began int64, attempt, index int) *strand {
	key := strandKey(began, index)
	return &strand{
		x: f.x, key: key, past: f.x.past[key], prev: began, item: f.item,
		vars: &variables{outer: f.vars, values: map[string]any{}}, path: fmt.Sprintf("%s.%d.%d", f.id, attempt, index),
	}
}

func strandKey(began int64, index int) string { return fmt.Sprintf("%d.%d", began, index) }

// run runs the states of a scope, from where the strand's past ends, and returns the output
// of the last one.
func (s *strand) run(ctx context.Context, sc *scope, input json.RawMessage) (json.RawMessage, error) {
	if s.vars == nil {
		s.vars = &variables{values: map[string]any{}}
	}
	s.visits = map[string]int{}
	name, data, err := s.skip(sc.startAt, input)
	for err == nil && name != "" {
		st, ok := sc.states[name]
		if !ok {
			return nil, fmt.Errorf("there is no state %q: %w", name, errDiverged)
		}
		name, data, err = s.step(ctx, st, data)
	}
	return data, err
}

// skip goes over the states that the past has seen through. It returns the state to go on
// with and its input, or no state and the output of the last one.
func (s *strand) skip(startAt string, input json.RawMessage) (string, json.RawMessage, error) {
	last := -1
	for i, ev := range s.past {
		if ev.Type.entered() || ev.Type.exited() {
			last = i
		}
	}
	if last < 0 {
		return startAt, input, nil
	}
	for _, ev := range s.past[:last] {
		if ev.Type.entered() {
			s.visits[ev.State]++
		}
	}
	for _, ev := range s.past[:last+1] {
		if ev.Type.exited() {
			if err := s.assign(ev); err != nil {
				return "", nil, err
			}
		}
	}
	ev := s.past[last]
	if ev.Type.entered() {
		s.past = s.past[last:]
		return ev.State, ev.Input, nil
	}
	s.past = s.past[last+1:]
	s.prev = ev.ID
	return ev.Next, ev.Output, nil
}

// assign sets the variables that the exit from a state records.
func (s *strand) assign(exited Event) error {
	for name, raw := range exited.Assigned {
		value, err := expr.Decode(raw)
		if err != nil {
			return fmt.Errorf("event %d: variable %s: %w", exited.ID, name, err)
		}
		s.vars.values[name] = value
	}
	return nil
}

// step runs one state. It returns the next one and its input.
func (s *strand) step(ctx context.Context, st state, raw json.RawMessage) (string, json.RawMessage, error) {
	c := st.base()
	if ctx.Err() != nil {
		err := context.Cause(ctx)
		if s.peek().entered() {
			err = s.interrupted(err, c)
		}
		return "", nil, err
	}
	entered, err := s.emit(Event{Type: EventType(c.kind + "StateEntered"), State: c.name, Input: raw})
	if err != nil {
		return "", nil, err
	}
	s.visits[c.name]++
	f := &frame{strand: s, state: c, entered: entered, attempt: -1, id: fmt.Sprintf("%s/%s.%d", s.path, c.name, s.visits[c.name])}
	if f.raw, err = expr.Decode(entered.Input); err != nil {
		return "", nil, err
	}
	e, err := st.run(ctx, f)
	if err != nil {
		return "", nil, s.interrupted(err, c)
	}
	ev := Event{Type: EventType(c.kind + "StateExited"), State: c.name, Next: e.next}
	if ev.Output, err = expr.Encode(e.output); err != nil {
		return "", nil, err
	}
	if len(ev.Output) > MaxPayload {
		return "", nil, &Error{Name: errDataLimit, Cause: fmt.Sprintf(
			"The state '%s' returned an output of %d bytes; the limit is %d.", c.name, len(ev.Output), MaxPayload)}
	}
	for name, value := range e.assigned {
		if ev.Assigned == nil {
			ev.Assigned = map[string]json.RawMessage{}
		}
		if ev.Assigned[name], err = expr.Encode(value); err != nil {
			return "", nil, err
		}
	}
	if e.follows != 0 {
		s.prev = e.follows
	}
	if ev, err = s.emit(ev); err != nil {
		return "", nil, err
	}
	return ev.Next, ev.Output, s.assign(ev)
}

// interrupted records that a state that was entered is abandoned, if that is what err says.
func (s *strand) interrupted(err error, c *common) error {
	if !errors.Is(err, errAbandoned) {
		return err
	}
	aborted := EventType(c.kind + "StateAborted")
	var last EventType
	for _, ev := range s.past { // what is left of the past will not be gone through
		last = ev.Type
		if !ev.Note() {
			s.prev = ev.ID
		}
	}
	s.past = nil
	switch c.kind {
	case "Task", "Wait", "Map", "Parallel": // AWS has no such event of others
		if last != aborted {
			if _, err := s.emit(Event{Type: aborted, State: c.name}); err != nil {
				return err
			}
		}
	}
	return err
}
