package asl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrNoMapRun is returned for a Map Run that does not run in this engine.
var ErrNoMapRun = errors.New("there is no such Map Run in progress here")

// MapRun describes a Map Run in progress.
type MapRun struct {
	ARN       string
	Execution string // name of the execution that was started
	State     string
	Counts    MapCounts

	Paused                     bool
	MaxConcurrency             int
	ToleratedFailureCount      *int64 // nil: not given
	ToleratedFailurePercentage *float64
}

// MapRunUpdate changes what is not nil.
type MapRunUpdate struct {
	MaxConcurrency             *int     `json:"maxConcurrency,omitempty"` // 0: the most that Step Functions allows
	ToleratedFailureCount      *int64   `json:"toleratedFailureCount,omitempty"`
	ToleratedFailurePercentage *float64 `json:"toleratedFailurePercentage,omitempty"`
	// Paused lets no child execution begin; those that run go on. Step Functions has no such thing: there the least
	// concurrency is 1. A redrive ends a pause.
	Paused *bool `json:"paused,omitempty"`
}

// mapRunTable holds the Map Runs in progress.
type mapRunTable struct {
	mu   sync.Mutex
	runs map[string]*mapRun
}

func (t *mapRunTable) add(r *mapRun) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs == nil {
		t.runs = map[string]*mapRun{}
	}
	t.runs[r.arn] = r
}

func (t *mapRunTable) remove(r *mapRun) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, r.arn)
}

// MapRuns lists the Map Runs in progress, ordered by their ARNs.
func (e *Engine) MapRuns() []MapRun {
	e.mapRuns.mu.Lock()
	defer e.mapRuns.mu.Unlock()
	out := make([]MapRun, 0, len(e.mapRuns.runs))
	for _, r := range e.mapRuns.runs {
		r.mu.Lock()
		out = append(out, MapRun{
			ARN: r.arn, Execution: r.x.name, State: r.state.name, Counts: r.counts, Paused: r.paused, MaxConcurrency: r.limit,
			ToleratedFailureCount: r.tolerance.count, ToleratedFailurePercentage: r.tolerance.percent,
		})
		r.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b MapRun) int { return cmp.Compare(a.ARN, b.ARN) })
	return out
}

// UpdateMapRun changes a Map Run in progress, at once. Less concurrency lets the children that run finish; less tolerance
// than has failed ends the Map Run. The change is durable when it returns nil: it holds after [Engine.Resume] too, and in
// redrives.
func (e *Engine) UpdateMapRun(arn string, u MapRunUpdate) error {
	switch {
	case u.MaxConcurrency != nil && *u.MaxConcurrency < 0:
		return fmt.Errorf("update map run: the concurrency %d is negative", *u.MaxConcurrency)
	case u.ToleratedFailureCount != nil && *u.ToleratedFailureCount < 0:
		return fmt.Errorf("update map run: the tolerated count %d is negative", *u.ToleratedFailureCount)
	case u.ToleratedFailurePercentage != nil && !(*u.ToleratedFailurePercentage >= 0 && *u.ToleratedFailurePercentage <= 100):
		return fmt.Errorf("update map run: the tolerated percentage %v is not between 0 and 100", *u.ToleratedFailurePercentage)
	}
	e.mapRuns.mu.Lock()
	r := e.mapRuns.runs[arn]
	e.mapRuns.mu.Unlock()
	if r == nil {
		return fmt.Errorf("update map run %s: %w", arn, ErrNoMapRun)
	}
	if err := r.update(u); err != nil {
		return fmt.Errorf("update map run %s: %w", arn, err)
	}
	return nil
}

func (r *mapRun) update(u MapRunUpdate) error {
	r.mu.Lock()
	ev, err := r.record(Event{Type: NoteUpdate, Update: &u})
	if err == nil && r.tolerance.exceededBy(r.failed, r.counts.Items) {
		r.exceeded = true
		r.stop(errStopped)
	}
	r.change.Broadcast()
	r.mu.Unlock()
	if err != nil {
		return err
	}
	r.x.engine.observe(ev)
	return r.rec.sync()
}

// apply changes the settings. The caller holds the lock, or nothing runs yet.
func (r *mapRun) apply(u *MapRunUpdate) {
	if u == nil {
		return
	}
	if u.MaxConcurrency != nil {
		r.limit = effective(int64(*u.MaxConcurrency), distributedConcurrency, r.x.engine.MaxParallel)
	}
	if u.ToleratedFailureCount != nil {
		r.tolerance.count = u.ToleratedFailureCount
	}
	if u.ToleratedFailurePercentage != nil {
		r.tolerance.percent = u.ToleratedFailurePercentage
	}
	if u.Paused != nil {
		r.paused = *u.Paused
	}
}
