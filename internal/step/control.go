package step

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/serve"
)

// Control is what people have asked of a run while it goes on.
type Control struct {
	// Changes are all that was asked, oldest first: what was asked last holds.
	Changes []Change `json:"changes"`
}

// Change is one thing that was asked. Fields that are nil leave things as they are.
type Change struct {
	By  string    `json:"by"`
	At  time.Time `json:"at"`
	Why string    `json:"why,omitempty"`

	Paused *bool `json:"paused,omitempty"`
	// Concurrency is how many shards are computed at once; 0 is what the run was started with.
	Concurrency *int `json:"concurrency,omitempty"`
	// RecordsPerSecond is how many records all workers together read; 0 is no limit.
	RecordsPerSecond *int64 `json:"records_per_second,omitempty"`
	// Redrive says that what failed is repaired, and to be done again.
	Redrive bool `json:"redrive,omitempty"`
	// Approve and Reject answer what the run asks a person.
	Approve Approval `json:"approve,omitempty"`
	Reject  Approval `json:"reject,omitempty"`
}

// Approved reports whether a person has approved.
func (c Control) Approved(what Approval) bool {
	return slices.ContainsFunc(c.Changes, func(ch Change) bool { return ch.Approve == what })
}

// Paused reports whether the run is to stand still, and since when.
func (c Control) Paused() (since time.Time, paused bool) {
	return latest(c, func(ch Change) *bool { return ch.Paused })
}

// Concurrency is the number of shards that are computed at once, or 0.
func (c Control) Concurrency() int {
	_, n := latest(c, func(ch Change) *int { return ch.Concurrency })
	return n
}

// RecordsPerSecond is the limit of all workers together, or 0.
func (c Control) RecordsPerSecond() int64 {
	_, n := latest(c, func(ch Change) *int64 { return ch.RecordsPerSecond })
	return n
}

// latest is what was asked last of something, and when; zero if nothing was.
func latest[T any](c Control, of func(Change) *T) (at time.Time, what T) {
	for _, ch := range c.Changes {
		if asked := of(ch); asked != nil {
			at, what = ch.At, *asked
		}
	}
	return at, what
}

const controlKey = "control.json"

// Control reads what was asked of a run.
func (e *Env) Control(ctx context.Context, run string) (Control, error) {
	var c Control
	err := readJSON(ctx, e.runStore(run), controlKey, &c)
	if errors.Is(err, blob.ErrNotFound) {
		err = nil
	}
	return c, err
}

// Ask adds to what was asked of a run, which is obeyed while it goes on. A run that was given up takes no more.
func (e *Env) Ask(ctx context.Context, run string, ch Change) (Control, error) {
	if _, err := e.Request(ctx, run); err != nil {
		return Control{}, err
	}
	d, err := e.Decision(ctx, run)
	if err != nil {
		return Control{}, err
	}
	if d != nil && d.Kind == serve.KindAbort {
		return Control{}, &Error{Aborted, &serve.DecidedError{Decision: *d}}
	}
	return e.record(ctx, run, ch)
}

// record adds to what was asked of a run.
func (e *Env) record(ctx context.Context, run string, ch Change) (Control, error) {
	ch.At = e.Now().UTC()
	store := e.runStore(run)
	for {
		var c Control
		cond := blob.Condition{IfAbsent: true}
		b, info, err := blob.ReadAll(ctx, store, controlKey)
		switch {
		case err == nil:
			if err := decodeJSON(controlKey, b, &c); err != nil {
				return c, err
			}
			cond = blob.Condition{IfMatch: info.ETag}
		case !errors.Is(err, blob.ErrNotFound):
			return c, err
		}
		c.Changes = append(c.Changes, ch)
		if b, err = json.MarshalIndent(&c, "", "  "); err != nil {
			return c, err
		}
		_, err = blob.PutBytes(ctx, store, controlKey, b, cond)
		if errors.Is(err, blob.ErrPrecondition) {
			continue // somebody else asked something at the same time
		}
		return c, err
	}
}

const heldKey = "held.json"

// Hold says which shards are to stand still that workers have begun: where fewer are to be computed at once, those that are too many. It is for who drives the run.
func (e *Env) Hold(ctx context.Context, run string, shards []string) error {
	b, err := json.Marshal(shards)
	if err == nil {
		_, err = blob.PutBytes(ctx, e.runStore(run), heldKey, b, blob.Condition{})
	}
	return err
}

// held reads which shards are to stand still.
func (e *Env) held(ctx context.Context, run string) (shards []string, err error) {
	err = readJSON(ctx, e.runStore(run), heldKey, &shards)
	if lost(err) {
		err = nil
	}
	return shards, err
}

// controlled follows what is asked of a run while a worker goes on.
type controlled struct {
	env     *Env
	run     string
	shard   string
	workers int // that go on beside each other
	asked   Control
	held    bool // one of those that are too many
	looked  time.Time
	began   time.Time
	rows    int64 // since then
}

// lookEvery is how often a worker looks.
const lookEvery = time.Second

// look reads what is asked, if that was not done just now. If it cannot be read, what was asked before holds: a worker is not lost for that.
func (c *controlled) look(ctx context.Context) {
	now := c.env.Now()
	if now.Sub(c.looked) < lookEvery {
		return
	}
	c.looked = now
	asked, err := c.env.Control(ctx, c.run)
	if err != nil {
		return
	}
	if asked.RecordsPerSecond() != c.asked.RecordsPerSecond() || asked.Concurrency() != c.asked.Concurrency() {
		c.began, c.rows = now, 0
	}
	c.asked = asked
	if asked.Concurrency() == 0 {
		c.held = false
	} else if shards, err := c.env.held(ctx, c.run); err == nil {
		c.held = slices.Contains(shards, c.shard)
	}
}

// paused reports whether the worker is to stop.
func (c *controlled) paused() bool {
	_, paused := c.asked.Paused()
	return paused || c.held
}

// pace waits until n more rows may have been read.
func (c *controlled) pace(ctx context.Context, n int64) error {
	c.look(ctx)
	c.rows += n
	for !c.paused() {
		rate := c.asked.RecordsPerSecond()
		if rate <= 0 {
			return nil
		}
		workers := max(c.workers, 1)
		if asked := c.asked.Concurrency(); asked > 0 {
			workers = asked
		}
		due := c.began.Add(time.Duration(float64(c.rows) * float64(workers) / float64(rate) * float64(time.Second)))
		wait := min(due.Sub(c.env.Now()), lookEvery)
		if wait <= 0 {
			return nil
		}
		if err := blob.Sleep(ctx, wait); err != nil {
			return err
		}
		c.look(ctx)
	}
	return nil
}

// hold is how many seconds a worker that is paused is left alone: few, so that the run goes on soon after it is asked to; more where the pause
// is long, since each round costs a history events, of which it can have 25,000.
func (c *controlled) hold() int {
	since, paused := c.asked.Paused()
	long := 60
	if !paused { // it is held: until others are done, which nobody says before
		since, _ = latest(c.asked, func(ch Change) *int { return ch.Concurrency })
		long = 15
	}
	if c.env.Now().Sub(since) < 10*time.Minute {
		return 2
	}
	return long
}
