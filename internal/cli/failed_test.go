package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/job"
)

// fullDisk has a run of several shards fail at its second data file, which finds no space.
func fullDisk(t *testing.T) (list []job.Job, ws, run string) {
	t.Helper()
	list = []job.Job{threeDays(t).twoTables()}
	ws = filepath.Join(t.TempDir(), "ws")
	var files atomic.Int64
	hook := func(op blob.Op) error {
		if !op.Done && strings.HasPrefix(op.Key, "data/") && files.Add(1) == 2 {
			return fmt.Errorf("put %s: %w", op.Key, syscall.ENOSPC)
		}
		return nil
	}
	r := hooked(t, list, hook, "run", "visits", "--from", threeFrom, "--to", threeTo, "--shard-rows", "1", "--workers", "3", "--workspace", ws).exits(t, exitError)
	onlyNoSpace(t, r.err)
	return list, ws, runOf(t, r)
}

// onlyNoSpace asks that the one thing that failed is told, and nothing of what that led to.
func onlyNoSpace(t *testing.T, text string) {
	t.Helper()
	if !strings.Contains(text, "no space left on device") || strings.Contains(text, "abandoned") || strings.Contains(text, "States.") {
		t.Errorf("it failed with:\n%s", text)
	}
}

func TestFullDiskIsToldAndGoneOnFrom(t *testing.T) {
	t.Parallel()
	list, ws, run := fullDisk(t)
	if s := hindcastWith(t, list, "status", run, "--json", "--workspace", ws).ok(t).status(t); s.Shards < 3 {
		t.Errorf("it has %d shards", s.Shards)
	} else {
		onlyNoSpace(t, s.Failure)
	}
	hindcastWith(t, list, "resume", run, "--workspace", ws).ok(t).has(t, "proven")
}

// TestResumeOfFailureHalfRecorded has the shard's failure in the history, but not yet the run's: one resume is enough.
func TestResumeOfFailureHalfRecorded(t *testing.T) {
	t.Parallel()
	list, ws, run := fullDisk(t)
	file := filepath.Join(ws, "runs", run, "history", "1", "history.jsonl")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for len(lines) > 0 && !bytes.Contains(lines[len(lines)-1], []byte(`"MapRunStarted"`)) {
		lines = lines[:len(lines)-1]
	}
	if err := os.WriteFile(file, bytes.Join(lines, nil), 0o600); err != nil || len(lines) == 0 {
		t.Fatalf("%d lines are left: %v", len(lines), err)
	}
	hindcastWith(t, list, "resume", run, "--workspace", ws).ok(t).has(t, "proven")
}
