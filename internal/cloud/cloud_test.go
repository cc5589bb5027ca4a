package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/aws/aws-lambda-go/lambda/messages"

	"hindcast/internal/job"
	"hindcast/internal/spec"
	"hindcast/internal/step"
	"hindcast/internal/table"
	"hindcast/internal/testenv"
	revenue "hindcast/jobs/daily-country-revenue"
)

const jobYAML = `
job: december
source:
  topic: retail.invoice-lines
  segments: { parquet: samples/retail, naming: kafka-connect }
  event: { id: event_id, time: occurred_at, lateness: 21d }
outputs:
  - table: december
    partition: { day: occurred_at, zone: Europe/London }
dataset: december
`

// The functions, called one after the other as the state machine calls them, make and promote a version.
func TestTheFunctionsOfARun(t *testing.T) {
	ctx := t.Context()
	list := []job.Job{job.New(fstest.MapFS{
		"job.yaml": {Data: []byte(jobYAML)}, "job.go": {Data: []byte("package december")},
	}, job.Outputs{"december": revenue.Transform()})}
	vars := map[string]string{"HINDCAST_WORKSPACE": "file://" + filepath.Join(t.TempDir(), "ws"), "HINDCAST_ROOT": testenv.Root(t)}
	getenv := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }

	env, err := environment(ctx, list, getenv)
	if err != nil {
		t.Fatal(err)
	}
	j, s, err := env.Job("december")
	if err != nil {
		t.Fatal(err)
	}
	r, err := env.NewRequest(j, s, "run-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := spec.ParseWindow(spec.WindowFlags{From: "2010-12-01", To: "2010-12-08"}, time.Now(), s.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	r.Window, r.AsOf, r.LapRows = w, time.Now().UnixMicro(), 10_000
	if err := env.Create(ctx, r); err != nil {
		t.Fatal(err)
	}

	call := func(state step.State, in string) map[string]any {
		t.Helper()
		out, err := Handler(state, list, getenv)(ctx, json.RawMessage(in))
		if err != nil {
			t.Fatalf("%s: %v", state, err)
		}
		var v map[string]any
		if err := json.Unmarshal(out, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if tails := call(step.Plan, `{"run":"run-1"}`)["tails"]; tails != 0.0 {
		t.Errorf("%v tails to capture, the job has none", tails)
	}
	if shards := call(step.Shard, `{"run":"run-1"}`)["shards"]; shards != 1.0 {
		t.Fatalf("%v shards", shards)
	}
	laps := 0
	for in := `{"run":"run-1","shard":"00000","seq":0}`; ; laps++ {
		out := call(step.Work, in)
		if out["done"] == true {
			break
		}
		b, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		in = string(b)
	}
	if laps < 2 {
		t.Errorf("%d laps before the last, with laps of 10,000 rows", laps)
	}

	// A function that fails says so by the error's name, which Retry and Catch go by.
	_, err = Handler(step.Promote, list, getenv)(ctx, json.RawMessage(`{"run":"run-1","by":"test"}`))
	var failed messages.InvokeResponse_Error
	if !errors.As(err, &failed) || failed.Type != step.NotProven {
		t.Errorf("promote before validate: %v", err)
	}
	if passed := call(step.Validate, `{"run":"run-1"}`)["passed"]; passed != true {
		t.Fatalf("validate: passed is %v", passed)
	}
	if g := call(step.Promote, `{"run":"run-1","by":"test"}`)["generation"]; g != 1.0 {
		t.Errorf("promoted as generation %v", g)
	}
	store, err := env.Dataset(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := table.OpenSnapshot(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(snap.Manifest.Tables["december"].Partitions); n != 7 {
		t.Errorf("%d days are served, expected 7", n)
	}
	if g := call(step.Rollback, `{"run":"run-1","by":"test"}`)["generation"]; g != 2.0 {
		t.Errorf("rolled back as generation %v", g)
	}
}

func TestWithoutAWorkspaceTheFunctionSaysWhatItNeeds(t *testing.T) {
	_, err := Handler(step.Plan, nil, func(string) (string, bool) { return "", false })(context.Background(), json.RawMessage(`{}`))
	if err == nil || !strings.Contains(err.Error(), "HINDCAST_WORKSPACE") {
		t.Error(err)
	}
}
