package step

import (
	"context"

	"hindcast/internal/plan"
)

// Inspect describes the log that a job reads: listings, footers and the brokers' offsets. Brokers that do not answer are noted, and no error. It
// has no side effects.
func (e *Env) Inspect(ctx context.Context, name string) (plan.Inspection, error) {
	j, s, err := e.Job(name)
	if err != nil {
		return plan.Inspection{}, &Error{Invalid, err}
	}
	inv, err := e.listed(ctx, j, Request{Spec: s, AsOf: e.Now().UnixMicro()})
	if err != nil {
		return plan.Inspection{}, err
	}
	if err := e.pin(ctx, s.Source, &inv); err != nil {
		if ctx.Err() != nil {
			return plan.Inspection{}, err
		}
		inv.Notes = append(inv.Notes, "what the brokers have is not known: "+err.Error())
	}
	if _, err := e.stored(ctx, s.Source, &inv); err != nil {
		return plan.Inspection{}, err
	}
	in, err := plan.Inspect(s, inv)
	if err != nil {
		return plan.Inspection{}, &Error{PlanRefused, err}
	}
	return in, nil
}
