package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hindcast/internal/job"
	"hindcast/internal/local"
)

// full is a device without space: it takes so many bytes, and no more.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if len(b) > f.left {
		return 0, syscall.ENOSPC
	}
	f.left -= len(b)
	return len(b), nil
}

// TestOutputThatCannotBeWritten has every verb that prints data find no room for it, at once or on the way.
func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	for _, args := range [][]string{
		{"jobs"},
		{"runs"},
		{"status", a.early},
		{"plan", "visits", "--from", threeFrom, "--to", threeTo},
		{"--help"},
		{"table", "files", "seen"},
		{"table", "files", "seen", "--as", "duckdb"},
		{"table", "log", "seen"},
		{"table", "cat", "seen"},
		{"runs", "--json"},
		{"table", "files", "seen", "--as", "duckdb", "--json"},
	} {
		for _, room := range []int{0, 10} {
			var errs bytes.Buffer
			code := run(t.Context(), append(args, "--workspace", a.ws), IO{Out: &full{room}, Err: &errs}, local.Options{Jobs: a.list, Embedded: true})
			if code != exitError || !strings.Contains(errs.String(), "write the output: no space left on device") {
				t.Errorf("%v ends with %d:\n%s", args, code, errs.String())
			}
		}
	}
}

// TestRunGoesOnWithoutItsTalk has nobody read standard error, of a process whose pipe is broken.
func TestRunGoesOnWithoutItsTalk(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var out bytes.Buffer
	cmd := program(t, nil, "run", "daily-country-revenue", "--from", "2011-11-01", "--to", "2011-11-02", "--workspace", filepath.Join(t.TempDir(), "ws"))
	cmd.Stdout, cmd.Stderr = &out, w
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "proven") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestAbortedRunIsNotToBeFinished(t *testing.T) {
	t.Parallel()
	list, ws, run := fullDisk(t)
	hindcastWith(t, list, "abort", run, "--why", "wrong window", "--workspace", ws).ok(t)
	r := hindcastWith(t, list, "promote", run, "--workspace", ws).exits(t, exitConflict).has(t, "decided to abort it by "+local.By(), "wrong window")
	if strings.Contains(r.err, "resume") {
		t.Errorf("it is told to go on with the run:\n%s", r.err)
	}
}

// TestLostAndDamagedRecords loses what validation left, and cuts what it and the request left.
func TestLostAndDamagedRecords(t *testing.T) {
	t.Parallel()
	list := []job.Job{threeDays(t).twoTables()}
	ws := filepath.Join(t.TempDir(), "ws")
	var ids []string
	for range 3 {
		ids = append(ids, threeRun(t, list[0], ws, "--json").ok(t).status(t).Run)
	}
	of := func(run, name string) string { return filepath.Join(ws, "runs", run, name) }
	for _, names := range [][]string{{"verdict.json"}, {"candidate.json"}, {"account.json"}, {"verdict.json", "candidate.json", "account.json"}} {
		for _, name := range names {
			if err := os.Remove(of(ids[0], name)); err != nil {
				t.Fatal(err)
			}
		}
		hindcastWith(t, list, "resume", ids[0], "--workspace", ws).ok(t).has(t, "proven")
	}
	hindcastWith(t, list, "promote", ids[0], "--workspace", ws).ok(t)

	for run, name := range map[string]string{ids[1]: "verdict.json", ids[2]: "request.json"} {
		if err := os.Truncate(of(run, name), 40); err != nil {
			t.Fatal(err)
		}
		var runs []local.Status
		decode(t, hindcastWith(t, list, "runs", "--json", "--workspace", ws).ok(t), &runs)
		for _, s := range runs {
			if s.Run == run && (s.Phase != local.Damaged || !strings.Contains(s.Error, name)) || s.Run == ids[0] && s.Phase != local.Promoted {
				t.Errorf("listed as %+v", s)
			}
		}
		if len(runs) != 3 {
			t.Errorf("%d runs are listed", len(runs))
		}
		hindcastWith(t, list, "runs", "--workspace", ws).ok(t).has(t, "promoted, version 1", run, "damaged", name)
	}
}

// What of a run was cut short is made again, by the same bytes, where the run can make it; where it cannot, the error says what to do.
func TestDamagedRecordsAreMadeAnewOrNamed(t *testing.T) {
	t.Parallel()
	l := threeDays(t)
	l.tail(append(threeVisits(0, 36, 40), threeVisits(1, 36, 40)...)...)
	list := []job.Job{l.twoTables()}
	ws := filepath.Join(t.TempDir(), "ws")
	run := threeRun(t, list[0], ws, "--shard-rows", "8", "--json").ok(t).status(t).Run
	dir := filepath.Join(ws, "runs", run)
	for _, pattern := range []string{"verdict.json", "candidate.json", "account.json", "done/*.json", "cut.json", "shards/*.json", "captured/*.json"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		was := mustRead(t, files[0])
		if err := os.WriteFile(files[0], was[:len(was)/2], 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(pattern, "/") || pattern == "cut.json" { // of which validation has no need
			if err := os.Remove(filepath.Join(dir, "verdict.json")); err != nil {
				t.Fatal(err)
			}
		} else if pattern != "account.json" {
			hindcastWith(t, list, "promote", run, "--workspace", ws).exits(t, exitError).has(t, pattern)
		}
		hindcastWith(t, list, "resume", run, "--workspace", ws).ok(t).has(t, "proven")
		if got := mustRead(t, files[0]); !bytes.Equal(got, was) {
			t.Errorf("%s is made anew as\n%s\nwas\n%s", pattern, got, was)
		}
	}
	// One that can be read, but is not what was checked.
	candidate := filepath.Join(dir, "candidate.json")
	was := mustRead(t, candidate)
	if err := os.WriteFile(candidate, bytes.Replace(was, []byte(run), []byte(strings.Repeat("x", len(run))), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	hindcastWith(t, list, "resume", run, "--workspace", ws).ok(t).has(t, "proven")
	if got := mustRead(t, candidate); !bytes.Equal(got, was) {
		t.Errorf("the candidate is made anew as %s", got)
	}
	hindcastWith(t, list, "promote", run, "--workspace", ws).ok(t)

	if err := os.Remove(filepath.Join(dir, "verdict.json")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plan.json", "request.json"} {
		if err := os.Truncate(filepath.Join(dir, name), 100); err != nil {
			t.Fatal(err)
		}
		hindcastWith(t, list, "resume", run, "--workspace", ws).exits(t, exitError).has(t, name, "it is damaged", "start a new run")
	}
}
