//go:build engines

package infra_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hindcast/infra"
	"hindcast/internal/asl"
	"hindcast/internal/step"
)

type object = map[string]any

// stub is what a task answers.
type stub struct {
	Payload any    `json:"payload,omitempty"`
	Error   string `json:"error,omitempty"`
	Cause   string `json:"cause,omitempty"`
}

// modules is the folder that .ci/engines installs the engines in.
func modules(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HINDCAST_ENGINES")
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		t.Fatalf("run this by .ci/engines: %v", err)
	}
	return dir
}

// inline is the backfill's definition with its Maps inline over arrays of the input: what aws-local-stepfunctions can run of it.
func inline(t *testing.T) object {
	t.Helper()
	var d object
	if err := json.Unmarshal(infra.Backfill, &d); err != nil {
		t.Fatal(err)
	}
	states, _ := d["States"].(object)
	for name, items := range map[string]string{"Capture": "$.tails", "Backfill": "$.shards", "Gather": "$.divided"} {
		m, _ := states[name].(object)
		for _, field := range []string{"ItemReader", "ResultWriter", "Label", "MaxConcurrencyPath", "ToleratedFailurePercentagePath"} {
			delete(m, field)
		}
		p, _ := m["ItemProcessor"].(object)
		delete(p, "ProcessorConfig")
		m["ItemsPath"] = items
	}
	for _, name := range []string{"ApproveProbe", "ApproveCandidate"} { // which are answered at once
		m, _ := states[name].(object)
		m["Resource"] = "arn:aws:states:::lambda:invoke"
		m["ResultSelector"] = object{"by.$": "$.Payload.by"}
		parameters, _ := m["Parameters"].(object)
		payload, _ := parameters["Payload"].(object)
		delete(payload, "token.$")
	}
	return d
}

// logic is what the backfill's definition does not have: Parallel, Catch, intrinsic functions.
const logic = `{"StartAt":"Both","States":{
	"Both":{"Type":"Parallel","ResultPath":"$.both","Next":"Which","Branches":[
		{"StartAt":"Risky","States":{
			"Risky":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"${PlanFunction}","Payload":{"x.$":"$.x"}},"OutputPath":"$.Payload","End":true,
				"Retry":[{"ErrorEquals":["Once"],"MaxAttempts":1}],"Catch":[{"ErrorEquals":["Never"],"Next":"Other"},{"ErrorEquals":["States.ALL"],"ResultPath":"$.caught","Next":"Caught"}]},
			"Caught":{"Type":"Pass","Parameters":{"name.$":"$.caught.Error","x.$":"$.x"},"End":true},"Other":{"Type":"Fail"}}},
		{"StartAt":"Words","States":{"Words":{"Type":"Pass","End":true,"Parameters":{
			"f.$":"States.Format('{} of {}', $.x, States.ArrayLength($.list))","r.$":"States.ArrayRange(1, 9, 4)","p.$":"States.ArrayPartition($.list, 2)","h.$":"States.Hash('a', 'SHA-256')"}}}}]},
	"Which":{"Type":"Choice","Default":"No","Choices":[{"And":[{"Variable":"$.x","NumericLessThanEquals":5},{"Not":{"Variable":"$.list[0]","StringMatches":"b*"}}],"Next":"Yes"}]},
	"Yes":{"Type":"Pass","Result":"yes","ResultPath":"$.which","End":true},"No":{"Type":"Fail","Error":"No"}}}`

// roundAfter is the call of Round after one of so many shards.
func roundAfter(shards, tolerate int, gather bool) string {
	return fmt.Sprintf(`Round {"last":{"approved":false,"gather":%t,"probe":false,"shards":%d,"shardsKey":"s","tolerate":%d,"wide":true},"run":"r"}`, gather, shards, tolerate)
}

// round is what Round answers.
func round(shards, tolerate int, probe, approved bool) stub {
	return stub{Payload: object{"shards": shards, "shardsKey": "s", "tolerate": tolerate, "probe": probe, "approved": approved, "wide": !probe, "gather": false}}
}

func TestASecondEngineAgrees(t *testing.T) {
	dir := modules(t)
	answers := func(more map[string][]stub) map[string][]stub {
		out := map[string][]stub{
			`Plan {"run":"r"}`:                                                             {{Payload: object{"tails": 0, "tailsKey": "t"}}},
			`CaptureTail {"partition":0,"run":"r"}`:                                        {{Payload: object{"records": 1, "segments": 1}}},
			`CaptureTail {"partition":1,"run":"r"}`:                                        {{Payload: object{"records": 2, "segments": 1}}},
			`Shard {"run":"r"}`:                                                            {{Payload: object{"shards": 2}}},
			`Round {"last":{"shards":2},"run":"r"}`:                                        {round(2, 5, false, false)},
			roundAfter(2, 5, false):                                                        {round(0, 0, false, false)},
			`Work {"run":"r","seq":0,"shard":"a","workers":2}`:                             {{Payload: object{"done": true, "paused": false}}},
			`Work {"run":"r","seq":0,"shard":"b","workers":2}`:                             {{Payload: object{"done": false, "paused": false, "run": "r", "seq": 1, "shard": "b", "workers": 2}}},
			`Work {"done":false,"paused":false,"run":"r","seq":1,"shard":"b","workers":2}`: {{Payload: object{"done": true, "paused": false}}},
			`Validate {"run":"r"}`:                                                         {{Payload: object{"passed": true, "candidate": "c"}}},
			`Promote {"by":"me","run":"r"}`:                                                {{Payload: object{"generation": 7}}},
			`Rollback {"by":"me","run":"r"}`:                                               {{Payload: object{"generation": 8}}},
		}
		maps.Copy(out, more)
		return out
	}
	input := func(more object) object {
		out := object{
			"action": "backfill", "run": "r", "by": "me", "promote": "auto", "bucket": "b", "concurrency": 2,
			"tails": []any{object{"partition": 0}, object{"partition": 1}}, "shards": []any{object{"shard": "a"}, object{"shard": "b"}},
		}
		maps.Copy(out, more)
		return out
	}
	transient := stub{Error: "Step.Transient", Cause: "again"}
	cases := map[string]struct {
		definition any
		input      object
		answers    map[string][]stub
		status     asl.Status
	}{
		"promoted":           {inline(t), input(nil), answers(nil), asl.Succeeded},
		"with tail":          {inline(t), input(nil), answers(map[string][]stub{`Plan {"run":"r"}`: {{Payload: object{"tails": 2, "tailsKey": "t"}}}}), asl.Succeeded},
		"waits for a person": {inline(t), input(object{"promote": "manual"}), answers(nil), asl.Succeeded},
		"quarantined":        {inline(t), input(nil), answers(map[string][]stub{`Validate {"run":"r"}`: {{Payload: object{"passed": false, "candidate": "c"}}}}), asl.Failed},
		"retries":            {inline(t), input(nil), answers(map[string][]stub{`Shard {"run":"r"}`: {transient, transient, {Payload: object{"shards": 2}}}}), asl.Succeeded},
		"retries in vain":    {inline(t), input(nil), answers(map[string][]stub{`Shard {"run":"r"}`: {transient}}), asl.Failed},
		"some failed": {inline(t), input(nil), answers(map[string][]stub{
			roundAfter(2, 5, false): {round(1, 0, false, false)},
			roundAfter(1, 0, false): {round(0, 0, false, false)},
		}), asl.Succeeded},
		"divided": {inline(t), input(object{"divided": []any{object{"shard": "c"}}}), answers(map[string][]stub{
			roundAfter(2, 5, false): {{Payload: object{"shards": 1, "shardsKey": "s", "tolerate": 5, "probe": false, "approved": false, "wide": true, "gather": true}}},
			roundAfter(1, 5, true):  {round(0, 0, false, false)},
			`GatherShard {"run":"r","seq":0,"shard":"c","workers":2}`:                                     {{Payload: object{"done": false, "paused": true, "hold": 1, "run": "r", "seq": 1, "shard": "c", "workers": 2}}},
			`GatherShard {"done":false,"hold":1,"paused":true,"run":"r","seq":1,"shard":"c","workers":2}`: {{Payload: object{"done": true, "paused": false}}},
		}), asl.Succeeded},
		"probed and approved": {inline(t), input(object{"promote": "approval"}), answers(map[string][]stub{
			`Round {"last":{"shards":2},"run":"r"}`: {round(1, 0, true, false)},
			`Round {"last":{"approved":false,"gather":false,"probe":true,"shards":1,"shardsKey":"s","tolerate":0,"wide":false},"run":"r"}`: {round(0, 0, true, false)},
			`Probe {"run":"r"}`:                       {{Payload: object{"passed": true}}},
			`ApproveProbe {"run":"r","what":"probe"}`: {{Payload: object{"by": "me"}}},
			`Round {"last":{"approved":false,"gather":false,"go":{"by":"me"},"probe":true,"shards":0,"shardsKey":"s","tolerate":0,"wide":false},"run":"r"}`: {round(2, 5, false, true)},
			`Round {"last":{"approved":true,"gather":false,"probe":false,"shards":2,"shardsKey":"s","tolerate":5,"wide":true},"run":"r"}`:                   {round(0, 0, false, true)},
			`ApproveCandidate {"run":"r","what":"candidate"}`: {{Payload: object{"by": "you"}}},
		}), asl.Succeeded},
		"poison":         {inline(t), input(nil), answers(map[string][]stub{`Work {"run":"r","seq":0,"shard":"a","workers":2}`: {{Error: "Worker.Poison", Cause: "a"}}}), asl.Failed},
		"rollback":       {inline(t), input(object{"action": "rollback"}), answers(nil), asl.Succeeded},
		"another action": {inline(t), input(object{"action": "?"}), answers(nil), asl.Failed},
		"caught":         {json.RawMessage(logic), object{"x": 5, "list": []any{"a", "b", "c"}}, map[string][]stub{`Risky {"x":5}`: {{Error: "Once"}, {Error: "Twice", Cause: "c"}}}, asl.Succeeded},
		"retried":        {json.RawMessage(logic), object{"x": 5, "list": []any{"a"}}, map[string][]stub{`Risky {"x":5}`: {{Error: "Once"}, {Payload: object{"ok": true}}}}, asl.Succeeded},
		"no choice":      {json.RawMessage(logic), object{"x": 5, "list": []any{"bc"}}, map[string][]stub{`Risky {"x":5}`: {{Payload: object{}}}}, asl.Failed},
	}
	names := slices.Sorted(maps.Keys(cases))
	var requests []object
	for _, name := range names {
		c := cases[name]
		requests = append(requests, object{"definition": c.definition, "input": c.input, "answers": c.answers})
	}
	request, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "testdata/engines.mjs", dir)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var theirs []struct {
		Output         any
		Error, Message string
	}
	if err := json.Unmarshal(raw, &theirs); err != nil || len(theirs) != len(names) {
		t.Fatalf("%v: %s", err, raw)
	}
	for i, name := range names {
		c := cases[name]
		ours := run(t, c.definition, c.input, c.answers)
		var output any
		if ours.Output != nil {
			if err := json.Unmarshal(ours.Output, &output); err != nil {
				t.Fatal(err)
			}
		}
		if ours.Status != c.status || ours.Error != theirs[i].Error || !reflect.DeepEqual(output, theirs[i].Output) {
			t.Errorf("%s: ours %s %s %s\ntheirs %+v", name, ours.Status, ours.Error, ours.Output, theirs[i])
		}
	}
}

// run runs the same in our engine.
func run(t *testing.T, definition any, input object, answers map[string][]stub) (result asl.Result) {
	t.Helper()
	m, start := parsed(t, definition, input)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls := map[string]int{}
		e := &asl.Engine{Tasks: asl.TaskFunc(func(_ context.Context, req asl.TaskRequest) (json.RawMessage, error) {
			key := fmt.Sprintf("%s %s", req.State, req.Payload)
			list := answers[key]
			if list == nil {
				return nil, fmt.Errorf("no answer for %s", key)
			}
			mu.Lock()
			n := calls[key]
			calls[key]++
			mu.Unlock()
			a := list[min(n, len(list)-1)]
			if a.Error != "" {
				return nil, &asl.Error{Name: a.Error, Cause: a.Cause}
			}
			return json.Marshal(a.Payload)
		})}
		var err error
		if result, err = e.Start(t.Context(), m, "x", start); err != nil {
			t.Error(err)
		}
	})
	return result
}

// distributed is the backfill's definition as it is, but for what kumo lacks: intrinsic functions, of which there is one where results are written to.
// Functions are named by the states that call them.
func distributed(t *testing.T) object {
	t.Helper()
	var d object
	if err := json.Unmarshal(infra.Backfill, &d); err != nil {
		t.Fatal(err)
	}
	var walk func(states object)
	walk = func(states object) {
		for name, s := range states {
			state, _ := s.(object)
			if parameters, ok := state["Parameters"].(object); ok {
				parameters["FunctionName"] = name
			}
			if w, ok := state["ResultWriter"].(object); ok {
				w["Parameters"] = object{"Bucket.$": "$.bucket", "Prefix": "results"}
				w["WriterConfig"] = object{"Transformation": "COMPACT", "OutputType": "JSON"}
			}
			if p, ok := state["ItemProcessor"].(object); ok {
				inner, _ := p["States"].(object)
				walk(inner)
			}
		}
	}
	states, _ := d["States"].(object)
	walk(states)
	return d
}

// bucket holds what Maps read, by bucket and key. What they write is forgotten.
type bucket map[string]string

func (b bucket) Get(_ context.Context, name, key string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(b[name+"/"+key])), nil
}

func (bucket) List(context.Context, string, string) iter.Seq2[asl.Object, error] {
	return func(func(asl.Object, error) bool) {}
}

func (bucket) Put(context.Context, string, string, []byte) error { return nil }

// TestADistributedEngineAgrees has kumo run what the definition has of Distributed Maps, their items, tolerance and concurrency, of continuation and of task tokens.
func TestADistributedEngineAgrees(t *testing.T) {
	const many = 30
	lines := func(field string, of ...any) string {
		var b strings.Builder
		for _, v := range of {
			line, err := json.Marshal(object{field: v})
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(line, '\n'))
		}
		return b.String()
	}
	call := func(state string, payload object) string {
		text, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		return state + " " + string(text)
	}
	round := func(shards int, key string, tolerate int, probe bool) object {
		return object{"shards": shards, "shardsKey": key, "tolerate": tolerate, "probe": probe, "wide": true, "approved": false, "gather": false}
	}
	work := func(shard string) object { return object{"run": "r", "seq": 0, "shard": shard, "workers": 2} }
	done := object{"done": true, "paused": false}
	lap := func(shard string, seq int, paused bool) object {
		return object{"run": "r", "seq": seq, "shard": shard, "workers": 2, "done": false, "paused": paused, "hold": 1}
	}
	var shards []any
	everyOne := map[string][]stub{}
	for i := range many {
		shard := fmt.Sprint("n", i)
		shards = append(shards, shard)
		everyOne[call("Work", work(shard))] = []stub{{Payload: done}}
	}
	objects := bucket{
		"b/tails": lines("partition", 0, 1), "b/two": lines("shard", "a", "b"), "b/one": lines("shard", "a"), "b/many": lines("shard", shards...), "b/again": lines("shard", "n7"),
	}
	answers := func(first object, more map[string][]stub) map[string][]stub {
		out := map[string][]stub{
			`Plan {"run":"r"}`:                                                {{Payload: object{"tails": 2, "tailsKey": "tails"}}},
			`CaptureTail {"partition":0,"run":"r"}`:                           {{Payload: object{"records": 1, "segments": 1}}},
			`CaptureTail {"partition":1,"run":"r"}`:                           {{Payload: object{"records": 2, "segments": 1}}},
			`Shard {"run":"r"}`:                                               {{Payload: object{"shards": many}}},
			call("Round", object{"run": "r", "last": object{"shards": many}}): {{Payload: first}},
			call("Round", object{"run": "r", "last": first}):                  {{Payload: round(0, "", 0, false)}},
			call("Work", work("a")):                                           {{Payload: done}},
			call("Work", work("b")):                                           {{Payload: lap("b", 1, false)}},
			call("Work", lap("b", 1, false)):                                  {{Payload: lap("b", 2, true)}},
			call("Work", lap("b", 2, true)):                                   {{Payload: done}},
			`Probe {"run":"r"}`:                                               {{Payload: object{"passed": true}}},
			`ApproveProbe {"run":"r","what":"probe"}`:                         {{Payload: object{"by": "me"}}},
			`ApproveCandidate {"run":"r","what":"candidate"}`:                 {{Payload: object{"by": "you"}}},
			`Validate {"run":"r"}`:                                            {{Payload: object{"passed": true, "candidate": "c"}}},
			`Promote {"by":"me","run":"r"}`:                                   {{Payload: object{"generation": 7}}},
		}
		maps.Copy(out, more)
		return out
	}
	failed := stub{Error: "States.TaskFailed"} // whatever a function fails with, kumo's word for it
	withProbe, without := round(1, "one", 0, true), round(0, "", 0, true)
	approved := maps.Clone(without)
	approved["go"] = object{"by": "me"}
	someFailed := round(1, "again", 0, false)
	cases := map[string]struct {
		promote string
		answers map[string][]stub
		status  asl.Status
		error   string
		calls   int
	}{
		"laps and a pause": {"auto", answers(round(2, "two", 0, false), nil), asl.Succeeded, "", 12},
		"approved":         {"approval", answers(round(2, "two", 0, false), nil), asl.Succeeded, "", 13},
		"a probe": {"auto", answers(withProbe, map[string][]stub{
			call("Round", object{"run": "r", "last": withProbe}):                 {{Payload: without}},
			call("Round", object{"run": "r", "last": approved}):                  {{Payload: round(2, "two", 0, false)}},
			call("Round", object{"run": "r", "last": round(2, "two", 0, false)}): {{Payload: round(0, "", 0, false)}},
		}), asl.Succeeded, "", 17},
		"tolerated, and done in the next round": {"auto", answers(round(many, "many", 5, false), merged(everyOne, map[string][]stub{
			call("Work", work("n7")): {failed, {Payload: done}},
			call("Round", object{"run": "r", "last": round(many, "many", 5, false)}): {{Payload: someFailed}},
			call("Round", object{"run": "r", "last": someFailed}):                    {{Payload: round(0, "", 0, false)}},
		})), asl.Succeeded, "", 40},
		"too many failed": {"auto", answers(round(2, "two", 5, false), map[string][]stub{call("Work", work("a")): {failed}}), asl.Failed, "States.ExceedToleratedFailureThreshold", 0},
	}
	names := slices.Sorted(maps.Keys(cases))
	var requests []object
	inputs := map[string]object{}
	for _, name := range names {
		c := cases[name]
		inputs[name] = object{"action": "backfill", "run": "r", "by": "me", "promote": c.promote, "bucket": "b", "concurrency": 2}
		requests = append(requests, object{"definition": distributed(t), "input": inputs[name], "answers": c.answers, "objects": objects})
	}
	request, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(modules(t), "kumo"))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var theirs []struct {
		Status, Error, Cause string
		Output               object
		Calls                []string
	}
	if err := json.Unmarshal(raw, &theirs); err != nil || len(theirs) != len(names) {
		t.Fatalf("%v: %s", err, raw)
	}
	for i, name := range names {
		c := cases[name]
		ours, calls := runDistributed(t, distributed(t), inputs[name], c.answers, objects)
		var output object
		if ours.Output != nil {
			if err := json.Unmarshal(ours.Output, &output); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range []object{output, theirs[i].Output} { // which name Map Runs, and files, each in its own way
			delete(o, "capture")
			delete(o, "backfill")
		}
		slices.Sort(calls)
		slices.Sort(theirs[i].Calls)
		if ours.Status != c.status || string(ours.Status) != theirs[i].Status || ours.Error != c.error || !reflect.DeepEqual(output, theirs[i].Output) {
			t.Errorf("%s: ours %s %s %s %s\ntheirs %+v", name, ours.Status, ours.Error, ours.Cause, ours.Output, theirs[i])
		}
		// kumo computes what else there is before it fails a Map; we stop it, as Step Functions does.
		if c.status == asl.Succeeded && (len(calls) != c.calls || !slices.Equal(calls, theirs[i].Calls)) {
			t.Errorf("%s: %d calls\nours   %q\ntheirs %q", name, len(calls), calls, theirs[i].Calls)
		}
	}
}

func merged(all ...map[string][]stub) map[string][]stub {
	out := map[string][]stub{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// parsed is a definition, each function named as its state, and an execution's input.
func parsed(t *testing.T, definition any, input object) (m *asl.Machine, start []byte) {
	t.Helper()
	text, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, s := range step.States() {
		if placeholder := string(s) + "Function"; bytes.Contains(text, []byte("${"+placeholder+"}")) {
			names[placeholder] = string(s)
		}
	}
	if m, err = asl.Parse(text, names); err != nil {
		t.Fatal(err)
	}
	if start, err = json.Marshal(input); err != nil {
		t.Fatal(err)
	}
	return m, start
}

// runDistributed runs the same in our engine. A function that is given a token answers by it.
func runDistributed(t *testing.T, definition, input object, answers map[string][]stub, objects bucket) (result asl.Result, calls []string) {
	t.Helper()
	m, start := parsed(t, definition, input)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var answering sync.WaitGroup
		met := map[string]int{}
		e := &asl.Engine{Objects: objects}
		e.Tasks = asl.TaskFunc(func(ctx context.Context, req asl.TaskRequest) (json.RawMessage, error) {
			var payload object
			if err := json.Unmarshal(req.Payload, &payload); err != nil {
				return nil, err
			}
			delete(payload, "token")
			told, err := json.Marshal(payload)
			if err != nil {
				return nil, err
			}
			key := req.Function + " " + string(told)
			mu.Lock()
			list, n := answers[key], met[key]
			met[key]++
			calls = append(calls, key)
			mu.Unlock()
			if len(list) == 0 {
				return nil, fmt.Errorf("no answer for %s", key)
			}
			a := list[min(n, len(list)-1)]
			if a.Error != "" {
				return nil, &asl.Error{Name: a.Error, Cause: a.Cause}
			}
			body, err := json.Marshal(a.Payload)
			if req.Token == "" || err != nil {
				return body, err
			}
			answering.Go(func() {
				for e.SendTaskSuccess(t.Context(), req.Token, body) != nil && t.Context().Err() == nil {
					time.Sleep(time.Second)
				}
			})
			return json.RawMessage("{}"), nil
		})
		var err error
		if result, err = e.Start(t.Context(), m, "x", start); err != nil {
			t.Error(err)
		}
		answering.Wait()
	})
	return result, calls
}

// TestTheValidatorAccepts the definition as it is, and not with faults.
func TestTheValidatorAccepts(t *testing.T) {
	validator := filepath.Join(modules(t), "node_modules", ".bin", "asl-validator")
	validate := func(definition []byte) error {
		file := filepath.Join(t.TempDir(), "definition.json")
		if err := os.WriteFile(file, definition, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(validator, "--json-path", file).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := validate(infra.Backfill); err != nil {
		t.Error(err)
	}
	for old, fault := range map[string]string{
		`"StartAt": "Route"`: `"StartAt": "Rout"`, `"Type": "Choice"`: `"Type": "Chose"`, `"Next": "Shard"`: `"Next": "Shad"`, `"MaxAttempts": 6`: `"MaxAttempts": -6`,
	} {
		changed := bytes.Replace(infra.Backfill, []byte(old), []byte(fault), 1)
		if bytes.Equal(changed, infra.Backfill) || validate(changed) == nil {
			t.Errorf("%s was accepted", fault)
		}
	}
}
