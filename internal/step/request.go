package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/plan"
	"hindcast/internal/preflight"
	"hindcast/internal/serve"
	"hindcast/internal/spec"
	"hindcast/internal/table"
)

// Request is what a run was asked to do. It is written once, before anything else of the run.
type Request struct {
	Run string `json:"run"`
	Job string `json:"job"`
	// Spec is the job's spec as it was then; the run goes on with it.
	Spec *spec.Spec `json:"spec"`
	// Window is nil for a job that is computed from the whole log.
	Window *spec.Window `json:"window"`
	AsOf   int64        `json:"as_of"`
	Code   string       `json:"code"`
	// Functions says that Code is that of the project's Lambda functions, run as such on one machine.
	Functions bool `json:"functions,omitempty"`

	// Canaries are the files that the spec's checks name: thresholds are settled before the first event is read.
	Canaries []Canaries `json:"canaries,omitempty"`

	ShardRows  int64      `json:"shard_rows,omitempty"`
	AcceptGaps []plan.Gap `json:"accept_gaps,omitempty"`
	NoPrune    bool       `json:"no_prune,omitempty"`
	// Accept names findings of the preflight that a person has accepted.
	Accept []preflight.Rule `json:"accept,omitempty"`
	// LapRows ends a worker's lap after so many rows; 0: only the worker's deadline does.
	LapRows int64 `json:"lap_rows,omitempty"`
	// Probe is how many shards are computed before a person approves of what they came to; 0: the run asks nobody.
	Probe   int          `json:"probe,omitempty"`
	Promote spec.Promote `json:"promote"`

	By  string    `json:"by"`
	At  time.Time `json:"at"`
	Why string    `json:"why,omitempty"`
}

// NewRequest begins a request: the caller adds the window and what else was asked for.
func (e *Env) NewRequest(j job.Job, s *spec.Spec, run string, at time.Time) (Request, error) {
	code, err := e.Code(j)
	if err != nil {
		return Request{}, err
	}
	r := Request{Run: run, Job: s.Job, Spec: s, Code: code, Promote: s.Promote, At: at.UTC()}
	for _, name := range s.Checks.Canaries {
		b, err := fs.ReadFile(j.Files(), name)
		if err != nil {
			return Request{}, fmt.Errorf("job %s: read the canaries: %w", s.Job, err)
		}
		r.Canaries = append(r.Canaries, Canaries{name, string(b)})
	}
	return r, nil
}

// Canaries is a canary file as it was when the run was asked for.
type Canaries struct {
	File string `json:"file"`
	Text string `json:"text"`
}

// Create writes a run's request. A run whose id is taken is an error.
func (e *Env) Create(ctx context.Context, r Request) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("create run %s: %w", r.Run, err)
	}
	if _, err := blob.PutBytes(ctx, e.runStore(r.Run), requestKey, b, blob.Condition{IfAbsent: true}); err != nil {
		return fmt.Errorf("create run %s: %w", r.Run, err)
	}
	return nil
}

// Request reads what a run was asked to do.
func (e *Env) Request(ctx context.Context, run string) (Request, error) {
	var r Request
	if err := table.CheckName("run", run); err != nil {
		return r, &Error{Invalid, err}
	}
	err := readJSON(ctx, e.runStore(run), requestKey, &r)
	if errors.Is(err, blob.ErrNotFound) {
		return r, &Error{Invalid, fmt.Errorf("there is no run %s in this workspace, see: hindcast runs", run)}
	}
	return r, err
}

// Resumable gives the error that keeps a run from going on: it was aborted, or began with other code than this.
func (e *Env) Resumable(ctx context.Context, run string) error {
	_, _, err := e.begun(ctx, run)
	return named(err)
}

// begun reads a run's request and refuses to go on with other code than the run began with.
func (e *Env) begun(ctx context.Context, run string) (Request, job.Job, error) {
	r, err := e.Request(ctx, run)
	if err != nil {
		return r, job.Job{}, err
	}
	d, err := e.Decision(ctx, run)
	if err != nil {
		return r, job.Job{}, err
	}
	if d != nil && d.Kind == serve.KindAbort {
		return r, job.Job{}, &Error{Aborted, &serve.DecidedError{Decision: *d}}
	}
	j, _, err := e.Job(r.Job)
	if err != nil {
		return r, job.Job{}, err
	}
	code, err := e.Code(j)
	if err != nil {
		return r, job.Job{}, err
	}
	if code != r.Code {
		return r, job.Job{}, &Error{CodeChanged, fmt.Errorf(
			"run %s began with other code (%.19s… then, %.19s… now) and goes on only with that: build it again from the same source, or start a new run with: hindcast run %s",
			run, r.Code, code, r.Job)}
	}
	return r, j, nil
}
