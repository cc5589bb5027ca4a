package asl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hindcast/internal/asl/expr"
)

// The errors that the interpreter itself raises.
const (
	errRuntime        = "States.Runtime"
	errTimeout        = "States.Timeout"
	errHeartbeat      = "States.HeartbeatTimeout"
	errDataLimit      = "States.DataLimitExceeded"
	errIntrinsic      = "States.IntrinsicFailure"
	errResultPath     = "States.ResultPathMatchFailure"
	errNoChoice       = "States.NoChoiceMatched"
	errItemReader     = "States.ItemReaderFailed"
	errResultWriter   = "States.ResultWriterFailed"
	errTolerance      = "States.ExceedToleratedFailureThreshold"
	errTaskFailed     = "States.TaskFailed"
	errAll            = "States.ALL"
	errLambdaUnknown  = "Lambda.Unknown"
	errInvalidRequest = "Lambda.InvalidRequestContentException"
)

// state is a state of a definition.
type state interface {
	base() *common
	scopes() []*scope  // branches or processor
	targets() []target // the transitions that it can make
	// run does what the state does between its entry and its exit. An [Error] fails the
	// state; any other error interrupts it.
	run(ctx context.Context, f *frame) (exit, error)
}

// exit is how a state is left.
type exit struct {
	output   any
	next     string
	assigned map[string]any
	follows  int64 // the event that the exit follows, if that is not the last one
}

// frame is one visit of a state.
type frame struct {
	*strand
	state   *common
	entered Event
	id      string // names the visit, see strand.path
	raw     any    // the state's input
	attempt int    // of a Task: its retries so far; -1: none
	token   string // of a Task that waits for one
}

// failure turns an error of an expression into the state's.
func (f *frame) failure(err error) error {
	var missing *expr.NotFoundError
	var intrinsic *expr.IntrinsicError
	switch {
	case errors.As(err, &missing):
		return f.runtime("%v", err)
	case errors.As(err, &intrinsic):
		return &Error{errIntrinsic, f.where() + err.Error()}
	}
	return err
}

// runtime is an error that nothing catches.
func (f *frame) runtime(format string, args ...any) *Error {
	return &Error{errRuntime, f.where() + fmt.Sprintf(format, args...)}
}

func (f *frame) where() string {
	return fmt.Sprintf("An error occurred while executing the state '%s' (entered at the event id #%d). ", f.state.name, f.entered.ID)
}

func (f *frame) env(input any) *expr.Env {
	return &expr.Env{Input: input, Context: f.context, Var: f.vars.get, Random: f.bits}
}

// bits are random bits for expressions: what they gave is in the history, so they need not
// be the same again.
func (f *frame) bits() uint64 { return f.x.engine.bits() }

// context is the context object ($$).
func (f *frame) context() any {
	x := f.x
	execution := map[string]any{
		"Id":           x.arn,
		"Input":        x.input,
		"Name":         nameOf(x.arn),
		"RoleArn":      "arn:aws:iam::000000000000:role/" + x.machine.Name,
		"StartTime":    stamp(x.started),
		"RedriveCount": expr.Number(int64(x.redrives)),
	}
	if x.redrives > 0 {
		execution["RedriveTime"] = stamp(x.redriven.Time)
	}
	st := map[string]any{"Name": f.state.name, "EnteredTime": stamp(f.entered.Time)}
	if f.attempt >= 0 {
		st["RetryCount"] = expr.Number(int64(f.attempt))
	}
	object := map[string]any{
		"Execution":    execution,
		"State":        st,
		"StateMachine": map[string]any{"Id": x.machineARN, "Name": nameOf(x.machineARN)},
	}
	if f.item != nil {
		object["Map"] = f.item
	}
	if f.token != "" {
		object["Task"] = map[string]any{"Token": f.token}
	}
	return object
}

// nameOf returns the last part of an ARN.
func nameOf(arn string) string { return arn[strings.LastIndexByte(arn, ':')+1:] }

// stamp writes a time as the context object and result files have it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// selectPath applies InputPath or OutputPath.
func (f *frame) selectPath(p *pathField, v any) (any, error) {
	if p == nil {
		return v, nil
	}
	if p.path == nil {
		return map[string]any{}, nil
	}
	v, err := p.path.Eval(f.env(v))
	if err != nil {
		return nil, f.failure(fmt.Errorf("%s: %w", p.name, err))
	}
	return v, nil
}

func (f *frame) fill(t *expr.Template, input any) (any, error) {
	v, err := t.Eval(f.env(input))
	if err != nil {
		return nil, f.failure(err)
	}
	return v, nil
}

func (f *frame) eval(e expr.Expr, field string, input any) (any, error) {
	v, err := e.Eval(f.env(input))
	if err != nil {
		return nil, f.failure(fmt.Errorf("%s: %w", field, err))
	}
	return v, nil
}

// assigned evaluates an Assign field.
func (f *frame) assigned(t *expr.Template, input any) (map[string]any, error) {
	if t == nil {
		return nil, nil // no variables are assigned
	}
	v, err := f.fill(t, input)
	if err != nil {
		return nil, err
	}
	m, _ := v.(map[string]any)
	return m, nil
}

// pass leaves a state that only selects: Choice, Wait, Succeed.
func (f *frame) pass(input any) (exit, error) {
	assigned, err := f.assigned(f.state.assign, input)
	if err != nil {
		return exit{}, err
	}
	out, err := f.selectPath(f.state.output, input)
	return exit{output: out, next: f.state.next, assigned: assigned}, err
}

// combine leaves a state that has a result: it selects from the result, assigns, puts the
// result in the state's input and selects the output.
func (f *frame) combine(result any, selector *expr.Template, at resultPath) (exit, error) {
	var err error
	if selector != nil {
		if result, err = f.fill(selector, result); err != nil {
			return exit{}, err
		}
	}
	assigned, err := f.assigned(f.state.assign, result)
	if err != nil {
		return exit{}, err
	}
	out, err := f.place(result, at)
	if err != nil {
		return exit{}, err
	}
	out, err = f.selectPath(f.state.output, out)
	return exit{output: out, next: f.state.next, assigned: assigned}, err
}

// place applies a ResultPath to the state's input.
func (f *frame) place(result any, at resultPath) (any, error) {
	switch {
	case at.discard:
		return f.raw, nil
	case at.at == nil:
		return result, nil
	}
	out, err := at.at.Set(f.raw, result)
	if err != nil {
		return nil, &Error{errResultPath, f.where() + err.Error()}
	}
	return out, nil
}

// whole evaluates an amount that is an integer; numbers in strings count, as for AWS. ok is
// false if the definition does not have it.
func (f *frame) whole(a *amount, input any) (n int64, ok bool, err error) {
	if a.path == nil {
		return int64(a.value), a.set, nil
	}
	v, err := f.eval(a.path, a.name+"Path", input)
	if err != nil {
		return 0, false, err
	}
	switch v := v.(type) {
	case json.Number:
		n, ok = expr.Int(v)
	case string:
		n, err = strconv.ParseInt(v, 10, 64)
		ok = err == nil
	}
	if !ok {
		text, _ := expr.Encode(v)
		return 0, false, f.runtime("The %sPath field refers to value \"%s\" which is not a valid integer: %s", a.name, text, a.path)
	}
	return n, true, nil
}
