package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/table"
)

// DecisionKey is where a run's decision lies, in the run's folder.
const DecisionKey = "decision.json"

// Kind is what was decided about a run.
type Kind string

// The decisions.
const (
	KindPromote Kind = "promote"
	KindAbort   Kind = "abort"
)

// Decision settles, once, whether a run is promoted or aborted. It is the first
// durable effect of either: who comes second finds it and cannot do the other.
type Decision struct {
	Format int    `json:"format"`
	Run    string `json:"run"`
	Kind   Kind   `json:"kind"`
	// Candidate is the digest of the candidate to promote, and Nonce identifies the swap; both are empty for an abort.
	Candidate string    `json:"candidate,omitempty"`
	Nonce     string    `json:"nonce,omitempty"`
	By        string    `json:"by,omitempty"`
	At        time.Time `json:"at"`
	Why       string    `json:"why,omitempty"`
}

// Decide records d in the run's folder, unless something was decided before: it returns what holds. A decision to
// promote another candidate, or to do the opposite, is a *DecidedError. A repeat succeeds.
// ErrOutcomeUnknown means that the store did not answer: d may hold, now or later.
func Decide(ctx context.Context, run blob.Store, d Decision) (Decision, error) {
	held, err := ReadDecision(ctx, run)
	if err != nil {
		return Decision{}, err
	}
	if held == nil {
		if held, err = d.write(ctx, run); err != nil {
			return Decision{}, fmt.Errorf("decide to %s run %s: %w", d.Kind, d.Run, err)
		}
	}
	if held.Run != d.Run || held.Kind != d.Kind || held.Candidate != d.Candidate {
		return *held, &DecidedError{Decision: *held}
	}
	return *held, nil
}

// write puts the decision where there was none, and gives the one that holds.
func (d Decision) write(ctx context.Context, run blob.Store) (*Decision, error) {
	d.Format = table.Format
	d.At = d.At.UTC().Truncate(time.Microsecond)
	b, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	if err := blob.Probe(ctx, run, "probe"); err != nil {
		return nil, err
	}
	b = append(b, '\n')
	err = table.PutOnce(ctx, run, DecisionKey, bytes.NewReader(b), table.Digest(b))
	switch {
	case errors.Is(err, table.ErrOther):
		return ReadDecision(ctx, run)
	case err != nil:
		return nil, fmt.Errorf("%w: %w: run the same again to find out", ErrOutcomeUnknown, err)
	}
	return &d, nil
}

// ReadDecision reads what was decided about a run; it is nil where nothing was.
func ReadDecision(ctx context.Context, run blob.Store) (*Decision, error) {
	b, _, err := blob.ReadAll(ctx, run, DecisionKey)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read decision: %w", err)
	}
	d := &Decision{}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(d); err != nil {
		return nil, fmt.Errorf("read decision: %w", err)
	}
	if d.Format != table.Format || d.Run == "" || d.Kind != KindAbort && (d.Kind != KindPromote || d.Nonce == "" || d.Candidate == "") {
		return nil, fmt.Errorf("read decision: it is not one that this program writes: format %d, kind %q", d.Format, d.Kind)
	}
	return d, nil
}
