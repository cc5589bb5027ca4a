package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"hindcast/internal/asl"
	"hindcast/internal/asl/aslfile"
	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/testenv"
)

// manyDays is a log of so many days, a segment each, and the job that makes a shard of each.
func manyDays(t *testing.T, days int) (l *smallLog, list []job.Job, args []string) {
	t.Helper()
	l = newSmallLog(t)
	for _, r := range visits(t, 0, 24*time.Hour, days+3) {
		l.segment(r)
	}
	to := instant(t, "2024-05-01T00:00:00Z").AddDate(0, 0, days).Format(time.DateOnly)
	return l, []job.Job{l.job(smallJob{Tables: map[string]string{"events": "day UTC"}})},
		[]string{"run", "visits", "--from", "2024-05-01", "--to", to, "--shard-rows", "1"}
}

// poisoned runs a job of so many shards, one of which cannot read its segment, and asks that all others are done. It gives back what repairs the segment.
func poisoned(t *testing.T, days int, more ...string) (list []job.Job, ws, run string, repair func()) {
	t.Helper()
	l, list, args := manyDays(t, days)
	ws = filepath.Join(t.TempDir(), "ws")
	file := l.segmentFile(0, int64(days/2))
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	opts := local.Options{Jobs: list, Embedded: true, Wrap: func(s blob.Store) blob.Store {
		return blob.Hook(s, func(op blob.Op) error {
			if op.Done && strings.HasSuffix(op.Key, "cut.json") {
				once.Do(func() { l.put(file, right[:len(right)/2]) })
			}
			return nil
		})
	}}
	r := hindcastUnder(t, opts, slices.Concat(args, more, []string{"--promote", "--workspace", ws})...).exits(t, exitRefused)
	run = runOf(t, r)
	r.has(t, filepath.Base(file))
	return list, ws, run, func() { l.put(file, right) }
}

// worked counts the calls of workers that a run's history has, by shard, before and after its first redrive.
func worked(t *testing.T, ws, run string) (before, after map[string]int) {
	t.Helper()
	dir := filepath.Join(ws, "runs", run, "history")
	mapRuns, err := filepath.Glob(filepath.Join(dir, "1", "Backfill-*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(mapRuns, func(a, b string) int { return number(t, a) - number(t, b) })
	before, after = map[string]int{}, map[string]int{}
	for _, m := range mapRuns {
		calls := before
		for ev, err := range (&aslfile.Histories{Dir: dir}).Read(asl.HistoryName{Execution: "1", MapRun: filepath.Base(m)}) {
			if err != nil {
				t.Fatal(err)
			}
			var in struct{ Payload struct{ Shard string } }
			switch ev.Type {
			case asl.NoteRedrive:
				calls = after
			case asl.TaskScheduled:
				if err := json.Unmarshal(ev.Input, &in); err != nil || in.Payload.Shard == "" {
					t.Fatalf("%v: %s", err, ev.Input)
				}
				calls[in.Payload.Shard]++
			}
		}
	}
	return before, after
}

func number(t *testing.T, mapRun string) int {
	t.Helper()
	_, text, _ := strings.Cut(filepath.Base(mapRun), "-")
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAPoisonedShardIsRedrivenAlone(t *testing.T) {
	t.Parallel()
	days := 20
	if testenv.Full() {
		days = 100
	}
	list, ws, run, repair := poisoned(t, days)
	s := hindcastWith(t, list, "status", run, "--json", "--workspace", ws).ok(t).status(t)
	if s.Shards != days || s.Done != days-1 || s.Failure == "" || s.Running {
		t.Fatalf("of %d shards %d are done: %+v", s.Shards, s.Done, s)
	}
	hindcastWith(t, list, "status", run, "--workspace", ws).ok(t).has(t, "next: repair what failed, then: hindcast redrive "+run)

	// Whoever watches sees that, and how it ended.
	hindcastWith(t, list, "watch", run, "--workspace", ws).exits(t, exitRefused).has(t, fmt.Sprintf("Backfill; %d of %d shards done; 1 failed; calls that failed: 2, the last with: segment changed", days-1, days), "computing, stopped")

	// As long as it is not repaired, it fails again: that shard, and no other.
	hindcastWith(t, list, "redrive", run, "--workspace", ws).exits(t, exitRefused)
	repair()
	hindcastWith(t, list, "redrive", run, "--why", "restored", "--workspace", ws).ok(t).has(t, "promoted, version 1", "restored")
	hindcastWith(t, list, "watch", run, "--workspace", ws).ok(t).has(t, fmt.Sprintf("Promoted; %d of %d shards done; ", days, days), "calls that failed: 3, ", "promoted, version 1")
	before, after := worked(t, ws, run)
	poison := ""
	for shard, n := range before {
		switch {
		case n == 2 && poison == "": // with all others, and once they were done
			poison = shard
		case n != 1:
			t.Errorf("shard %s was computed %d times", shard, n)
		}
	}
	if len(before) != days || len(after) != 1 || after[poison] != 2 {
		t.Errorf("%d shards were computed before, and by two redrives %v, where %q failed", len(before), after, poison)
	}
	if n := len(strings.Fields(ids(t, list, ws))); n != days {
		t.Errorf("%d events of %d days are served", n, days)
	}
	s = hindcastWith(t, list, "status", run, "--json", "--workspace", ws).ok(t).status(t)
	if len(s.Asked) != 2 || !s.Asked[1].Redrive || s.Asked[1].By == "" || s.Asked[1].At.IsZero() {
		t.Errorf("it has on record %+v", s.Asked)
	}
	hindcastWith(t, list, "redrive", run, "--workspace", ws).exits(t, exitUsage).has(t, "has not failed")
}

func TestARedriveJoinsNoOtherCode(t *testing.T) {
	t.Parallel()
	list, ws, run, repair := poisoned(t, 20)
	repair()
	changed := []job.Job{list[0].With(fstest.MapFS{"changed.go": {Data: []byte("package changed")}})}
	before := filesBelow(t, ws)
	hindcastWith(t, changed, "redrive", run, "--workspace", ws).exits(t, exitRefused).has(t, "other code", "start a new run with: hindcast run visits")
	sameFiles(t, ws, before)
	hindcastWith(t, list, "redrive", run, "--workspace", ws).ok(t)
}

// What runs last, while other workers have nothing left to do, is small: of days with 6, 12 and 6 visits and those of the day after, the second is first.
func TestTheLargestShardsBeginFirst(t *testing.T) {
	t.Parallel()
	l := newSmallLog(t)
	next := int64(0)
	for day, n := range []int{6, 12, 6, 1} {
		var recs []rec
		for i := range n {
			at := instant(t, "2024-05-01T00:00:00Z").AddDate(0, 0, day).Add(time.Duration(i) * time.Hour)
			recs = append(recs, rec{ID: fmt.Sprintf("%d-%02d", day, i), At: at.Format(time.RFC3339), Shop: "x", Amount: 1})
		}
		l.segment(inOrder(0, next, recs...)...)
		next += int64(n)
	}
	list := []job.Job{l.job(smallJob{Tables: map[string]string{"events": "day UTC"}})}
	ws := filepath.Join(t.TempDir(), "ws")
	run := runOf(t, hindcastWith(t, list, "run", "visits", "--from", "2024-05-01", "--to", "2024-05-04", "--shard-rows", "1", "--workspace", ws).ok(t))
	rounds, err := filepath.Glob(filepath.Join(ws, "runs", run, "rounds", "*.jsonl"))
	if err != nil || len(rounds) != 1 {
		t.Fatalf("rounds: %v, %v", rounds, err)
	}
	if got, want := string(mustRead(t, rounds[0])), `{"shard":"00001"}{"shard":"00000"}{"shard":"00002"}`; strings.ReplaceAll(got, "\n", "") != want {
		t.Errorf("the shards begin in the order\n%s", got)
	}
}

// More failures than one in twenty have a cause in common: the others are not tried.
func TestManyFailuresEndARun(t *testing.T) {
	t.Parallel()
	_, list, args := manyDays(t, 20)
	ws := filepath.Join(t.TempDir(), "ws")
	hook := func(op blob.Op) error {
		if !op.Done && strings.HasPrefix(op.Key, "data/") {
			return fmt.Errorf("put %s: no", op.Key)
		}
		return nil
	}
	r := hooked(t, list, hook, append(args, "--workers", "1", "--workspace", ws)...).exits(t, exitError)
	if before, _ := worked(t, ws, runOf(t, r)); len(before) != 2 {
		t.Errorf("shards that were tried: %v", before)
	}
	hindcastWith(t, list, "redrive", runOf(t, r), "--workspace", ws).ok(t).has(t, "proven")
}
