package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"hindcast/infra"
	"hindcast/internal/asl"
	"hindcast/internal/asl/aslfile"
	"hindcast/internal/spec"
	"hindcast/internal/step"
)

// Update is what a watcher is told while a run goes on. Fields that do not apply are zero.
type Update struct {
	// State is the state that was entered, or that a Map runs in.
	State string
	// Total, Done and Failed count the children of the Map that runs.
	Total, Done, Failed int
	// Shard has read Rows more rows.
	Shard string
	Rows  int64
	// Question says that the execution waits for a person to approve something, as the run's status has it.
	Question bool
	// Asked is what is asked of the run, when that has changed.
	Asked string
}

// RunOptions say how an execution is driven.
type RunOptions struct {
	Workers int // shards at once; 0: DefaultWorkers
	// Timeout is the most that a call of a worker takes, where states run as functions; 0: what it is deployed with.
	Timeout time.Duration
	// Watch is told how the run goes on. It is called concurrently and must not block.
	Watch func(Update)
}

// DefaultWorkers is how many shards run at once unless told otherwise.
const DefaultWorkers = 2

// Outcome is how an execution ended.
type Outcome struct {
	asl.Result
	// Failure is the error of the state that failed, where this process saw it: unlike Result, with its classes.
	Failure error
	// Already says that the run had succeeded before: nothing was done.
	Already bool
}

// ErrRunning means that another process drives the run.
var ErrRunning = errors.New("another process is running it")

// NewRunID gives an id that never repeats and sorts by time.
func NewRunID(job string, at time.Time) string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return fmt.Sprintf("%s-%s-%s", at.UTC().Format("20060102-150405"), job, hex.EncodeToString(b[:]))
}

// By names who runs this program: "user@host".
func By() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// Start creates a run and drives it to its end.
func (w *Workspace) Start(ctx context.Context, r step.Request, opts RunOptions) (Outcome, error) {
	if err := w.Env.Create(ctx, r); err != nil {
		return Outcome{}, err
	}
	return w.drive(ctx, r, opts, false)
}

// Resume goes on with a run that was interrupted or has failed. Finished shards are not done again. The
// error is ErrRunning if another process does it already.
func (w *Workspace) Resume(ctx context.Context, run string, opts RunOptions) (Outcome, error) {
	r, err := w.Env.Request(ctx, run)
	if err != nil {
		return Outcome{}, err
	}
	return w.drive(ctx, r, opts, false)
}

// Redrive runs again what failed of a run, once its cause is repaired: exactly the shards that are not done and the states after them, in the execution that
// failed, as Step Functions redrives it. Where that cannot be done by its rules, as when it ended more than 14 days ago, it goes on as Resume does.
func (w *Workspace) Redrive(ctx context.Context, run string, opts RunOptions) (Outcome, error) {
	r, err := w.Env.Request(ctx, run)
	if err != nil {
		return Outcome{}, err
	}
	return w.drive(ctx, r, opts, true)
}

// drive continues the run's last execution. Where that has ended badly it is redriven, if that is asked for; else a new
// execution goes over what is done: every state finds its own results.
func (w *Workspace) drive(ctx context.Context, r step.Request, opts RunOptions, redrive bool) (Outcome, error) {
	machine, err := machine()
	if err != nil {
		return Outcome{}, err
	}
	if opts.Workers == 0 {
		opts.Workers = DefaultWorkers
	}
	input, err := json.Marshal(map[string]any{
		"action": "backfill", "run": r.Run, "bucket": bucket, "promote": r.Promote, "by": r.By, "concurrency": opts.Workers,
	})
	if err != nil {
		return Outcome{}, err
	}
	dir := w.historyDir(r.Run)
	last, err := lastExecution(dir)
	if err != nil {
		return Outcome{}, err
	}
	ended, asked, err := lastEvent(dir, last)
	if err != nil {
		return Outcome{}, err
	}
	whole := false
	if ended.Type == asl.ExecutionSucceeded {
		if whole, err = w.Env.Validated(ctx, r.Run); err != nil {
			return Outcome{}, err
		}
	}
	if whole { // else what the state machine promised was lost: it is gone over again
		return Outcome{Result: asl.Result{Status: asl.Succeeded, Output: ended.Output}, Already: true}, nil
	}
	// What keeps the run from going on is no failure of it: nothing of that is recorded.
	if err := w.Env.Resumable(ctx, r.Run); err != nil {
		return Outcome{}, err
	}
	if asked != nil {
		if err := w.Env.AskAgain(ctx, asked); err != nil {
			return Outcome{}, err
		}
	}
	failures := &failures{}
	tasks := failures.runner(w.Env)
	if w.functions != nil {
		fleet, err := w.functions.start(ctx, w, r, opts)
		if err != nil {
			return Outcome{}, err
		}
		defer fleet.Close() // they have done what they were called for
		tasks = fleet.runner(failures)
	}
	begun := &begun{}
	engine := &asl.Engine{
		Tasks:     begun.runner(tasks),
		Objects:   objects{w.Env.Workspace},
		Histories: w.histories(dir),
		Observe:   observer(opts.Watch),
	}
	w.mu.Lock()
	w.watch = opts.Watch
	w.mu.Unlock()
	ctx, stop := w.obey(ctx, engine, r.Run, opts.Workers, begun)
	defer stop()
	var res asl.Result
	switch ended.Type {
	case "": // it was interrupted, perhaps before its first event
		if res, err = engine.Resume(ctx, machine, executionName(last)); errors.Is(err, asl.ErrNoExecution) {
			res, err = engine.Start(ctx, machine, executionName(max(last, 1)), input)
		} else if err == nil && res.Status != asl.Succeeded && failures.cause() == nil {
			// It had failed before it was interrupted, which is only recorded in full now.
			res, err = engine.Start(ctx, machine, executionName(last+1), input)
		}
	default:
		err = asl.ErrNotRedrivable
		if redrive {
			res, err = engine.Redrive(ctx, machine, executionName(last))
		}
		if errors.Is(err, asl.ErrNotRedrivable) || errors.Is(err, asl.ErrDefinitionChanged) {
			res, err = engine.Start(ctx, machine, executionName(last+1), input)
		}
	}
	if errors.Is(err, aslfile.ErrHeld) || errors.Is(err, asl.ErrExists) { // ErrExists: it has run since the look above
		err = fmt.Errorf("run %s: %w: see how it goes on with: hindcast status %s", r.Run, ErrRunning, r.Run)
	}
	return Outcome{Result: res, Failure: failures.cause()}, err
}

// lastEvent returns the last event of an execution that has ended. Of one that has not, asked is what the function was called with whose token it waits for,
// if it does: the function has done its part, and is not called again.
func lastEvent(dir string, execution int) (last asl.Event, asked json.RawMessage, err error) {
	var scheduled json.RawMessage
	for ev, err := range (&aslfile.Histories{Dir: dir}).Read(asl.HistoryName{Execution: executionName(execution)}) {
		if err != nil {
			return asl.Event{}, nil, fmt.Errorf("read history: %w", err)
		}
		switch last = ev; ev.Type {
		case asl.TaskScheduled:
			scheduled = ev.Input
		case asl.TaskSubmitted:
			asked = scheduled
		case asl.TaskSucceeded, asl.TaskFailed, asl.TaskTimedOut:
			asked = nil
		}
	}
	switch last.Type {
	case asl.ExecutionSucceeded, asl.ExecutionFailed, asl.ExecutionTimedOut, asl.ExecutionAborted:
		return last, nil, nil
	}
	if asked == nil {
		return asl.Event{}, nil, nil
	}
	var parameters struct{ Payload json.RawMessage }
	if err := json.Unmarshal(asked, &parameters); err != nil {
		return asl.Event{}, nil, fmt.Errorf("read history: what was asked of a person: %w", err)
	}
	return asl.Event{}, parameters.Payload, nil
}

// bucket is what the definition calls the workspace.
const bucket = "workspace"

func executionName(n int) string { return strconv.Itoa(n) }

// lastExecution returns the greatest number of an execution under the folder, 0 if there is none.
func lastExecution(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("list executions: %w", err)
	}
	last := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			last = max(last, n)
		}
	}
	return last, nil
}

// Running reports whether a process of this machine drives the run.
func (w *Workspace) Running(run string) bool {
	dir := w.historyDir(run)
	last, err := lastExecution(dir)
	return err == nil && last > 0 && (&aslfile.Histories{Dir: dir}).Held(executionName(last))
}

func (w *Workspace) historyDir(run string) string {
	return filepath.Join(w.dir, "runs", run, "history")
}

func machine() (*asl.Machine, error) {
	names := map[string]string{}
	for _, s := range step.States() {
		names[string(s)+"Function"] = string(s)
	}
	m, err := asl.Parse(infra.Backfill, names)
	if err != nil {
		return nil, fmt.Errorf("infra/backfill.asl.json: %w", err)
	}
	return m, nil
}

func (w *Workspace) histories(dir string) asl.Histories {
	h := &aslfile.Histories{Dir: dir}
	if w.opts.WrapHistory == nil {
		return h
	}
	return hookedHistories{h, w.opts.WrapHistory}
}

func (w *Workspace) update(u Update) {
	w.mu.Lock()
	watch := w.watch
	w.mu.Unlock()
	if watch != nil {
		watch(u)
	}
}

// Promotes says what a run does when its checks pass.
func Promotes(auto, approval bool, s *spec.Spec) spec.Promote {
	switch {
	case auto:
		return spec.Auto
	case approval:
		return spec.Approval
	}
	return s.Promote
}
