package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/step"
	"hindcast/internal/testenv"
)

// inFlight begins a run, and gives its id and what it ends with.
func inFlight(t *testing.T, list []job.Job, ws string, args ...string) (run string, ended <-chan result) {
	t.Helper()
	end := make(chan result, 1)
	go func() { end <- hindcastWith(t, list, append(args, "--workspace", ws)...) }()
	soon(t, "it is begun", func() bool { run = begunIn(t, list, ws); return run != "" })
	return run, end
}

// begunIn is the last run that was begun in a workspace, empty if none was.
func begunIn(t *testing.T, list []job.Job, ws string) string {
	t.Helper()
	var runs []local.Status
	r := hindcastWith(t, list, "runs", "--json", "--workspace", ws)
	if r.code != 0 || json.Unmarshal([]byte(r.out), &runs) != nil || len(runs) == 0 || runs[len(runs)-1].Job == "" {
		return ""
	}
	return runs[len(runs)-1].Run
}

// waits asks that a run comes to wait for an approval, and gives its status.
func waits(t *testing.T, list []job.Job, ws, run string, what step.Approval) (s local.Status) {
	t.Helper()
	soon(t, "it waits for approval of the "+string(what), func() bool {
		s = hindcastWith(t, list, "status", run, "--json", "--workspace", ws).ok(t).status(t)
		return s.Waits != nil && s.Waits.For == what
	})
	return s
}

// watch watches a run.
func watch(t *testing.T, list []job.Job, out io.Writer, args ...string) int {
	t.Helper()
	return run(t.Context(), append([]string{"watch"}, args...), IO{Out: out, Err: out}, local.Options{Jobs: list, Embedded: true})
}

// telling tells when something is first written to it.
type telling struct {
	strings.Builder
	once  sync.Once
	first chan struct{}
}

func (t *telling) Write(b []byte) (int, error) {
	defer t.once.Do(func() { close(t.first) })
	return t.Builder.Write(b)
}

func TestAProbeWaitsForAGoAndIsNotRedone(t *testing.T) {
	t.Parallel()
	const days, probe = 7, 3
	_, list, args := manyDays(t, days)
	ws := filepath.Join(t.TempDir(), "ws")
	run, ended := inFlight(t, list, ws, append(args, "--probe", "3", "--promote")...)
	s := waits(t, list, ws, run, step.ApproveProbe)
	watched := make(chan result, 2)
	for _, flag := range []string{"--json=false", "--json"} {
		out := &telling{first: make(chan struct{})}
		go func() {
			code := watch(t, list, out, run, flag, "--workspace", ws)
			watched <- result{code, out.String(), ""}
		}()
		<-out.first
	}
	if s.Done != probe || s.Shards != days || s.Probe == nil || len(s.Probe.Shards) != probe || !s.Probe.Verdict.Passed() {
		t.Errorf("%d of %d shards are done, and the probe came to %+v", s.Done, s.Shards, s.Probe)
	}
	hindcastWith(t, list, "status", run, "--workspace", ws).ok(t).has(t, "waits for approval of the probe", "probe: 3 of 7 shards", "files", "next: hindcast approve "+run)
	hindcastWith(t, list, "approve", run, "--why", "it looks right", "--workspace", ws).ok(t).has(t, "the probe is approved", "it looks right")
	hindcastWith(t, list, "approve", run, "--workspace", ws).exits(t, exitUsage).has(t, "waits for no approval")
	(<-ended).ok(t).has(t, "promoted, version 1", "it looks right")
	for range 2 {
		r := (<-watched).ok(t)
		if !strings.HasPrefix(r.out, "{") {
			r.has(t, "ApproveProbe; 3 of 7 shards done; waits for approval of the probe\n", "Promoted; 7 of 7 shards done; asked: the probe is approved", "promoted, version 1\n")
			continue
		}
		var v local.View
		for line := range strings.Lines(r.out) {
			if v = (local.View{}); json.Unmarshal([]byte(line), &v) != nil || v.Run != run {
				t.Errorf("it printed %s", line)
			}
		}
		if v.Running || v.Done != days || v.State != "Promoted" {
			t.Errorf("at last it saw %+v", v)
		}
	}
	before, after := worked(t, ws, run)
	for shard, n := range before {
		if n != 1 {
			t.Errorf("shard %s was computed %d times", shard, n)
		}
	}
	if len(before) != days || len(after) != 0 {
		t.Errorf("shards that were computed: %v", before)
	}
	if n := len(strings.Fields(ids(t, list, ws))); n != days {
		t.Errorf("%d events are served", n)
	}
	s = hindcastWith(t, list, "status", run, "--json", "--workspace", ws).ok(t).status(t)
	if len(s.Asked) != 1 || s.Asked[0].Approve != step.ApproveProbe || s.Asked[0].By == "" || s.Asked[0].At.IsZero() {
		t.Errorf("it has on record %+v", s.Asked)
	}
	hindcastWith(t, list, "run", "visits", "--probe", "0", "--workspace", ws).exits(t, exitUsage)
	hindcastWith(t, list, "run", "visits", "--promote", "--approval", "--workspace", ws).exits(t, exitUsage)
}

// What waits can be left alone: the answer holds for who goes on with the run. A candidate that was rejected is not promoted by anything.
func TestCandidatesAreApprovedAndRejected(t *testing.T) {
	t.Parallel()
	if !testenv.Full() {
		t.Skip("waits for seconds: part of the full counts")
	}
	_, list, args := manyDays(t, 3)
	args = append(args, "--approval")
	for _, c := range []struct {
		name   string
		answer []string
		code   int
		phase  local.Phase
	}{
		{"approved", []string{"approve"}, 0, local.Promoted},
		{"promoted by hand", []string{"promote"}, 0, local.Promoted},
		{"rejected", []string{"reject", "--why", "still wrong"}, exitConflict, local.Aborted},
		{"aborted", []string{"abort", "--why", "still wrong"}, exitConflict, local.Aborted},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ws := filepath.Join(t.TempDir(), "ws")
			run, ended := inFlight(t, list, ws, args...)
			if s := waits(t, list, ws, run, step.ApproveCandidate); s.Phase != local.Proven || !s.Running {
				t.Errorf("it is %+v", s)
			}
			hindcastWith(t, list, slices.Insert(slices.Clone(c.answer), 1, run, "--workspace", ws)...).ok(t)
			(<-ended).exits(t, c.code)
			s := hindcastWith(t, list, "status", run, "--json", "--workspace", ws).ok(t).status(t)
			if s.Phase != c.phase || s.Waits != nil {
				t.Errorf("it is %+v", s)
			}
			if c.phase == local.Aborted {
				for _, verb := range []string{"promote", "resume", "redrive"} {
					hindcastWith(t, list, verb, run, "--workspace", ws).exits(t, exitConflict).has(t, "still wrong")
				}
				hindcastWith(t, list, "approve", run, "--workspace", ws).exits(t, exitUsage)
			}
		})
	}
	t.Run("while nobody drives it", func(t *testing.T) {
		t.Parallel()
		ws := filepath.Join(t.TempDir(), "ws")
		ctx, interrupt := context.WithCancel(t.Context())
		end := make(chan int, 1)
		var out strings.Builder
		go func() {
			end <- run(ctx, append(args, "--workspace", ws), IO{Out: &out, Err: &out}, local.Options{Jobs: list, Embedded: true})
		}()
		var id string
		soon(t, "it is begun", func() bool { id = begunIn(t, list, ws); return id != "" })
		waits(t, list, ws, id, step.ApproveCandidate)
		interrupt()
		if code := <-end; code != exitAgain {
			t.Fatalf("it ended with %d:\n%s", code, out.String())
		}
		hindcastWith(t, list, "approve", id, "--workspace", ws).ok(t).has(t, "no process of this machine drives it", "hindcast resume "+id)
		hindcastWith(t, list, "resume", id, "--workspace", ws).ok(t).has(t, "promoted, version 1")
	})
}

// On a terminal a view is drawn over the one before, in lines that fit.
func TestViewsAreDrawnOverEachOther(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := &app{IO: IO{Out: &out, Width: func() int { return 60 }}}
	show := a.watchShow()
	v := local.View{Run: "r", State: "Backfill", Running: true, Shards: 4, Done: 1, InFlight: 2, Rows: 10, RowsTotal: 40, Errors: []string{strings.Repeat("so wrong ", 20), "b\nc"}, Attempts: 7}
	if err := show(v); err != nil {
		t.Fatal(err)
	}
	first := out.String()
	for line := range strings.SplitSeq(first, "\n") {
		if n := len([]rune(line)); n > 60 {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
	contains(t, "drawn", first, "[====            ] 1 of 4 done, 2 in", "failed (7)", "b; c")
	v.Done, v.RowsPerSecond, v.Left = 4, 12.3, 90
	if err := show(v); err != nil {
		t.Fatal(err)
	}
	contains(t, "drawn again", out.String()[len(first):], fmt.Sprintf("\x1b[%dA\x1b[J", strings.Count(first, "\n")), "12 records a second, about 1m30s left", "[================] 4 of 4")
}

// after calls a function when an object was read, or was not there.
type after struct {
	blob.Store
	read func(key string)
}

func (s after) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	defer s.read(key)
	return s.Store.Get(ctx, key, opts)
}

// What a person is asked, and what people asked, may be damaged: the question is asked again by who goes on with the run, and the rest is named.
func TestQuestionsThatAreLostAreAskedAgain(t *testing.T) {
	t.Parallel()
	_, list, args := manyDays(t, 2)
	ws := filepath.Join(t.TempDir(), "ws")
	ctx, interrupt := context.WithCancel(t.Context())
	drive := func(ctx context.Context, args ...string) <-chan int {
		end := make(chan int, 1)
		go func() {
			end <- run(ctx, append(args, "--workspace", ws), IO{Out: io.Discard, Err: io.Discard}, local.Options{Jobs: list, Embedded: true})
		}()
		return end
	}
	end := drive(ctx, append(args, "--probe", "1", "--promote")...)
	var id string
	soon(t, "it is begun", func() bool { id = begunIn(t, list, ws); return id != "" })
	waits(t, list, ws, id, step.ApproveProbe)
	interrupt()
	if code := <-end; code != exitAgain {
		t.Fatalf("it ended with %d", code)
	}
	question := filepath.Join(ws, "runs", id, "approvals", "probe.json")
	asked := func() string {
		var q step.Question
		if b, err := os.ReadFile(question); err != nil || json.Unmarshal(b, &q) != nil {
			return ""
		}
		return q.Token
	}
	was := asked()
	if was == "" {
		t.Fatal("no question was kept")
	}
	// Who is told that it waits is told what the probe came to, though both appear while the status is put together.
	result := filepath.Join(ws, "runs", id, "probe.json")
	late := map[string][]byte{question: mustRead(t, question), result: mustRead(t, result)}
	for file := range late {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	var once sync.Once
	between := local.Options{Jobs: list, Embedded: true, Wrap: func(s blob.Store) blob.Store {
		return after{s, func(key string) {
			if strings.HasSuffix(key, id+"/probe.json") {
				once.Do(func() {
					for file, b := range late {
						if err := os.WriteFile(file, b, 0o600); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}}
	}}
	if s := hindcastUnder(t, between, "status", id, "--json", "--workspace", ws).ok(t).status(t); s.Waits != nil && s.Probe == nil {
		t.Errorf("it waits for %+v, of a probe that came to nothing", *s.Waits)
	}
	if asked() != was {
		t.Fatal("the status did not read what the probe came to")
	}
	for _, damage := range []func() error{
		func() error { return os.Truncate(question, 20) },
		func() error { return os.Remove(question) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		end := drive(ctx, "resume", id)
		soon(t, "it asks again", func() bool { return asked() == was })
		interrupt()
		<-end
	}
	control := filepath.Join(ws, "runs", id, "control.json")
	if err := os.WriteFile(control, []byte(`{"changes": [ {"by"`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"status", "approve", "pause", "resume"} {
		hindcastWith(t, list, verb, id, "--workspace", ws).exits(t, exitError).has(t, "control.json", "it is damaged", "remove it")
	}
	if err := os.Remove(control); err != nil {
		t.Fatal(err)
	}
	hindcastWith(t, list, "approve", id, "--workspace", ws).ok(t)
	hindcastWith(t, list, "resume", id, "--workspace", ws).ok(t).has(t, "promoted, version 1")
	if err := os.Truncate(filepath.Join(ws, "runs", id, "probe.json"), 20); err != nil {
		t.Fatal(err)
	}
	hindcastWith(t, list, "status", id, "--workspace", ws).ok(t).has(t, "probe.json is damaged")
}
