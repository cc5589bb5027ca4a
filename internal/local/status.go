package local

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/check"
	"hindcast/internal/preflight"
	"hindcast/internal/serve"
	"hindcast/internal/step"
	"hindcast/internal/table"
)

// Phase is how far a run has come.
type Phase string

// The phases. They follow from what lies under the run and in its dataset, so they are right whoever asks.
const (
	Planning    Phase = "planning"
	Capturing   Phase = "capturing"
	Computing   Phase = "computing"
	Validating  Phase = "validating"
	Proven      Phase = "proven"      // waits to be promoted
	Quarantined Phase = "quarantined" // a check failed
	Promoted    Phase = "promoted"
	RolledBack  Phase = "rolled back"
	Aborted     Phase = "aborted"
	Damaged     Phase = "damaged" // what it left cannot be read
)

// Status is what there is to know of a run.
type Status struct {
	Run     string    `json:"run"`
	Job     string    `json:"job"`
	Phase   Phase     `json:"phase"`
	Running bool      `json:"running"` // by a process of this machine
	Window  string    `json:"window"`  // empty: the whole log
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Why     string    `json:"why,omitempty"`
	Plan    string    `json:"plan,omitempty"` // digest
	Shards  int       `json:"shards"`
	Done    int       `json:"done"`
	Version int64     `json:"version,omitempty"` // that the run's last promotion or rollback made
	// Asked are the changes that people asked for while it went on, oldest first; Paused says that it is to stand still.
	Asked  []step.Change `json:"asked,omitempty"`
	Paused bool          `json:"paused,omitempty"`
	// Waits is what the run waits for a person to approve.
	Waits *Waits `json:"waits,omitempty"`
	// Probe is what the shards of its probe came to.
	Probe *step.Probed `json:"probe,omitempty"`
	// Failure is why the run stopped, where something failed. It is empty while the run goes on.
	Failure string `json:"failure,omitempty"`
	// Moved is why a proven run can be promoted no more: others changed what it replaces.
	Moved string `json:"moved,omitempty"`
	// Error is why a listed run cannot be described: of such a run only this and its id are sure.
	Error string `json:"error,omitempty"`
	// Warnings are the plan's: what was decided, as to accept a gap, and what is not proven.
	Warnings []string `json:"warnings,omitempty"`
	// Preflight is what the plan found of the log, and what was accepted of it.
	Preflight []preflight.Finding `json:"preflight,omitempty"`
	Verdict   *check.Verdict      `json:"verdict,omitempty"`
	Account   []check.Account     `json:"account,omitempty"`
	// Decision is what was decided about it, by whom and when.
	Decision *serve.Decision `json:"decision,omitempty"`
}

// Waits says what a run waits for a person to approve, and since when.
type Waits struct {
	For   step.Approval `json:"for"`
	Since time.Time     `json:"since"`
}

// Runs lists the workspace's runs, oldest first. One that cannot be described is listed with its error.
func (w *Workspace) Runs(ctx context.Context) ([]Status, error) {
	out := []Status{}
	known := commits{}
	for after := ""; ; {
		page, err := w.Env.Workspace.List(ctx, "runs/", after, 1)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		run, _, _ := strings.Cut(strings.TrimPrefix(page[0].Key, "runs/"), "/")
		after = "runs/" + run + "0" // past all that begins with "runs/<run>/": "0" follows "/"
		s, err := w.status(ctx, run, known)
		if named, ok := errors.AsType[*step.Error](err); ok && named.Name == step.Invalid {
			continue // no request: the run was never begun
		}
		if err != nil {
			if ctx.Err() != nil || blob.IsTransient(err) {
				return nil, err
			}
			// The others are to be seen all the same.
			s.Run, s.Phase, s.Error = run, Damaged, err.Error()
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b Status) int { return a.At.Compare(b.At) })
	return out, nil
}

// Status describes one run.
func (w *Workspace) Status(ctx context.Context, run string) (Status, error) {
	return w.status(ctx, run, commits{})
}

func (w *Workspace) status(ctx context.Context, run string, known commits) (Status, error) {
	r, err := w.Env.Request(ctx, run)
	if err != nil {
		return Status{}, err
	}
	s := Status{Run: run, Job: r.Job, By: r.By, At: r.At, Why: r.Why, Phase: Planning, Running: w.Running(run)}
	if r.Window != nil {
		s.Window = r.Window.String()
	}
	control, err := w.Env.Control(ctx, run)
	if err != nil {
		return s, err
	}
	_, s.Paused = control.Paused()
	s.Asked = control.Changes
	decided, err := w.Env.Decision(ctx, run)
	if err != nil {
		return s, err
	}
	// Before what a person decides by: whoever is told that the run waits is told that, too, however fast the run goes on.
	waits, err := w.Env.Waits(ctx, run, control, decided)
	if err != nil {
		return s, err
	}
	progress, err := w.Env.Done(ctx, run)
	if err != nil {
		return s, err
	}
	s.Plan, s.Shards, s.Done, s.Warnings, s.Preflight = progress.Plan, progress.Shards, progress.Done, progress.Warnings, progress.Preflight
	switch {
	case s.Shards > 0 && s.Done == s.Shards:
		s.Phase = Validating
	case s.Shards > 0:
		s.Phase = Computing
	case s.Plan != "":
		s.Phase = Capturing
	}
	probe, damaged, err := w.Env.Probe(ctx, run)
	if err != nil {
		return s, err
	}
	if s.Probe = probe; damaged {
		s.Warnings = append(s.Warnings, "what the probe came to is not known any more: probe.json is damaged")
	}
	v, err := w.Env.Verdict(ctx, run)
	switch {
	case err == nil:
		s.Verdict, s.Phase = &v, Quarantined
		if v.Passed() {
			s.Phase = Proven
		}
		if s.Account, err = w.Env.Accounts(ctx, run); err != nil {
			return s, err
		}
	case !errors.Is(err, blob.ErrNotFound):
		return s, err
	}
	if s.Decision, err = w.Env.Decision(ctx, run); err != nil {
		return s, err
	}
	if s.Decision != nil && s.Decision.Kind == serve.KindAbort {
		s.Phase = Aborted
		return s, nil
	}
	if waits != nil && s.Decision == nil {
		s.Waits = &Waits{waits.What, waits.At}
	}
	commit, err := known.last(ctx, w.Env, r)
	if err != nil {
		return s, err
	}
	if commit == nil {
		if s.Phase == Proven {
			s.Moved, err = w.Env.Moved(ctx, r)
			if err != nil && !errors.Is(err, blob.ErrNotFound) { // a candidate that is lost is made again by resume
				return s, err
			}
		}
		if !s.Running && s.Phase != Quarantined {
			s.Failure, err = w.failure(run)
			return s, err
		}
		return s, nil
	}
	s.Version, s.Phase = commit.Generation, Promoted
	if commit.Op == table.OpRollback {
		s.Phase = RolledBack
	}
	return s, nil
}

// commits are how runs last changed their datasets, by dataset and run: each history is read once.
type commits map[string]map[string]*table.Commit

// last is how a run last changed its dataset; nil if it has not.
func (c commits) last(ctx context.Context, env *step.Env, r step.Request) (*table.Commit, error) {
	at := env.DatasetLocation(r.Spec)
	if c[at] == nil {
		ds, err := env.Dataset(ctx, r.Spec)
		if err != nil {
			return nil, err
		}
		if c[at], err = lastCommits(ctx, ds); err != nil {
			return nil, err
		}
	}
	return c[at][r.Run], nil
}

func lastCommits(ctx context.Context, ds blob.Store) (map[string]*table.Commit, error) {
	out := map[string]*table.Commit{}
	snap, err := table.OpenSnapshot(ctx, ds)
	if errors.Is(err, table.ErrNoVersion) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for v, err := range snap.History(ctx) { // newest first
		if err != nil {
			return nil, err
		}
		if c := v.Manifest.Commit; out[c.Run] == nil { // a copy: the manifest itself may be large
			out[c.Run] = &c
		}
	}
	return out, nil
}
