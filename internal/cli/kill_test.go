package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hindcast/internal/asl"
	"hindcast/internal/asl/aslfile"
	"hindcast/internal/local"
	"hindcast/internal/testenv"
)

// hunted is a correction that is killed again and again, and what it had come to when it was last.
type hunted struct {
	t    *testing.T
	rnd  *rand.Rand
	ws   string
	env  []string // of the program
	more []string // arguments of run: how it is promoted, at least
	run  string   // empty until it is begun

	within   time.Duration // in which a life is killed, if it lasts
	kills    int
	events   map[asl.HistoryName][]asl.Event
	finished map[string]string // files of finished shards, and which these are
}

// live runs the program, from where it was killed the last time, and kills it at some moment, unless it ends before; it reports whether it has ended.
func (h *hunted) live(also func(done <-chan struct{})) (ended bool) {
	h.t.Helper()
	after := time.Duration(h.rnd.Int64N(int64(h.within)))
	done, hunter := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(hunter)
		if also != nil {
			also(done)
		}
	}()
	ended = !killed(h.t, h.program(), after)
	close(done)
	<-hunter
	if !ended {
		h.kills++
	}
	h.look()
	return ended
}

// program begins the run, or goes on with it.
func (h *hunted) program() *exec.Cmd {
	if h.run != "" {
		return program(h.t, h.env, "resume", h.run, "--workspace", h.ws)
	}
	return program(h.t, h.env, correction(h.ws, h.more...)...)
}

// approve answers what the run waits for, if it comes to wait before done is closed.
func (h *hunted) approve(done <-chan struct{}) {
	for h.run != "" {
		var s local.Status
		r := hindcast(h.t, "status", h.run, "--json", "--workspace", h.ws)
		if r.code == 0 && json.Unmarshal([]byte(r.out), &s) == nil && s.Waits != nil {
			if r := hindcast(h.t, "approve", h.run, "--workspace", h.ws); r.code != 0 {
				h.t.Errorf("approve: %s", r.err)
			}
			return
		}
		select {
		case <-done:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// look holds what there is now against what there was: events are never lost or changed, and files of finished shards are not written again.
func (h *hunted) look() {
	h.t.Helper()
	checkWhole(h.t, h.ws)
	if h.run == "" {
		if h.run = begun(h.t, h.ws); h.run == "" {
			return
		}
	}
	now := histories(h.t, h.ws, h.run)
	for name, before := range h.events {
		if events := now[name]; len(events) < len(before) || !reflect.DeepEqual(events[:len(before)], before) {
			h.t.Errorf("the history %s had %d events; of the %d that it has now the first are others", name, len(before), len(events))
		}
	}
	h.events = now
	files := finishedFiles(h.t, h.ws, h.run)
	for name, before := range h.finished {
		if files[name] != before {
			h.t.Errorf("%s was finished, and is another file now", name)
		}
	}
	h.finished = files
}

// end asks that what it has come to is what an undisturbed run comes to.
func (h *hunted) end() {
	h.t.Helper()
	h.look()
	checkCorrected(h.t, h.ws, h.run)
	for name, events := range h.events {
		if err := asl.Check((&aslfile.Histories{Dir: historyFolder(h.ws, h.run)}).Read(name)); err != nil {
			h.t.Errorf("history %s, of %d events: %v", name, len(events), err)
		}
	}
	if again, calls := h.redone(); again > 0 || calls < 2 {
		h.t.Errorf("workers were called %d times for shards that were not done, and %d times for such that were", calls, again)
	}
}

// redone counts the calls of workers for shards that were done by then, and all that are not.
func (h *hunted) redone() (again, calls int) {
	h.t.Helper()
	var mapRuns []asl.HistoryName
	for name := range h.events {
		if strings.HasPrefix(name.MapRun, "Backfill-") {
			mapRuns = append(mapRuns, name)
		}
	}
	slices.SortFunc(mapRuns, func(a, b asl.HistoryName) int {
		return cmp.Or(cmp.Compare(a.Execution, b.Execution), cmp.Compare(number(h.t, a.MapRun), number(h.t, b.MapRun)))
	})
	done := map[string]bool{}
	for _, name := range mapRuns {
		for _, ev := range h.events[name] {
			var of struct {
				Payload struct {
					Shard string
					Done  bool
				}
			}
			switch ev.Type {
			case asl.TaskScheduled:
				if err := json.Unmarshal(ev.Input, &of); err != nil || of.Payload.Shard == "" {
					h.t.Fatalf("%v: %s", err, ev.Input)
				}
				if done[of.Payload.Shard] {
					again++
				} else {
					calls++
				}
			case asl.TaskSucceeded:
				if err := json.Unmarshal(ev.Output, &of); err != nil || of.Payload.Shard == "" {
					h.t.Fatalf("%v: %s", err, ev.Output)
				}
				done[of.Payload.Shard] = done[of.Payload.Shard] || of.Payload.Done
			}
		}
	}
	return again, calls
}

func historyFolder(ws, run string) string { return filepath.Join(ws, "runs", run, "history") }

// histories reads all there are of a run.
func histories(t *testing.T, ws, run string) map[asl.HistoryName][]asl.Event {
	t.Helper()
	dir := historyFolder(ws, run)
	out := map[asl.HistoryName][]asl.Event{}
	for _, pattern := range []string{"*/history.jsonl", "*/*-*/000001.jsonl*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			rel, err := filepath.Rel(dir, filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			name := asl.HistoryName{}
			if name.Execution, name.MapRun, _ = strings.Cut(rel, "/"); out[name] != nil {
				continue // a segment that is being compressed
			}
			for ev, err := range (&aslfile.Histories{Dir: dir}).Read(name) {
				if err != nil {
					t.Fatalf("history %s: %v", name, err)
				}
				out[name] = append(out[name], ev)
			}
		}
	}
	return out
}

// finishedFiles tells which file each is that a finished shard of a run has left: one that is written again is another.
func finishedFiles(t *testing.T, ws, run string) map[string]string {
	t.Helper()
	p := pastOf(t, ws, run)
	out := map[string]string{}
	add := func(file string) {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			t.Fatal("there are no inodes here")
		}
		out[file] = fmt.Sprintf("inode %d of %s", stat.Ino, info.ModTime())
	}
	for name := range p.files {
		if strings.HasPrefix(name, "done/") {
			add(filepath.Join(ws, "runs", run, name))
		}
	}
	for name := range p.made {
		files, err := filepath.Glob(filepath.Join(ws, "datasets", "*", name))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v: %s is there %d times", err, name, len(files))
		}
		add(files[0])
	}
	return out
}

// TestKilledAtAnyMoment kills runs of several laps from outside, at any moment, again and again. Some have retries as well, and waits for them; some wait to
// be approved.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("it takes minutes: HINDCAST_TEST_FULL=1 runs it")
	}
	const runs, each, total = 48, 8, 180 // some end before they are killed so often, on fast machines more
	var lengths [2]time.Duration
	for i := range lengths {
		h := hunted{t: t, ws: spoiltCopy(t, false), env: busy(i == 1), more: []string{"--promote"}}
		started := time.Now()
		if killed(t, h.program(), 0) {
			t.Fatal("killed by somebody else")
		}
		lengths[i] = time.Since(started)
		h.end()
	}
	var kills atomic.Int64
	t.Run("runs", func(t *testing.T) {
		for i := range runs {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				h := hunted{
					t: t, rnd: rand.New(rand.NewPCG(3, uint64(i))), ws: spoiltCopy(t, false), more: []string{"--promote"}, within: lengths[0] / 2,
				}
				var also func(<-chan struct{})
				switch i % 4 {
				case 1:
					h.more = []string{"--approval"}
					also = func(done <-chan struct{}) {
						if h.rnd.IntN(3) == 0 {
							h.approve(done)
						}
					}
				case 3:
					h.env, h.within = busy(true), lengths[1]/2
				}
				for ended := false; h.kills < each && !ended; {
					ended = h.live(also)
				}
				ended := make(chan struct{})
				var approving sync.WaitGroup
				approving.Go(func() { h.approve(ended) })
				run := goesOn(t, h.ws)
				close(ended)
				approving.Wait()
				h.run = run
				h.end()
				kills.Add(int64(h.kills))
			})
		}
	})
	if t.Logf("%d kills of %d runs", kills.Load(), runs); kills.Load() < int64(total) {
		t.Errorf("%d kills, of at least %d", kills.Load(), total)
	}
}

// busy is the environment of a program whose store is busy now and then.
func busy(is bool) []string {
	if is {
		return []string{stumbles + "=1"}
	}
	return nil
}

// TestWorkersAndTheirDriverAreKilled kills processes that workers run in, and the one that drives them.
func TestWorkersAndTheirDriverAreKilled(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("builds the functions: part of the full counts")
	}
	const runs, drivers, workers = 5, 2, 2
	builtFunctions(t)
	more := []string{"--workers", "process", "--promote"}
	ws := spoiltCopy(t, false)
	started := time.Now()
	if killed(t, program(t, nil, correction(ws, more...)...), 0) {
		t.Fatal("killed by somebody else")
	}
	length := time.Since(started)
	checkCorrected(t, ws, begun(t, ws))

	var kills atomic.Int64
	t.Run("runs", func(t *testing.T) {
		for i := range runs {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				h := hunted{t: t, rnd: rand.New(rand.NewPCG(5, uint64(i))), ws: spoiltCopy(t, false), more: more, within: 2 * length}
				left := workers
				for !h.live(func(done <-chan struct{}) { left -= killWorkers(h.ws, left, done) }) {
					if h.kills == drivers {
						h.within = 24 * time.Hour
					}
				}
				h.end()
				kills.Add(int64(workers - left))
			})
		}
	})
	if t.Logf("%d workers killed of %d runs", kills.Load(), runs); kills.Load() < runs {
		t.Errorf("%d workers were killed", kills.Load())
	}
}
