package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"hindcast/internal/asl"
	"hindcast/internal/local"
	"hindcast/internal/serve"
	"hindcast/internal/step"
)

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	var workers int
	var promote bool
	cmd := &cobra.Command{
		Use:   "run JOB",
		Short: "Recompute a window into a candidate version and prove it",
		Long: `Plans, captures the tail, recomputes the window's partitions beside what is served, and checks them.
It ends with a proven candidate and the command that promotes it; with --promote it promotes, if the checks pass.`,
		Example: `  hindcast run daily-country-revenue --from 2011-11-01 --to 2011-11-22
  hindcast run account-balance --promote`,
		Args: exactly("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkWorkers(workers); err != nil {
				return err
			}
			ctx := cmd.Context()
			ws, r, err := a.asked(ctx, &f, args[0])
			if err != nil {
				return err
			}
			if r.Window != nil {
				a.say("window   %s", r.Window)
			}
			a.say("run      %s", r.Run)
			r.Promote = local.Promotes(promote, r.Spec)
			return a.drive(ctx, ws, r.Run, func(opts local.RunOptions) (local.Outcome, error) {
				opts.Workers = workers
				return ws.Start(ctx, r, opts)
			})
		},
	}
	f.add(cmd)
	cmd.PreRunE = countsGiven
	cmd.Flags().IntVar(&workers, "workers", local.DefaultWorkers, "shards computed at once")
	cmd.Flags().Int64Var(&f.lapRows, "lap-rows", 0, "end a worker's lap after so many rows and go on from its checkpoint (default: no laps)")
	cmd.Flags().BoolVar(&promote, "promote", false, "promote when the checks pass")
	cmd.Flags().StringVar(&f.why, "why", "", "why, for the record")
	return cmd
}

func (a *app) resumeCmd() *cobra.Command {
	var workers int
	cmd := &cobra.Command{
		Use:     "resume RUN",
		Short:   "Go on with a run that was interrupted or failed; finished shards are not redone",
		Example: "  hindcast resume 20111210-090000-daily-country-revenue-1f2e3d4c",
		Args:    exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkWorkers(workers); err != nil {
				return err
			}
			ctx := cmd.Context()
			ws, err := a.open()
			if err != nil {
				return err
			}
			return a.drive(ctx, ws, args[0], func(opts local.RunOptions) (local.Outcome, error) {
				opts.Workers = workers
				return ws.Resume(ctx, args[0], opts)
			})
		},
	}
	cmd.Flags().IntVar(&workers, "workers", local.DefaultWorkers, "shards computed at once")
	return cmd
}

// countsGiven refuses counts that say nothing: leaving them out is how to ask for the default.
func countsGiven(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"shard-rows", "lap-rows"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && (f.Value.String() == "0" || f.Value.String()[0] == '-') {
			return usage(fmt.Errorf("--%s %s: it takes at least one row; leave it out for the default", name, f.Value))
		}
	}
	return nil
}

func checkWorkers(n int) error {
	if n < 1 {
		return usage(fmt.Errorf("--workers %d: a run needs at least one worker", n))
	}
	return nil
}

// drive runs or resumes a run under a progress display, and tells how it ended.
func (a *app) drive(ctx context.Context, ws *local.Workspace, run string, do func(local.RunOptions) (local.Outcome, error)) error {
	p := newProgress(a.IO, true)
	out, err := do(local.RunOptions{Watch: p.update})
	p.done(err != nil || out.Error != "")
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			return err
		}
		_, err := ws.Env.Request(context.WithoutCancel(ctx), run)
		if named, ok := errors.AsType[*step.Error](err); ok && named.Name == step.Invalid {
			return &coded{exitAgain, errors.New("interrupted before the run was begun")}
		}
		return &coded{exitAgain, fmt.Errorf("interrupted; go on with: %s", a.command("resume", run))}
	}
	s, err := ws.Status(ctx, run)
	if err != nil {
		return err
	}
	text := s
	text.Failure = "" // it is told at the end, as the error
	if err := a.print(s, func(w io.Writer) { a.printStatus(w, text) }); err != nil {
		return err
	}
	if out.Already {
		a.say("run %s had ended before: nothing was done", run)
	}
	switch {
	case s.Phase == local.Aborted:
		return &step.Error{Name: step.Aborted, Err: &serve.DecidedError{Decision: *s.Decision}}
	case out.Status == asl.Succeeded:
		return nil
	case s.Phase == local.Quarantined:
		return &coded{exitChecks, fmt.Errorf("a check failed: the pointer was not moved; see: %s", a.command("status", run))}
	case out.Failure != nil:
		return out.Failure
	default:
		return &step.Error{Name: step.Failed, Err: errors.New(cmp.Or(s.Failure, out.Error+": "+out.Cause))}
	}
}
