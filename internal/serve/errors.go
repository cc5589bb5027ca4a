package serve

import (
	"errors"
	"fmt"
	"time"
)

// The classes of errors.
var (
	// ErrConflict means that somebody else was first. Nothing was changed, and nothing of this operation can still land.
	ErrConflict = errors.New("conflict")
	// ErrBaseMoved means that partitions that the operation replaces changed since it
	// read them: compute anew, on what is served now. The *table.MovedError behind it names them.
	ErrBaseMoved = fmt.Errorf("%w: the base moved", ErrConflict)
	// ErrWouldLose means that a rollback would undo what others did to the run's partitions since. The *table.MovedError behind it names them.
	ErrWouldLose = fmt.Errorf("%w: it would be lost what was done since", ErrConflict)
	// ErrBusy means that others moved the pointer at every attempt: try again.
	ErrBusy = fmt.Errorf("%w: others moved the pointer each time", ErrConflict)
	// ErrDecided means that the opposite was decided about the run. The *DecidedError has who and when.
	ErrDecided = fmt.Errorf("%w: it was decided otherwise", ErrConflict)
	// ErrNotPromoted means that a run that is to be rolled back never was in service.
	ErrNotPromoted = errors.New("the run was never promoted here")
	// ErrNotProven means that there is no passing verdict on exactly this candidate.
	ErrNotProven = errors.New("not proven")
	// ErrFileChanged means that a data file is missing or no longer what was checked. It is an ErrNotProven.
	ErrFileChanged = fmt.Errorf("%w any more: a file is not what was checked", ErrNotProven)
	// ErrOutcomeUnknown means that the store did not answer a write, and did not let it be settled: it may have taken
	// effect, or yet will. The same operation again finds out, and does nothing twice.
	ErrOutcomeUnknown = errors.New("the outcome is unknown")
)

// DecidedError says what was decided about a run. It is an ErrDecided.
type DecidedError struct {
	Decision Decision
}

func (e *DecidedError) Error() string {
	d := e.Decision
	s := fmt.Sprintf("run %s: it was decided to %s it", d.Run, d.Kind)
	if d.By != "" {
		s += " by " + d.By
	}
	s += " at " + d.At.Format(time.RFC3339)
	if d.Why != "" {
		s += " (" + d.Why + ")"
	}
	if d.Kind == KindPromote {
		return s + ": roll it back instead, once it is served"
	}
	return s + ": start a new run"
}

// Is makes the error an ErrDecided.
func (e *DecidedError) Is(target error) bool { return target == ErrDecided || target == ErrConflict }
