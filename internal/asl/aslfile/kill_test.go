package aslfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hindcast/internal/asl"
	"hindcast/internal/testenv"
)

const (
	killDir    = "ASLFILE_KILL_DIR"
	killShards = 120
)

// TestMain is the process that TestKill kills, if the environment says so.
func TestMain(m *testing.M) {
	if dir := os.Getenv(killDir); dir != "" {
		if err := runUntilKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// killed is shards with what else a history has to hold: a retry, a wait, a task token; and one shard that fails until it is
// repaired, after which the execution is redriven.
func killed() string {
	s := strings.Replace(shards, `"TimeoutSeconds": 910,`, `"TimeoutSeconds": 910, "Retry": [{"ErrorEquals": ["Transient"], "IntervalSeconds": 1, "JitterStrategy": "FULL"}],`, 1)
	s = strings.Replace(s, `"End": true,`, `"Next": "Rest",`, 1)
	return strings.TrimSuffix(s, "}\n}") + `,
		"Rest": {"Type": "Wait", "Seconds": 1, "Next": "Ask"},
		"Ask": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "TimeoutSeconds": 600,
			"Parameters": {"FunctionName": "ask", "Payload": {"token.$": "$$.Task.Token"}}, "End": true}}}`
}

// answer answers the task tokens of an execution until ctx is done.
func answer(ctx context.Context, e *asl.Engine, h *Histories) {
	for ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		for ev, err := range h.Read(asl.HistoryName{Execution: "run"}) {
			if err == nil && ev.Token != "" && ev.Type == asl.TaskScheduled {
				_ = e.SendTaskSuccess(ctx, ev.Token, json.RawMessage(`"yes"`)) // refused once it is answered
			}
		}
	}
}

// runUntilKilled runs, resumes or redrives an execution whose tasks note that they were called.
func runUntilKilled(dir string) error {
	m, err := asl.Parse([]byte(killed()), nil)
	if err != nil {
		return err
	}
	repaired := filepath.Join(dir, "repaired")
	calls, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer calls.Close()
	e := &asl.Engine{
		Histories:   &Histories{Dir: dir, SegmentBytes: 20_000},
		Objects:     &manifest{shards: killShards},
		MaxParallel: 8,
		Tasks: asl.TaskFunc(func(_ context.Context, req asl.TaskRequest) (json.RawMessage, error) {
			if _, err := fmt.Fprintf(calls, "%s\n", req.Child); err != nil {
				return nil, err
			}
			time.Sleep(5 * time.Millisecond)
			switch {
			case strings.Contains(string(req.Payload), "s-00011") && req.Attempt == 0:
				return nil, &asl.Error{Name: "Transient"}
			case strings.Contains(string(req.Payload), "s-00077"):
				if _, err := os.Stat(repaired); err != nil {
					return nil, &asl.Error{Name: "Poison"}
				}
			}
			return json.RawMessage(`{"done":true}`), nil
		}),
	}
	ctx, stop := context.WithCancel(context.Background())
	var answering sync.WaitGroup
	answering.Go(func() { answer(ctx, e, &Histories{Dir: dir}) })
	defer answering.Wait()
	defer stop()
	result, err := e.Resume(ctx, m, "run")
	if errors.Is(err, asl.ErrNoExecution) {
		result, err = e.Start(ctx, m, "run", nil)
	}
	if err == nil && result.Status == asl.Failed {
		if err := os.WriteFile(repaired, nil, 0o644); err != nil {
			return err
		}
		result, err = e.Redrive(ctx, m, "run")
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "result"), result.Output, 0o644)
}

// TestKill kills the process again and again, wherever it is, until it has ended by itself.
func TestKill(t *testing.T) {
	enough := 1
	if testenv.Full() {
		enough = 200
	}
	kills, runs := 0, 0
	for ; kills < enough; runs++ {
		dir := t.TempDir()
		longest := 120 // ms; on a slow machine even the start of a process takes longer
		for finished := false; !finished; longest += longest / 4 {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), killDir+"="+dir)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(time.Duration(15+rand.IntN(longest))*time.Millisecond, func() { _ = cmd.Process.Kill() })
			err := cmd.Wait()
			timer.Stop()
			switch {
			case err == nil:
				finished = true
			case stderr.Len() > 0:
				t.Fatalf("after %d kills: %s", kills, stderr.String())
			default:
				kills++
			}
		}
		checkKilled(t, dir)
	}
	t.Logf("%d kills in %d runs", kills, runs)
}

// checkKilled checks that every child execution is there once, whole, and was not called
// again after its answer was durable.
func checkKilled(t *testing.T, dir string) {
	t.Helper()
	h := &Histories{Dir: dir}
	ended, answers, began, redriven := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	next := map[string]int64{}
	for ev, err := range h.Read(asl.HistoryName{Execution: "run", MapRun: "Backfill-3"}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Note() {
			continue
		}
		if next[ev.Child]++; ev.ID != next[ev.Child] {
			t.Fatalf("event %d of %s is number %d", ev.ID, ev.Child, next[ev.Child])
		}
		switch ev.Type {
		case asl.ExecutionStarted:
			began[ev.Child]++
		case asl.ExecutionSucceeded:
			ended[ev.Child]++
		case asl.ExecutionRedriven:
			redriven[ev.Child]++
		case asl.TaskSucceeded:
			answers[ev.Child]++
		}
	}
	if len(ended) != killShards || len(began) != killShards {
		t.Errorf("%d child executions began and %d ended, want %d", len(began), len(ended), killShards)
	}
	for name := range began {
		// A child that was aborted between its task's answer and its end has its task run again by a redrive.
		if began[name] != 1 || ended[name] != 1 || answers[name] < 1 || answers[name] > 1+redriven[name] {
			t.Errorf("child execution %s began %d times, was answered %d times and ended %d times", name, began[name], answers[name], ended[name])
		}
	}
	if len(redriven) == 0 {
		t.Error("no child execution was redriven")
	}
	if got, err := os.ReadFile(filepath.Join(dir, "result")); err != nil || string(got) != `"yes"` {
		t.Errorf("result %s %v", got, err)
	}
}
