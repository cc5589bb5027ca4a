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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/table"
	"hindcast/internal/testenv"
)

// arena is a workspace with version 1 of the three days and two more runs that are proven, on the first two days and on the last two.
type arena struct {
	list        []job.Job
	ws          string
	early, late string // runs
}

func newArena(t *testing.T) arena {
	t.Helper()
	l := threeDays(t)
	a := arena{list: []job.Job{l.twoTables()}, ws: filepath.Join(t.TempDir(), "ws")}
	threeRun(t, a.list[0], a.ws, "--promote").ok(t)
	recs := threeVisits(1, 12, 24)
	for i := range recs {
		recs[i].Amount += 100
	}
	l.segment(recs...) // so that what they make differs
	prove := func(from, to string) string {
		return a.do(t, "run", "visits", "--from", from, "--to", to, "--json").ok(t).status(t).Run
	}
	a.early, a.late = prove("2024-05-01", "2024-05-03"), prove("2024-05-02", "2024-05-04")
	return a
}

// copied is a copy of the arena in a folder of its own. Files are links, since none is written in place, and what swaps
// do not look at is left out: hundreds of copies are made.
func (a arena) copied(t *testing.T) arena {
	t.Helper()
	from := a.ws
	a.ws = filepath.Join(t.TempDir(), "ws")
	err := filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, file)
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return os.Link(file, filepath.Join(a.ws, below))
		case slices.Contains([]string{"history", "results", "shards", "fingerprints"}, d.Name()):
			return filepath.SkipDir
		}
		return os.MkdirAll(filepath.Join(a.ws, below), 0o755)
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a arena) do(t *testing.T, args ...string) result {
	t.Helper()
	return hindcastWith(t, a.list, append(args, "--workspace", a.ws)...)
}

func (a arena) history(t *testing.T) []string {
	t.Helper()
	return historyOf(t, a.list, a.ws, "seen")
}

func (a arena) phase(t *testing.T, run string) local.Phase {
	t.Helper()
	return a.do(t, "status", run, "--json").ok(t).status(t).Phase
}

// atOnce calls functions at the same time.
func atOnce(calls ...func() result) []result {
	out := make([]result, len(calls))
	var ready, done sync.WaitGroup
	ready.Add(len(calls))
	for i, call := range calls {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			out[i] = call()
		})
	}
	done.Wait()
	return out
}

func rounds(some, all int) int {
	if testenv.Full() {
		return all
	}
	return some
}

// asProcess runs the command line as a process of its own, with the sample jobs.
func asProcess(t *testing.T, args ...string) func() result {
	return func() result { return ended(t, program(t, nil, args...)) }
}

func TestAbortRacesPromotionAtTheCommandLine(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	check := func(t *testing.T, run string, promotions, aborts []result, phase func() local.Phase, history func() []string) bool {
		t.Helper()
		promoted := promotions[0].code == 0
		for _, r := range promotions {
			if promoted {
				r.ok(t)
			} else {
				r.exits(t, exitConflict).has(t, "it was decided to abort it by", "start a new run")
			}
		}
		for _, r := range aborts {
			if promoted {
				r.exits(t, exitConflict).has(t, "it was decided to promote it by", "roll it back instead")
			} else {
				r.ok(t).has(t, run)
			}
		}
		want := map[bool]local.Phase{true: local.Promoted, false: local.Aborted}[promoted]
		if got := phase(); got != want {
			t.Errorf("%s is %s, expected %s", run, got, want)
		}
		ops := []string{"promote"}
		if promoted {
			ops = append(ops, "promote")
		}
		if got := history(); !slices.Equal(got, ops) {
			t.Errorf("the history is %v, expected %v", got, ops)
		}
		return promoted
	}
	won := 0
	for range rounds(6, 300) {
		a := a.copied(t)
		promote := func() result { return a.do(t, "promote", a.early) }
		abort := func() result {
			time.Sleep(rand.N(10 * time.Millisecond)) // a promotion has more to look at before it decides
			return a.do(t, "abort", a.early, "--why", "it is late")
		}
		r := atOnce(promote, abort, promote, abort)
		again := []result{promote(), abort()}
		if check(t, a.early, []result{r[0], r[2], again[0]}, []result{r[1], r[3], again[1]},
			func() local.Phase { return a.phase(t, a.early) }, func() []string { return a.history(t) }) {
			won++
		}
	}
	t.Logf("promotion won %d of %d", won, rounds(6, 300))

	for range rounds(1, 30) {
		ws := spoiltCopy(t, true)
		promote, abort := asProcess(t, "promote", spoilt.run, "--workspace", ws), asProcess(t, "abort", spoilt.run, "--workspace", ws)
		r := atOnce(promote, abort)
		check(t, spoilt.run, r[:1], r[1:],
			func() local.Phase {
				return hindcast(t, "status", spoilt.run, "--json", "--workspace", ws).ok(t).status(t).Phase
			},
			func() []string { return opsOf(t, ws) })
	}
}

// opsOf are the operations of the sample table's history, oldest first.
func opsOf(t *testing.T, ws string) []string {
	t.Helper()
	var ops []string
	for _, c := range versions(t, ws, demoTable) {
		ops = append(ops, string(c.Op))
	}
	slices.Reverse(ops)
	return ops
}

func TestTwoWhoPromoteMakeOneVersion(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	same := func(t *testing.T, a arena, generation int64, verb, run string) {
		t.Helper()
		call := func() result { return a.do(t, verb, run, "--json") }
		made := 0
		for _, r := range atOnce(call, call, call) {
			var s swapped
			decode(t, r.ok(t), &s)
			if s.Version != generation || s.Served != generation || s.Op != verb || s.Run != run {
				t.Errorf("%+v, expected version %d", s, generation)
			}
			if !s.Repeated {
				made++
			}
		}
		if made != 1 {
			t.Errorf("%d say that they made version %d", made, generation)
		}
	}
	for range rounds(3, 100) {
		a := a.copied(t)
		was := fileSums(t, a.list, a.ws, "seen", "sums")
		same(t, a, 2, "promote", a.early)
		is := fileSums(t, a.list, a.ws, "seen", "sums")
		same(t, a, 3, "rollback", a.early)
		if got := fileSums(t, a.list, a.ws, "seen", "sums"); !maps.Equal(got, was) || maps.Equal(got, is) {
			t.Errorf("rolled back to %v", got)
		}
		same(t, a, 4, "promote", a.early)
		if got := fileSums(t, a.list, a.ws, "seen", "sums"); !maps.Equal(got, is) {
			t.Errorf("forward again to %v", got)
		}
		if got := a.history(t); !slices.Equal(got, []string{"promote", "promote", "rollback", "promote"}) {
			t.Errorf("the history is %v", got)
		}
	}
	for range rounds(1, 20) {
		ws := spoiltCopy(t, true)
		promote := asProcess(t, "promote", spoilt.run, "--workspace", ws)
		for _, r := range atOnce(promote, promote, promote) {
			r.ok(t).has(t, "promote made version 2", "version 2 is served")
		}
		if got := opsOf(t, ws); !slices.Equal(got, []string{"promote", "promote"}) {
			t.Errorf("the history is %v", got)
		}
		sameContents(t, "promoted", contents(t, ws, demoTable), spoilt.becomes)
	}
}

// TestRunsThatShareADay has two runs promoted at the same time that replace one day between them: the second is refused, and names it.
func TestRunsThatShareADay(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	for range rounds(3, 100) {
		a := a.copied(t)
		r := atOnce(func() result { return a.do(t, "promote", a.early) }, func() result { return a.do(t, "promote", a.late) })
		loser, lost := r[1], a.late
		if r[1].code == 0 {
			loser, lost = r[0], a.early
			r[1].ok(t)
		} else {
			r[0].ok(t)
		}
		loser.exits(t, exitConflict).has(t, "the base moved", "seen day=2024-05-02", "sums day=2024-05-02", "compute")
		if strings.Contains(loser.err, "2024-05-01") || strings.Contains(loser.err, "2024-05-03") {
			t.Errorf("it names days that did not change: %s", loser.err)
		}
		if got := a.phase(t, lost); got != local.Proven {
			t.Errorf("%s is %s", lost, got)
		}
		// It can be given up, unless the other came between its decision and its swap.
		if r := a.do(t, "abort", lost); r.code != 0 {
			r.exits(t, exitConflict).has(t, "it was decided to promote it")
		}
		a.do(t, "promote", lost).exits(t, exitConflict)
		if got := a.history(t); !slices.Equal(got, []string{"promote", "promote"}) {
			t.Errorf("the history is %v", got)
		}
	}
}

func TestPromotionRacesRollback(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	for range rounds(3, 100) {
		a := a.copied(t)
		r := atOnce(func() result { return a.do(t, "promote", a.early) }, func() result { return a.do(t, "rollback", a.early) })
		r[0].ok(t)
		want, phase := []string{"promote", "promote"}, local.Promoted
		if r[1].code == 0 {
			want, phase = append(want, "rollback"), local.RolledBack
		} else {
			r[1].exits(t, exitConflict).has(t, "never promoted")
		}
		if got := a.history(t); !slices.Equal(got, want) {
			t.Errorf("the history is %v, expected %v", got, want)
		}
		if got := a.phase(t, a.early); got != phase {
			t.Errorf("%s is %s, expected %s", a.early, got, phase)
		}
	}
}

// stopped starts the program, which is stopped before it writes an object of a name. Go lets it go on, to its end.
func stopped(t *testing.T, name string, args ...string) (goOn func() result) {
	t.Helper()
	cmd := program(t, []string{stopAt + "=" + name}, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v did not stop before it wrote %s: status %v, %v\n%s%s", args, name, status, err, out.String(), errs.String())
	}
	return func() result {
		t.Helper()
		err := cmd.Process.Signal(syscall.SIGCONT)
		if err == nil {
			err = cmd.Wait()
		}
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
	}
}

// TestZombies stops processes before they write what settles things, lets others do so, and lets them go on: they move nothing.
func TestZombies(t *testing.T) {
	t.Parallel()
	for name, z := range map[string]struct {
		before [][]string // what was done
		zombie []string
		stopAt string
		others [][]string
		code   int
		says   []string
		ops    []string
	}{
		"a promotion, promoted and rolled back meanwhile": {
			zombie: []string{"promote", "RUN"}, stopAt: "pointer.json", others: [][]string{{"promote", "RUN"}, {"rollback", "RUN"}},
			says: []string{"promote made version 2 already; version 3 is served"}, ops: []string{"promote", "promote", "rollback"},
		},
		"a promotion, promoted, rolled back and promoted again": {
			zombie: []string{"promote", "RUN"}, stopAt: "pointer.json", others: [][]string{{"promote", "RUN"}, {"rollback", "RUN"}, {"promote", "RUN"}},
			says: []string{"promote made version 2 already; version 4 is served"}, ops: []string{"promote", "promote", "rollback", "promote"},
		},
		"a rollback, rolled back and promoted again": {
			before: [][]string{{"promote", "RUN"}},
			zombie: []string{"rollback", "RUN"}, stopAt: "pointer.json", others: [][]string{{"rollback", "RUN"}, {"promote", "RUN"}},
			says: []string{"rollback made version 3 already; version 4 is served"}, ops: []string{"promote", "promote", "rollback", "promote"},
		},
		"a promotion again, promoted and rolled back": {
			before: [][]string{{"promote", "RUN"}, {"rollback", "RUN"}},
			zombie: []string{"promote", "RUN"}, stopAt: "pointer.json", others: [][]string{{"promote", "RUN"}, {"rollback", "RUN"}},
			says: []string{"promote made version 4 already; version 5 is served"}, ops: []string{"promote", "promote", "rollback", "promote", "rollback"},
		},
		"a promotion that has not decided, aborted": {
			zombie: []string{"promote", "RUN"}, stopAt: "decision.json", others: [][]string{{"abort", "RUN", "--why", "asleep"}},
			code: exitConflict, says: []string{"it was decided to abort it by", "(asleep)", "start a new run"}, ops: []string{"promote"},
		},
		"an abort, promoted": {
			zombie: []string{"abort", "RUN"}, stopAt: "decision.json", others: [][]string{{"promote", "RUN"}},
			code: exitConflict, says: []string{"it was decided to promote it by", "roll it back instead"}, ops: []string{"promote", "promote"},
		},
		"a live commit, overtaken by the run": {
			zombie: []string{"table", "commit", demoTable, "day=2011-11-10:", "--name", "live-1", "--parent", "1", "--code", "v1"}, stopAt: "pointer.json",
			others: [][]string{{"promote", "RUN"}},
			code:   exitConflict, says: []string{"the base moved", "day=2011-11-10"}, ops: []string{"promote", "promote"},
		},
		"a live commit, made by another and undone by nobody": {
			zombie: []string{"table", "commit", demoTable, "day=2011-12-01:", "--name", "live-1", "--parent", "1", "--code", "v1"}, stopAt: "pointer.json",
			others: [][]string{{"table", "commit", demoTable, "day=2011-12-01:", "--name", "live-1", "--parent", "1", "--code", "v1"}, {"promote", "RUN"}},
			says:   []string{"commit made version 2 already; version 3 is served"}, ops: []string{"promote", "commit", "promote"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ws := spoiltCopy(t, true)
			line := func(args []string) []string {
				out := slices.Clone(args)
				for i := range out {
					if out[i] == "RUN" {
						out[i] = spoilt.run
					}
				}
				return append(out, "--workspace", ws)
			}
			for _, args := range z.before {
				hindcast(t, line(args)...).ok(t)
			}
			goOn := stopped(t, z.stopAt, line(z.zombie)...)
			for _, args := range z.others {
				hindcast(t, line(args)...).ok(t)
			}
			was := contents(t, ws, demoTable)
			goOn().exits(t, z.code).has(t, z.says...)
			if got := opsOf(t, ws); !slices.Equal(got, z.ops) {
				t.Errorf("the history is %v, expected %v", got, z.ops)
			}
			sameContents(t, "after the zombie", contents(t, ws, demoTable), was)
			// Whoever asks once more is told the same, and moves nothing.
			if z.zombie[0] == "table" || z.code != 0 { // a person who promotes or rolls back again means it
				hindcast(t, line(z.zombie)...).exits(t, z.code)
			}
			if got := opsOf(t, ws); !slices.Equal(got, z.ops) {
				t.Errorf("the history is %v after a repeat, expected %v", got, z.ops)
			}
		})
	}
}

var errLostReply = errors.New("connection reset by peer")

// TestLostReplies loses the reply to each durable effect of each swap in turn. The swap succeeds, or says that it may have; the
// same again succeeds, and there is one version.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	promoted := a.copied(t)
	promoted.do(t, "promote", a.early).ok(t)
	back := promoted.copied(t)
	back.do(t, "rollback", a.early).ok(t)
	for _, c := range []struct {
		name  string
		on    arena
		args  []string
		makes int64
	}{
		{"promote", a, []string{"promote", a.early}, 2},
		{"rollback", promoted, []string{"rollback", a.early}, 3},
		{"promote again", back, []string{"promote", a.early}, 4},
		{"commit", a, []string{"table", "commit", "seen", "day=2024-05-09:", "--name", "live", "--parent", "1", "--code", "v1"}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			sides := []bool{true}
			if testenv.Full() {
				sides = []bool{true, false}
			}
			for _, done := range sides {
				for n := int64(1); ; n++ {
					on := c.on.copied(t)
					var seen atomic.Int64
					lost := ""
					r := hooked(t, on.list, func(op blob.Op) error {
						if op.Done != done || seen.Add(1) != n {
							return nil
						}
						lost = op.Key
						return errLostReply
					}, append(c.args, "--workspace", on.ws)...)
					if lost == "" {
						r.ok(t)
						break
					}
					what := fmt.Sprintf("%s %s lost", lost, map[bool]string{true: "reply", false: "request"}[done])
					switch {
					case path.Base(lost) == table.PointerKey && r.code != 0:
						t.Errorf("%s: exit code %d: %s", what, r.code, r.err)
					case r.code == exitUnknown:
						r.has(t, "the same again")
					case r.code != 0:
						r.has(t, errLostReply.Error())
					}
					var s swapped
					again := hindcastWith(t, on.list, append(c.args, "--json", "--workspace", on.ws)...)
					if c.name == "promote again" && r.code == 0 {
						again.ok(t) // it stands as it is
					}
					decode(t, again.ok(t), &s)
					if got := on.history(t); int64(len(got)) != c.makes || s.Version != c.makes {
						t.Errorf("%s: exit code %d, then %+v: the history is %v", what, r.code, s, got)
					}
				}
			}
		})
	}
	t.Run("run --promote", func(t *testing.T) {
		a := a.copied(t)
		pointers := 0
		r := hooked(t, a.list, func(op blob.Op) error {
			if op.Done && path.Base(op.Key) == table.PointerKey {
				pointers++
				return errLostReply
			}
			return nil
		}, "run", "visits", "--from", threeFrom, "--to", threeTo, "--promote", "--workspace", a.ws)
		r.ok(t).has(t, "promoted, version 2")
		if got := a.history(t); len(got) != 2 || pointers != 1 {
			t.Errorf("%d puts of the pointer; the history is %v", pointers, got)
		}
	})
}

// TestASwapThatIsNeverAnswered ends with the code that says so, whether it took effect or not; the same again finds out.
func TestASwapThatIsNeverAnswered(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	r := hooked(t, a.list, func(op blob.Op) error {
		if !op.Done && path.Base(op.Key) == table.PointerKey {
			return errLostReply
		}
		return nil
	}, "promote", a.early, "--json", "--workspace", a.ws)
	r.exits(t, exitUnknown).has(t, "the outcome is unknown", "run the same again to find out")
	var f failed
	if err := json.Unmarshal([]byte(r.out), &f); err != nil || f.Exit != exitUnknown || !strings.Contains(f.Error, "unknown") {
		t.Errorf("%+v, %v", f, err)
	}
	if got := a.history(t); len(got) != 1 {
		t.Errorf("the history is %v", got)
	}
	// It was decided to promote: it cannot be aborted any more.
	a.do(t, "abort", a.early).exits(t, exitConflict)
	a.do(t, "promote", a.early).ok(t)
	a.do(t, "promote", a.early).ok(t).has(t, "already")
	if got := a.history(t); len(got) != 2 {
		t.Errorf("the history is %v", got)
	}
	if _, err := os.Stat(filepath.Join(a.ws, "datasets", "visits", table.PointerKey)); err != nil {
		t.Error(err)
	}
}
