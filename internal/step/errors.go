package step

import (
	"context"
	"errors"

	"hindcast/internal/blob"
)

// Error names. The state machine's Retry and Catch tell errors apart by them, and the CLI's exit codes follow them.
const (
	// Transient may go away by itself; the state machine tries again.
	Transient = "Step.Transient"
	// PlanRefused means that the input cannot be proven exact, or the request cannot be met; nothing was read.
	PlanRefused = "Plan.Refused"
	// InputChanged means that an object is no longer the one that the plan pinned.
	InputChanged = "Input.Changed"
	// InputDamaged means that an object cannot be read, or does not hold what its footer says.
	InputDamaged = "Input.Damaged"
	// CodeChanged means that the run began with other code: it can only be run anew.
	CodeChanged = "Code.Changed"
	// NoProgress means that a lap came to nothing in its time, or that too many were needed.
	NoProgress = "Worker.NoProgress"
	// Conflict means that the dataset moved on, or the run was decided otherwise.
	Conflict = "Promote.Conflict"
	// Aborted means that the run was given up by a person.
	Aborted = "Run.Aborted"
	// NotProven means that a run without a passing verdict was asked to be promoted.
	NotProven = "Promote.NotProven"
	// Unknown means that a swap was not answered: it may or may not have taken effect.
	Unknown = "Promote.Unknown"
	// Invalid means that what was asked for cannot be done, whatever the data: there is no such run, table, partition or version, or rows
	// that were handed in do not fit. Nothing was changed.
	Invalid = "Request.Invalid"
	// Failed is any other error.
	Failed = "Step.Failed"
)

// Error is how a state fails: a name for the state machine, a cause for a person.
type Error struct {
	Name string
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// named returns err as an *Error, keeping the name it has and otherwise giving it one by its class.
func named(err error) error {
	var e *Error
	switch {
	case err == nil || errors.As(err, &e):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err // the orchestrator stopped us: nothing to record
	case errors.Is(err, blob.ErrTransient):
		return &Error{Transient, err}
	default:
		return &Error{Failed, err}
	}
}
