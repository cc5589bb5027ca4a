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

// runUntilKilled runs or resumes an execution whose tasks note that they were called.
func runUntilKilled(dir string) error {
	m, err := asl.Parse([]byte(shards), nil)
	if err != nil {
		return err
	}
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
			return json.RawMessage(`{"done":true}`), nil
		}),
	}
	result, err := e.Resume(context.Background(), m, "run")
	if errors.Is(err, asl.ErrNoExecution) {
		result, err = e.Start(context.Background(), m, "run", nil)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "result"), result.Output, 0o644)
}

// TestKill kills the process again and again, wherever it is, until it has ended by itself.
func TestKill(t *testing.T) {
	rounds := 1
	if testenv.Full() {
		rounds = 12
	}
	kills := 0
	for range rounds {
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
	t.Logf("%d kills in %d runs", kills, rounds)
}

// checkKilled checks that every child execution is there once, whole, and was not called
// again after its answer was durable.
func checkKilled(t *testing.T, dir string) {
	t.Helper()
	h := &Histories{Dir: dir}
	ended, answers, began := map[string]int{}, map[string]int{}, map[string]int{}
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
		case asl.TaskSucceeded:
			answers[ev.Child]++
		}
	}
	if len(ended) != killShards || len(began) != killShards {
		t.Errorf("%d child executions began and %d ended, want %d", len(began), len(ended), killShards)
	}
	for name := range began {
		if began[name] != 1 || ended[name] != 1 || answers[name] != 1 {
			t.Errorf("child execution %s began %d times, was answered %d times and ended %d times", name, began[name], answers[name], ended[name])
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "result")); err != nil {
		t.Error(err)
	}
}
