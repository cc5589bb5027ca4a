package local

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hindcast/internal/asl"
	"hindcast/internal/asl/aslfile"
	"hindcast/internal/blob"
)

// View is how a run goes on, as anybody sees it who can read the workspace.
type View struct {
	Run     string `json:"run"`
	Running bool   `json:"running"` // a process of this machine drives it
	// State is the last state that was entered.
	State string `json:"state,omitempty"`
	// Shards is how many there are, Done how many are computed. InFlight and Failed are children of the Map that runs, or ran last.
	Shards   int `json:"shards"`
	Done     int `json:"done"`
	InFlight int `json:"in_flight"`
	Failed   int `json:"failed"`
	// Rows is how many were read, as far as that can be seen, of RowsTotal that the plan has, about.
	Rows      int64 `json:"rows"`
	RowsTotal int64 `json:"rows_total"`
	// RowsPerSecond is the rate of the last half minute, and Left how many seconds the rest takes at that rate; 0: not known.
	RowsPerSecond float64 `json:"rows_per_second,omitempty"`
	Left          int64   `json:"seconds_left,omitempty"`
	// Errors are the last ones that calls of states ended with, those that were tried again included; Attempts is how many did.
	Errors   []string `json:"errors,omitempty"`
	Attempts int      `json:"failed_attempts,omitempty"`
	Asked    string   `json:"asked,omitempty"`
	Waits    *Waits   `json:"waits,omitempty"`
}

// lookAgain is how often a watcher looks, and rateOver what time its rate is of.
const (
	lookAgain = 500 * time.Millisecond
	rateOver  = 30 * time.Second
)

// maxErrors is how many errors a view has.
const maxErrors = 3

// Watch yields how a run goes on, twice a second, until no process of this machine drives it any more: the last view is of that. It reads the workspace only.
func (w *Workspace) Watch(ctx context.Context, run string) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		t := &watcher{w: w, run: run, done: map[string]bool{}}
		for {
			running := w.Running(run) // before the look: what it did last is seen
			if err := t.look(ctx); err != nil {
				yield(t.view, err)
				return
			}
			if t.view.Running = running; !running {
				t.view.InFlight, t.view.Left, t.view.RowsPerSecond = 0, 0, 0
			}
			if !yield(t.view, nil) || !running {
				return
			}
			if err := blob.Sleep(ctx, lookAgain); err != nil {
				yield(t.view, err)
				return
			}
		}
	}
}

// watcher gathers views.
type watcher struct {
	w    *Workspace
	run  string
	view View

	execution int
	states    *aslfile.Follower
	mapRuns   []*aslfile.Follower // of the execution, in order
	running   map[string]bool     // children
	failed    map[string]bool

	rows     map[string]int64 // that each shard reads
	done     map[string]bool
	finished int64 // rows of done
	reads    []reading
}

// reading is how many rows had been read at a time.
type reading struct {
	at   time.Time
	rows int64
}

func (t *watcher) look(ctx context.Context) error {
	v, env := &t.view, t.w.Env
	v.Run = t.run
	if err := t.history(); err != nil {
		return err
	}
	asked, err := env.Control(ctx, t.run)
	if err != nil {
		return err
	}
	v.Asked = Asked(asked)
	d, err := env.Decision(ctx, t.run)
	if err != nil {
		return err
	}
	q, err := env.Waits(ctx, t.run, asked, d)
	if err != nil {
		return err
	}
	if v.Waits = nil; q != nil {
		v.Waits = &Waits{q.What, q.At}
	}
	return t.shards(ctx)
}

// history takes what is new of the executions' histories.
func (t *watcher) history() error {
	dir := t.w.historyDir(t.run)
	last, err := lastExecution(dir)
	if err != nil || last == 0 {
		return err
	}
	h := &aslfile.Histories{Dir: dir}
	name := asl.HistoryName{Execution: executionName(last)}
	if last != t.execution {
		t.execution, t.mapRuns = last, nil
		if t.states, err = h.Follow(name); err != nil {
			return err
		}
	}
	for ev, err := range t.states.Next() {
		if err != nil {
			return err
		}
		if strings.HasSuffix(string(ev.Type), "StateEntered") {
			t.view.State = ev.State
		}
		t.attempt(ev)
	}
	names, err := mapRuns(filepath.Join(dir, name.Execution))
	if err != nil {
		return err
	}
	for i := max(len(t.mapRuns)-1, 0); i < len(names); i++ {
		if i == len(t.mapRuns) {
			name.MapRun = names[i]
			f, err := h.Follow(name)
			if err != nil {
				return err
			}
			t.mapRuns, t.running, t.failed = append(t.mapRuns, f), map[string]bool{}, map[string]bool{}
		}
		if err := t.children(t.mapRuns[i]); err != nil {
			return err
		}
	}
	t.view.InFlight, t.view.Failed = len(t.running), len(t.failed)
	return nil
}

// children takes what is new of a Map Run.
func (t *watcher) children(f *aslfile.Follower) error {
	for ev, err := range f.Next() {
		if err != nil {
			return err
		}
		switch ev.Type {
		case asl.ExecutionStarted, asl.ExecutionRedriven:
			t.running[ev.Child] = true
			delete(t.failed, ev.Child)
		case asl.ExecutionSucceeded, asl.ExecutionAborted:
			delete(t.running, ev.Child)
		case asl.ExecutionFailed, asl.ExecutionTimedOut:
			delete(t.running, ev.Child)
			t.failed[ev.Child] = true
		}
		t.attempt(ev)
	}
	return nil
}

// attempt notes what a call of a state failed with.
func (t *watcher) attempt(ev asl.Event) {
	if ev.Type != asl.TaskFailed && ev.Type != asl.TaskTimedOut {
		return
	}
	v := &t.view
	v.Attempts++
	text := readable(ev.Cause)
	if text == "" {
		text = ev.Error
	}
	v.Errors = slices.DeleteFunc(slices.Clone(v.Errors), func(e string) bool { return e == text }) // views that were given keep theirs
	v.Errors = append(v.Errors, text)
	v.Errors = v.Errors[max(0, len(v.Errors)-maxErrors):]
}

// shards takes what shards have finished since the last look, and how fast rows are read.
func (t *watcher) shards(ctx context.Context) error {
	v, env := &t.view, t.w.Env
	if v.Shards == 0 {
		if cut, err := env.Cut(ctx, t.run); err != nil || !cut {
			return err
		}
		progress, err := env.Done(ctx, t.run)
		if err != nil {
			return err
		}
		p, err := env.Planned(ctx, t.run)
		if err != nil {
			return err
		}
		sum, err := p.Summary()
		if err != nil {
			return err
		}
		if t.rows, err = env.ShardRows(ctx, t.run); err != nil {
			return err
		}
		v.Shards, v.RowsTotal = progress.Shards, sum.ReadRows
	}
	for info, err := range blob.All(ctx, env.Workspace, "runs/"+t.run+"/done/") {
		if err != nil {
			return err
		}
		shard := strings.TrimSuffix(path.Base(info.Key), ".json")
		if t.done[shard] {
			continue
		}
		t.done[shard] = true
		t.finished += t.rows[shard]
	}
	v.Done = len(t.done)
	t.rate()
	return nil
}

// rate tells how fast rows are read: as the process that drives the run counts them, where it does, else by finished shards.
func (t *watcher) rate() {
	v, now := &t.view, t.w.Env.Now()
	rows := t.finished
	if p, err := t.w.readProgress(t.run); err == nil && p.Rows > 0 {
		rows = p.Rows
	}
	v.Rows = max(t.finished, rows) // a process that went on with the run has not counted what was read before
	if n := len(t.reads); n > 0 && rows < t.reads[n-1].rows {
		t.reads = nil // another process drives it now, and counts anew
	}
	t.reads = append(t.reads, reading{now, rows})
	for len(t.reads) > 2 && now.Sub(t.reads[1].at) > rateOver {
		t.reads = t.reads[1:]
	}
	first := t.reads[0]
	v.RowsPerSecond, v.Left = 0, 0
	if took := now.Sub(first.at).Seconds(); took > 0 && rows > first.rows {
		v.RowsPerSecond = float64(rows-first.rows) / took
		v.Left = int64(float64(max(v.RowsTotal-v.Rows, 0)) / v.RowsPerSecond)
	}
}

// progress is what the process that drives a run tells others of rows that its workers have read. It is for displays: losing it loses nothing.
type progress struct {
	Rows int64 `json:"rows"` // since that process began
}

func (w *Workspace) progressFile(run string) string {
	return filepath.Join(w.historyDir(run), "progress.json")
}

func (w *Workspace) readProgress(run string) (p progress, err error) {
	b, err := os.ReadFile(w.progressFile(run))
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	return p, err
}

// writeProgress replaces the file whole: who reads it meanwhile has the old one.
func (w *Workspace) writeProgress(run string, p progress) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	file := w.progressFile(run)
	if err := os.WriteFile(file+".new", b, 0o644); err != nil {
		return fmt.Errorf("write progress: %w", err)
	}
	return os.Rename(file+".new", file)
}
