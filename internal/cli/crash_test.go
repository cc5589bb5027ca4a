package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/local"
	"hindcast/internal/table"
	"hindcast/internal/testenv"
	"hindcast/jobs"
)

// correction is what the tests interrupt: the bad weeks computed anew, by several shards of several laps each.
func correction(ws string, more ...string) []string {
	return append([]string{
		"run", demoJob, "--from", demoFrom, "--to", demoTo, "--shard-rows", "20000", "--lap-rows", "20000", "--workspace", ws,
	}, more...)
}

// spoilt is a workspace that serves the bad weeks as the buggy job left them, and what a correction makes of it undisturbed: made once.
var spoilt struct {
	sync.Once
	was, proven string // workspaces: before the correction, and with the correction proven
	run         string // of proven

	served  map[string]string // contents of what is served before
	becomes map[string]string // and after
	fates   map[string]string
	sides   map[string]int // of the durable effects of the verbs
	made    bool
}

func makeSpoilt(t *testing.T) {
	t.Helper()
	s := &spoilt
	s.Do(func() {
		dir := keptDir(t)
		s.was, s.proven = filepath.Join(dir, "was"), filepath.Join(dir, "proven")
		hindcast(t, "run", demoBuggy, "--from", demoFrom, "--to", demoTo, "--promote", "--workspace", s.was).ok(t)
		s.served = contents(t, s.was, demoTable)

		s.sides = map[string]int{}
		counted := func(args ...string) result {
			var n atomic.Int64
			r := hindcastUnder(t, eachSide(local.Options{Jobs: jobs.All()}, func() error { n.Add(1); return nil }), args...).ok(t)
			s.sides[args[0]] = int(n.Load())
			return r
		}
		copyWorkspace(t, s.was, s.proven)
		s.run = counted(correction(s.proven, "--json")...).status(t).Run
		promoted := filepath.Join(dir, "promoted")
		copyWorkspace(t, s.proven, promoted)
		counted("promote", s.run, "--workspace", promoted)
		s.becomes = contents(t, promoted, demoTable)
		s.fates = fates(hindcast(t, "status", s.run, "--json", "--workspace", promoted).ok(t).status(t).Account)
		counted("rollback", s.run, "--workspace", promoted)
		sameContents(t, "rolled back", contents(t, promoted, demoTable), s.served)
		s.made = !maps.Equal(s.served, s.becomes)
	})
	if !s.made {
		t.Fatal("the bad weeks were not made, or not corrected")
	}
}

func copyWorkspace(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// spoiltCopy is a copy of the test's own; with proven, the correction is computed there, but not promoted.
func spoiltCopy(t *testing.T, proven bool) string {
	t.Helper()
	makeSpoilt(t)
	ws, from := filepath.Join(t.TempDir(), "ws"), spoilt.was
	if proven {
		from = spoilt.proven
	}
	copyWorkspace(t, from, ws)
	return ws
}

// killed runs the program and reports whether SIGKILL ended it. It must else have ended well. With after, it is
// killed after that time, if it runs for so long.
func killed(t *testing.T, cmd *exec.Cmd, after time.Duration) bool {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Start()
	if err == nil && after > 0 {
		defer time.AfterFunc(after, func() { _ = cmd.Process.Kill() }).Stop() // it fails where the process has ended
	}
	if err == nil {
		err = cmd.Wait()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	if err != nil {
		t.Fatalf("%v, expected to be killed, or to end well:\n%s", err, out.String())
	}
	return false
}

// crashesAt runs the program, which dies at a side of a durable effect, unless it has ended before.
func crashesAt(t *testing.T, side int, args ...string) bool {
	t.Helper()
	return killed(t, program(t, []string{crashAt + "=" + strconv.Itoa(side)}, args...), 0)
}

// begun finds the correction's run in a workspace; there is none where the request was not written.
func begun(t *testing.T, ws string) string {
	t.Helper()
	var list []local.Status
	out := hindcast(t, "runs", "--json", "--workspace", ws).ok(t).out
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v in:\n%s", err, out)
	}
	run := ""
	for _, s := range list {
		if s.Job != demoJob {
			continue
		}
		if run != "" {
			t.Fatalf("two runs, %s and %s", run, s.Run)
		}
		if s.Running {
			t.Fatalf("%s is said to be running", s.Run)
		}
		run = s.Run
	}
	return run
}

// checkWhole asks that a version is served whole: the one before, or the corrected one.
func checkWhole(t *testing.T, ws string) {
	t.Helper()
	if got := contents(t, ws, demoTable); !maps.Equal(got, spoilt.served) && !maps.Equal(got, spoilt.becomes) {
		t.Errorf("neither version is served: %v", got)
	}
}

// checkCorrected asks for what the correction makes undisturbed, by one move of the pointer.
func checkCorrected(t *testing.T, ws, run string) {
	t.Helper()
	sameContents(t, demoTable, contents(t, ws, demoTable), spoilt.becomes)
	log := versions(t, ws, demoTable)
	if len(log) != 2 || log[0].Run != run || log[0].Op != table.OpPromote {
		t.Errorf("the pointer's history is %+v", log)
	}
	s := hindcast(t, "status", run, "--json", "--workspace", ws).ok(t).status(t)
	if s.Phase != local.Promoted || s.Verdict == nil || !s.Verdict.Passed() || s.Done != s.Shards || s.Shards < 3 {
		t.Errorf("the run is %+v", s)
	}
	if !maps.Equal(fates(s.Account), spoilt.fates) {
		t.Errorf("the account is %v, expected %v", fates(s.Account), spoilt.fates)
	}
}

// past is what an interrupted run has done for good, and must not do again.
type past struct {
	files map[string]bool // of the run
	made  map[string]bool // data files of finished shards
	laps  map[string]int  // the last lap of a shard that left a checkpoint
}

func pastOf(t *testing.T, ws, run string) past {
	t.Helper()
	p := past{map[string]bool{}, map[string]bool{}, map[string]int{}}
	root := os.DirFS(filepath.Join(ws, "runs", run))
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		p.files[name] = true
		if shard, lap, ok := strings.Cut(strings.TrimPrefix(name, "checkpoints/"), "/"); ok && strings.HasPrefix(name, "checkpoints/") {
			p.laps[shard] = max(p.laps[shard], int(integer(t, lap)))
		}
		if path.Dir(name) != "done" {
			return nil
		}
		b, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		var done struct {
			Files map[string]map[string][]table.File
		}
		if err := json.Unmarshal(b, &done); err != nil {
			return err
		}
		for _, partitions := range done.Files {
			for _, files := range partitions {
				for _, f := range files {
					p.made[f.Path] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// forbids says why an object must not be written, if it must not.
func (p past) forbids(run, key string) string {
	if p.made[key] {
		return "its shard was finished"
	}
	name, ok := strings.CutPrefix(key, "runs/"+run+"/")
	if !ok {
		return ""
	}
	kind, rest, _ := strings.Cut(name, "/")
	rest, lap, _ := strings.Cut(rest, "/")
	switch kind {
	case "request.json", "plan.json":
		if p.files[name] {
			return "it was written"
		}
	case "captured":
		if partition, ok := strings.CutPrefix(rest, "partition="); ok && p.files["captured/"+partition+".json"] {
			return "the partition was captured"
		}
	case "fingerprints", "checkpoints":
		if p.files["done/"+rest+".json"] {
			return "its shard was finished"
		}
		if n, err := strconv.Atoi(lap); kind == "checkpoints" && err == nil && n < p.laps[rest] {
			return fmt.Sprintf("lap %d of the shard was done", p.laps[rest])
		}
	case "candidate.json", "account.json", "etags.json":
		if p.files["verdict.json"] {
			return "there is a verdict"
		}
	}
	return ""
}

// goesOn resumes the correction, or runs it anew where it was not begun, to its end, which must be right, and must not
// have taken again what was finished. It returns the run.
func goesOn(t *testing.T, ws string) string {
	t.Helper()
	checkWhole(t, ws)
	run := begun(t, ws)
	if run == "" {
		run = hindcast(t, correction(ws, "--promote", "--json")...).ok(t).status(t).Run
		checkCorrected(t, ws, run)
		return run
	}
	before := pastOf(t, ws, run)
	opts := local.Options{Jobs: jobs.All(), Wrap: func(s blob.Store) blob.Store {
		return blob.Hook(s, func(op blob.Op) error {
			if why := before.forbids(run, op.Key); why != "" && !op.Done {
				t.Errorf("%s %s again, but %s", op.Verb, op.Key, why)
			}
			return nil
		})
	}}
	hindcastUnder(t, opts, "resume", run, "--workspace", ws).ok(t)
	checkCorrected(t, ws, run)
	return run
}

// sidesOf spreads n sides over the durable effects of a verb, all of them in a full test: both before and after effects.
func sidesOf(t *testing.T, n int, verbs ...string) []int {
	t.Helper()
	makeSpoilt(t)
	total := 0
	for _, v := range verbs {
		total += spoilt.sides[v]
	}
	if total < 2*n {
		t.Fatalf("%v: %d sides of durable effects", verbs, total)
	}
	stride := max(total/n, 1) | 1
	if testenv.Full() {
		stride, total = 1, total+total/5 // how many there are differs, as events are written together or not
	}
	var out []int
	for side := 1; side <= total; side += stride {
		out = append(out, side)
	}
	return out
}

func TestCrashAtEveryEffectOfARun(t *testing.T) {
	t.Parallel()
	var last atomic.Bool
	t.Run("sides", func(t *testing.T) {
		for _, side := range sidesOf(t, 2, "run", "promote") {
			t.Run(strconv.Itoa(side), func(t *testing.T) {
				t.Parallel()
				ws := spoiltCopy(t, false)
				if !crashesAt(t, side, correction(ws, "--promote")...) {
					last.Store(true)
					checkCorrected(t, ws, begun(t, ws))
					return
				}
				goesOn(t, ws)
			})
		}
	})
	if testenv.Full() && !last.Load() {
		t.Error("there are more effects than were crashed at")
	}
}

func TestCrashAgainWhileResuming(t *testing.T) {
	t.Parallel()
	makeSpoilt(t)
	n := 1
	if testenv.Full() {
		n = 40
	}
	rnd := rand.New(rand.NewPCG(2, 0))
	for i := range n {
		total := spoilt.sides["run"]
		first, second := 3+rnd.IntN(total-3), 1+rnd.IntN(total/2)
		t.Run(fmt.Sprintf("%d/%d,%d", i, first, second), func(t *testing.T) {
			t.Parallel()
			ws := spoiltCopy(t, false)
			crashesAt(t, first, correction(ws, "--promote")...)
			crashesAt(t, second, "resume", begun(t, ws), "--workspace", ws)
			goesOn(t, ws)
		})
	}
}

// TestCrashOfARunOfTwoTables interrupts a run whose tables are cut in different ways: there is no version yet, then one with both.
func TestCrashOfARunOfTwoTables(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("each run takes seconds: HINDCAST_TEST_FULL=1 runs it")
	}
	tables, n := []string{"account-balance", "ledger-entry"}, 12
	args := []string{"run", "account-balance", "--promote", "--shard-rows", "200000", "--lap-rows", "100000", "--workspace"}
	undisturbed := filepath.Join(t.TempDir(), "ws")
	var sides atomic.Int64
	opts := eachSide(local.Options{Jobs: jobs.All()}, func() error { sides.Add(1); return nil })
	hindcastUnder(t, opts, append(args, undisturbed)...).ok(t)
	rnd := rand.New(rand.NewPCG(4, 0))
	for i := range n {
		side := 3 + (i*int(sides.Load())+rnd.IntN(int(sides.Load())))/n
		t.Run(strconv.Itoa(side), func(t *testing.T) {
			t.Parallel()
			ws := filepath.Join(t.TempDir(), "ws")
			if crashesAt(t, side, append(args, ws)...) {
				var list []local.Status
				if err := json.Unmarshal([]byte(hindcast(t, "runs", "--json", "--workspace", ws).ok(t).out), &list); err != nil || len(list) != 1 {
					t.Fatalf("%v: %+v", err, list)
				}
				if list[0].Phase != local.Promoted && hindcast(t, "table", "files", tables[0], "--workspace", ws).code == 0 {
					t.Errorf("there is a version, but the run is %s", list[0].Phase)
				}
				hindcast(t, "resume", list[0].Run, "--workspace", ws).ok(t)
			}
			for _, name := range tables {
				sameContents(t, name, contents(t, ws, name), contents(t, undisturbed, name))
			}
			if log := versions(t, ws, tables[1]); len(log) != 1 {
				t.Errorf("the pointer's history is %+v", log)
			}
		})
	}
}

// TestCrashAtEveryEffectOfASwap interrupts promotion, rollback and promotion again; the same command again must complete each, once.
func TestCrashAtEveryEffectOfASwap(t *testing.T) {
	t.Parallel()
	makeSpoilt(t)
	promoted, undone := spoiltCopy(t, true), spoiltCopy(t, true)
	hindcast(t, "promote", spoilt.run, "--workspace", promoted).ok(t)
	hindcast(t, "promote", spoilt.run, "--workspace", undone).ok(t)
	hindcast(t, "rollback", spoilt.run, "--workspace", undone).ok(t)
	for _, c := range []struct {
		name, verb, from string
		versions         int // afterwards
		want             map[string]string
	}{
		{"promote", "promote", spoilt.proven, 2, spoilt.becomes},
		{"rollback", "rollback", promoted, 3, spoilt.served},
		{"promote again", "promote", undone, 4, spoilt.becomes},
	} {
		for _, side := range sidesOf(t, 2, c.verb) {
			t.Run(fmt.Sprintf("%s/%d", c.name, side), func(t *testing.T) {
				t.Parallel()
				ws := filepath.Join(t.TempDir(), "ws")
				copyWorkspace(t, c.from, ws)
				crashesAt(t, side, c.verb, spoilt.run, "--workspace", ws)
				checkWhole(t, ws)
				if n := len(versions(t, ws, demoTable)); n != c.versions && n != c.versions-1 {
					t.Errorf("%d versions after the crash", n)
				}
				for range 2 { // and once more, as somebody would who is not sure
					hindcast(t, c.verb, spoilt.run, "--workspace", ws).ok(t)
					sameContents(t, c.name, contents(t, ws, demoTable), c.want)
					log := versions(t, ws, demoTable)
					if len(log) != c.versions || string(log[0].Op) != c.verb || log[0].Run != spoilt.run {
						t.Errorf("the pointer's history is %+v", log)
					}
				}
			})
		}
	}
}
