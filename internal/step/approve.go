package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/serve"
)

// Approval is what a person is asked to approve.
type Approval string

// The approvals.
const (
	ApproveProbe     Approval = "probe"     // of what the probe came to: the other shards are computed then
	ApproveCandidate Approval = "candidate" // that was proven: it is promoted then
)

type approveIn struct {
	Run   string   `json:"run"`
	What  Approval `json:"what"`
	Token string   `json:"token"`
}

type approveOut struct{}

// Question is an approval that an execution waits for.
type Question struct {
	What Approval `json:"what"`
	// Token is the task token: who sends its success lets the execution go on. The last one that was asked with holds.
	Token string    `json:"token"`
	At    time.Time `json:"at"`
}

func questionKey(what Approval) string { return "approvals/" + string(what) + ".json" }

// approve keeps a task token until a person answers.
func (e *Env) approve(ctx context.Context, in approveIn) (approveOut, error) {
	if _, _, err := e.begun(ctx, in.Run); err != nil {
		return approveOut{}, err
	}
	if in.What != ApproveProbe && in.What != ApproveCandidate || in.Token == "" {
		return approveOut{}, fmt.Errorf("there is nothing to approve that is called %q, or no token to answer with", in.What)
	}
	b, err := marshal(&Question{in.What, in.Token, e.Now().UTC()})
	if err == nil {
		_, err = blob.PutBytes(ctx, e.runStore(in.Run), questionKey(in.What), b, blob.Condition{})
	}
	return approveOut{}, err
}

// AskAgain keeps the question of an execution that waits for its answer, where that was lost or damaged since: in is what the state Approve was called with.
func (e *Env) AskAgain(ctx context.Context, in json.RawMessage) error {
	var q approveIn
	if err := json.Unmarshal(in, &q); err != nil {
		return fmt.Errorf("read the input of %s: %w", Approve, err)
	}
	held, err := e.Question(ctx, q.Run, q.What)
	if held == nil && err == nil || errors.Is(err, errDamaged) {
		_, err = e.approve(ctx, q)
	}
	return err
}

// Question reads what a run's execution asked to be approved, and with which token; nil if it has not asked.
func (e *Env) Question(ctx context.Context, run string, what Approval) (*Question, error) {
	var q Question
	err := readJSON(ctx, e.runStore(run), questionKey(what), &q)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, nil
	}
	return &q, err
}

// Waits tells what a run waits for a person to approve, and since when; nil if that is nothing.
func (e *Env) Waits(ctx context.Context, run string, asked Control, d *serve.Decision) (*Question, error) {
	if d != nil {
		return nil, nil
	}
	for _, what := range []Approval{ApproveCandidate, ApproveProbe} { // that which comes last is that which it waits for
		q, err := e.Question(ctx, run, what)
		switch {
		case err != nil:
			return nil, err
		case q != nil && asked.Approved(what):
			return nil, nil
		case q != nil:
			return q, nil
		}
	}
	return nil, nil
}

// Reject gives up a run that waits for an approval, as Abort does.
func (e *Env) Reject(ctx context.Context, run string, ch Change) (serve.Decision, error) {
	d, err := e.Abort(ctx, run, ch.By, ch.Why)
	if err == nil {
		_, err = e.record(ctx, run, ch)
	}
	return d, err
}
