package asl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// These vectors are for what the recorded cases lack. They are written from the developer
// guide of Step Functions (docs.aws.amazon.com/step-functions/latest/dg); the page is named
// at each.

// probe is an engine whose events are kept.
type probe struct {
	Engine
	events []Event
	notes  []Event
	mu     sync.Mutex
	calls  []TaskRequest
}

func newProbe(run func(ctx context.Context, p *probe, req TaskRequest) (json.RawMessage, error)) *probe {
	p := &probe{}
	p.Observe = func(ev Event) {
		if ev.Note() {
			p.notes = append(p.notes, ev)
		} else {
			p.events = append(p.events, ev)
		}
	}
	p.Tasks = TaskFunc(func(ctx context.Context, req TaskRequest) (json.RawMessage, error) {
		p.mu.Lock()
		p.calls = append(p.calls, req)
		p.mu.Unlock()
		return run(ctx, p, req)
	})
	p.Objects = &memObjects{objects: map[[2]string][]byte{}}
	return p
}

// token is that of the first task that was asked.
func (p *probe) token() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[0].Token
}

func echo(_ context.Context, _ *probe, req TaskRequest) (json.RawMessage, error) {
	return req.Payload, nil
}

func (p *probe) start(t *testing.T, definition, input string) Result {
	t.Helper()
	result, err := p.Start(t.Context(), mustParse(t, definition), "x", json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// objects are what bucket b holds, by key.
func (p *probe) objects() map[string]string {
	out := map[string]string{}
	m, _ := p.Objects.(*memObjects)
	for id, body := range m.objects {
		if id[0] == "b" {
			out[id[1]] = string(body)
		}
	}
	return out
}

func (p *probe) types(child bool) string {
	var out []string
	for _, ev := range p.events {
		if (ev.Child != "") == child {
			out = append(out, string(ev.Type))
		}
	}
	return strings.Join(out, " ")
}

func wantResult(t *testing.T, got Result, status Status, want string) {
	t.Helper()
	text := string(got.Output)
	if got.Status != Succeeded {
		text = got.Error
	}
	if got.Status != status || text != want {
		t.Errorf("%s %s (%s)\nwant %s %s", got.Status, text, got.Cause, status, want)
	}
}

// mapOf is a distributed Map over the input's items that runs one Task.
func mapOf(members string) string {
	return `{"StartAt":"M","States":{"M":{"Type":"Map","End":true,` + members + `"ItemProcessor":{"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},
	"StartAt":"T","States":{"T":{"Type":"Task","Resource":"arn:aws:lambda:local:0:function:f","End":true}}}}}}`
}

// dg/input-output-itemreader: JSON Lines, CSV with another delimiter, ItemsPointer, MaxItems.
func TestItemReaders(t *testing.T) {
	for _, c := range []struct{ config, body, want string }{
		{`"InputType":"JSONL"`, "\xef\xbb\xbf{\"a\":1}\n\n  [2] \r\n9007199254740993", `[{"a":1},[2],9007199254740993]`},
		{`"InputType":"JSONL","MaxItems":2`, "1\n2\nnot read", `[1,2]`},
		{`"InputType":"JSONL"`, "1\n{", "!line 2"},
		{`"InputType":"JSONL"`, "", `[]`},
		{`"InputType":"JSON","ItemsPointer":"/data/a~1b"`, `{"data":{"a/b":[1,2]}}`, `[1,2]`},
		{`"InputType":"JSON","ItemsPointer":"/x"`, `{}`, "!there is nothing at /x"},
		{`"InputType":"JSON"`, `[1] 2`, "!more than one value"},
		{`"InputType":"CSV","CSVHeaderLocation":"FIRST_ROW","CSVDelimiter":"PIPE"`, "a|b\n1|\"x\ny|z\"\n", `[{"a":"1","b":"x\ny|z"}]`},
		{`"InputType":"CSV","CSVHeaderLocation":"GIVEN","CSVHeaders":["k"],"CSVDelimiter":"TAB"`, "1\t2\n", `[{"k":"1"}]`},
	} {
		p := newProbe(echo)
		_ = p.Objects.Put(t.Context(), "b", "k", []byte(c.body))
		got := p.start(t, mapOf(`"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","Parameters":{"Bucket":"b","Key.$":"$.key"},"ReaderConfig":{`+c.config+`}},`), `{"key":"k"}`)
		if reason, fails := strings.CutPrefix(c.want, "!"); fails {
			wantResult(t, got, Failed, errItemReader)
			if !strings.Contains(got.Cause, reason) || !strings.Contains(got.Cause, "s3://b/k") {
				t.Errorf("cause %q does not say %q", got.Cause, reason)
			}
			continue
		}
		wantResult(t, got, Succeeded, c.want)
	}
	p := newProbe(echo)
	got := p.start(t, mapOf(`"ItemReader":{"Resource":"arn:aws:states:::s3:getObject","Parameters":{"Bucket":"b","Key":"none"},"ReaderConfig":{"InputType":"JSON"}},`), `{}`)
	wantResult(t, got, Failed, errItemReader)
	if want := "ExecutionStarted MapStateEntered MapStateStarted MapRunStarted MapRunFailed MapStateFailed ExecutionFailed"; p.types(false) != want {
		t.Errorf("events %s", p.types(false))
	}
}

// dg/input-output-itembatcher: by items, by bytes, BatchInput.
func TestItemBatcher(t *testing.T) {
	for _, c := range []struct{ batcher, want string }{
		{`"MaxItemsPerBatch":2`, `[{"Items":[1,22]},{"Items":[333,4444]},{"Items":[55555]}]`},
		{`"MaxItemsPerBatch":10`, `[{"Items":[1,22,333,4444,55555]}]`},
		{`"MaxInputBytesPerBatch":18`, `[{"Items":[1,22]},{"Items":[333]},{"Items":[4444]},{"Items":[55555]}]`},
		{`"MaxInputBytesPerBatch":20`, `[{"Items":[1,22,333]},{"Items":[4444]},{"Items":[55555]}]`},
		{`"MaxItemsPerBatchPath":"$.n","BatchInput":{"run.$":"$.run","k":[1]}`, `[{"BatchInput":{"k":[1],"run":"r"},"Items":[1,22,333]},{"BatchInput":{"k":[1],"run":"r"},"Items":[4444,55555]}]`},
	} {
		got := newProbe(echo).start(t, mapOf(`"ItemsPath":"$.items","ItemBatcher":{`+c.batcher+`},`), `{"items":[1,22,333,4444,55555],"n":3,"run":"r"}`)
		wantResult(t, got, Succeeded, c.want)
	}
	got := newProbe(echo).start(t, mapOf(`"ItemsPath":"$.items","ItemBatcher":{"MaxItemsPerBatchPath":"$.n"},`), `{"items":[1],"n":0}`)
	wantResult(t, got, Failed, errRuntime)
}

// dg/input-output-resultwriter: the layout, the transformations, what failed and what did not run.
func TestResultWriter(t *testing.T) {
	run := func(_ context.Context, _ *probe, req TaskRequest) (json.RawMessage, error) {
		if string(req.Payload) == "3" {
			return nil, &Error{"Bad", "three"}
		}
		return fmt.Appendf(nil, "[%s,%s]", req.Payload, req.Payload), nil
	}
	for transformation, want := range map[string]string{"COMPACT": "[[1,1],[2,2],[4,4]]", "FLATTEN": "[1,1,2,2,4,4]"} {
		p := newProbe(run)
		got := p.start(t, mapOf(`"MaxConcurrency":1,"ToleratedFailureCount":1,"ResultWriter":{"Resource":"arn:aws:states:::s3:putObject","Parameters":{"Bucket":"b","Prefix.$":"$[4]"},
			"WriterConfig":{"Transformation":"`+transformation+`"}},"ItemsPath":"$[0:4]",`), `[1,2,3,4,"out/"]`)
		var out struct {
			MapRunArn           string
			ResultWriterDetails struct{ Bucket, Key string }
		}
		if got.Status != Succeeded || json.Unmarshal(got.Output, &out) != nil {
			t.Fatalf("%+v", got)
		}
		id := out.MapRunArn[strings.LastIndex(out.MapRunArn, ":")+1:]
		if want := "out/" + id + "/manifest.json"; out.ResultWriterDetails.Key != want || out.ResultWriterDetails.Bucket != "b" {
			t.Errorf("details %+v, want %s", out.ResultWriterDetails, want)
		}
		files := p.objects()
		if got := files["out/"+id+"/SUCCEEDED_0.json"]; got != want {
			t.Errorf("%s: %s, want %s", transformation, got, want)
		}
		var failed []childRecord
		if err := json.Unmarshal([]byte(files["out/"+id+"/FAILED_0.json"]), &failed); err != nil || len(failed) != 1 {
			t.Fatalf("%v: %s", err, files["out/"+id+"/FAILED_0.json"])
		}
		f := failed[0]
		if f.Status != "FAILED" || f.Error != "Bad" || f.Cause != "three" || f.Input != "3" || !strings.HasSuffix(f.ExecutionArn, f.Name) {
			t.Errorf("failed child %+v", f)
		}
		want := fmt.Sprintf(`{"DestinationBucket":"b","MapRunArn":%q,"ResultFiles":{"FAILED":[{"Key":"out/%[2]s/FAILED_0.json","Size":%[3]d}],"PENDING":[],`+
			`"SUCCEEDED":[{"Key":"out/%[2]s/SUCCEEDED_0.json","Size":%[4]d}]}}`, out.MapRunArn, id, len(files["out/"+id+"/FAILED_0.json"]), len(want))
		if got := files["out/"+id+"/manifest.json"]; got != want {
			t.Errorf("manifest %s\nwant     %s", got, want)
		}
	}
	// Too many fail: what did not run is pending, and all is written nevertheless.
	p := newProbe(run)
	got := p.start(t, mapOf(`"MaxConcurrency":1,"ResultWriter":{"Resource":"arn:aws:states:::s3:putObject","Parameters":{"Bucket":"b"}},`), `[1,3,2,4]`)
	wantResult(t, got, Failed, errTolerance)
	var pending []childRecord
	for key, body := range p.objects() {
		if strings.HasSuffix(key, "/PENDING_0.json") {
			if err := json.Unmarshal([]byte(body), &pending); err != nil {
				t.Error(err)
			}
		}
	}
	if len(pending) != 2 || pending[0].Status != "PENDING" || pending[0].Input != "2" || pending[1].StartDate != "" {
		t.Errorf("pending %+v", pending)
	}
	// Only WriterConfig: the state's output is formed, nothing is written.
	p = newProbe(run)
	got = p.start(t, mapOf(`"ResultWriter":{"WriterConfig":{"Transformation":"FLATTEN"}},`), `[1,2]`)
	wantResult(t, got, Succeeded, "[1,1,2,2]")
	if len(p.objects()) != 0 {
		t.Error("something was written")
	}
}

// dg/state-map-distributed, "Tolerated failure threshold": counted in items; either limit.
func TestTolerance(t *testing.T) {
	run := func(_ context.Context, _ *probe, req TaskRequest) (json.RawMessage, error) {
		if strings.Contains(string(req.Payload), "true") {
			return nil, &Error{"Bad", ""}
		}
		return req.Payload, nil
	}
	for _, c := range []struct {
		members, input string
		ok             bool
	}{
		{``, `[true,false]`, false},
		{`"ToleratedFailureCount":1,`, `[true,false]`, true},
		{`"ToleratedFailureCount":1,`, `[true,true]`, false},
		{`"ToleratedFailurePercentage":50,`, `[true,false]`, true},
		{`"ToleratedFailurePercentage":49,`, `[true,false]`, false},
		{`"ToleratedFailurePercentage":100,`, `[true,true]`, true},
		{`"ToleratedFailurePercentage":100,"ToleratedFailureCount":1,`, `[true,true]`, false},
		{`"ToleratedFailureCount":1,"ItemBatcher":{"MaxItemsPerBatch":2},`, `[true,false]`, false},
		{`"ToleratedFailureCount":2,"ItemBatcher":{"MaxItemsPerBatch":2},`, `[true,false]`, true},
	} {
		got := newProbe(run).start(t, mapOf(c.members), c.input)
		if (got.Status == Succeeded) != c.ok || !c.ok && got.Error != errTolerance {
			t.Errorf("%s %s: %+v", c.members, c.input, got)
		}
	}
}

// dg/connect-to-resource, "Wait for a Callback with Task Token".
func TestTaskTokens(t *testing.T) {
	const definition = `{"StartAt":"Ask","States":{"Ask":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","TimeoutSeconds":100,"HeartbeatSeconds":30,
		"Parameters":{"FunctionName":"ask","Payload":{"token.$":"$$.Task.Token"}},"End":true}}}`
	for name, c := range map[string]struct {
		answer func(p *probe, token string) error
		status Status
		want   string
		took   time.Duration
	}{
		"success": {func(p *probe, token string) error {
			return p.SendTaskSuccess(context.Background(), token, json.RawMessage(`{"ok":true}`))
		}, Succeeded, `{"ok":true}`, 20 * time.Second},
		"failure": {func(p *probe, token string) error {
			return p.SendTaskFailure(context.Background(), token, Error{Name: "Rejected", Cause: "no"})
		}, Failed, "Rejected", 20 * time.Second},
		"silence": {func(*probe, string) error { return nil }, Failed, errHeartbeat, 30 * time.Second},
		"heartbeats": {func(p *probe, token string) error {
			for range 4 { // until 80 s, in time each
				if err := p.SendTaskHeartbeat(context.Background(), token); err != nil {
					return err
				}
				time.Sleep(20 * time.Second)
			}
			return nil
		}, Failed, errTimeout, 100 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var wg sync.WaitGroup
			p := newProbe(func(_ context.Context, p *probe, req TaskRequest) (json.RawMessage, error) {
				if string(req.Payload) != fmt.Sprintf(`{"token":%q}`, req.Token) {
					t.Errorf("payload %s, token %s", req.Payload, req.Token)
				}
				wg.Go(func() {
					time.Sleep(20 * time.Second)
					if err := c.answer(p, req.Token); err != nil {
						t.Error(err)
					}
				})
				return json.RawMessage(`"asked"`), nil
			})
			start := time.Now()
			got := p.start(t, definition, `{}`)
			if took := time.Since(start); took != c.took {
				t.Errorf("%s: took %v, want %v", name, took, c.took)
			}
			wantResult(t, got, c.status, c.want)
			wg.Wait()
			if err := p.SendTaskSuccess(t.Context(), p.token(), json.RawMessage(`1`)); !errors.Is(err, ErrNoTask) {
				t.Errorf("%s: a second answer: %v", name, err)
			}
			if !strings.HasPrefix(p.types(false), "ExecutionStarted TaskStateEntered TaskScheduled TaskStarted TaskSubmitted Task") {
				t.Errorf("%s: %s", name, p.types(false))
			}
		})
	}
}

// TestTokenSurvives: who was asked before an interruption is not asked again, the answer
// counts after it, and so does the time that was given.
func TestTokenSurvives(t *testing.T) {
	const definition = `{"StartAt":"Ask","States":{"Ask":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","TimeoutSeconds":100,
		"Parameters":{"FunctionName":"ask","Payload":{"token.$":"$$.Task.Token"}},"End":true}}}`
	for _, answer := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := mustParse(t, definition)
			p := newProbe(echo)
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			if _, err := p.Start(ctx, m, "x", nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			token := p.token()
			if err := p.SendTaskSuccess(t.Context(), token, json.RawMessage("1")); !errors.Is(err, ErrNoTask) {
				t.Errorf("answered while nothing runs: %v", err)
			}
			if answer {
				time.AfterFunc(10*time.Second, func() {
					if err := p.SendTaskSuccess(context.Background(), token, json.RawMessage("1")); err != nil {
						t.Error(err)
					}
				})
			}
			result, err := p.Resume(t.Context(), m, "x")
			if err != nil {
				t.Fatal(err)
			}
			if answer {
				wantResult(t, result, Succeeded, "1")
			} else if wantResult(t, result, Failed, errTimeout); time.Since(start) != 100*time.Second {
				t.Errorf("timed out after %v", time.Since(start))
			}
			if len(p.calls) != 1 {
				t.Errorf("asked %d times", len(p.calls))
			}
		})
	}
}

// askingTask is a task that waits for its token.
const askingTask = `{"StartAt":"Ask","States":{"Ask":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","TimeoutSeconds":100,
	"Parameters":{"FunctionName":"ask","Payload":{"token.$":"$$.Task.Token"}},"End":true}}}`

// API_SendTaskSuccess and API_SendTaskFailure: the limits of what they take. What is refused answers nothing.
func TestAnswersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe(echo)
		long := func(n int) string { return strings.Repeat("x", n) }
		time.AfterFunc(time.Second, func() {
			token, ctx := p.token(), context.Background()
			for what, err := range map[string]error{
				"an output that is too large": p.SendTaskSuccess(ctx, token, json.RawMessage(`"`+long(MaxPayload-1)+`"`)),
				"an output that is no JSON":   p.SendTaskSuccess(ctx, token, json.RawMessage(`{`)),
				"a name that is too long":     p.SendTaskFailure(ctx, token, Error{Name: long(257)}),
				"a cause that is too long":    p.SendTaskFailure(ctx, token, Error{Cause: long(32_769)}),
				"a token that is none":        p.SendTaskSuccess(ctx, "none", json.RawMessage(`1`)),
			} {
				if err == nil {
					t.Errorf("%s was taken", what)
				}
			}
			if err := p.SendTaskFailure(ctx, token, Error{long(256), long(32_768)}); err != nil {
				t.Error(err)
			}
		})
		wantResult(t, p.start(t, askingTask, `{}`), Failed, long(256))
	})
}

// TestAnswersAreDurable: what SendTaskSuccess returned nil for counts, even if the engine is gone the moment after, while
// the function still runs, and at the very end of the time that was given.
func TestAnswersAreDurable(t *testing.T) {
	for _, running := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := mustParse(t, askingTask)
			ctx, crash := context.WithCancel(t.Context())
			p := newProbe(func(ctx context.Context, _ *probe, req TaskRequest) (json.RawMessage, error) {
				if running {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return req.Payload, nil
			})
			time.AfterFunc(time.Second, func() {
				if err := p.SendTaskSuccess(context.Background(), p.token(), json.RawMessage(" [1,\n2]")); err != nil {
					t.Error(err)
				}
				crash()
			})
			result, err := p.Start(ctx, m, "x", nil)
			if err != nil { // the crash won
				result, err = p.Resume(t.Context(), m, "x")
			}
			if err != nil {
				t.Fatal(err)
			}
			wantResult(t, result, Succeeded, "[1,2]")
			if len(p.calls) != 1 {
				t.Errorf("asked %d times", len(p.calls))
			}
		})
	}
	taken := 0
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			p := newProbe(echo)
			var err error
			time.AfterFunc(100*time.Second, func() { err = p.SendTaskSuccess(context.Background(), p.token(), json.RawMessage(`1`)) })
			got := p.start(t, askingTask, `{}`)
			synctest.Wait()
			if (err == nil) != (got.Status == Succeeded) {
				t.Errorf("%v, and the task ends with %+v", err, got)
			}
			if err == nil {
				taken++
			}
		})
	}
	t.Logf("%d of 50 answers came before the time-out", taken)
}

// dg/concepts-error-handling, "Retrying after an error".
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []int
		answers := []string{"A", "B", "A", "A", "B", "C", ""}
		p := newProbe(func(_ context.Context, _ *probe, req TaskRequest) (json.RawMessage, error) {
			at = append(at, int(time.Since(start).Seconds()))
			if req.Attempt+1 != len(at) {
				t.Errorf("attempt %d is numbered %d", len(at), req.Attempt)
			}
			if name := answers[req.Attempt]; name != "" {
				return nil, &Error{Name: name}
			}
			return nil, nil
		})
		got := p.start(t, task(`,"Retry":[{"ErrorEquals":["A"],"IntervalSeconds":2,"MaxAttempts":3,"BackoffRate":3,"MaxDelaySeconds":10},
			{"ErrorEquals":["B"],"MaxAttempts":2},{"ErrorEquals":["States.ALL"],"IntervalSeconds":100,"MaxAttempts":1}]`), `{}`)
		wantResult(t, got, Succeeded, "null")
		// A: 2, 6, 10 (capped); B: 1, 2; C: 100; each retrier counts for itself.
		if want := []int{0, 2, 3, 9, 19, 21, 121}; !slices.Equal(at, want) {
			t.Errorf("attempts at %v s, want %v", at, want)
		}
	})
	synctest.Test(t, func(t *testing.T) { // full jitter stays within the delay, and depends on the seed
		delays := map[time.Duration]bool{}
		for seed := range uint64(20) {
			start := time.Now()
			p := newProbe(func(_ context.Context, _ *probe, req TaskRequest) (json.RawMessage, error) {
				if req.Attempt == 0 {
					return nil, errors.New("x")
				}
				return nil, nil
			})
			p.Seed = seed
			p.start(t, task(`,"Retry":[{"ErrorEquals":["Lambda.Unknown"],"IntervalSeconds":10,"JitterStrategy":"FULL"}]`), `{}`)
			delay := time.Since(start)
			delays[delay] = true
			if delay < 0 || delay > 10*time.Second {
				t.Errorf("delay %v", delay)
			}
		}
		if len(delays) < 15 {
			t.Errorf("20 seeds give %d delays", len(delays))
		}
	})
}

// dg/concepts-error-handling: what the wildcards match.
func TestErrorMatching(t *testing.T) {
	for _, c := range []struct {
		names string
		name  string
		task  bool
		want  bool
	}{
		{"X", "X", true, true},
		{"X", "Y", true, false},
		{errAll, "X", true, true},
		{errAll, errTimeout, true, true},
		{errAll, errRuntime, true, false},
		{errRuntime, errRuntime, true, false},
		{errAll, errDataLimit, false, false},
		{errDataLimit, errDataLimit, false, true},
		{errAll, errDataLimit, true, true},
		{errTaskFailed, "X", true, true},
		{errTaskFailed, errTimeout, true, false},
		{errTaskFailed, "X", false, false},
		{errTimeout, errTimeout, true, true},
		{errTimeout, errHeartbeat, true, true},
		{errHeartbeat, errTimeout, true, false},
	} {
		if got := matches([]string{c.names}, &Error{Name: c.name}, c.task); got != c.want {
			t.Errorf("%s matches %s (task %v): %v", c.names, c.name, c.task, got)
		}
	}
}

// dg/service-quotas: 256 KiB for a payload, 25,000 events in a history.
func TestLimits(t *testing.T) {
	big := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("é", (n-2)/2) + `"`) }
	answer := func(b json.RawMessage) func(context.Context, *probe, TaskRequest) (json.RawMessage, error) {
		return func(context.Context, *probe, TaskRequest) (json.RawMessage, error) { return b, nil }
	}
	got := newProbe(answer(big(MaxPayload))).start(t, task(""), `{}`)
	if got.Status != Succeeded || len(got.Output) != MaxPayload {
		t.Errorf("%s %s with a result of just the limit", got.Status, got.Error)
	}
	caught := newProbe(answer(big(MaxPayload+2))).start(t, `{"StartAt":"A","States":{"A":{"Type":"Task","Resource":"arn:aws:lambda:local:0:function:f","Catch":[{"ErrorEquals":["States.ALL"],"Next":"B"}],"End":true},
		"B":{"Type":"Pass","Parameters":{"e.$":"$.Error"},"End":true}}}`, `{}`)
	wantResult(t, caught, Succeeded, `{"e":"States.DataLimitExceeded"}`)
	// A state's output that is too large is caught by nothing.
	got = newProbe(answer(big(MaxPayload))).start(t, `{"StartAt":"A","States":{"A":{"Type":"Task","Resource":"arn:aws:lambda:local:0:function:f","ResultPath":"$.r","Catch":[{"ErrorEquals":["States.ALL"],"Next":"B"}],"End":true},"B":{"Type":"Succeed"}}}`, `{}`)
	wantResult(t, got, Failed, errDataLimit)
	if _, err := newProbe(echo).Start(t.Context(), mustParse(t, task("")), "x", big(MaxPayload+2)); err == nil {
		t.Error("an input that is too large was accepted")
	}
	// A loop that never ends.
	p := newProbe(echo)
	got = p.start(t, `{"StartAt":"A","States":{"A":{"Type":"Pass","Next":"B"},"B":{"Type":"Choice","Choices":[{"Variable":"$.x","IsPresent":true,"Next":"C"}],"Default":"A"},"C":{"Type":"Succeed"}}}`, `{}`)
	wantResult(t, got, Failed, errRuntime)
	if n := len(p.events); n != MaxEvents || p.events[n-1].Type != ExecutionFailed || p.events[n-1].ID != MaxEvents {
		t.Errorf("%d events, the last %+v", n, p.events[n-1])
	}
}

func TestExecutionTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe(func(ctx context.Context, _ *probe, _ TaskRequest) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		start := time.Now()
		got := p.start(t, `{"TimeoutSeconds":50,"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":20,"Next":"A"},"A":{"Type":"Task","Resource":"arn:aws:lambda:local:0:function:f",
			"Catch":[{"ErrorEquals":["States.ALL"],"Next":"B"}],"End":true},"B":{"Type":"Succeed"}}}`, `{}`)
		if got.Status != TimedOut || time.Since(start) != 50*time.Second {
			t.Errorf("%+v after %v", got, time.Since(start))
		}
	})
}

// TestInterruption: an execution that is stopped goes on, one that is aborted has ended;
// waits and retries end when they would have.
func TestInterruption(t *testing.T) {
	const definition = `{"StartAt":"W","States":{"W":{"Type":"Wait","Seconds":3600,"Next":"A"},"A":{"Type":"Task","Resource":"arn:aws:lambda:local:0:function:f",
		"Retry":[{"ErrorEquals":["Once"],"IntervalSeconds":1000}],"End":true}}}`
	synctest.Test(t, func(t *testing.T) {
		m := mustParse(t, definition)
		start := time.Now()
		var called []time.Duration
		p := newProbe(func(_ context.Context, _ *probe, req TaskRequest) (json.RawMessage, error) {
			called = append(called, time.Since(start))
			if req.Attempt == 0 {
				return nil, &Error{Name: "Once"}
			}
			return json.RawMessage(`"done"`), nil
		})
		pause := func(after, pause time.Duration, run func(context.Context) (Result, error)) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			if result, err := run(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%+v %v", result, err)
			}
			time.Sleep(pause)
		}
		resume := func(ctx context.Context) (Result, error) { return p.Resume(ctx, m, "x") }
		if _, err := resume(t.Context()); !errors.Is(err, ErrNoExecution) {
			t.Errorf("resume before start: %v", err)
		}
		pause(10*time.Minute, 20*time.Minute, func(ctx context.Context) (Result, error) { return p.Start(ctx, m, "x", nil) })
		if _, err := p.Start(t.Context(), m, "x", nil); !errors.Is(err, ErrExists) {
			t.Errorf("started twice: %v", err)
		}
		other := mustParse(t, strings.Replace(definition, "3600", "3601", 1))
		if _, err := p.Resume(t.Context(), other, "x"); !errors.Is(err, ErrDefinitionChanged) {
			t.Errorf("resumed with another definition: %v", err)
		}
		pause(40*time.Minute, 0, resume) // into the retry's delay, which began after an hour
		result, err := resume(t.Context())
		if err != nil || result.Status != Succeeded {
			t.Fatalf("%+v %v", result, err)
		}
		if want := []time.Duration{time.Hour, time.Hour + 1000*time.Second}; !slices.Equal(called, want) {
			t.Errorf("called after %v, want %v", called, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := mustParse(t, definition)
		p := newProbe(echo)
		ctx, abort := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { abort(&Abort{"Operator", "wrong window"}) })
		result, err := p.Start(ctx, m, "x", nil)
		if err != nil || result.Status != Aborted || result.Error != "Operator" {
			t.Fatalf("%+v %v", result, err)
		}
		if again, err := p.Resume(t.Context(), m, "x"); err != nil || again.Status != Aborted || again.Cause != "wrong window" {
			t.Errorf("%+v %v", again, err)
		}
		if len(p.calls) != 0 {
			t.Error("the task was called")
		}
	})
}

// TestConcurrency: no more iterations at once than allowed, and as many as that.
func TestConcurrency(t *testing.T) {
	for _, c := range []struct {
		members  string
		inline   bool
		parallel int
		want     int
	}{
		{`"MaxConcurrency":3,`, false, 0, 3}, {`"MaxConcurrency":3,`, false, 2, 2}, {`"MaxConcurrencyPath":"$[0]",`, true, 0, 4}, {``, true, 5, 5}, {``, false, 7, 7}, {``, true, 0, 40},
	} {
		synctest.Test(t, func(t *testing.T) {
			running, most := 0, 0
			p := newProbe(func(_ context.Context, p *probe, _ TaskRequest) (json.RawMessage, error) {
				p.mu.Lock()
				running++
				most = max(most, running)
				p.mu.Unlock()
				time.Sleep(time.Second)
				p.mu.Lock()
				running--
				p.mu.Unlock()
				return nil, nil
			})
			p.MaxParallel = c.parallel
			definition := mapOf(c.members)
			if c.inline {
				definition = strings.Replace(definition, `"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},`, "", 1)
			}
			items := make([]int, 50)
			items[0] = 4
			input, _ := json.Marshal(items)
			if got := p.start(t, definition, string(input)); got.Status != Succeeded {
				t.Errorf("%+v", got)
			}
			if most != c.want {
				t.Errorf("%+v: %d ran at once", c, most)
			}
		})
	}
}

// dg/API_UpdateMapRun: concurrency and tolerance change while the Map Run runs.
func TestUpdateMapRun(t *testing.T) {
	ptr := func(n int) *int { return &n }
	synctest.Test(t, func(t *testing.T) {
		running, most := 0, 0
		p := newProbe(func(_ context.Context, p *probe, _ TaskRequest) (json.RawMessage, error) {
			p.mu.Lock()
			running++
			most = max(most, running)
			p.mu.Unlock()
			time.Sleep(10 * time.Second)
			p.mu.Lock()
			running--
			p.mu.Unlock()
			return nil, nil
		})
		update := func(n int) {
			runs := p.MapRuns()
			if len(runs) != 1 || runs[0].State != "M" || runs[0].Counts.Total != 40 {
				t.Errorf("map runs %+v", runs)
				return
			}
			if err := p.UpdateMapRun(runs[0].ARN, MapRunUpdate{MaxConcurrency: ptr(n)}); err != nil {
				t.Error(err)
			}
		}
		time.AfterFunc(15*time.Second, func() { update(2) })
		time.AfterFunc(21*time.Second, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if running != 2 || most != 8 {
				t.Errorf("%d run, at most %d did", running, most)
			}
		})
		time.AfterFunc(25*time.Second, func() { update(20) })
		start := time.Now()
		input, _ := json.Marshal(make([]int, 40))
		got := p.start(t, mapOf(`"MaxConcurrency":8,`), string(input))
		// 8 until 10 s, 8 until 20 s, 2 until 30 s, 18 until 35 s, 2 until 40 s, 2 until 45 s.
		if took := time.Since(start); got.Status != Succeeded || most != 20 || took != 45*time.Second {
			t.Errorf("%s, at most %d ran, took %v", got.Status, most, took)
		}
		if err := p.UpdateMapRun("gone", MapRunUpdate{}); !errors.Is(err, ErrNoMapRun) {
			t.Error(err)
		}
	})
	for _, raise := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := newProbe(func(ctx context.Context, _ *probe, req TaskRequest) (json.RawMessage, error) {
				if err := (systemClock{}).Sleep(ctx, time.Now().Add(10*time.Second)); err != nil {
					return nil, err
				}
				if string(req.Payload) == "1" {
					return nil, &Error{Name: "Bad"}
				}
				return nil, nil
			})
			time.AfterFunc(15*time.Second, func() {
				n := int64(0)
				if raise {
					n = 3
				}
				if err := p.UpdateMapRun(p.MapRuns()[0].ARN, MapRunUpdate{ToleratedFailureCount: &n}); err != nil {
					t.Error(err)
				}
			})
			got := p.start(t, mapOf(`"MaxConcurrency":1,"ToleratedFailureCount":1,`), `[1,0,1,0]`)
			if raise == (got.Status != Succeeded) {
				t.Errorf("raised %v: %s %s", raise, got.Status, got.Error)
			}
			if !raise && !strings.HasSuffix(p.types(true), "ExecutionAborted") {
				t.Errorf("the child that ran was not aborted: %s", p.types(true))
			}
		})
	}
}

// TestUpdatesAndPausesHold: a pause lets what runs finish and nothing begin, at once; it and a change of the settings hold
// after an interruption, as they do at AWS, which is not interrupted. A redrive ends a pause.
func TestUpdatesAndPausesHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustParse(t, mapOf(`"MaxConcurrency":4,`))
		fails := true
		p := newProbe(func(ctx context.Context, _ *probe, req TaskRequest) (json.RawMessage, error) {
			err := systemClock{}.Sleep(ctx, time.Now().Add(10*time.Second))
			if string(req.Payload) == "19" && fails && err == nil {
				err = &Error{Name: "Bad"}
			}
			return req.Payload, err
		})
		update := func(u MapRunUpdate) {
			t.Helper()
			if err := p.UpdateMapRun(p.MapRuns()[0].ARN, u); err != nil {
				t.Error(err)
			}
		}
		yes, no, two := true, false, 2
		calls := func(want int) {
			t.Helper()
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.calls) != want {
				t.Errorf("%d calls, want %d", len(p.calls), want)
			}
		}
		time.AfterFunc(5*time.Second, func() { update(MapRunUpdate{Paused: &yes, MaxConcurrency: &two}) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		items, _ := json.Marshal(slices.Collect(indices(20)))
		if _, err := p.Start(ctx, m, "x", items); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		calls(4)
		for _, step := range []struct {
			after time.Duration
			do    func()
		}{
			{time.Hour, func() {
				if runs := p.MapRuns(); len(runs) != 1 || !runs[0].Paused || runs[0].MaxConcurrency != 2 {
					t.Errorf("after the interruption: %+v", runs)
				}
				calls(4)
				update(MapRunUpdate{Paused: &no})
			}},
			{time.Hour + 5*time.Second, func() {
				calls(6) // and not 8
				update(MapRunUpdate{Paused: &yes})
			}},
			{2 * time.Hour, func() { calls(6); update(MapRunUpdate{Paused: &no}) }},
			{2*time.Hour + 65*time.Second, func() { calls(20); update(MapRunUpdate{Paused: &yes}) }},
		} {
			time.AfterFunc(step.after, step.do)
		}
		result, err := p.Resume(t.Context(), m, "x")
		if err != nil || result.Error != errTolerance {
			t.Fatalf("%+v %v", result, err)
		}
		fails = false
		if result, err = p.Redrive(t.Context(), m, "x"); err != nil || result.Status != Succeeded {
			t.Fatalf("%+v %v", result, err)
		}
	})
}

// TestFailureStopsTheRest: after an iteration failed none begins, and those that run are aborted.
func TestFailureStopsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe(func(ctx context.Context, _ *probe, req TaskRequest) (json.RawMessage, error) {
			if string(req.Payload) == "2" {
				time.Sleep(time.Second)
				return nil, &Error{Name: "Bad"}
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		definition := strings.Replace(mapOf(`"MaxConcurrency":2,`), `"ProcessorConfig":{"Mode":"DISTRIBUTED","ExecutionType":"STANDARD"},`, "", 1)
		wantResult(t, p.start(t, definition, `[1,2,3,4]`), Failed, "Bad")
		got := map[EventType]int{}
		for _, ev := range p.events {
			got[ev.Type]++
		}
		if got[MapIterationStarted] != 2 || got[MapIterationAborted] != 1 || got["TaskStateAborted"] != 1 || got[MapIterationFailed] != 1 {
			t.Errorf("events %v", got)
		}
	})
}

// TestFunctions: how functions are named, and what they receive and answer.
func TestFunctions(t *testing.T) {
	invoke := func(parameters string) string {
		return `{"StartAt":"A","States":{"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":` + parameters + `,"ResultSelector":{"p.$":"$.Payload","v.$":"$.ExecutedVersion","s.$":"$.StatusCode"},"End":true}}}`
	}
	for _, c := range []struct{ definition, function, qualifier, payload, want string }{
		{strings.Replace(task(""), "function:f", "function:f:live", 1), "f", "live", `{"in":1}`, `{"in":1}`},
		{invoke(`{"FunctionName":"g","Payload.$":"$"}`), "g", "", `{"in":1}`, `{"p":{"in":1},"s":200,"v":"$LATEST"}`},
		{invoke(`{"FunctionName":"arn:aws:lambda:eu-west-1:123:function:g:7","Payload":{}}`), "g", "7", `{}`, `{"p":{},"s":200,"v":"7"}`},
		{invoke(`{"FunctionName":"123:function:g"}`), "g", "", `{}`, `{"p":{},"s":200,"v":"$LATEST"}`},
		{invoke(`{"FunctionName":"g","Qualifier":"q","Payload":"[1, 2]"}`), "g", "q", `[1, 2]`, `{"p":[1,2],"s":200,"v":"q"}`},
		{invoke(`{"FunctionName":"g","Payload":null}`), "g", "", `null`, `{"p":null,"s":200,"v":"$LATEST"}`},
	} {
		p := newProbe(echo)
		wantResult(t, p.start(t, c.definition, `{"in":1}`), Succeeded, c.want)
		if r := p.calls[0]; r.Function != c.function || r.Qualifier != c.qualifier || string(r.Payload) != c.payload {
			t.Errorf("%s: request %+v", c.definition, r)
		}
	}
	got := newProbe(echo).start(t, invoke(`{"FunctionName":"g","Payload":"no JSON"}`), `{}`)
	wantResult(t, got, Failed, errInvalidRequest)
	got = newProbe(func(context.Context, *probe, TaskRequest) (json.RawMessage, error) { return json.RawMessage("{"), nil }).start(t, task(""), `{}`)
	wantResult(t, got, Failed, errLambdaUnknown)
	got = newProbe(func(context.Context, *probe, TaskRequest) (json.RawMessage, error) {
		return nil, fmt.Errorf("wrapped: %w", FunctionError("Custom", "why"))
	}).start(t, task(""), `{}`)
	wantResult(t, got, Failed, "Custom")
	if got.Cause != `{"errorMessage":"why","errorType":"Custom"}` {
		t.Errorf("cause %s", got.Cause)
	}
}

// TestChoices: what the recorded cases do not have.
func TestChoices(t *testing.T) {
	definition := func(rule string) string {
		return `{"StartAt":"A","States":{"A":{"Type":"Choice","Choices":[{` + rule + `,"Next":"Yes"}],"Default":"No"},"Yes":{"Type":"Pass","Result":true,"End":true},"No":{"Type":"Pass","Result":false,"End":true}}}`
	}
	const input = `{"s":"a*b\\c","n":9007199254740993,"t":"2020-01-01T01:00:00+01:00","null":null,"u":"2020-01-01T00:00:00Z"}`
	for rule, want := range map[string]string{
		`"Variable":"$.s","StringMatches":"a\\*b*"`:                                               "true",
		`"Variable":"$.s","StringMatches":"a\\*b\\\\c"`:                                           "true",
		`"Variable":"$.s","StringMatches":"*"`:                                                    "true",
		`"Variable":"$.s","StringMatches":"*b"`:                                                   "false",
		`"Variable":"$.s","StringMatches":"a*a*c"`:                                                "false",
		`"Variable":"$.n","NumericEquals":9007199254740992`:                                       "false",
		`"Variable":"$.n","NumericGreaterThan":9007199254740992`:                                  "true",
		`"Variable":"$.t","TimestampEqualsPath":"$.u"`:                                            "true",
		`"Variable":"$.t","IsTimestamp":true`:                                                     "true",
		`"Variable":"$.s","IsTimestamp":false`:                                                    "true",
		`"Variable":"$.none","IsPresent":false`:                                                   "true",
		`"Variable":"$.null","IsPresent":true`:                                                    "true",
		`"Or":[{"Variable":"$.s","IsNull":true},{"Not":{"Variable":"$.null","IsNull":false}}]`:    "true",
		`"And":[{"Variable":"$.none","IsPresent":true},{"Variable":"$.none","StringEquals":"x"}]`: "false",
		`"Variable":"$.none","StringEquals":"x"`:                                                  "!",
		`"Variable":"$.s","StringEqualsPath":"$.none"`:                                            "!",
		`"Variable":"$.s","NumericEquals":1`:                                                      "false",
	} {
		got := newProbe(echo).start(t, definition(rule), input)
		if want == "!" {
			wantResult(t, got, Failed, errRuntime)
			continue
		}
		wantResult(t, got, Succeeded, want)
	}
	got := newProbe(echo).start(t, strings.Replace(strings.Replace(definition(`"Variable":"$.s","IsNull":true`), `,"Default":"No"`, "", 1), `,"No":{"Type":"Pass","Result":false,"End":true}`, "", 1), input)
	wantResult(t, got, Failed, errNoChoice)
}

// TestFailures: which errors a Catch gets to see.
func TestFailures(t *testing.T) {
	definition := func(members string) string {
		return `{"StartAt":"A","States":{"A":{"Type":"Task","Resource":"arn:aws:lambda:local:0:function:f","Catch":[{"ErrorEquals":["States.ALL"],"Next":"B"}],"End":true,` + members +
			`},"B":{"Type":"Pass","Parameters":{"e.$":"$.Error"},"End":true}}}`
	}
	for members, want := range map[string]string{
		`"ResultPath":"$.x.y"`:                             "States.ResultPathMatchFailure",
		`"Parameters":{"a.$":"States.MathAdd('x', 1)"}`:    "States.IntrinsicFailure",
		`"ResultSelector":{"a.$":"States.ArrayLength($)"}`: "States.IntrinsicFailure",
		`"Parameters":{"a.$":"$.none"}`:                    "!",
		`"ResultSelector":{"a.$":"$.none"}`:                "!",
		`"OutputPath":"$.none"`:                            "!",
		`"TimeoutSecondsPath":"$.x"`:                       "!",
	} {
		got := newProbe(echo).start(t, definition(members), `{"x":"text"}`)
		if want == "!" {
			wantResult(t, got, Failed, errRuntime)
			continue
		}
		wantResult(t, got, Succeeded, fmt.Sprintf(`{"e":%q}`, want))
	}
}

// TestProgress: the counts that an observer is told add up and end with all.
func TestProgress(t *testing.T) {
	p := newProbe(func(_ context.Context, _ *probe, req TaskRequest) (json.RawMessage, error) {
		if string(req.Payload) == "3" {
			return nil, &Error{Name: "Bad"}
		}
		return nil, nil
	})
	p.start(t, mapOf(`"MaxConcurrency":2,"ToleratedFailureCount":1,`), `[1,2,3,4,5]`)
	var last MapCounts
	for _, ev := range p.notes {
		if ev.Type != NoteProgress {
			continue
		}
		last = *ev.Counts
		if last.Pending+last.Running+last.Succeeded+last.Failed+last.Aborted != last.Total || last.Running > 2 {
			t.Errorf("counts %+v", last)
		}
	}
	if want := (MapCounts{Total: 5, Items: 5, Succeeded: 4, Failed: 1}); last != want {
		t.Errorf("last counts %+v, want %+v", last, want)
	}
}

func TestNamesOfExecutions(t *testing.T) {
	m := mustParse(t, pass(""))
	for _, name := range []string{"", ".", "..", "a/b", "a b", strings.Repeat("x", 81), "../x"} {
		if _, err := newProbe(echo).Start(t.Context(), m, name, nil); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}
