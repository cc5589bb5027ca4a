package asl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	paused        bool
	failed        int // items of failed children
	counts        MapCounts
	items         string                  // digest of the items that were read
	redrives      int                     // as the children's history has them
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
	past        *execution // as read from the history, if it has begun and is to go on
	result      Result     // once it has ended, and until it has ended again
	start, stop time.Time
	redrives    int
	final       string // why it cannot be redriven; empty if it can
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
	purpose := []any{"maprun", f.x.arn, f.id, attempt}
	if f.x.redrives > 0 { // retries count from 0 again
		purpose = append(purpose, f.x.redrives)
	}
	r.arn = arn("mapRun", fmt.Sprintf("%s/%s:%s", f.x.machine.Name, st.label, expr.UUID(derived(purpose...).Uint64)))
	started, redrives, err := r.begin()
	if err != nil {
		return nil, false, err
	}
	r.arn, r.id = started.MapRun, nameOf(started.MapRun)
	r.name = HistoryName{f.x.name, fmt.Sprintf("%s%s-%d", f.x.level, st.label, began.ID)}
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
	if redrives > maxMapRedrives {
		err = f.runtime("The Map Run was redriven %d times, which is the limit.", maxMapRedrives)
	} else {
		result, err = r.run(ctx, input, items, maxItems, batches, redrives)
	}
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

// begin records that the Map Run has started, or that it is redriven. It returns the event with which it started, and how
// often it was redriven.
func (r *mapRun) begin() (started Event, redrives int, err error) {
	started, err = r.emit(Event{Type: MapRunStarted, State: r.state.name, MapRun: r.arn})
	last := started
	for err == nil && (r.peek() == MapRunRedriven || r.peek() == "" && last.ID < r.x.redriven.ID) {
		redrives++
		last, err = r.emit(Event{Type: MapRunRedriven, State: r.state.name, MapRun: started.MapRun, RedriveCount: redrives})
	}
	return started, redrives, err
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

// run reads the items, runs a child execution for each input that has not had one, or whose execution is redriven, and
// returns the result of the Map Run.
func (r *mapRun) run(ctx context.Context, input any, items []any, maxItems int64, b *batches, redrives int) (result any, err error) {
	if r.st.reader != nil {
		if items, err = r.st.reader.read(ctx, r.frame, input, maxItems); err != nil {
			return nil, err
		}
		if r.items, err = digest(items); err != nil {
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
	recording, err := r.open(ctx, redrives)
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

// digest is the SHA-256 of items.
func digest(items []any) (string, error) {
	h := sha256.New()
	for _, item := range items {
		b, err := expr.Encode(item)
		if err != nil {
			return "", err
		}
		h.Write(append(b, '\n'))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// open opens the children's history and takes from it what became of them so far; redrives is how often the Map Run was
// redriven. The context that it returns ends with the one given or when the history fails.
func (r *mapRun) open(ctx context.Context, redrives int) (context.Context, error) {
	history, err := r.x.engine.histories().Open(ctx, r.name)
	if err != nil {
		return nil, err
	}
	index := make(map[string]int, len(r.children))
	for i, c := range r.children {
		index[c.name] = i
	}
	known := false
	for ev, err := range history.Events(ctx) {
		switch i, ok := index[ev.Child]; {
		case err != nil:
		case ev.Child == r.x.child && ev.Note():
			known = true
			err = r.note(ev)
		case ok:
			err = r.remember(i, ev)
		default:
			err = fmt.Errorf("history %s: child execution %q belongs to no item; the items have changed: %w", r.name, ev.Child, errDiverged)
		}
		if err != nil {
			return nil, errors.Join(err, history.Close())
		}
	}
	r.rec, ctx = newRecorder(ctx, history)
	r.counts.Total = len(r.children)
	if !known {
		counts := r.counts
		_, err = r.record(Event{Type: NoteItems, Counts: &counts, Items: r.items})
	}
	for err == nil && r.redrives < redrives {
		_, err = r.record(Event{Type: NoteRedrive, RedriveCount: r.redrives + 1})
	}
	if err != nil {
		return nil, errors.Join(err, r.rec.close())
	}
	for i := range r.children {
		c := &r.children[i]
		if c.past != nil {
			c.past.rec = r.rec
		}
		if c.redriven() {
			r.counts.PendingRedrive++
			continue
		}
		if c.result.Status != "" {
			c.past = nil
		}
		r.tally(i)
	}
	n := &r.counts
	n.Pending = n.Total - n.Succeeded - n.Failed - n.Aborted - n.PendingRedrive
	return ctx, nil
}

// record adds a note of the Map Run to the children's history, and does what it says.
func (r *mapRun) record(ev Event) (Event, error) {
	ev.Child, ev.State, ev.Strand, ev.MapRun, ev.Time = r.x.child, r.state.name, r.key, r.arn, r.x.engine.now()
	if _, err := r.rec.add(ev); err != nil {
		return ev, fmt.Errorf("append %s to the history: %w", ev.Type, err)
	}
	return ev, r.note(ev)
}

// note does what a note of the Map Run says.
func (r *mapRun) note(ev Event) error {
	switch ev.Type {
	case NoteItems:
		if ev.Items != r.items || ev.Counts == nil || *ev.Counts != (MapCounts{Total: len(r.children), Items: r.counts.Items}) {
			return fmt.Errorf("history %s: the items have changed since the Map Run began: restore them, or start a new execution: %w", r.name, errDiverged)
		}
	case NoteRedrive:
		r.redrives++
		r.paused = false
		for i := range r.children {
			c := &r.children[i]
			if c.past != nil {
				c.final = c.past.notRedrivable(ev.Time)
				c.past.redrive = c.past.end == nil || c.final == ""
			}
		}
	case NoteUpdate:
		r.apply(ev.Update)
	default:
		return fmt.Errorf("history %s: there is no note %s of a Map Run: %w", r.name, ev.Type, errDiverged)
	}
	return nil
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
	c.result = Result{}
	if c.past.end != nil {
		c.ended(c.past)
		if c.result.Status == Succeeded {
			c.past = nil
		}
	}
	return nil
}

// redriven reports whether the child's execution is to be redriven.
func (c *child) redriven() bool { return c.past != nil && c.past.redrive }

// ended takes over what became of the child's execution.
func (c *child) ended(x *execution) {
	c.result, c.start, c.stop, c.redrives = outcome(x.end), x.started, x.end.Time, x.redrives
	c.final = x.notRedrivable(x.end.Time)
}

// child makes a child execution that has not begun.
func (r *mapRun) child(i int) *execution {
	name := r.children[i].name
	machine := r.x.machine.Name + "/" + r.st.label
	return &execution{
		engine: r.x.engine, machine: r.x.machine, rec: r.rec, name: r.x.name, child: name,
		level: r.name.MapRun + "/" + name + "/",
		arn:   arn("execution", machine+":"+name), machineARN: arn("stateMachine", machine),
		past: map[string][]Event{}, answers: map[string]answer{},
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
		stop(errStopped)
	}
	for i := range r.children {
		c := &r.children[i]
		if c.result.Status != "" && !c.redriven() {
			continue
		}
		for (r.paused || r.counts.Running >= r.limit) && inner.Err() == nil {
			r.change.Wait()
		}
		if inner.Err() != nil && (c.past == nil || c.redriven()) {
			continue
		}
		r.counts.Running++
		if c.redriven() {
			r.counts.PendingRedrive--
		} else {
			r.counts.Pending--
		}
		wg.Go(func() { r.runChild(inner, i) })
	}
	r.mu.Unlock()
	wg.Wait()
	for i := range r.children {
		if c := &r.children[i]; c.redriven() { // which was not come to: it stays as it was
			r.counts.PendingRedrive--
			if c.result.Status == "" {
				r.counts.Pending++
			}
			r.tally(i)
		}
	}
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
	_, err := x.run(ctx, r.st.processor, r.inputs[i])
	r.mu.Lock()
	c.past = nil
	r.counts.Running--
	switch {
	case err == nil:
		c.ended(x)
		r.tally(i)
		if r.exceeded {
			r.stop(errStopped)
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
