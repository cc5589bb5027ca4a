package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/spec"
	"hindcast/internal/step"
	"hindcast/internal/testenv"
	"hindcast/internal/unit"
	revenue "hindcast/jobs/daily-country-revenue"
)

// ticking is a clock that goes on by a tick each time that it is looked at, as a worker does after each piece of work.
type ticking struct{ now time.Time }

const tick = time.Millisecond

func (c *ticking) Now() time.Time {
	c.now = c.now.Add(tick)
	return c.now
}

// shardRun is a run of one shard that is cut but not computed.
type shardRun struct {
	env   *step.Env
	clock *ticking
}

func newShardRun(t *testing.T, to string, memory unit.Bytes) *shardRun {
	t.Helper()
	list := []job.Job{job.New(fstest.MapFS{
		"job.yaml": {Data: []byte(strings.Replace(jobYAML, "day: occurred_at", "hour: occurred_at", 1))}, "job.go": {Data: []byte("package december")},
	}, job.Outputs{"december": revenue.Transform()})}
	vars := map[string]string{"HINDCAST_WORKSPACE": "file://" + filepath.Join(t.TempDir(), "ws"), "HINDCAST_ROOT": testenv.Root(t)}
	env, err := environment(t.Context(), list, func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	s := &shardRun{env, &ticking{time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}} // no timer of a context comes there
	env.Now, env.WorkerMemory = s.clock.Now, memory
	j, sp, err := env.Job("december")
	if err != nil {
		t.Fatal(err)
	}
	r, err := env.NewRequest(j, sp, "run-1", s.clock.now)
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := spec.ParseWindow(spec.WindowFlags{From: "2010-12-01", To: to}, s.clock.now, sp.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	r.Window, r.AsOf = w, s.clock.now.UnixMicro()
	if err := env.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, state := range []step.State{step.Plan, step.Shard} {
		if _, err := env.Run(t.Context(), state, json.RawMessage(`{"run":"run-1"}`)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// work calls the worker until it is done, each time with so much time, and returns how long each call took.
func (s *shardRun) work(t *testing.T, timeout time.Duration) (took []time.Duration) {
	t.Helper()
	s.env.LapEnd = max(timeout/5, 4*tick) // a piece of work looks at the clock three times
	in := json.RawMessage(`{"run":"run-1","shard":"00000","seq":0}`)
	for {
		began := s.clock.now
		ctx, stop := context.WithDeadline(t.Context(), began.Add(timeout))
		out, err := s.env.Run(ctx, step.Work, in)
		stop()
		if err != nil {
			t.Fatalf("lap %d: %v", len(took)+1, err)
		}
		took = append(took, s.clock.now.Sub(began))
		var v struct{ Done bool }
		if err := json.Unmarshal(out, &v); err != nil {
			t.Fatal(err)
		}
		if v.Done {
			return took
		}
		in = out
	}
}

// left is what the shard left: its files, and what it says of itself but for the memory that it took.
func (s *shardRun) left(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, prefix := range []string{"datasets/", "runs/run-1/done/", "runs/run-1/fingerprints/"} {
		for info, err := range blob.All(t.Context(), s.env.Workspace, prefix) {
			if err != nil {
				t.Fatal(err)
			}
			b, _, err := blob.ReadAll(t.Context(), s.env.Workspace, info.Key)
			if err != nil {
				t.Fatal(err)
			}
			text, _, _ := strings.Cut(string(b), `"peak_memory"`)
			out[info.Key] = text
		}
	}
	return out
}

// A worker that is given a fiftieth of the time that its shard needs stores its state in time, again and again, while it reads, decides about ids that found no
// room, computes what was left, and writes; what it leaves in the end is what an undisturbed one leaves.
func TestAFiftiethOfTheTimeIsEnoughForALap(t *testing.T) {
	t.Parallel()
	part := 10
	if testenv.Full() {
		part = 50
	}
	for _, c := range []struct {
		name, to string
		memory   unit.Bytes
	}{{"on scratch", "2010-12-08", 160 << 10}, {"in memory", "2011-01-20", 0}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.memory == 0 && !testenv.Full() {
				t.Skip("it reads for longer: part of the full counts")
			}
			undisturbed := newShardRun(t, c.to, c.memory)
			whole := undisturbed.work(t, 1<<20*tick)
			if len(whole) != 1 || whole[0] < 300*tick {
				t.Fatalf("undisturbed, it took %v", whole)
			}
			s := newShardRun(t, c.to, c.memory)
			timeout := whole[0] / time.Duration(part)
			laps := s.work(t, timeout)
			for n, took := range laps {
				if took > timeout {
					t.Errorf("lap %d took %v of the %v that it had", n+1, took, timeout)
				}
			}
			if len(laps) < part || len(laps) > 3*part {
				t.Errorf("%d laps", len(laps))
			}
			got, want := s.left(t), undisturbed.left(t)
			if len(want) < 30 || !maps.Equal(got, want) {
				t.Errorf("it left %d objects; undisturbed, %d, and they differ", len(got), len(want))
			}
			t.Logf("%v undisturbed, %d laps of %v", whole[0], len(laps), timeout)
		})
	}
}

func TestAShardOfTooManyLapsIsNamed(t *testing.T) {
	t.Parallel()
	s := newShardRun(t, "2010-12-02", 0)
	_, err := s.env.Run(t.Context(), step.Work, json.RawMessage(`{"run":"run-1","shard":"00000","seq":2000,"cursor":{"partition":1,"offset":77}}`))
	var named *step.Error
	if !errors.As(err, &named) || named.Name != step.NoProgress {
		t.Fatal(err)
	}
	for _, part := range []string{"shard 00000", "lap 2001", "partition 1, offset 77", "more time", "smaller shards"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	_, err = s.env.Run(ctx, step.Work, json.RawMessage(`{"run":"run-1","shard":"00000","seq":0}`))
	if !errors.As(err, &named) || named.Name != step.NoProgress || !strings.Contains(err.Error(), "shard 00000, lap 1, from the beginning of its input: its time was over") {
		t.Errorf("without any time: %v", err)
	}
}
