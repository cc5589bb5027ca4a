package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"hindcast/internal/blob"
	"hindcast/internal/local"
	"hindcast/internal/step"
)

// ExitCodes documents what the process ends with.
const ExitCodes = `Exit codes:
  0  done
  1  an error that no other code describes
  2  the command, the window or a job.yaml is wrong: nothing was begun
  3  refused: the input cannot be proven exact, or it or the code changed; the message says what to do
  4  a check failed, or the run is not proven: the pointer was not moved
  5  conflict: the dataset moved on, or the run was decided otherwise
  6  interrupted, or something that may go away by itself, as another process that is
     running the run: hindcast resume RUN goes on
  7  a swap was not answered: it may have taken effect; the same command again finds out`

const (
	exitError = iota + 1
	exitUsage
	exitRefused
	exitChecks
	exitConflict
	exitAgain
	exitUnknown
)

// coded is an error with the exit code that it leads to.
type coded struct {
	code int
	err  error
}

func (c *coded) Error() string { return c.err.Error() }
func (c *coded) Unwrap() error { return c.err }

func usage(err error) error { return &coded{exitUsage, err} }

// exactly asks for n arguments, named in the message.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return usage(fmt.Errorf("%s takes %d argument(s) %v, not %d; see %s --help", strings.TrimPrefix(cmd.CommandPath(), "hindcast "), len(names), names, len(args), cmd.CommandPath()))
	}
}

func exitCode(err error) int {
	if c, ok := errors.AsType[*coded](err); ok {
		return c.code
	}
	if s, ok := errors.AsType[*step.Error](err); ok {
		switch s.Name {
		case step.Invalid:
			return exitUsage
		case step.PlanRefused, step.InputChanged, step.InputDamaged, step.CodeChanged:
			return exitRefused
		case step.NotProven:
			return exitChecks
		case step.Conflict, step.Aborted:
			return exitConflict
		case step.Unknown:
			return exitUnknown
		case step.Transient:
			return exitAgain
		}
	}
	if errors.Is(err, blob.ErrTransient) || errors.Is(err, context.Canceled) || errors.Is(err, local.ErrRunning) {
		return exitAgain
	}
	return exitError
}
