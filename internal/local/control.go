package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hindcast/internal/asl"
	"hindcast/internal/serve"
	"hindcast/internal/step"
)

// computes reports whether the Map Runs of a state compute shards.
func computes(state string) bool { return state == "Backfill" || state == "Gather" }

// obeyEvery is how often the process that drives a run looks what is asked of it.
const obeyEvery = time.Second

// obey has an execution do what is asked of its run while it goes on: begin no shards while it is paused, compute fewer or more at once, of which workers
// that have begun too many are told, and end where the run is given up. The context is the execution's; stop is called when that has ended.
func (w *Workspace) obey(ctx context.Context, engine *asl.Engine, run string, workers int, begun *begun) (_ context.Context, stop func()) {
	ctx, abort := context.WithCancelCause(ctx)
	watching, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(obeyEvery)
		defer tick.Stop()
		applied := map[string]int{} // how many of the changes, by Map Run
		answered := map[step.Approval]string{}
		told, question := 0, ""
		var held []string // as workers were told; nil: not yet
		var shown progress
		for {
			select {
			case <-watching.Done():
				return
			case <-tick.C:
			}
			d, err := w.Env.Decision(watching, run)
			if err == nil && d != nil && d.Kind == serve.KindAbort {
				abort(&asl.Abort{Name: step.Aborted, Cause: (&serve.DecidedError{Decision: *d}).Error()})
				return
			}
			w.mu.Lock()
			read := progress{w.rows[run]}
			w.mu.Unlock()
			if read != shown && w.writeProgress(run, read) == nil {
				shown = read
			}
			asked, err := w.Env.Control(watching, run)
			if err != nil {
				continue // what was asked before holds, and the next look may find more
			}
			changes := len(asked.Changes)
			if changes > told {
				told = changes
				w.update(Update{Asked: Asked(asked)})
			}
			if q, err := w.Env.Waits(watching, run, asked, d); err == nil && q != nil && q.Token != question {
				question = q.Token
				w.update(Update{Question: true})
			}
			for _, what := range []step.Approval{step.ApproveProbe, step.ApproveCandidate} {
				// Who promotes the candidate by hand has approved it.
				if asked.Approved(what) || what == step.ApproveCandidate && d != nil && d.Kind == serve.KindPromote {
					w.answer(watching, engine, run, what, answered)
				}
			}
			if n := asked.Concurrency(); n > 0 {
				if beyond := begun.beyond(n); held == nil || !slices.Equal(beyond, held) {
					if w.Env.Hold(watching, run, beyond) == nil {
						held = beyond
					}
				}
			}
			for _, m := range engine.MapRuns() {
				known, seen := applied[m.ARN]
				if seen && known == changes || !seen && changes == 0 && (!computes(m.State) || m.MaxConcurrency == workers) {
					continue // a Map Run that is gone on with has the concurrency that it was begun with
				}
				if err := engine.UpdateMapRun(m.ARN, update(m, asked, workers)); err == nil || errors.Is(err, asl.ErrNoMapRun) {
					applied[m.ARN] = changes
				}
			}
		}
	})
	return ctx, func() {
		end()
		wg.Wait()
		abort(nil)
	}
}

// begun are the shards that workers have begun and not ended, in that order.
type begun struct {
	mu     sync.Mutex
	shards []string
}

// runner follows the calls of workers that next runs.
func (b *begun) runner(next asl.TaskRunner) asl.TaskRunner {
	return asl.TaskFunc(func(ctx context.Context, req asl.TaskRequest) (json.RawMessage, error) {
		var in struct{ Shard string }
		if req.Function != string(step.Work) || json.Unmarshal(req.Payload, &in) != nil {
			return next.Run(ctx, req)
		}
		b.mu.Lock()
		if !slices.Contains(b.shards, in.Shard) {
			b.shards = append(b.shards, in.Shard)
		}
		b.mu.Unlock()
		out, err := next.Run(ctx, req)
		var end struct{ Done bool }
		if err != nil || json.Unmarshal(out, &end) != nil || end.Done {
			b.mu.Lock()
			b.shards = slices.DeleteFunc(b.shards, func(s string) bool { return s == in.Shard })
			b.mu.Unlock()
		}
		return out, err
	})
}

// beyond gives those that were begun after the first n; it is not nil.
func (b *begun) beyond(n int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.shards[min(n, len(b.shards)):]...)
}

// answer has the execution go on that waits for an approval. What is not waited for yet, or not any more, is no error.
func (w *Workspace) answer(ctx context.Context, engine *asl.Engine, run string, what step.Approval, answered map[step.Approval]string) {
	q, err := w.Env.Question(ctx, run, what)
	if err != nil || q == nil || q.Token == answered[what] {
		return
	}
	if err := engine.SendTaskSuccess(ctx, q.Token, []byte(`{"approved":true}`)); err == nil {
		answered[what] = q.Token
	}
}

// update is what a Map Run is told. How many topic partitions are captured at once is not asked of anybody: brokers are spared by the definition.
func update(m asl.MapRun, asked step.Control, workers int) asl.MapRunUpdate {
	_, paused := asked.Paused()
	u := asl.MapRunUpdate{Paused: &paused}
	if computes(m.State) {
		if n := asked.Concurrency(); n > 0 {
			workers = n
		}
		u.MaxConcurrency = &workers
	}
	return u
}

// Asked tells what is asked of a run, empty where nothing ever was.
func Asked(c step.Control) string {
	if len(c.Changes) == 0 {
		return ""
	}
	var what []string
	if since, paused := c.Paused(); paused {
		what = append(what, "paused since "+since.Format(time.RFC3339))
	}
	if n := c.Concurrency(); n > 0 {
		what = append(what, fmt.Sprintf("%d shards at once", n))
	}
	if n := c.RecordsPerSecond(); n > 0 {
		what = append(what, fmt.Sprintf("%d records a second", n))
	}
	last := c.Changes[len(c.Changes)-1]
	switch {
	case last.Redrive:
		what = append(what, "redriven")
	case last.Approve != "":
		what = append(what, "the "+string(last.Approve)+" is approved")
	case last.Reject != "":
		what = append(what, "the "+string(last.Reject)+" is rejected")
	case len(what) == 0:
		what = []string{"nothing any more"}
	}
	by := fmt.Sprintf("last by %s at %s", last.By, last.At.Format(time.RFC3339))
	if last.Why != "" {
		by += ": " + last.Why
	}
	return fmt.Sprintf("%s (%s)", strings.Join(what, ", "), by)
}
