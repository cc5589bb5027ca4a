package asl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"hindcast/internal/asl/expr"
)

// mapRun runs the child executions of one attempt of a distributed Map.
type mapRun struct {
	*frame
	st       *mapState
	arn      string
	id       string // the last part of the ARN
	name     HistoryName
	rec      *recorder
	inputs   []json.RawMessage
	sizes    []int // items of each child execution
	children []child

	mu            sync.Mutex
	change        sync.Cond
	limit         int
	tolerance     tolerance
	failed        int // items of failed children
	counts        MapCounts
	exceeded      bool                    // more failed than are tolerated; that is for good
	stop          context.CancelCauseFunc // ends the children
	interruptedBy error
}

// tolerance is how many failed items are tolerated; nil limits are not given.
type tolerance struct {
	count   *int64
	percent *float64
}

// exceededBy reports whether so many failures of so many items are too many. Either limit
// is enough; without any, none is tolerated.
func (t *tolerance) exceededBy(failed, total int) bool {
	return t.count != nil && int64(failed) > *t.count ||
		t.percent != nil && float64(failed)*100 > *t.percent*float64(total) ||
		t.count == nil && t.percent == nil && failed > 0
}

// child is a child execution: what became of it.
type child struct {
	name        string
	past        *execution // as read from the history, if it has begun and not ended
	result      Result     // once it has ended
	start, stop time.Time
}

// runDistributed makes one attempt; inside is as for attempts.
func (st *mapState) runDistributed(
	ctx context.Context, f *frame, began Event, attempt int, input any, items []any, limit int,
) (result any, inside bool, err error) {
	r := &mapRun{frame: f, st: st, limit: limit}
	r.change.L = &r.mu
	maxItems, batches, err := r.settings(input)
	if err != nil {
		return nil, false, err
	}
	r.id = expr.UUID(derived("maprun", f.x.arn, f.id, attempt).Uint64)
	r.arn = arn("mapRun", fmt.Sprintf("%s/%s:%s", f.x.machine.Name, st.label, r.id))
	r.name = HistoryName{f.x.name, fmt.Sprintf("%s%s-%d", f.x.level, st.label, began.ID)}
	if _, err := f.emit(Event{Type: MapRunStarted, State: f.state.name, MapRun: r.arn}); err != nil {
		return nil, false, err
	}
	// The children's history must not be ahead of this one, which says that it exists.
	if err := f.x.sync(); err != nil {
		return nil, false, err
	}
	if f.peek() == MapRunFailed {
		ev, err := f.emit(Event{Type: MapRunFailed, State: f.state.name})
		if err != nil {
			return nil, false, err
		}
		return nil, true, &Error{ev.Error, ev.Cause}
	}
	result, err = r.run(ctx, input, items, maxItems, batches)
	last := Event{Type: MapRunSucceeded, State: f.state.name}
	var failure *Error
	switch {
	case err == nil:
	case errors.As(err, &failure):
		last = Event{Type: MapRunFailed, State: f.state.name, Error: failure.Name, Cause: failure.Cause}
	case errors.Is(err, errAbandoned):
		last = Event{Type: MapRunAborted, State: f.state.name}
	default:
		return nil, false, err
	}
	if _, failed := f.emit(last); failed != nil {
		return nil, false, failed
	}
	return result, true, err
}

// settings evaluates what the definition leaves to the input.
func (r *mapRun) settings(input any) (maxItems int64, b *batches, err error) {
	count, given, err := r.whole(&r.st.toleratedCount, input)
	if err != nil {
		return 0, nil, err
	}
	if count < 0 {
		return 0, nil, r.runtime("ToleratedFailureCount cannot be negative.")
	}
	if given {
		r.tolerance.count = &count
	}
	if r.tolerance.percent, err = r.percent(input); err != nil {
		return 0, nil, err
	}
	if r.st.reader != nil {
		if maxItems, err = r.st.reader.limit(r.frame, input); err != nil {
			return 0, nil, err
		}
	}
	b, err = r.st.batcher.evaluate(r.frame, input)
	return maxItems, b, err
}

// percent evaluates ToleratedFailurePercentage; nil if the definition does not have it.
func (r *mapRun) percent(input any) (*float64, error) {
	a := &r.st.toleratedPercent
	switch {
	case a.set:
		return &a.value, nil
	case a.path == nil:
		return nil, nil
	}
	v, err := r.eval(a.path, a.name+"Path", input)
	if err != nil {
		return nil, err
	}
	n, ok := v.(json.Number)
	if s, isText := v.(string); isText {
		n, ok = json.Number(s), true
	}
	percent, err := n.Float64()
	if !ok || err != nil {
		text, _ := expr.Encode(v)
		return nil, r.runtime("The %sPath field refers to value \"%s\" which is not a valid float: %s", a.name, text, a.path)
	}
	if percent < 0 || percent > 100 {
		return nil, r.runtime("%s must be between 0 and 100.", a.name)
	}
	return &percent, nil
}

// run reads the items, runs a child execution for each input that has not had one, and
// returns the result of the Map Run.
func (r *mapRun) run(ctx context.Context, input any, items []any, maxItems int64, b *batches) (result any, err error) {
	if r.st.reader != nil {
		if items, err = r.st.reader.read(ctx, r.frame, input, maxItems); err != nil {
			return nil, err
		}
	}
	if r.inputs, err = r.st.encodeItems(r.frame, input, items); err != nil {
		return nil, err
	}
	r.counts.Items = len(items)
	if b != nil {
		r.inputs, r.sizes = b.gather(r.inputs)
	}
	r.children = make([]child, len(r.inputs))
	for i := range r.children {
		r.children[i].name = expr.UUID(derived("child", r.arn, i).Uint64)
	}
	recording, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	err = r.dispatch(recording)
	if err = errors.Join(err, r.rec.close()); err != nil {
		return nil, fmt.Errorf("map run %s: %w", r.name, err)
	}
	var failure *Error
	if r.exceeded {
		failure = &Error{errTolerance, "The specified tolerated failure threshold was exceeded"}
	}
	if w := r.st.writer; w != nil && w.parameters != nil {
		if result, err = w.write(ctx, r, input); err != nil {
			return nil, err
		}
	} else if failure == nil {
		result, err = r.st.writer.values(r)
	}
	if failure != nil {
		return nil, failure
	}
	return result, err
}

// open opens the children's history and takes from it what became of them so far. The
// context that it returns ends with the one given or when the history fails.
func (r *mapRun) open(ctx context.Context) (context.Context, error) {
	history, err := r.x.engine.histories().Open(ctx, r.name)
	if err != nil {
		return nil, err
	}
	index := make(map[string]int, len(r.children))
	for i, c := range r.children {
		index[c.name] = i
	}
	for ev, err := range history.Events(ctx) {
		if err == nil {
			i, ok := index[ev.Child]
			if ok {
				err = r.remember(i, ev)
			} else {
				err = fmt.Errorf("history %s: child execution %q belongs to no item; the items have changed: %w", r.name, ev.Child, errDiverged)
			}
		}
		if err != nil {
			return nil, errors.Join(err, history.Close())
		}
	}
	r.rec, ctx = newRecorder(ctx, history)
	r.counts.Total = len(r.children)
	for i := range r.children {
		c := &r.children[i]
		if c.past != nil {
			c.past.rec = r.rec
		}
		r.tally(i)
	}
	r.counts.Pending = r.counts.Total - r.counts.Succeeded - r.counts.Failed - r.counts.Aborted
	return ctx, nil
}

func (r *mapRun) remember(i int, ev Event) error {
	c := &r.children[i]
	if c.past == nil {
		if c.result.Status != "" {
			return fmt.Errorf("history %s: child execution %s goes on after its end: %w", r.name, ev.Child, errDiverged)
		}
		c.past = r.child(i)
		c.start = ev.Time
	}
	if err := c.past.remember(ev); err != nil {
		return fmt.Errorf("history %s: child execution %s: %w", r.name, ev.Child, err)
	}
	if result, ended := outcome(ev); ended {
		c.result, c.stop, c.past = result, ev.Time, nil
	}
	return nil
}

// child makes a child execution that has not begun.
func (r *mapRun) child(i int) *execution {
	name := r.children[i].name
	machine := r.x.machine.Name + "/" + r.st.label
	return &execution{
		engine: r.x.engine, machine: r.x.machine, rec: r.rec, name: r.x.name, child: name,
		level: r.name.MapRun + "/" + name + "/",
		arn:   arn("execution", machine+":"+name), machineARN: arn("stateMachine", machine),
		past: map[string][]Event{},
	}
}

// size is how many items the child execution has.
func (r *mapRun) size(i int) int {
	if r.sizes == nil {
		return 1
	}
	return r.sizes[i]
}

// tally counts a child execution that has ended, and decides whether too many have failed.
func (r *mapRun) tally(i int) {
	switch status := r.children[i].result.Status; {
	case status == Succeeded:
		r.counts.Succeeded++
	case status == Aborted:
		r.counts.Aborted++
	case status != "":
		r.counts.Failed++
		r.failed += r.size(i)
	}
	r.exceeded = r.exceeded || r.tolerance.exceededBy(r.failed, r.counts.Items)
}

// dispatch runs the child executions that have not ended, in order, as many at once as the
// limit says, until all have ended, too many have failed, or one is interrupted.
func (r *mapRun) dispatch(ctx context.Context) error {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.stop = stop
	r.x.engine.mapRuns.add(r)
	defer r.x.engine.mapRuns.remove(r)
	defer context.AfterFunc(inner, func() { // wakes the loop below
		r.mu.Lock()
		defer r.mu.Unlock()
		r.change.Broadcast()
	})()
	r.progress()
	var wg sync.WaitGroup
	r.mu.Lock()
	if r.exceeded {
		stop(errAbandoned)
	}
	for i := range r.children {
		c := &r.children[i]
		if c.result.Status != "" {
			continue
		}
		for r.counts.Running >= r.limit && inner.Err() == nil {
			r.change.Wait()
		}
		if inner.Err() != nil && c.past == nil {
			continue
		}
		r.counts.Running++
		r.counts.Pending--
		wg.Go(func() { r.runChild(inner, i) })
	}
	r.mu.Unlock()
	wg.Wait()
	switch {
	case r.interruptedBy != nil:
		return r.interruptedBy
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

func (r *mapRun) runChild(ctx context.Context, i int) {
	c := &r.children[i]
	x := c.past
	if x == nil {
		x = r.child(i)
	}
	result, err := x.run(ctx, r.st.processor, r.inputs[i])
	r.mu.Lock()
	c.past = nil
	r.counts.Running--
	switch {
	case err == nil:
		c.result, c.start, c.stop = result, x.started, x.lastTime
		r.tally(i)
		if r.exceeded {
			r.stop(errAbandoned)
		}
	case r.interruptedBy == nil:
		r.interruptedBy = err
		r.stop(err)
	}
	r.change.Broadcast()
	r.mu.Unlock()
	r.progress()
}

// progress tells the observer the counts.
func (r *mapRun) progress() {
	r.mu.Lock()
	counts := r.counts
	r.mu.Unlock()
	r.x.engine.observe(Event{
		Type: NoteProgress, Child: r.x.child, State: r.state.name, Strand: r.key, MapRun: r.arn, Time: r.x.engine.now(), Counts: &counts,
	})
}
