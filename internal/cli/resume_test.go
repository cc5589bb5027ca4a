package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/testenv"
	"hindcast/jobs"
)

// interrupted is a copy of the bad weeks' workspace in which the correction crashed at a side of a durable effect.
func interrupted(t *testing.T, side int) (ws, run string) {
	t.Helper()
	ws = spoiltCopy(t, false)
	if !crashesAt(t, side, correction(ws, "--promote")...) {
		t.Fatalf("it ended before side %d of its effects", side)
	}
	if run = begun(t, ws); run == "" {
		t.Fatal("it was not begun")
	}
	return ws, run
}

// midway is about where half of a correction's effects have been made: shards are finished, others are not.
func midway(t *testing.T) int {
	t.Helper()
	makeSpoilt(t)
	return spoilt.sides["run"] * 6 / 10
}

// has asks for texts in what a command told.
func (r result) has(t *testing.T, texts ...string) result {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.out+r.err, text) {
			t.Errorf("no %q in\nstdout:\n%s\nstderr:\n%s", text, r.out, r.err)
		}
	}
	return r
}

// ended runs a prepared process to its end.
func ended(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Error(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// filesBelow lists a folder's files, with their sizes and times.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			out[path] = fmt.Sprint(info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sameFiles asks that nothing was written below a folder since.
func sameFiles(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	for path, was := range filesBelow(t, dir) {
		if before[path] != was {
			t.Errorf("%s was written", path)
		}
	}
}

func TestResumeWithChangedCode(t *testing.T) {
	t.Parallel()
	ws, run := interrupted(t, midway(t))
	before := filesBelow(t, ws)
	changed := program(t, []string{changedCode + "=1"}, "resume", run, "--workspace", ws)
	ended(t, changed).exits(t, exitRefused).has(t, run, "other code", "build it again from the same source", "hindcast run "+demoJob)
	sameFiles(t, ws, before)
	checkWhole(t, ws)
	goesOn(t, ws)

	// What had ended is told, whatever the code.
	before = filesBelow(t, ws)
	changed = program(t, []string{changedCode + "=1"}, "resume", run, "--workspace", ws)
	ended(t, changed).ok(t).has(t, "promoted", "nothing was done")
	sameFiles(t, ws, before)
}

// TestTwoResume stops one process in the middle of a resume, and has another try the same.
func TestTwoResume(t *testing.T) {
	t.Parallel()
	ws, run := interrupted(t, midway(t))
	reached, release := make(chan struct{}), make(chan struct{})
	var n atomic.Int64
	opts := eachSide(local.Options{Jobs: jobs.All()}, func() error {
		if n.Add(1) == 10 {
			close(reached)
			<-release
		}
		return nil
	})
	var first result
	var resume sync.WaitGroup
	resume.Go(func() { first = hindcastUnder(t, opts, "resume", run, "--workspace", ws) })
	<-reached
	ended(t, program(t, nil, "resume", run, "--workspace", ws)).exits(t, exitAgain).has(t, run, "another process is running it", "hindcast status "+run)
	hindcast(t, "resume", run, "--workspace", ws).exits(t, exitAgain).has(t, "another process is running it")
	if s := hindcast(t, "status", run, "--json", "--workspace", ws).ok(t).status(t); !s.Running {
		t.Error("it is not said to be running")
	}
	close(release)
	resume.Wait()
	first.ok(t)
	checkCorrected(t, ws, run)
}

// brokenDown is a copy in which the correction has failed when all its shards were finished.
func brokenDown(t *testing.T) (ws, run string) {
	t.Helper()
	ws = spoiltCopy(t, false)
	opts := local.Options{Jobs: jobs.All(), Wrap: func(s blob.Store) blob.Store {
		return blob.Hook(s, func(op blob.Op) error {
			if strings.HasSuffix(op.Key, "verdict.json") {
				return errors.New("the disk is full")
			}
			return nil
		})
	}}
	hindcastUnder(t, opts, correction(ws, "--promote")...).exits(t, exitError).has(t, "the disk is full")
	return ws, begun(t, ws)
}

// TestResumeAfterFailure goes over everything in a new execution, and does nothing again.
func TestResumeAfterFailure(t *testing.T) {
	t.Parallel()
	ws, run := brokenDown(t)
	if goesOn(t, ws) != run {
		t.Error("another run went on")
	}
}

// TestAbortWhileItRuns aborts a run that another process is driving: it must stop, and promote nothing.
func TestAbortWhileItRuns(t *testing.T) {
	t.Parallel()
	ws, at := spoiltCopy(t, false), int64(midway(t))
	reached, release := make(chan struct{}), make(chan struct{})
	var n atomic.Int64
	opts := eachSide(local.Options{Jobs: jobs.All()}, func() error {
		if n.Add(1) == at {
			close(reached)
			<-release
		}
		return nil
	})
	var driven result
	var drive sync.WaitGroup
	drive.Go(func() { driven = hindcastUnder(t, opts, correction(ws, "--promote")...) })
	<-reached
	var list []local.Status
	if err := json.Unmarshal([]byte(hindcast(t, "runs", "--json", "--workspace", ws).ok(t).out), &list); err != nil {
		t.Error(err)
	}
	run := list[len(list)-1].Run
	hindcast(t, "abort", run, "--why", "not needed", "--workspace", ws).ok(t)
	close(release)
	drive.Wait()
	driven.exits(t, exitConflict).has(t, "decided to abort", "not needed")
	if s := hindcast(t, "status", run, "--json", "--workspace", ws).ok(t).status(t); s.Phase != local.Aborted || s.Done == s.Shards {
		t.Errorf("the run is %+v", s)
	}
	sameContents(t, demoTable, contents(t, ws, demoTable), spoilt.served)
}

// TestRaceToResume starts processes at once where no execution was begun, where one was interrupted, and where one has failed.
func TestRaceToResume(t *testing.T) {
	t.Parallel()
	processes := 2
	if testenv.Full() {
		processes = 4
	}
	for name, prepare := range map[string]func(t *testing.T) (ws, run string){
		"not begun":   func(t *testing.T) (string, string) { return interrupted(t, 2) },
		"interrupted": func(t *testing.T) (string, string) { return interrupted(t, midway(t)) },
		"failed":      brokenDown,
	} {
		if name != "interrupted" && !testenv.Full() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws, run := prepare(t)
			results := make([]result, processes)
			var all sync.WaitGroup
			for i := range results {
				cmd := program(t, nil, "resume", run, "--workspace", ws)
				all.Go(func() { results[i] = ended(t, cmd) })
			}
			all.Wait()
			drove := 0
			for _, r := range results {
				switch r.code {
				case 0:
					drove++
				case exitAgain:
					r.has(t, "another process is running it")
				default:
					t.Errorf("exit code %d:\n%s", r.code, r.err)
				}
			}
			if drove == 0 {
				t.Error("nobody drove it")
			}
			checkCorrected(t, ws, run)
		})
	}
}

// TestInterrupt sends ctrl-C to a run, and to its resume.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for state, next := range map[string]string{"Plan": "Capture", "Backfill": "Backfill"} {
		if state == "Plan" && !testenv.Full() {
			continue
		}
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			ws := spoiltCopy(t, false)
			interruptAt(t, "state    "+state, program(t, nil, correction(ws, "--promote")...)).has(t, "hindcast resume ")
			run := begun(t, ws)
			interruptAt(t, "state    "+next, program(t, nil, "resume", run, "--workspace", ws)).has(t, "hindcast resume "+run)
			goesOn(t, ws)
		})
	}
}

func TestInterruptTheDemo(t *testing.T) {
	t.Parallel()
	ws := filepath.Join(t.TempDir(), "ws")
	interruptAt(t, "making version 1", program(t, nil, "demo", "--workspace", ws)).has(t, "remove "+ws)
}

// interruptAt sends SIGINT when a line is told that begins so, and asks for a good end.
func interruptAt(t *testing.T, line string, cmd *exec.Cmd) result {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(&told, lines.Text())
		if strings.HasPrefix(lines.Text(), line) {
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // its exit code is asked for
	return result{cmd.ProcessState.ExitCode(), "", told.String()}.exits(t, exitAgain).has(t, "interrupted")
}

// quarantining is the jobs with a canary of the correction that is wrong.
func quarantining(t *testing.T) []job.Job {
	t.Helper()
	list := jobs.All()
	i := slices.IndexFunc(list, func(j job.Job) bool { return j.Folder() == demoJob })
	list[i] = changedJob(t, list[i], map[string]string{"canaries.csv": "wrong.csv"}, nil)
	list[i].Files().(fstest.MapFS)["wrong.csv"] = &fstest.MapFile{Data: []byte("day,country,lines\n2011-11-10,United Kingdom,1\n")}
	return list
}

// TestResumeOfWhatHasEnded resumes runs that are past that: each says so, and changes nothing that is served.
func TestResumeOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	makeSpoilt(t)
	for _, c := range []struct {
		name    string
		list    []job.Job
		prepare func(t *testing.T) (ws, run string)
		code    int
		says    []string
		writes  bool // it goes over its results again
	}{{
		name:    "proven",
		prepare: func(t *testing.T) (string, string) { return spoiltCopy(t, true), spoilt.run },
		says:    []string{"proven", "nothing was done", "hindcast promote "},
	}, {
		name: "promoted",
		prepare: func(t *testing.T) (string, string) {
			ws := spoiltCopy(t, true)
			hindcast(t, "promote", spoilt.run, "--workspace", ws).ok(t)
			return ws, spoilt.run
		},
		says: []string{"promoted, version 2", "nothing was done", "hindcast rollback "},
	}, {
		name: "rolled back",
		prepare: func(t *testing.T) (string, string) {
			ws := spoiltCopy(t, true)
			hindcast(t, "promote", spoilt.run, "--workspace", ws).ok(t)
			hindcast(t, "rollback", spoilt.run, "--workspace", ws).ok(t)
			return ws, spoilt.run
		},
		says: []string{"rolled back, version 3", "nothing was done", "hindcast promote "},
	}, {
		name: "aborted midway",
		prepare: func(t *testing.T) (string, string) {
			ws, run := interrupted(t, midway(t))
			hindcast(t, "abort", run, "--why", "not needed", "--workspace", ws).ok(t)
			return ws, run
		},
		code: exitConflict,
		says: []string{"decided to abort", "not needed", "start a new run"},
	}, {
		name: "aborted when it was proven",
		prepare: func(t *testing.T) (string, string) {
			ws := spoiltCopy(t, true)
			hindcast(t, "abort", spoilt.run, "--workspace", ws).ok(t)
			return ws, spoilt.run
		},
		code: exitConflict,
		says: []string{"decided to abort", "start a new run"},
	}, {
		name: "quarantined", list: quarantining(t),
		prepare: func(t *testing.T) (string, string) {
			ws := spoiltCopy(t, false)
			hindcastWith(t, quarantining(t), correction(ws, "--promote")...).exits(t, exitChecks)
			return ws, begun(t, ws)
		},
		code: exitChecks,
		says: []string{"quarantined", "a check failed", "the pointer was not moved", "canaries"}, writes: true,
	}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ws, run := c.prepare(t)
			list := c.list
			if list == nil {
				list = jobs.All()
			}
			log, served, before := versions(t, ws, demoTable), contents(t, ws, demoTable), filesBelow(t, ws)
			for range 2 {
				hindcastWith(t, list, "resume", run, "--workspace", ws).exits(t, c.code).has(t, append(c.says, run)...)
			}
			if now := versions(t, ws, demoTable); len(now) != len(log) || !maps.Equal(contents(t, ws, demoTable), served) {
				t.Errorf("the pointer moved: %+v", now)
			}
			if !c.writes {
				sameFiles(t, ws, before)
			}
			if c.code == exitChecks || c.code == exitConflict {
				code := hindcastWith(t, list, "promote", run, "--workspace", ws).code
				if code != c.code && code != exitChecks {
					t.Errorf("promote exits with %d", code)
				}
				sameContents(t, c.name, contents(t, ws, demoTable), served)
			}
		})
	}
}

// TestResumeOfNothing names a run that there is not.
func TestResumeOfNothing(t *testing.T) {
	t.Parallel()
	ws := filepath.Join(t.TempDir(), "ws")
	r := hindcast(t, "resume", "20111101-000000-no-such-run-00000000", "--workspace", ws)
	if r.code == 0 {
		t.Error("it exits with 0")
	}
	r.has(t, "there is no run")
	if _, err := os.Stat(ws); err == nil {
		t.Error("a workspace was made")
	}
}
