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

	MaxConcurrency             int
	ToleratedFailureCount      *int64 // nil: not given
	ToleratedFailurePercentage *float64
}

// MapRunUpdate changes what is not nil.
type MapRunUpdate struct {
	MaxConcurrency             *int // 0: the most that Step Functions allows
	ToleratedFailureCount      *int64
	ToleratedFailurePercentage *float64
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
			ARN: r.arn, Execution: r.x.name, State: r.state.name, Counts: r.counts, MaxConcurrency: r.limit,
			ToleratedFailureCount: r.tolerance.count, ToleratedFailurePercentage: r.tolerance.percent,
		})
		r.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b MapRun) int { return cmp.Compare(a.ARN, b.ARN) })
	return out
}

// UpdateMapRun changes a Map Run in progress. Less concurrency lets the children that run
// finish; less tolerance than has failed ends the Map Run. The change lasts until the
// execution ends or is interrupted: after [Engine.Resume] it is to be made again.
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
	defer e.mapRuns.mu.Unlock()
	r := e.mapRuns.runs[arn]
	if r == nil {
		return fmt.Errorf("update map run %s: %w", arn, ErrNoMapRun)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.MaxConcurrency != nil {
		r.limit = effective(int64(*u.MaxConcurrency), distributedConcurrency, e.MaxParallel)
	}
	if u.ToleratedFailureCount != nil {
		r.tolerance.count = u.ToleratedFailureCount
	}
	if u.ToleratedFailurePercentage != nil {
		r.tolerance.percent = u.ToleratedFailurePercentage
	}
	if r.tolerance.exceededBy(r.failed, r.counts.Items) {
		r.exceeded = true
		r.stop(errAbandoned)
	}
	r.change.Broadcast()
	return nil
}
