package asl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"hindcast/internal/asl/expr"
)

// taskState is a Task state: it invokes a function, by its ARN or through lambda:invoke.
type taskState struct {
	common
	policy
	resource   string
	service    bool // lambda:invoke
	callback   bool // .waitForTaskToken
	parameters *expr.Template
	selector   *expr.Template
	resultPath resultPath
	timeout    amount
	heartbeat  amount
}

const (
	lambdaInvoke = "arn:aws:states:::lambda:invoke"
	waitForToken = ".waitForTaskToken"
)

// invokeParameters are the parameters that lambda:invoke takes.
var invokeParameters = map[string]bool{
	"FunctionName": true, "Payload": true, "Qualifier": true, "InvocationType": true, "LogType": true, "ClientContext": true,
}

func loadTask(c common, f *fields) state {
	st := &taskState{common: c}
	st.resource, _ = f.required("Resource")
	base, callback := strings.CutSuffix(st.resource, waitForToken)
	parts := strings.Split(st.resource, ":")
	switch {
	case base == lambdaInvoke:
		st.service, st.callback = true, callback
	case len(parts) >= 7 && parts[0] == "arn" && parts[2] == "lambda" && parts[5] == "function" && parts[6] != "" && len(parts) <= 8:
	case st.resource != "":
		f.problem("Resource", "%q is not supported: only %s, the same with %s, and ARNs of Lambda functions are", st.resource, lambdaInvoke, waitForToken)
	}
	f.refuse("Credentials", "tasks run as the engine does")
	st.parameters = f.template("Parameters")
	if st.service {
		st.checkInvoke(f)
	}
	st.selector = f.template("ResultSelector")
	st.resultPath = f.resultPath()
	st.timeout = f.whole("TimeoutSeconds", 1, maxSeconds)
	st.heartbeat = f.whole("HeartbeatSeconds", 1, maxSeconds)
	if st.timeout.set && st.heartbeat.set && st.heartbeat.value >= st.timeout.value {
		f.problem("HeartbeatSeconds", "must be less than TimeoutSeconds")
	}
	st.policy = loadPolicy(f)
	return st
}

func (st *taskState) checkInvoke(f *fields) {
	if st.parameters == nil || !st.parameters.Has("FunctionName") {
		f.problem("Parameters", "needs FunctionName")
		return
	}
	names, _ := st.parameters.Names()
	for _, name := range names {
		if !invokeParameters[name] {
			f.problem("Parameters/"+name, "unknown field of lambda:invoke")
		}
	}
	if v, ok := st.parameters.Static("InvocationType"); ok && v != "RequestResponse" {
		f.problem("Parameters/InvocationType", "%v is not supported: only RequestResponse is", v)
	}
}

func (st *taskState) targets() []target { return st.policy.targets(&st.common) }

func (st *taskState) run(ctx context.Context, f *frame) (exit, error) {
	input, err := f.selectPath(st.input, f.raw)
	if err != nil {
		return exit{}, err
	}
	result, err := f.attempts(ctx, &st.policy, "", func(n int) (any, bool, error) {
		result, err := st.try(ctx, f, n, input)
		return result, false, err
	})
	if err == nil {
		var e exit
		if e, err = f.combine(result, st.selector, st.resultPath); err == nil {
			return e, nil
		}
	}
	return f.recover(&st.policy, true, err)
}

// words are the event types of an attempt, which differ with the kind of resource.
type words struct{ scheduled, started, succeeded, failed, timedOut EventType }

func (st *taskState) words() words {
	if st.service {
		return words{TaskScheduled, TaskStarted, TaskSucceeded, TaskFailed, TaskTimedOut}
	}
	return words{LambdaFunctionScheduled, LambdaFunctionStarted, LambdaFunctionSucceeded, LambdaFunctionFailed, LambdaFunctionTimedOut}
}

// try makes one attempt. An attempt that the history has in full is not made again.
func (st *taskState) try(ctx context.Context, f *frame, n int, input any) (any, error) {
	f.attempt, f.token = n, ""
	w := st.words()
	ev := Event{Type: w.scheduled, State: f.state.name, Resource: st.resource}
	var err error
	if f.peek() == "" {
		if st.callback {
			ev.Token = expr.UUID(f.bits)
		}
		if ev, err = st.schedule(f, ev, input); err != nil {
			return nil, err
		}
	}
	if ev, err = f.emit(ev); err != nil {
		return nil, err
	}
	f.token = ev.Token
	// The started event shows that the schedule was durable before the function was called.
	if f.peek() == "" {
		if err := f.x.sync(); err != nil {
			return nil, err
		}
	}
	if _, err := f.emit(Event{Type: w.started, State: f.state.name}); err != nil {
		return nil, err
	}
	submitted := f.peek() == TaskSubmitted
	if submitted {
		if _, err := f.emit(Event{Type: TaskSubmitted, State: f.state.name}); err != nil {
			return nil, err
		}
	}
	if old := f.peek(); old != "" {
		if old != w.succeeded && old != w.failed && old != w.timedOut {
			old = w.succeeded // which emit will refuse, naming what is there
		}
		answer, err := f.emit(Event{Type: old, State: f.state.name})
		switch {
		case err != nil:
			return nil, err
		case old == w.succeeded:
			return expr.Decode(answer.Output)
		}
		return nil, &Error{answer.Error, answer.Cause}
	}
	output, err := st.call(ctx, f, ev, submitted)
	return st.answered(f, w, output, err)
}

// schedule fills in the event that an attempt begins with.
func (st *taskState) schedule(f *frame, ev Event, input any) (Event, error) {
	f.token = ev.Token
	payload := input
	var err error
	if st.parameters != nil {
		if payload, err = f.fill(st.parameters, input); err != nil {
			return ev, err
		}
	}
	if ev.Input, err = expr.Encode(payload); err != nil {
		return ev, err
	}
	if len(ev.Input) > MaxPayload {
		return ev, &Error{errDataLimit, f.where() + fmt.Sprintf("The input of the task has %d bytes; the limit is %d.", len(ev.Input), MaxPayload)}
	}
	for _, t := range []struct {
		amount *amount
		to     *int64
	}{{&st.timeout, &ev.TimeoutSeconds}, {&st.heartbeat, &ev.HeartbeatSeconds}} {
		seconds, ok, err := f.whole(t.amount, input)
		if err != nil {
			return ev, err
		}
		if ok && (seconds < 1 || seconds > maxSeconds) {
			return ev, f.runtime("%s must be from 1 to %d, not %d.", t.amount.name, maxSeconds, seconds)
		}
		*t.to = seconds
	}
	return ev, nil
}

// answered records how an attempt ended.
func (st *taskState) answered(f *frame, w words, output json.RawMessage, err error) (any, error) {
	var failure *Error
	switch {
	case err == nil:
		ev, err := f.emit(Event{Type: w.succeeded, State: f.state.name, Output: output})
		if err != nil {
			return nil, err
		}
		return expr.Decode(ev.Output)
	case !errors.As(err, &failure):
		return nil, err
	}
	kind := w.failed
	if failure.Name == errTimeout || failure.Name == errHeartbeat {
		kind = w.timedOut
	}
	if _, err := f.emit(Event{Type: kind, State: f.state.name, Error: failure.Name, Cause: failure.Cause}); err != nil {
		return nil, err
	}
	return nil, failure
}

// call invokes the function that the event schedules, within its time limits, and waits
// for the token's answer if the task has one. submitted: the function has answered before.
func (st *taskState) call(ctx context.Context, f *frame, ev Event, submitted bool) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	e := f.x.engine
	inner, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop(nil)
	req, err := st.request(f, ev)
	if err != nil {
		return nil, err
	}
	if ev.TimeoutSeconds > 0 {
		from := e.now() // a function that is invoked again has all its time again
		if st.callback {
			from = ev.Time // but who answers by a token was asked then
		}
		req.Deadline = from.Add(time.Duration(ev.TimeoutSeconds) * time.Second)
		wg.Go(func() {
			if e.clock().Sleep(inner, req.Deadline) == nil {
				stop(&Error{Name: errTimeout})
			}
		})
	}
	beat := newHeartbeat(e, time.Duration(ev.HeartbeatSeconds)*time.Second)
	req.Heartbeat = beat.postpone
	if ev.HeartbeatSeconds > 0 {
		wg.Go(func() {
			if beat.watch(inner) {
				stop(&Error{Name: errHeartbeat})
			}
		})
	}
	if !st.callback {
		return st.invoke(inner, f, req)
	}
	if a, ok := f.x.answers[ev.Token]; ok { // before an interruption
		return a.result()
	}
	cb := &callback{strand: f.strand, state: f.state.name, answer: make(chan answer, 1), heartbeat: beat.postpone}
	e.tokens.add(ev.Token, cb)
	var failed error
	if !submitted {
		var output json.RawMessage
		if output, failed = st.invoke(inner, f, req); failed == nil {
			_, failed = f.emit(Event{Type: TaskSubmitted, State: f.state.name, Output: output})
		}
	}
	if failed == nil {
		select {
		case a := <-cb.answer:
			return a.result()
		case <-inner.Done():
			failed = context.Cause(inner)
		}
	}
	if e.tokens.take(ev.Token) == nil { // somebody is answering, and was or will be told that this counts
		return (<-cb.answer).result()
	}
	return nil, failed
}

func (a answer) result() (json.RawMessage, error) {
	switch {
	case a.broken != nil:
		return nil, a.broken
	case a.err != nil:
		return nil, a.err
	}
	return a.output, nil
}

func (st *taskState) tooLarge() *Error {
	name := st.resource
	if st.service {
		name = "lambda"
	}
	return &Error{errDataLimit, fmt.Sprintf(
		"The state/task '%s' returned a result with a size exceeding the maximum number of bytes service limit.", name)}
}

// request makes the request of what the event schedules.
func (st *taskState) request(f *frame, ev Event) (TaskRequest, error) {
	req := TaskRequest{
		Resource: st.resource, Payload: ev.Input, Parameters: ev.Input,
		State: f.state.name, Execution: f.x.name, Child: f.x.child, Attempt: f.attempt, Token: ev.Token,
	}
	function := st.resource
	if st.service {
		var p struct {
			FunctionName string
			Qualifier    string
			Payload      json.RawMessage
		}
		if err := json.Unmarshal(ev.Input, &p); err != nil {
			return req, f.runtime("The Parameters of lambda:invoke are not valid: %v", err)
		}
		function, req.Qualifier, req.Payload = p.FunctionName, p.Qualifier, p.Payload
		if req.Payload == nil {
			req.Payload = json.RawMessage("{}")
		}
		// A string is taken as the text of the payload.
		var text string
		if json.Unmarshal(req.Payload, &text) == nil && req.Payload[0] == '"' {
			req.Payload = json.RawMessage(text)
			if !json.Valid(req.Payload) {
				return req, &Error{errInvalidRequest, "Could not parse request body into json: " + text}
			}
		}
	}
	// name, name:qualifier, account:function:name, or a whole ARN.
	if _, after, ok := strings.Cut(":"+function, ":function:"); ok {
		function = after
	}
	name, qualifier, _ := strings.Cut(function, ":")
	req.Function = name
	if req.Qualifier == "" {
		req.Qualifier = qualifier
	}
	if name == "" {
		return req, f.runtime("FunctionName is empty.")
	}
	return req, nil
}

// invoke runs the function and returns what the task's resource answers.
func (st *taskState) invoke(ctx context.Context, f *frame, req TaskRequest) (json.RawMessage, error) {
	if f.x.engine.Tasks == nil {
		return nil, errors.New("the engine has no TaskRunner")
	}
	output, err := f.x.engine.Tasks.Run(ctx, req)
	var failure *Error
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &failure):
		return nil, &Error{failure.Name, failure.Cause}
	default:
		return nil, &Error{errLambdaUnknown, err.Error()}
	}
	if output == nil {
		output = json.RawMessage("null")
	}
	value, err := expr.Decode(output)
	if err != nil {
		return nil, &Error{errLambdaUnknown, "the function's answer is not JSON: " + err.Error()}
	}
	if st.service {
		value = map[string]any{
			"ExecutedVersion":     cmp.Or(req.Qualifier, "$LATEST"),
			"Payload":             value,
			"SdkHttpMetadata":     map[string]any{"HttpStatusCode": expr.Number(200)},
			"SdkResponseMetadata": map[string]any{"RequestId": expr.UUID(f.bits)},
			"StatusCode":          expr.Number(200),
		}
	}
	if output, err = expr.Encode(value); err != nil {
		return nil, err
	}
	if len(output) > MaxPayload {
		return nil, st.tooLarge()
	}
	return output, nil
}

// heartbeat is a deadline that can be postponed.
type heartbeat struct {
	engine *Engine
	every  time.Duration
	mu     sync.Mutex
	due    time.Time
}

func newHeartbeat(e *Engine, every time.Duration) *heartbeat {
	return &heartbeat{engine: e, every: every, due: e.now().Add(every)}
}

func (h *heartbeat) postpone() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due = h.engine.now().Add(h.every)
}

func (h *heartbeat) next() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.due
}

// watch returns true when the deadline has passed, or false when ctx is done.
func (h *heartbeat) watch(ctx context.Context) bool {
	for {
		due := h.next()
		if h.engine.clock().Sleep(ctx, due) != nil {
			return false
		}
		if !h.next().After(due) {
			return true
		}
	}
}
