package asl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hindcast/internal/testenv"
)

// The vectors here are written from the developer guide, pages "Restarting state machine executions with redrive"
// (dg/redrive-executions) and "Redriving Map Runs" (dg/redrive-map-run). What a redriven state's events follow is not
// documented; public recordings of AWS show them to follow the state's entry.

// trial runs an execution whose tasks fail until they are repaired.
type trial struct {
	*probe
	m        *Machine
	repaired bool
}

func newTrial(t *testing.T, definition string) *trial {
	tr := &trial{m: mustParse(t, definition)}
	tr.probe = newProbe(func(ctx context.Context, _ *probe, req TaskRequest) (json.RawMessage, error) {
		payload := string(req.Payload)
		switch {
		case strings.Contains(payload, "hang"):
			<-ctx.Done()
			return nil, ctx.Err()
		case strings.Contains(payload, "slow"):
			return req.Payload, systemClock{}.Sleep(ctx, time.Now().Add(time.Minute))
		case strings.Contains(payload, "big"):
			return json.RawMessage(`"` + strings.Repeat("x", 150_000) + `"`), nil
		case strings.Contains(payload, "bad") && !tr.repaired:
			time.Sleep(time.Millisecond) // its siblings have begun
			return nil, &Error{"Bad", payload}
		}
		return req.Payload, nil
	})
	return tr
}

func (tr *trial) fail(t *testing.T, input string) Result {
	t.Helper()
	result, err := tr.Start(t.Context(), tr.m, "x", json.RawMessage(input))
	if err != nil || result.Status == Succeeded {
		t.Fatalf("%+v %v", result, err)
	}
	tr.events, tr.calls = nil, nil
	return result
}

func (tr *trial) redrive(t *testing.T) Result {
	t.Helper()
	if err := tr.Redrivable(t.Context(), tr.m, "x"); err != nil {
		t.Fatal(err)
	}
	result, err := tr.Redrive(t.Context(), tr.m, "x")
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// called are the payloads of the calls, sorted.
func (tr *trial) called() string {
	var out []string
	for _, c := range tr.calls {
		out = append(out, string(c.Payload))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s\nwant %s", what, got, want)
	}
}

// states is a machine of states of which the first is A.
func states(members string) string { return `{"StartAt":"A","States":{` + members + `}}` }

const function = `"Resource":"arn:aws:lambda:local:0:function:f"`

// dg/redrive-executions, "Redrive behavior of individual states".
func TestRedriveOfStates(t *testing.T) {
	for name, c := range map[string]struct {
		definition, input string
		events, calls     string // of the redrive
		status            Status
		output            string
		took              time.Duration
	}{
		"a Task is scheduled and started again; what went before is not": {
			states(`"A":{"Type":"Pass","Parameters":{"v":"bad"},"Next":"B"},"B":{"Type":"Task",` + function + `,"Next":"C"},
				"C":{"Type":"Pass","Parameters":{"n.$":"$$.Execution.RedriveCount","v.$":"$.v"},"End":true}`), `{}`,
			"ExecutionRedriven LambdaFunctionScheduled LambdaFunctionStarted LambdaFunctionSucceeded TaskStateExited PassStateEntered PassStateExited ExecutionSucceeded",
			`{"v":"bad"}`, Succeeded, `{"n":1,"v":"bad"}`, 0,
		},
		"a Fail state is entered again and fails again": {
			states(`"A":{"Type":"Task",` + function + `,"Catch":[{"ErrorEquals":["Bad"],"Next":"F"}],"End":true},"F":{"Type":"Fail","Error":"Final"}`), `"bad"`,
			"ExecutionRedriven FailStateEntered ExecutionFailed", "", Failed, "Final", 0,
		},
		"a Choice is evaluated again": {
			states(`"A":{"Type":"Choice","Choices":[{"Variable":"$.x","IsPresent":true,"Next":"B"}]},"B":{"Type":"Succeed"}`), `{}`,
			"ExecutionRedriven ExecutionFailed", "", Failed, errNoChoice, 0,
		},
		"a Parallel state runs the branches that failed or were aborted": {
			states(`"A":{"Type":"Parallel","End":true,"Branches":[
				{"StartAt":"P","States":{"P":{"Type":"Task",` + function + `,"Parameters":"good","End":true}}},
				{"StartAt":"Q","States":{"Q":{"Type":"Task",` + function + `,"Parameters":"bad","End":true}}},
				{"StartAt":"R","States":{"R":{"Type":"Task",` + function + `,"Parameters":"slow","End":true}}}]}`), `{}`,
			"ExecutionRedriven LambdaFunctionScheduled LambdaFunctionScheduled LambdaFunctionStarted LambdaFunctionStarted LambdaFunctionSucceeded TaskStateExited " +
				"LambdaFunctionSucceeded TaskStateExited ParallelStateSucceeded ParallelStateExited ExecutionSucceeded",
			`"bad" "slow"`, Succeeded, `["good","bad","slow"]`, time.Minute,
		},
		"an inline Map runs the iterations that failed, were aborted or had not begun": {
			states(`"A":{"Type":"Map","MaxConcurrency":2,"End":true,"ItemProcessor":{"StartAt":"T","States":{"T":{"Type":"Task",` + function + `,"End":true}}}}`),
			`["good","slow","bad","late"]`,
			"", `"bad" "late" "slow"`, Succeeded, `["good","slow","bad","late"]`, time.Minute,
		},
		"an inline Map whose result was too large runs again as a whole": {
			states(`"A":{"Type":"Map","End":true,"ResultSelector":{"a.$":"States.Format('{}', $[0])","b.$":"$"},"ItemProcessor":{"StartAt":"T","States":{"T":{"Type":"Task",` + function + `,"End":true}}}}`),
			`["big"]`,
			"ExecutionRedriven MapStateStarted MapIterationStarted TaskStateEntered LambdaFunctionScheduled LambdaFunctionStarted LambdaFunctionSucceeded TaskStateExited MapIterationSucceeded MapStateSucceeded ExecutionFailed",
			`"big"`, Failed, errDataLimit, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrial(t, c.definition)
				tr.fail(t, c.input)
				tr.repaired = true
				start := time.Now()
				wantResult(t, tr.redrive(t), c.status, c.output)
				wantText(t, "calls", tr.called(), c.calls)
				if c.events != "" {
					wantText(t, "events", strings.Join(sortedRuns(tr.types(false)), " "), strings.Join(sortedRuns(c.events), " "))
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// sortedRuns are event types without an order: what runs at the same time has none.
func sortedRuns(types string) []string { return slices.Sorted(slices.Values(strings.Fields(types))) }

// What AWS was recorded to do: the events of a state that is redriven follow its entry.
func TestRedriveContinuesTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, states(`"A":{"Type":"Task",`+function+`,"End":true}`))
		result, err := tr.Start(t.Context(), tr.m, "x", json.RawMessage(`"bad"`))
		if err != nil || result.Error != "Bad" {
			t.Fatalf("%+v %v", result, err)
		}
		time.Sleep(time.Hour)
		wantResult(t, tr.redrive(t), Failed, "Bad") // not repaired yet
		tr.repaired = true
		wantResult(t, tr.redrive(t), Succeeded, `"bad"`)
		var got []string
		for _, ev := range tr.events {
			got = append(got, fmt.Sprintf("%d<%d %s", ev.ID, ev.Previous, ev.Type))
			if ev.RedriveCount > 0 {
				got[len(got)-1] += fmt.Sprintf("(%d)", ev.RedriveCount)
			}
		}
		const attempt = "LambdaFunctionScheduled %d<%d LambdaFunctionStarted %d<%d LambdaFunction"
		wantText(t, "history", strings.Join(got, " "), "1<0 ExecutionStarted 2<0 TaskStateEntered 3<2 "+fmt.Sprintf(attempt, 4, 3, 5, 4)+"Failed 6<5 ExecutionFailed "+
			"7<6 ExecutionRedriven(1) 8<2 "+fmt.Sprintf(attempt, 9, 8, 10, 9)+"Failed 11<10 ExecutionFailed "+
			"12<11 ExecutionRedriven(2) 13<2 "+fmt.Sprintf(attempt, 14, 13, 15, 14)+"Succeeded 16<15 TaskStateExited 17<16 ExecutionSucceeded")
		if again, err := tr.Resume(t.Context(), tr.m, "x"); err != nil || string(again.Output) != `"bad"` {
			t.Errorf("%+v %v", again, err)
		}
	})
}

// dg/redrive-executions, "Retry behavior of redriven executions" and on the time limits of Tasks and state machines:
// all count from 0 again. dg/input-output-contextobject: RedriveTime.
func TestRedriveCountsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, states(`"A":{"Type":"Task",`+function+`,"Parameters":{"v":"bad","n.$":"$$.State.RetryCount"},"Retry":[{"ErrorEquals":["Bad"],"MaxAttempts":2}],"Next":"B"},
			"B":{"Type":"Pass","Parameters":{"at.$":"$$.Execution.RedriveTime"},"End":true}`))
		tr.fail(t, `{}`)
		wantResult(t, tr.redrive(t), Failed, "Bad")
		wantText(t, "calls", tr.called(), `{"n":0,"v":"bad"} {"n":1,"v":"bad"} {"n":2,"v":"bad"}`)
		tr.repaired = true
		at := stamp(time.Now())
		wantResult(t, tr.redrive(t), Succeeded, fmt.Sprintf(`{"at":%q}`, at))
	})
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, `{"TimeoutSeconds":90,"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":40,"Next":"A"},"A":{"Type":"Task","TimeoutSeconds":70,`+function+`,"End":true}}}`)
		if got := tr.fail(t, `"hang"`); got.Status != TimedOut {
			t.Errorf("%+v", got)
		}
		start := time.Now()
		if got := tr.redrive(t); got.Status != Failed || got.Error != errTimeout || time.Since(start) != 70*time.Second {
			t.Errorf("%+v after %v", got, time.Since(start))
		}
	})
	for _, c := range []struct {
		wait string
		took time.Duration
	}{{`"Seconds":100`, 100 * time.Second}, {`"Timestamp":"2000-01-01T00:01:40Z"`, 0}} {
		synctest.Test(t, func(t *testing.T) {
			tr := newTrial(t, `{"TimeoutSeconds":110,"StartAt":"P","States":{"P":{"Type":"Wait","Seconds":50,"Next":"W"},"W":{"Type":"Wait",`+c.wait+`,"End":true}}}`)
			ctx, stop := context.WithCancelCause(t.Context())
			time.AfterFunc(70*time.Second, func() { stop(&Abort{}) })
			if result, err := tr.Start(ctx, tr.m, "x", nil); err != nil || result.Status != Aborted {
				t.Fatalf("%+v %v", result, err)
			}
			time.Sleep(time.Minute)
			start := time.Now()
			wantResult(t, tr.redrive(t), Succeeded, `{}`)
			if took := time.Since(start); took != c.took {
				t.Errorf("%s: took %v, want %v", c.wait, took, c.took)
			}
		})
	}
}

// children are the child executions' events by the input of each.
func (tr *trial) children() map[string]string {
	input, out := map[string]string{}, map[string]string{}
	for _, log := range tr.memory.logs {
		for _, ev := range log.events {
			switch {
			case ev.Child == "" || ev.Note():
			case ev.Type == ExecutionStarted:
				input[ev.Child] = string(ev.Input)
			default:
				out[input[ev.Child]] += strings.NewReplacer("LambdaFunction", "", "TaskState", "", "Execution", "X").Replace(string(ev.Type)) + " "
			}
		}
	}
	return out
}

// dg/redrive-map-run, "Child workflow execution redrive behavior": children that failed, were canceled or had not begun run;
// those go on in their own histories, and the Map Run keeps its ARN.
func TestRedriveOfAMapRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, mapOf(`"MaxConcurrency":2,"ResultWriter":{"Resource":"arn:aws:states:::s3:putObject","Parameters":{"Bucket":"b"},"WriterConfig":{"Transformation":"NONE","OutputType":"JSONL"}},`))
		wantText(t, "error", tr.fail(t, `["good","slow","bad","late"]`).Error, errTolerance)
		before := tr.objects()
		tr.repaired = true
		got := tr.redrive(t)
		if got.Status != Succeeded {
			t.Fatalf("%+v", got)
		}
		wantText(t, "calls", tr.called(), `"bad" "late" "slow"`)
		wantText(t, "events", tr.types(false), "ExecutionRedriven MapRunRedriven MapRunSucceeded MapStateSucceeded MapStateExited ExecutionSucceeded")
		const first = "Entered Scheduled Started "
		for input, want := range map[string]string{
			`"good"`: first + "Succeeded Exited XSucceeded ",
			`"slow"`: first + "XAborted XRedriven Scheduled Started Succeeded Exited XSucceeded ",
			`"bad"`:  first + "Failed XFailed XRedriven Scheduled Started Succeeded Exited XSucceeded ",
			`"late"`: first + "Succeeded Exited XSucceeded ",
		} {
			wantText(t, input, tr.children()[input], want)
		}
		// The same files, of the same Map Run; nothing is listed as failed or pending any more.
		for key, body := range tr.objects() {
			if strings.HasSuffix(key, "manifest.json") && (before[key] == "" || !strings.Contains(body, `"FAILED":[],"PENDING":[]`)) {
				t.Errorf("manifest %s, before %s", body, before[key])
			}
			if strings.HasSuffix(key, "SUCCEEDED_0.jsonl") && strings.Count(body, `"RedriveCount":1,`) != 2 {
				t.Errorf("results %s", body)
			}
		}
	})
}

// dg/redrive-map-run: what is not redriven, or as a new Map Run.
func TestRedriveStartsOrSparesAMapRun(t *testing.T) {
	reader := `"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","Parameters":{"Bucket":"b","Key":"k"},"ReaderConfig":{"InputType":"JSON"}},`
	for name, c := range map[string]struct {
		definition, input string
		before            func(*trial)
		events, calls     string // of the redrive
	}{
		"the items could not be read: they are read then, by the same Map Run": {
			mapOf(reader), `{}`,
			func(tr *trial) { _ = tr.Objects.Put(context.Background(), "b", "k", []byte("[1]")) },
			"ExecutionRedriven MapRunRedriven MapRunSucceeded MapStateSucceeded MapStateExited ExecutionSucceeded", "1",
		},
		"a result that was too large: a new Map Run": {
			mapOf(""), `["big1","big2"]`, nil,
			"ExecutionRedriven MapStateStarted MapRunStarted MapRunFailed MapStateFailed ExecutionFailed", `"big1" "big2"`,
		},
		"a path that led nowhere: a new Map Run": {
			strings.Replace(mapOf(""), `"Type":"Map",`, `"Type":"Map","OutputPath":"$.none",`, 1), `[1]`, nil,
			"ExecutionRedriven MapStateStarted MapRunStarted MapRunSucceeded MapStateSucceeded ExecutionFailed", "1",
		},
		"it was not started: it starts": {
			mapOf(`"ToleratedFailureCountPath":"$[1]",`), `[1]`, nil, "ExecutionRedriven ExecutionFailed", "",
		},
		"failures that were tolerated, before a state that failed: it is not run again": {
			strings.Replace(mapOf(`"ToleratedFailureCount":1,`), `"End":true,`, `"Next":"F",`, 1), `["bad"]`, nil,
			"ExecutionRedriven FailStateEntered ExecutionFailed", "",
		},
		"its failure was caught: it is not run again": {
			strings.Replace(mapOf(`"Catch":[{"ErrorEquals":["States.ALL"],"Next":"F"}],`), `"End":true,`, `"End":true,`, 1), `["bad"]`, nil,
			"ExecutionRedriven FailStateEntered ExecutionFailed", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			definition := c.definition
			if strings.Contains(definition, `"Next":"F"`) {
				definition = strings.TrimSuffix(definition, "}}") + `,"F":{"Type":"Fail","Error":"Final"}}}`
			}
			tr := newTrial(t, definition)
			tr.fail(t, c.input)
			tr.repaired = true
			if c.before != nil {
				c.before(tr)
			}
			tr.redrive(t)
			wantText(t, "events", tr.types(false), c.events)
			wantText(t, "calls", tr.called(), c.calls)
		})
	}
}

// dg/redrive-executions, "Redrive eligibility for unsuccessful executions".
func TestRedriveIsRefused(t *testing.T) {
	refused := func(t *testing.T, tr *trial, want error, reason string) {
		t.Helper()
		events := len(tr.events)
		_, err := tr.Redrive(t.Context(), tr.m, "x")
		if !errors.Is(err, want) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%v, want %v: %s", err, want, reason)
		}
		if other := tr.Redrivable(t.Context(), tr.m, "x"); other == nil || other.Error() != err.Error() {
			t.Errorf("Redrivable says %v", other)
		}
		if len(tr.events) != events {
			t.Error("there are new events")
		}
	}
	definition := states(`"A":{"Type":"Task",` + function + `,"End":true}`)
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, definition)
		refused(t, tr, ErrNoExecution, "")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tr.Start(ctx, tr.m, "x", json.RawMessage(`"slow"`)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		refused(t, tr, ErrNotRedrivable, "Execution is RUNNING and cannot be redriven: resume it")
		if _, err := tr.Resume(t.Context(), tr.m, "x"); err != nil {
			t.Fatal(err)
		}
		refused(t, tr, ErrNotRedrivable, "Execution is SUCCEEDED")
	})
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, definition)
		tr.fail(t, `"bad"`)
		same := tr.m
		tr.m = mustParse(t, strings.Replace(definition, `"End"`, `"TimeoutSeconds":9,"End"`, 1))
		refused(t, tr, ErrDefinitionChanged, "start a new execution")
		tr.m = same
		time.Sleep(14 * 24 * time.Hour)
		if err := tr.Redrivable(t.Context(), tr.m, "x"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		refused(t, tr, ErrNotRedrivable, "Execution redrivable period exceeded: start a new execution")
	})
	for events, reason := range map[int64]string{MaxEvents - 2: "", MaxEvents - 1: "Execution history event limit exceeded"} {
		x := &execution{end: &Event{Type: ExecutionFailed}, lastID: events}
		wantText(t, "reason", x.notRedrivable(time.Time{}), reason)
	}
	x := &execution{end: &Event{Type: ExecutionAborted, Time: time.Unix(0, 0).Add(longestOpen)}, started: time.Unix(0, 0)}
	wantText(t, "reason", x.notRedrivable(time.Unix(1, 0).Add(longestOpen)), "Execution has exceeded the max execution time")
}

// dg/redrive-map-run: a child that ended more than 14 days ago, though its parent did not, stays as it is.
func TestRedriveSparesChildrenThatAreTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		definition := `{"StartAt":"M","States":{"M":{"Type":"Map","End":true,"MaxConcurrency":1,"ToleratedFailureCount":1,
			"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},"StartAt":"C","States":{
			"C":{"Type":"Choice","Choices":[{"Variable":"$","StringEquals":"wait","Next":"W"}],"Default":"T"},
			"W":{"Type":"Wait","Seconds":1000000,"Next":"B"},"B":{"Type":"Task",` + function + `,"Parameters":"bad2","End":true},
			"T":{"Type":"Task",` + function + `,"End":true}}}}}}`
		tr := newTrial(t, definition)
		tr.fail(t, `["bad1","wait","late"]`)
		time.Sleep(5 * 24 * time.Hour)
		tr.repaired = true
		wantResult(t, tr.redrive(t), Succeeded, tr.lastOutput(t))
		wantText(t, "calls", tr.called(), `"bad2" "late"`)
	})
}

func (tr *trial) lastOutput(t *testing.T) string {
	t.Helper()
	result, err := tr.Resume(t.Context(), tr.m, "x")
	if err != nil || result.Status != Succeeded || !strings.Contains(string(result.Output), `"RedriveStatusReason":"Execution redrivable period exceeded"`) {
		t.Errorf("%+v %v", result, err)
	}
	return string(result.Output)
}

// The limit of redrives of one Map Run (dg/redrive-map-run).
func TestAMapRunIsRedrivenAThousandTimes(t *testing.T) {
	tr := newTrial(t, mapOf(""))
	tr.fail(t, `["bad"]`)
	times := 3 // all of them take a while
	if testenv.Full() {
		times = maxMapRedrives + 1
	}
	for n := range times {
		result, err := tr.Redrive(t.Context(), tr.m, "x")
		want := errTolerance
		if n == maxMapRedrives {
			want = errRuntime
		}
		if err != nil || result.Error != want {
			t.Fatalf("redrive %d: %+v %v", n+1, result, err)
		}
	}
}

// An execution that is stopped has ended before its children are, and they are ended too; both are redriven.
func TestStopAndRedrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, mapOf(`"MaxConcurrency":2,`))
		ctx, abort := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Second, func() { abort(&Abort{"States.DataLimitExceeded", "wrong window"}) }) // a name like any other
		result, err := tr.Start(ctx, tr.m, "x", json.RawMessage(`["good","slow1","slow2","late"]`))
		if err != nil || result.Status != Aborted || result.Cause != "wrong window" {
			t.Fatalf("%+v %v", result, err)
		}
		wantText(t, "events", tr.types(false), "ExecutionStarted MapStateEntered MapStateStarted MapRunStarted ExecutionAborted")
		last := slices.IndexFunc(tr.events, func(ev Event) bool { return ev.Type == ExecutionAborted })
		if ev := tr.events[last]; ev.Child != "" || ev.Previous != 0 {
			t.Errorf("first aborted: %+v", ev)
		}
		wantText(t, "slow1", tr.children()[`"slow1"`], "Entered Scheduled Started XAborted ")
		wantText(t, "late", tr.children()[`"late"`], "")
		tr.events, tr.calls = nil, nil
		wantResult(t, tr.redrive(t), Succeeded, `["good","slow1","slow2","late"]`)
		wantText(t, "calls", tr.called(), `"late" "slow1" "slow2"`)
	})
	synctest.Test(t, func(t *testing.T) { // one that was interrupted
		tr := newTrial(t, mapOf(""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tr.Start(ctx, tr.m, "x", json.RawMessage(`["good","slow"]`)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if result, err := tr.Stop(t.Context(), tr.m, "x", Abort{"Operator", "no"}); err != nil || result.Status != Aborted || result.Error != "Operator" {
			t.Fatalf("%+v %v", result, err)
		}
		if result, err := tr.Resume(t.Context(), tr.m, "x"); err != nil || result.Status != Aborted {
			t.Fatalf("%+v %v", result, err)
		}
		tr.calls = nil
		wantResult(t, tr.redrive(t), Succeeded, `["good","slow"]`)
		wantText(t, "calls", tr.called(), `"slow"`)
		wantText(t, "slow", tr.children()[`"slow"`], "Entered Scheduled Started XAborted XRedriven Scheduled Started Succeeded Exited XSucceeded ")
		if result, err := tr.Stop(t.Context(), tr.m, "x", Abort{}); err != nil || result.Status != Succeeded {
			t.Errorf("stopped after its end: %+v %v", result, err)
		}
	})
}

// Items that changed while nothing ran belong to no child that began: neither a resume nor a redrive guesses.
func TestItemsMustNotChange(t *testing.T) {
	tr := newTrial(t, mapOf(`"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","Parameters":{"Bucket":"b","Key":"k"},"ReaderConfig":{"InputType":"JSON"}},`))
	_ = tr.Objects.Put(t.Context(), "b", "k", []byte(`["good","bad"]`))
	tr.fail(t, `{}`)
	_ = tr.Objects.Put(t.Context(), "b", "k", []byte(`["other","bad"]`))
	if _, err := tr.Redrive(t.Context(), tr.m, "x"); !errors.Is(err, errDiverged) || !strings.Contains(err.Error(), "the items have changed") {
		t.Error(err)
	}
	_ = tr.Objects.Put(t.Context(), "b", "k", []byte(`["good","bad"]`))
	tr.repaired = true
	if result, err := tr.Resume(t.Context(), tr.m, "x"); err != nil || string(result.Output) != `["good","bad"]` {
		t.Errorf("%+v %v", result, err)
	}
}
