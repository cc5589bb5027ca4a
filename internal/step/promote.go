package step

import (
	"context"
	"errors"
	"fmt"

	"hindcast/internal/blob"
	"hindcast/internal/check"
	"hindcast/internal/serve"
	"hindcast/internal/spec"
	"hindcast/internal/table"
)

type promoteIn struct {
	Run string `json:"run"`
	By  string `json:"by"`
}

type promoteOut struct {
	Generation int64 `json:"generation"`
}

// promote is the state machine's: a repeat, however late, moves nothing.
func (e *Env) promote(ctx context.Context, in promoteIn) (promoteOut, error) {
	res, err := e.PromoteRun(ctx, in.Run, in.By, "", false)
	return promoteOut{res.Version.Generation}, err
}

// PromoteRun swaps a run's proven candidate in. With again, a run that was rolled back is put into service once more.
func (e *Env) PromoteRun(ctx context.Context, run, by, why string, again bool) (serve.Result, error) {
	r, err := e.Request(ctx, run)
	if err != nil {
		return serve.Result{}, err
	}
	d, err := e.Decision(ctx, run)
	if err != nil {
		return serve.Result{}, err
	}
	if d != nil && d.Kind == serve.KindAbort { // before what is missing: that cannot be made good any more
		return serve.Result{}, swapError(fmt.Errorf("promote: %w", &serve.DecidedError{Decision: *d}))
	}
	verdict, candidate, err := e.validated(ctx, run)
	if err != nil {
		return serve.Result{}, err
	}
	proven, err := e.tagsOf(ctx, run, verdict.Candidate)
	if err != nil {
		return serve.Result{}, err
	}
	ds, err := e.Serving(ctx, r.Spec)
	if err != nil {
		return serve.Result{}, err
	}
	res, err := ds.Promote(ctx, serve.Promotion{
		Run: e.runStore(run), Candidate: candidate, Verdict: verdict, Proven: proven, Again: again,
		Request: serve.Request{By: by, At: e.Now(), Why: why},
	})
	return res, swapError(err)
}

// validated reads what the checks said, and the candidate that they said it of.
func (e *Env) validated(ctx context.Context, run string) (check.Verdict, *table.Candidate, error) {
	verdict, err := e.Verdict(ctx, run)
	if errors.Is(err, blob.ErrNotFound) {
		err = &Error{NotProven, fmt.Errorf("run %s has no verdict yet: finish it with: hindcast resume %s", run, run)}
	}
	if err != nil {
		return check.Verdict{}, nil, err
	}
	candidate, err := table.ReadCandidate(ctx, e.runStore(run), candidateKey, verdict.Candidate)
	return verdict, candidate, err
}

// Moved tells why a run that is proven can be promoted no more, as others changed what it replaces; it is empty where it can be.
func (e *Env) Moved(ctx context.Context, r Request) (string, error) {
	_, candidate, err := e.validated(ctx, r.Run)
	if err != nil {
		return "", err
	}
	ds, err := e.Serving(ctx, r.Spec)
	if err != nil {
		return "", err
	}
	err = ds.Check(ctx, candidate)
	if errors.Is(err, serve.ErrConflict) {
		return err.Error(), nil
	}
	return "", err
}

type rollbackIn struct {
	Run string `json:"run"`
	By  string `json:"by"`
}

func (e *Env) rollback(ctx context.Context, in rollbackIn) (promoteOut, error) {
	res, err := e.RollBack(ctx, in.Run, in.By, "")
	return promoteOut{res.Version.Generation}, err
}

// RollBack takes a run's partitions back out of what is served.
func (e *Env) RollBack(ctx context.Context, run, by, why string) (serve.Result, error) {
	r, err := e.Request(ctx, run)
	if err != nil {
		return serve.Result{}, err
	}
	ds, err := e.Serving(ctx, r.Spec)
	if err != nil {
		return serve.Result{}, err
	}
	res, err := ds.Rollback(ctx, run, serve.Request{By: by, At: e.Now(), Why: why})
	return res, swapError(err)
}

// Abort gives a run up: from then on nothing promotes it, and it ends if it runs.
func (e *Env) Abort(ctx context.Context, run, by, why string) (serve.Decision, error) {
	if _, err := e.Request(ctx, run); err != nil {
		return serve.Decision{}, err
	}
	d, err := serve.AbortRun(ctx, e.runStore(run), run, serve.Request{By: by, At: e.Now(), Why: why})
	return d, swapError(err)
}

// Decision reads what was decided about a run; nil where nothing was.
func (e *Env) Decision(ctx context.Context, run string) (*serve.Decision, error) {
	return serve.ReadDecision(ctx, e.runStore(run))
}

// Verdict reads what the checks said.
func (e *Env) Verdict(ctx context.Context, run string) (check.Verdict, error) {
	var v check.Verdict
	err := readJSON(ctx, e.runStore(run), verdictKey, &v)
	return v, err
}

// Serving is a job's dataset as that which moves its pointer.
func (e *Env) Serving(ctx context.Context, s *spec.Spec) (*serve.Dataset, error) {
	store, err := e.Dataset(ctx, s)
	if err != nil {
		return nil, err
	}
	return serve.Open(store, DatasetName(s), serve.Options{}), nil
}

// swapError gives an error of package serve its name.
func swapError(err error) error {
	switch {
	case errors.Is(err, serve.ErrOutcomeUnknown): // first: whatever else it is, something may still land
		return &Error{Unknown, err}
	case errors.Is(err, serve.ErrConflict) || errors.Is(err, serve.ErrNotPromoted):
		return &Error{Conflict, err}
	case errors.Is(err, serve.ErrNotProven):
		return &Error{NotProven, err}
	default:
		return err
	}
}
