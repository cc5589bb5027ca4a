package asl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hindcast/internal/testenv"
)

// everything uses each feature whose progress the history has to hold.
const everything = `{
  "StartAt": "Setup",
  "States": {
    "Setup": {"Type": "Pass", "Assign": {"factor": 3, "id.$": "States.UUID()"}, "Result": {"n": [1, 2, 3, 4, 5]}, "Next": "Flaky"},
    "Flaky": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke",
      "Parameters": {"FunctionName": "flaky", "Payload": {"try.$": "$$.State.RetryCount", "f.$": "$factor"}},
      "Retry": [{"ErrorEquals": ["Transient"], "IntervalSeconds": 5, "MaxAttempts": 4, "BackoffRate": 2, "MaxDelaySeconds": 15, "JitterStrategy": "FULL"}],
      "ResultSelector": {"v.$": "$.Payload"}, "ResultPath": "$.flaky", "Next": "Both"},
    "Both": {"Type": "Parallel", "ResultPath": "$.both", "Next": "Each", "Branches": [
      {"StartAt": "Nap", "States": {"Nap": {"Type": "Wait", "Seconds": 20, "Next": "After"},
        "After": {"Type": "Task", "Resource": "arn:aws:lambda:local:0:function:echo", "Parameters": {"after": true}, "TimeoutSeconds": 60, "End": true}}},
      {"StartAt": "Caught", "States": {"Caught": {"Type": "Task", "Resource": "arn:aws:lambda:local:0:function:broken", "Parameters": {"caught": true},
          "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Handled"}], "End": true},
        "Handled": {"Type": "Pass", "Parameters": {"error.$": "$.error.Error"}, "End": true}}}]},
    "Each": {"Type": "Map", "ItemsPath": "$.n", "MaxConcurrency": 2, "ResultPath": "$.each", "Next": "Failing",
      "ItemSelector": {"i.$": "$$.Map.Item.Index", "v.$": "$$.Map.Item.Value"},
      "ItemProcessor": {"StartAt": "Double", "States": {
        "Double": {"Type": "Task", "Resource": "arn:aws:lambda:local:0:function:double", "End": true}}}},
    "Failing": {"Type": "Map", "ItemsPath": "$.n", "ResultPath": "$.failing", "Next": "Fan",
      "Retry": [{"ErrorEquals": ["Odd"], "MaxAttempts": 1}],
      "Catch": [{"ErrorEquals": ["Odd"], "ResultPath": "$.failing", "Next": "Fan"}],
      "ItemProcessor": {"StartAt": "Odd?", "States": {
        "Odd?": {"Type": "Task", "Resource": "arn:aws:lambda:local:0:function:odd", "Parameters": {"odd.$": "$"}, "End": true}}}},
    "Fan": {"Type": "Map", "Label": "Fan", "MaxConcurrency": 3, "ToleratedFailureCount": 2, "ResultPath": "$.fan", "Next": "Ask",
      "ItemReader": {"Resource": "arn:aws:states:::s3:getObject", "ReaderConfig": {"InputType": "JSONL"},
        "Parameters": {"Bucket": "b", "Key": "manifest.jsonl"}},
      "ItemBatcher": {"MaxItemsPerBatch": 2, "BatchInput": {"lap": 0}},
      "ResultWriter": {"Resource": "arn:aws:states:::s3:putObject", "Parameters": {"Bucket": "b", "Prefix": "out"},
        "WriterConfig": {"Transformation": "COMPACT", "OutputType": "JSONL"}},
      "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "Work", "States": {
        "Work": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 900,
          "Parameters": {"FunctionName": "work", "Payload.$": "$"},
          "Retry": [{"ErrorEquals": ["Transient"], "IntervalSeconds": 1}],
          "ResultSelector": {"BatchInput.$": "$.Payload.BatchInput", "Items.$": "$.Payload.Items", "done.$": "$.Payload.done"}, "Next": "Done?"},
        "Done?": {"Type": "Choice", "Choices": [{"Variable": "$.done", "BooleanEquals": true, "Next": "Ok"}], "Default": "Work"},
        "Ok": {"Type": "Succeed"}}}},
    "Ask": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "TimeoutSeconds": 3600, "HeartbeatSeconds": 600,
      "Parameters": {"FunctionName": "ask", "Payload": {"token.$": "$$.Task.Token"}}, "ResultPath": "$.answer", "Next": "Last"},
    "Last": {"Type": "Pass", "Parameters": {"all.$": "$", "factor.$": "$factor"}, "End": true}
  }
}`

// loops visits a Map Run twice, fails before an attempt makes an event, and retries a
// Parallel state whose branches fail and wait.
const loops = `{
  "StartAt": "Begin",
  "States": {
    "Begin": {"Type": "Pass", "Result": {"was": 0}, "Next": "Fan"},
    "Fan": {"Type": "Map", "MaxConcurrency": 2, "ResultPath": "$.runs", "Next": "Note", "ItemsPath": "$$.Execution.Input",
      "ResultWriter": {"Resource": "arn:aws:states:::s3:putObject", "Parameters": {"Bucket": "b", "Prefix": "out"}, "WriterConfig": {"Transformation": "COMPACT"}},
      "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "Echo", "States": {
        "Echo": {"Type": "Task", "Resource": "arn:aws:lambda:local:0:function:echo", "End": true}}}},
    "Note": {"Type": "Pass", "Parameters": {"at": "Note", "was.$": "$"}, "Next": "Twice?"},
    "Twice?": {"Type": "Choice", "Choices": [{"Variable": "$.was.at", "IsPresent": true, "Next": "Bad"}], "Default": "Again"},
    "Again": {"Type": "Pass", "Next": "Fan"},
    "Bad": {"Type": "Task", "Resource": "arn:aws:lambda:local:0:function:echo", "Parameters": {"x.$": "States.StringToJson('{')"},
      "Retry": [{"ErrorEquals": ["States.IntrinsicFailure"], "MaxAttempts": 2}],
      "Catch": [{"ErrorEquals": ["States.IntrinsicFailure"], "ResultPath": "$.bad", "Next": "Both"}], "End": true},
    "Both": {"Type": "Parallel", "ResultPath": "$.both", "End": true, "Retry": [{"ErrorEquals": ["Once"], "MaxAttempts": 1}],
      "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.both", "Next": "Last"}],
      "Branches": [
        {"StartAt": "Long", "States": {"Long": {"Type": "Wait", "Seconds": 500, "End": true}}},
        {"StartAt": "Short", "States": {"Short": {"Type": "Wait", "Seconds": 5, "Next": "No"}, "No": {"Type": "Fail", "Error": "Once", "Cause": "short"}}}]},
    "Last": {"Type": "Pass", "End": true}
  }
}`

// world is what outlives a crash: histories, objects, and what the tasks did.
type world struct {
	mu         sync.Mutex
	histories  memoryHistories
	objects    *memObjects
	calls      map[string]int // by task, payload and child
	normal     map[string]int // the calls of an undisturbed run
	problems   []string
	crashed    bool
	left       int  // durable writes, of events and objects, until the crash; negative: none
	before     bool // the crash is before the next write, not after the last of these
	puts       int
	eventsOnly bool // count: a process that dies after every object never comes to the event that follows several
	stop       context.CancelCauseFunc
	engine     *Engine
	answering  sync.WaitGroup
	repairs    int // redrives that were begun: what is broken is repaired by and by
}

func newWorld() *world {
	return &world{calls: map[string]int{}, left: -1, objects: &memObjects{objects: map[[2]string][]byte{
		{"b", "manifest.jsonl"}: []byte("{\"s\":1}\n{\"s\":2}\n\n{\"s\":3}\n{\"s\":4}\n{\"s\":5}\n{\"s\":6}\n{\"s\":7}\n"),
	}}}
}

var errCrash = errors.New("crash")

// Open opens a history that lets a given number of events through and then fails for good.
func (w *world) Open(ctx context.Context, name HistoryName) (History, error) {
	h, err := w.histories.Open(ctx, name)
	return &crashing{h, w, name}, err
}

type crashing struct {
	inner History
	w     *world
	name  HistoryName
}

func (c *crashing) Events(ctx context.Context) iter.Seq2[Event, error] { return c.inner.Events(ctx) }
func (c *crashing) Close() error                                       { return c.inner.Close() }

func (c *crashing) Append(ctx context.Context, events []Event) error {
	time.Sleep(time.Millisecond) // who does not wait for it is found out
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.name.MapRun != "" && !c.w.durable(HistoryName{Execution: "x"}, func(ev Event) bool { return ev.Type == MapRunStarted }) {
		c.w.problems = append(c.w.problems, "the history of child executions is ahead of that which says that they exist")
	}
	n := c.w.writes(len(events))
	if err := c.inner.Append(ctx, events[:n]); err != nil {
		return err
	}
	if c.w.crashes(n < len(events)) {
		return errCrash
	}
	return nil
}

// writes says how many of n things are written before the crash.
func (w *world) writes(n int) int {
	switch {
	case w.crashed:
		return 0
	case w.left < 0:
		return n
	}
	n = min(n, w.left)
	w.left -= n
	return n
}

// crashes reports whether the process is gone after what was written; short says that not all was.
func (w *world) crashes(short bool) bool {
	w.crashed = w.crashed || short || w.left == 0 && !w.before
	return w.crashed
}

// Get, List and Put are the objects', which are written before or after the crash.
func (w *world) Get(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	return w.objects.Get(ctx, bucket, key)
}

func (w *world) List(ctx context.Context, bucket, prefix string) iter.Seq2[Object, error] {
	return w.objects.List(ctx, bucket, prefix)
}

func (w *world) Put(ctx context.Context, bucket, key string, body []byte) error {
	w.mu.Lock()
	n := 1
	if !w.eventsOnly || w.crashed {
		n = w.writes(1)
	}
	if n == 1 {
		w.puts++
		if err := w.objects.Put(ctx, bucket, key, body); err != nil {
			return err
		}
	}
	crashed := w.crashes(n < 1)
	w.mu.Unlock()
	if crashed {
		w.stop(errCrash)
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

var token = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// durable reports whether a history has an event.
func (w *world) durable(name HistoryName, is func(Event) bool) bool {
	log := w.histories.logs[name]
	return log != nil && slices.ContainsFunc(log.events, is)
}

func callKey(child, state string, payload json.RawMessage) string {
	return fmt.Sprintf("%s %s %s", state, token.ReplaceAll(payload, []byte("token")), child)
}

// Run is the tasks of everything. Nothing it answers depends on what was called before.
func (w *world) Run(ctx context.Context, req TaskRequest) (json.RawMessage, error) {
	w.mu.Lock()
	w.calls[callKey(req.Child, req.State, req.Parameters)]++
	scheduled := false
	for name := range w.histories.logs {
		scheduled = scheduled || w.durable(name, func(ev Event) bool {
			return ev.Child == req.Child && ev.State == req.State && string(ev.Input) == string(req.Parameters) && ev.Resource != ""
		})
	}
	if !scheduled {
		w.problems = append(w.problems, "a task was called before its schedule was durable: "+req.State)
	}
	crashed := w.crashed
	w.mu.Unlock()
	if crashed {
		<-ctx.Done() // a process that is gone answers nothing
		return nil, ctx.Err()
	}
	time.Sleep(time.Duration(1+len(req.Payload)%7) * time.Second)
	switch req.Function {
	case "flaky":
		if req.Attempt < 3 {
			return nil, &Error{"Transient", fmt.Sprint(req.Attempt)}
		}
	case "broken":
		return nil, FunctionError("Broken", "always")
	case "double":
		var p struct{ V int }
		if err := json.Unmarshal(req.Payload, &p); err != nil {
			return nil, err
		}
		return json.Marshal(2 * p.V)
	case "odd":
		if strings.Contains(string(req.Payload), "3") {
			return nil, &Error{"Odd", "3"}
		}
		time.Sleep(time.Minute)
	case "work":
		var p struct {
			BatchInput struct{ Lap int }
			Items      []struct{ S int }
		}
		if err := json.Unmarshal(req.Payload, &p); err != nil {
			return nil, err
		}
		if p.Items[0].S == 5 {
			return nil, &Error{"Poison", "item 5"}
		}
		if req.Attempt == 0 && p.Items[0].S == 3 {
			return nil, &Error{"Transient", "once"}
		}
		return fmt.Appendf(nil, `{"BatchInput":{"lap":%d},"Items":[{"s":%d}],"done":%v}`, p.BatchInput.Lap+1, p.Items[0].S, p.BatchInput.Lap == 2), nil
	case "frail":
		var p struct{ Until int }
		if err := json.Unmarshal(req.Payload, &p); err != nil {
			return nil, err
		}
		if w.repairs < p.Until {
			return nil, &Error{"Frail", fmt.Sprint(p.Until)}
		}
	case "ask":
		e := w.engine
		w.answering.Go(func() {
			time.Sleep(5 * time.Second)
			for e.SendTaskSuccess(ctx, req.Token, json.RawMessage(`"yes"`)) != nil {
				if e != w.current() {
					return
				}
				time.Sleep(time.Second)
			}
		})
		return nil, nil
	}
	return req.Payload, nil
}

func (w *world) current() *Engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.engine
}

// answered counts the calls whose answers are in the histories.
func (w *world) answered() map[string]int {
	out := map[string]int{}
	for _, log := range w.histories.logs {
		scheduled := map[[2]string]Event{}
		for _, ev := range log.events {
			strand := [2]string{ev.Child, ev.Strand}
			switch ev.Type {
			case TaskScheduled, LambdaFunctionScheduled:
				scheduled[strand] = ev
			case TaskSucceeded, TaskFailed, TaskTimedOut, TaskSubmitted, LambdaFunctionSucceeded, LambdaFunctionFailed, LambdaFunctionTimedOut:
				if call, ok := scheduled[strand]; ok {
					out[callKey(ev.Child, ev.State, call.Input)]++
					delete(scheduled, strand)
				}
			}
		}
	}
	return out
}

// attempt runs the execution, or goes on with it, in a new engine.
func (w *world) attempt(t *testing.T, m *Machine, left int) (Result, error) {
	t.Helper()
	e := &Engine{Tasks: w, Objects: w, Histories: w, Seed: 7}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	w.mu.Lock()
	w.crashed, w.left, w.stop, w.engine = false, left, stop, e
	before := maps.Clone(w.calls)
	w.mu.Unlock()
	done := w.answered()
	waiting := w.waitingToken()
	if waiting != "" { // the question was asked and submitted before the crash
		w.answering.Go(func() {
			time.Sleep(5 * time.Second)
			for w.current() == e && e.SendTaskSuccess(t.Context(), waiting, json.RawMessage(`"yes"`)) != nil {
				time.Sleep(time.Second)
			}
		})
	}
	result, err := e.Resume(ctx, m, "x")
	if errors.Is(err, ErrNoExecution) {
		result, err = e.Start(ctx, m, "x", json.RawMessage(`[1,2,3]`))
	}
	for key, n := range done {
		if w.normal != nil && w.calls[key]-before[key] > w.normal[key]-n {
			t.Errorf("called again though the answer was durable: %s", key)
		}
	}
	w.mu.Lock()
	w.engine = nil
	w.mu.Unlock()
	w.answering.Wait()
	return result, err
}

func (w *world) waitingToken() string {
	for name, log := range w.histories.logs {
		if name.MapRun != "" || len(log.events) == 0 {
			continue
		}
		if last := log.events[len(log.events)-1]; last.Type == TaskSubmitted {
			for _, ev := range log.events {
				if ev.State == last.State && ev.Token != "" {
					return ev.Token
				}
			}
		}
	}
	return ""
}

// files are the results that were written, by the ends of their keys.
func (w *world) files() map[string]string {
	out := map[string]string{}
	dates := regexp.MustCompile(`"(Start|Stop)Date":"[^"]*"`)
	for id, body := range w.objects.objects {
		if strings.HasPrefix(id[1], "out/") {
			out[id[1]] = dates.ReplaceAllString(string(body), "")
		}
	}
	return out
}

// written counts what is durable: events and objects.
func (w *world) written() int {
	n := w.puts
	for _, log := range w.histories.logs {
		n += len(log.events)
	}
	return n
}

func mustParse(t testing.TB, definition string) *Machine {
	t.Helper()
	m, err := Parse([]byte(definition), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestUndisturbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		result, err := w.attempt(t, mustParse(t, everything), -1)
		if err != nil || result.Status != Succeeded {
			t.Fatalf("%+v %v", result, err)
		}
		const want = `{"all":{"answer":"yes","both":[{"after":true},{"error":"Broken"}],"each":[2,4,6,8,10],"failing":{"Cause":"3","Error":"Odd"},` +
			`"fan":{"MapRunArn":"arn:aws:states:local:000000000000:mapRun:hindcast/Fan:`
		if !strings.HasPrefix(string(result.Output), want) {
			t.Errorf("output %s\nwant   %s…", result.Output, want)
		}
		for key, body := range w.files() {
			if strings.HasSuffix(key, "SUCCEEDED_0.jsonl") && strings.Count(body, "\n") != 3 {
				t.Errorf("%s has %s", key, body)
			}
		}
		if again, err := w.attempt(t, mustParse(t, everything), -1); err != nil || string(again.Output) != string(result.Output) {
			t.Errorf("a second Resume gives %+v %v", again, err)
		}
		w.checkHistories(t)
	})
}

// TestCrashAtEveryWrite stops the engine when a given number of events and objects are durable, for every such number, at once or
// where it is about to write more, after all that they cause; and resumes it.
func TestCrashAtEveryWrite(t *testing.T) {
	for name, definition := range map[string]string{"everything": everything, "loops": loops} {
		t.Run(name, func(t *testing.T) { crashEverywhere(t, definition) })
	}
}

func crashEverywhere(t *testing.T, definition string) {
	var result Result
	var files map[string]string
	var calls map[string]int
	events := 0
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var err error
		if result, err = w.attempt(t, mustParse(t, definition), -1); err != nil || result.Status != Succeeded {
			t.Fatalf("%+v %v", result, err)
		}
		events, files, calls = w.written(), w.files(), w.calls
	})
	t.Logf("%d durable writes", events)
	check := func(t *testing.T, w *world, got Result) {
		t.Helper()
		if got.Status != Succeeded || string(got.Output) != string(result.Output) {
			t.Errorf("result %s %s %s\nwant   %s", got.Status, got.Error, got.Output, result.Output)
		}
		if !maps.Equal(w.files(), files) {
			t.Errorf("files %v\nwant  %v", w.files(), files)
		}
		w.checkHistories(t)
	}
	for side := range 2 * events {
		if side%19 != 0 && !testenv.Full() {
			continue
		}
		left, before := side/2, side%2 == 0
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.normal, w.before = calls, before
			got, err := w.attempt(t, mustParse(t, definition), left)
			if err != nil {
				if !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				if got, err = w.attempt(t, mustParse(t, definition), -1); err != nil {
					t.Fatalf("resume: %v", err)
				}
			}
			check(t, w, got)
		})
		if t.Failed() {
			t.Fatalf("the crash after %d writes, before the next one: %v", left, before)
		}
	}
	for _, step := range []int{1, 2, 5, 17} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.normal, w.eventsOnly = calls, true
			for n := 0; ; n++ {
				got, err := w.attempt(t, mustParse(t, definition), step)
				if err == nil {
					t.Logf("a crash after every %d events: %d crashes", step, n)
					check(t, w, got)
					return
				}
				if !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
			}
		})
	}
}

// frail fails in a Map Run, is stopped in its redrive, fails in a Parallel state, and then succeeds.
const frail = `{
  "StartAt": "Fan",
  "States": {
    "Fan": {"Type": "Map", "MaxConcurrency": 3, "ResultPath": "$.fan", "ItemsPath": "$.items", "Next": "Both",
      "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "Work", "States": {
        "Work": {"Type": "Task", "Resource": "arn:aws:lambda:local:0:function:frail", "Next": "Rest",
          "Retry": [{"ErrorEquals": ["Frail"], "IntervalSeconds": 2, "MaxAttempts": 1}]},
        "Rest": {"Type": "Wait", "Seconds": 3, "End": true}}}},
    "Both": {"Type": "Parallel", "ResultPath": "$.both", "End": true, "Retry": [{"ErrorEquals": ["Frail"], "MaxAttempts": 1}], "Branches": [
      {"StartAt": "Long", "States": {"Long": {"Type": "Wait", "Seconds": 60, "End": true}}},
      {"StartAt": "Each", "States": {"Each": {"Type": "Map", "ItemsPath": "$.both", "MaxConcurrency": 1, "End": true, "ItemProcessor": {"StartAt": "One", "States": {
        "One": {"Type": "Task", "Resource": "arn:aws:lambda:local:0:function:frail", "End": true}}}}}}]}
  }
}`

const frailInput = `{"items":[{"until":0,"n":1},{"until":1,"n":22},{"until":0,"n":333},{"until":0,"n":4444}],"both":[{"until":0},{"until":3,"n":1},{"until":0,"n":22}]}`

// redriving runs frail to its end, crashing whenever the given number of events are durable (negative: never).
func (w *world) redriving(t *testing.T, left func() int) Result {
	t.Helper()
	m := mustParse(t, frail)
	twice := map[string]int{} // calls that may be made again: those without an answer when the engine stopped
	for runs := 0; ; runs++ {
		if runs > 1000 {
			t.Fatal("it does not end")
		}
		e := &Engine{Tasks: w, Objects: w, Histories: w, Seed: 7}
		redriven, ended := 0, EventType("")
		if log := w.histories.logs[HistoryName{Execution: "x"}]; log != nil {
			for _, ev := range log.events {
				switch {
				case ev.Type == ExecutionRedriven:
					redriven, ended = redriven+1, ""
				case ev.Type.terminal():
					ended = ev.Type
				}
			}
		}
		ctx, stop := context.WithCancelCause(t.Context())
		w.mu.Lock()
		w.crashed, w.left, w.stop, w.engine = false, left(), stop, e
		w.mu.Unlock()
		answered := w.answered()
		for key, n := range w.calls {
			twice[key] = max(twice[key], n-answered[key])
		}
		var result Result
		var err error
		switch {
		case ended != "" && ended != ExecutionSucceeded:
			w.repairs = redriven + 1
			if w.repairs == 2 {
				time.AfterFunc(4*time.Second, func() { stop(&Abort{"Operator", ""}) })
			}
			result, err = e.Redrive(ctx, m, "x")
		default:
			if result, err = e.Resume(ctx, m, "x"); errors.Is(err, ErrNoExecution) {
				result, err = e.Start(ctx, m, "x", json.RawMessage(frailInput))
			}
		}
		stop(nil)
		if err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if err == nil && result.Status == Succeeded {
			answered := w.answered()
			for key, n := range w.calls {
				if n > answered[key]+twice[key] {
					t.Errorf("called again though the answer was durable: %s (%d calls, %d answers)", key, n, answered[key])
				}
			}
			return result
		}
	}
}

// TestCrashInARedrive stops the engine at every event of an execution that is redriven three times.
func TestCrashInARedrive(t *testing.T) {
	var want Result
	events := 0
	never := func() int { return -1 }
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		want = w.redriving(t, never)
		events = w.written()
		w.checkRedriven(t)
		if got := w.repairs; got != 3 {
			t.Errorf("redriven %d times", got)
		}
	})
	t.Logf("%d events, %s", events, want.Output)
	try := func(what string, left func() int) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			if got := w.redriving(t, left); string(got.Output) != string(want.Output) {
				t.Errorf("output %s", got.Output)
			}
			w.checkRedriven(t)
		})
		if t.Failed() {
			t.Fatal(what)
		}
	}
	for n := range events {
		if n%3 != 0 && !testenv.Full() {
			continue
		}
		at := n
		try(fmt.Sprintf("a crash after %d events", n), func() int { n := at; at = -1; return n })
	}
	for _, step := range []int{2, 5, 17} {
		try(fmt.Sprintf("a crash after every %d events", step), func() int { return step })
	}
}

// checkRedriven asks the same, and that all executions have come to a good end.
func (w *world) checkRedriven(t *testing.T) {
	t.Helper()
	w.checkHistories(t)
	for name, log := range w.histories.logs {
		ended := map[string]EventType{}
		for _, ev := range log.events {
			if !ev.Note() {
				ended[ev.Child] = ev.Type
			}
		}
		for child, last := range ended {
			if last != ExecutionSucceeded {
				t.Errorf("%s: %q ends with %q", name, child, last)
			}
		}
	}
}

// checkHistories asks that the histories of executions that have ended are such as Step Functions writes.
func (w *world) checkHistories(t *testing.T) {
	t.Helper()
	for _, problem := range w.problems {
		t.Error(problem)
	}
	for name, log := range w.histories.logs {
		if err := Check(log.Events(t.Context())); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckFindsWhatIsWrong takes an event out of histories that are right, has it twice, or has two in each other's place.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		if _, err := w.attempt(t, mustParse(t, everything), -1); err != nil {
			t.Fatal(err)
		}
		for name, log := range w.histories.logs {
			check := func(what string, i int, events []Event) {
				if err := Check((&memoryHistory{events: events}).Events(t.Context())); err == nil {
					t.Errorf("%s: event %d, %s, %s: nothing is wrong", name, log.events[i].ID, log.events[i].Type, what)
				}
			}
			for i, ev := range log.events {
				if ev.Note() {
					continue
				}
				check("left out", i, slices.Delete(slices.Clone(log.events), i, i+1))
				check("twice", i, slices.Insert(slices.Clone(log.events), i, ev))
				if i > 0 && log.events[i-1].Child == ev.Child && !log.events[i-1].Note() {
					swapped := slices.Clone(log.events)
					swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
					check("before the one before it", i, swapped)
				}
			}
		}
	})
}
