package cli

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/local"
	"hindcast/internal/spec"
	"hindcast/internal/testenv"
	"hindcast/jobs"
)

// slow creates a run of the three weeks that is asked to read slowly before it begins.
func slow(t *testing.T, ws, rate string) (run string) {
	t.Helper()
	return slowly(t, ws, rate, 20_000, false)
}

func slowly(t *testing.T, ws, rate string, shardRows int64, functions bool) (run string) {
	t.Helper()
	opts := local.Options{Jobs: jobs.All(), Embedded: true}
	w, err := local.Open(ws, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	flags := runFlags{window: spec.WindowFlags{From: demoFrom, To: demoTo}, shardRows: shardRows}
	if functions {
		if err := w.UseFunctions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r, _, err := flags.request(t.Context(), w, demoJob)
	if err != nil {
		t.Fatal(err)
	}
	r.Functions = functions
	if err := w.Env.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if out := hindcast(t, "throttle", r.Run, "--records-per-second", rate, "--workspace", ws).ok(t).out; !strings.Contains(out, "no process of this machine") {
		t.Errorf("throttle of a run that nobody drives said:\n%s", out)
	}
	return r.Run
}

// soon waits for what must be so in five seconds, and as long again on a machine that is busy with other tests.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("10 s later it was still not so that %s", what)
		}
	}
}

// backfillHistory is that of the children that compute shards.
func backfillHistory(t *testing.T, ws, run string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(ws, "runs", run, "history", "1", "Backfill*", "*.jsonl"))
	if err != nil || len(files) > 1 {
		t.Fatal(files, err)
	}
	if len(files) == 0 {
		return ""
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestARunIsPausedThrottledAndGoesOn(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("waits for seconds: part of the full counts")
	}
	undisturbed := filepath.Join(t.TempDir(), "ws")
	hindcast(t, "run", demoJob, "--from", demoFrom, "--to", demoTo, "--shard-rows", "20000", "--promote", "--workspace", undisturbed).ok(t)
	ws := filepath.Join(t.TempDir(), "ws")
	run := slow(t, ws, "10000")
	ended := make(chan result, 1)
	go func() { ended <- hindcast(t, "resume", run, "--workspace", ws) }()
	status := func() local.Status {
		return hindcast(t, "status", run, "--json", "--workspace", ws).ok(t).status(t)
	}
	soon(t, "it computes", func() bool { s := status(); return s.Running && s.Phase == local.Computing })
	watched := make(chan result, 1)
	go func() { watched <- hindcast(t, "watch", run, "--workspace", ws) }()

	hindcast(t, "pause", run, "--why", "the store is slow", "--workspace", ws).ok(t)
	soon(t, "both workers hold", func() bool { return strings.Count(backfillHistory(t, ws, run), `"type":"WaitStateEntered"`) >= 2 })
	before, stored := status(), checkpoints(t, ws, run)
	if !before.Paused || before.Asked[1].Why != "the store is slow" || before.Asked[1].By == "" {
		t.Errorf("a paused run's status has %+v", before.Asked)
	}
	time.Sleep(3 * time.Second)
	if after := status(); after.Done != before.Done || checkpoints(t, ws, run) != stored {
		t.Errorf("while it was paused, shards went from %d to %d, checkpoints from %d to %d", before.Done, after.Done, stored, checkpoints(t, ws, run))
	}
	hindcast(t, "throttle", run, "--records-per-second", "0", "--concurrency", "3", "--workspace", ws).ok(t)
	soon(t, "the Map Run is told of the concurrency", func() bool { return strings.Contains(backfillHistory(t, ws, run), `"maxConcurrency":3`) })
	if out := hindcast(t, "resume", run, "--workspace", ws).ok(t).out; !strings.Contains(out, "goes on") {
		t.Errorf("resume of a paused run said:\n%s", out)
	}
	(<-watched).ok(t).has(t, "Backfill; ", "2 in flight; ", "paused since ", "proven\n")
	r := <-ended
	r.ok(t)
	if !strings.Contains(r.err, "the store is slow") {
		t.Errorf("who drove the run was not told of the pause:\n%s", r.err)
	}
	hindcast(t, "promote", run, "--workspace", ws).ok(t)
	sameContents(t, demoTable, contents(t, ws, demoTable), contents(t, undisturbed, demoTable))
	hindcast(t, "pause", run, "--workspace", ws).exits(t, exitUsage)
}

func TestAbortEndsARunThatGoesOn(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("waits for seconds: part of the full counts")
	}
	ws := filepath.Join(t.TempDir(), "ws")
	run := slow(t, ws, "100")
	ended := make(chan result, 1)
	go func() { ended <- hindcast(t, "resume", run, "--workspace", ws) }()
	soon(t, "it computes", func() bool {
		return hindcast(t, "status", run, "--json", "--workspace", ws).ok(t).status(t).Phase == local.Computing
	})
	hindcast(t, "abort", run, "--why", "wrong window", "--workspace", ws).ok(t)
	select {
	case r := <-ended:
		r.exits(t, exitConflict)
		if !strings.Contains(r.err, "wrong window") {
			t.Errorf("it ended with:\n%s", r.err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on 10 s after it was aborted")
	}
	hindcast(t, "throttle", run, "--concurrency", "1", "--workspace", ws).exits(t, exitConflict)
	hindcast(t, "promote", run, "--workspace", ws).exits(t, exitConflict)
}

// Shards that take long do not end first where fewer are to be computed at once: of four at work, three store their state, and go on when others are done.
func TestShardsThatTakeLongStandStillWhereTheyAreTooMany(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("waits for seconds: part of the full counts")
	}
	for _, workers := range []string{"4", "process:4"} {
		t.Run(workers, func(t *testing.T) {
			t.Parallel()
			functions := workers != "4"
			if functions {
				builtFunctions(t)
			}
			ws := spoiltCopy(t, false)
			run := slowly(t, ws, "1000", 20_000, functions)
			ended := make(chan result, 1)
			go func() { ended <- hindcast(t, "resume", run, "--workers", workers, "--workspace", ws) }()
			count := func(event string) int {
				return strings.Count(backfillHistory(t, ws, run), `"type":"`+event+`"`)
			}
			soon(t, "four shards are computed", func() bool { return count("TaskStarted") == 4 })
			hindcast(t, "throttle", run, "--concurrency", "1", "--workspace", ws).ok(t)
			soon(t, "three of them stand still", func() bool { return count("WaitStateEntered") >= 3 })
			// The fourth goes on by itself: all others that are called are sent away again.
			stored := checkpoints(t, ws, run)
			time.Sleep(3 * time.Second)
			if n := count("TaskScheduled") - count("TaskSucceeded"); n > 2 || checkpoints(t, ws, run) != stored { // one may just be asking
				t.Errorf("%d shards are computed, and %d checkpoints became %d", n, stored, checkpoints(t, ws, run))
			}
			hindcast(t, "throttle", run, "--records-per-second", "0", "--workspace", ws).ok(t)
			(<-ended).ok(t)
			hindcast(t, "promote", run, "--workspace", ws).ok(t)
			sameContents(t, demoTable, contents(t, ws, demoTable), spoilt.becomes)
		})
	}
}

// Sixteen shards at once become two within seconds, and none while the run is paused, though shards go on being done.
func TestConcurrencyIsObeyedWithinSeconds(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("waits for seconds: part of the full counts")
	}
	_, list, args := manyDays(t, 300)
	ws := filepath.Join(t.TempDir(), "ws")
	var computing atomic.Int64
	opts := local.Options{Jobs: list, Embedded: true, Wrap: func(s blob.Store) blob.Store {
		return blob.Hook(s, func(op blob.Op) error {
			switch is := strings.Contains(op.Key, "done/"); {
			case is && op.Done:
				computing.Add(-1)
			case is:
				computing.Add(1)
				time.Sleep(300 * time.Millisecond)
			}
			return nil
		})
	}}
	ended := make(chan result, 1)
	go func() {
		ended <- hindcastUnder(t, opts, append(args, "--workers", "16", "--promote", "--workspace", ws)...)
	}()
	var run string
	soon(t, "there is a run", func() bool {
		runs, err := filepath.Glob(filepath.Join(ws, "runs", "*", "history"))
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) == 1 {
			run = filepath.Base(filepath.Dir(runs[0]))
		}
		return run != ""
	})
	atWork := func() int { return int(computing.Load()) } // workers that only ask whether they may go on are not
	var asked time.Time
	ask := func(verb string, flags ...string) {
		asked = time.Now()
		hindcastWith(t, list, append([]string{verb, run, "--workspace", ws}, flags...)...).ok(t)
	}
	most := func(during time.Duration) (n int) {
		for began := time.Now(); time.Since(began) < during; time.Sleep(20 * time.Millisecond) {
			n = max(n, atWork())
		}
		return n
	}
	soon(t, "16 shards are computed at once", func() bool { return atWork() == 16 })
	ask("throttle", "--concurrency", "2")
	// Shards that began together end together, and for a moment none is computed.
	soon(t, "2 shards are", func() bool { return most(700*time.Millisecond) <= 2 })
	t.Logf("two at once within %v", time.Since(asked)-700*time.Millisecond)
	if n := most(time.Second); n != 2 {
		t.Errorf("where two at once were asked for, there were %d", n)
	}
	ask("pause")
	soon(t, "none are", func() bool { return most(700*time.Millisecond) == 0 })
	t.Logf("paused within %v", time.Since(asked)-700*time.Millisecond)
	if n := most(time.Second); n != 0 {
		t.Errorf("of a paused run %d shards were computed at once", n)
	}
	ask("throttle", "--concurrency", "16")
	ask("resume")
	soon(t, "16 are again", func() bool { return atWork() == 16 })
	t.Logf("resumed within %v", time.Since(asked))
	r := <-ended
	if s := hindcastWith(t, list, "status", run, "--json", "--workspace", ws).ok(t).status(t); r.code != 0 || s.Shards != 300 || s.Done != 300 || len(s.Asked) != 4 {
		t.Errorf("exit code %d; %d of %d shards are done; it was asked %+v; stderr:\n%s", r.code, s.Done, s.Shards, s.Asked, r.err)
	}
}
