package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hindcast/internal/asl"
	"hindcast/internal/asl/aslfile"
	"hindcast/internal/local"
	"hindcast/internal/testenv"
)

// TestFunctionsThatAreKilledAreCalledAgain runs the states as the functions that are deployed, and kills workers while they work.
func TestFunctionsThatAreKilledAreCalledAgain(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("builds the functions: part of the full counts")
	}
	builtFunctions(t)
	undisturbed := filepath.Join(t.TempDir(), "ws")
	hindcast(t, "run", "account-balance", "--promote", "--workspace", undisturbed).ok(t)
	ws := filepath.Join(t.TempDir(), "ws")
	killed := make(chan int)
	done := make(chan struct{})
	go func() { killed <- killWorkers(ws, 2, done) }()
	s := hindcast(t, "run", "account-balance", "--promote", "--json", "--workers", "process:1", "--workspace", ws).ok(t).status(t)
	close(done)
	if n := <-killed; n != 2 {
		t.Fatalf("%d workers were killed of 2 that were to be", n)
	}
	log, err := os.ReadFile(filepath.Join(ws, "runs", s.Run, "history", "functions.log"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "Function: Work"); n != s.Shards {
		t.Errorf("%d calls of workers ended well, of %d shards:\n%s", n, s.Shards, log)
	}
	for _, table := range []string{"account-balance", "ledger-entry"} {
		sameContents(t, table, contents(t, ws, table), contents(t, undisturbed, table))
	}
	// What began as functions goes on as functions, without being asked to.
	again := hindcast(t, "resume", s.Run, "--workspace", ws).ok(t)
	if !strings.Contains(again.err, "nothing was done") {
		t.Errorf("resume of a run that has ended said:\n%s", again.err)
	}
}

// killWorkers kills n processes that run workers of a workspace, each once it has worked for a while, and returns how many it has killed.
func killWorkers(ws string, n int, done <-chan struct{}) (killed int) {
	dead := map[int]bool{}
	for killed < n {
		select {
		case <-done:
			return killed
		case <-time.After(5 * time.Millisecond):
		}
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return killed
		}
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || dead[pid] {
				continue
			}
			exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			if err != nil || filepath.Base(exe) != "work" || !strings.HasPrefix(exe, ws) {
				continue
			}
			time.Sleep(50 * time.Millisecond)
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				dead[pid] = true
				killed++
			}
		}
	}
	return killed
}

// TestWorkersOfLittleTime gives workers, as processes, less time than the smallest piece of their shard takes, and then a part of what all of it does.
func TestWorkersOfLittleTime(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("builds the functions, and waits for seconds: part of the full counts")
	}
	builtFunctions(t)
	undisturbed, ws := filepath.Join(t.TempDir(), "ws"), filepath.Join(t.TempDir(), "ws")
	hindcast(t, "run", demoJob, "--from", demoFrom, "--to", demoTo, "--promote", "--workspace", undisturbed).ok(t)
	run := slowly(t, ws, "100", 0, true)
	r := hindcast(t, "resume", run, "--workers", "process:1", "--worker-timeout", "1s", "--workspace", ws).exits(t, exitError)
	s := hindcast(t, "status", run, "--json", "--workspace", ws).ok(t).status(t)
	for _, text := range []string{r.err, s.Failure} {
		for _, part := range []string{"shard 00000, lap 1, from the beginning of its input", "--worker-timeout", "--shard-rows"} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is not in:\n%s", part, text)
			}
		}
	}

	hindcast(t, "throttle", run, "--records-per-second", "4000", "--workspace", ws).ok(t)
	hindcast(t, "redrive", run, "--workers", "process:1", "--worker-timeout", "4s", "--workspace", ws).ok(t)
	hindcast(t, "promote", run, "--workspace", ws).ok(t)
	sameContents(t, demoTable, contents(t, ws, demoTable), contents(t, undisturbed, demoTable))
	laps := 0
	for name, events := range histories(t, ws, run) {
		for _, ev := range events {
			if strings.HasPrefix(name.MapRun, "Backfill") && ev.Type == asl.TaskSucceeded {
				laps++
			}
		}
	}
	if laps < 4 {
		t.Errorf("%d laps", laps)
	}
}

// TestARunOfFunctionsIsRedriven has a shard fail in a process of its own, and again in a redrive, until what stands in its way is gone.
func TestARunOfFunctionsIsRedriven(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("builds the functions: part of the full counts")
	}
	builtFunctions(t)
	ws := spoiltCopy(t, false)
	run := slowly(t, ws, "0", 20_000, true)
	data, err := filepath.Glob(filepath.Join(ws, "datasets", "*", "data"))
	if err != nil || len(data) != 1 {
		t.Fatal(data, err)
	}
	table := filepath.Join(data[0], run, demoTable)
	obstacle := filepath.Join(table, "day=2011-11-21") // where a folder is to be
	if err := errors.Join(os.MkdirAll(table, 0o755), os.WriteFile(obstacle, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	hindcast(t, "resume", run, "--workers", "process:1", "--workspace", ws).exits(t, exitError).has(t, "day=2011-11-21", "file exists")
	for range 2 {
		hindcast(t, "redrive", run, "--workers", "process:1", "--workspace", ws).exits(t, exitError).has(t, "day=2011-11-21")
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	hindcast(t, "redrive", run, "--workers", "2", "--workspace", ws).ok(t).has(t, "proven") // by functions, though not asked to
	hindcast(t, "promote", run, "--workspace", ws).ok(t)
	sameContents(t, demoTable, contents(t, ws, demoTable), spoilt.becomes)

	h := hunted{t: t, events: histories(t, ws, run)}
	if again, calls := h.redone(); again > 0 || calls < 6 {
		t.Errorf("workers were called %d times for shards that were not done, and %d times for such that were", calls, again)
	}
	for name := range h.events {
		if name.Execution != "1" {
			t.Errorf("there is another execution: %s", name)
		}
		if err := asl.Check((&aslfile.Histories{Dir: historyFolder(ws, run)}).Read(name)); err != nil {
			t.Errorf("history %s: %v", name, err)
		}
	}
	log, err := os.ReadFile(filepath.Join(ws, "runs", run, "history", "functions.log"))
	if err != nil || strings.Count(string(log), "Function: Work") < 6 {
		t.Errorf("%v: functions were not called:\n%s", err, log)
	}
}

func TestWorkersAreANumberOrProcesses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]workersFlags{
		"3": {n: 3}, "process": {n: 2, process: true}, "process:5": {n: 5, process: true},
		"": {}, "0": {}, "-1": {}, "process:": {}, "process:0": {}, "processes": {}, "lambda": {},
	} {
		f := workersFlags{text: text}
		err := f.check(&local.Options{})
		switch f.text = ""; {
		case want.n == 0 && err == nil:
			t.Errorf("--workers %q was taken", text)
		case want.n > 0 && (err != nil || f != want):
			t.Errorf("--workers %q: %+v, %v", text, f, err)
		}
	}
	hindcast(t, "run", demoJob, "--workers", "many", "--workspace", filepath.Join(t.TempDir(), "ws")).exits(t, exitUsage)
}
