package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hindcast/internal/asl"
	"hindcast/internal/local"
	"hindcast/internal/local/lambda"
	"hindcast/internal/serve"
	"hindcast/internal/step"
	"hindcast/internal/unit"
)

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	var workers workersFlags
	var promote, approval bool
	var probe int
	cmd := &cobra.Command{
		Use:   "run JOB",
		Short: "Recompute a window into a candidate version and prove it",
		Long: `Plans, captures the tail, recomputes the window's partitions beside what is served, and checks them.
It ends with a proven candidate and the command that promotes it; with --promote it promotes, if the checks pass.`,
		Example: `  hindcast run daily-country-revenue --from 2011-11-01 --to 2011-11-22
  hindcast run account-balance --promote`,
		Args: exactly("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := workers.check(&a.opts); err != nil {
				return err
			}
			if promote && approval {
				return usage(errors.New("--promote and --approval: a run that promotes by itself asks nobody: take one"))
			}
			if probe < 0 || probe == 0 && cmd.Flags().Changed("probe") {
				return usage(fmt.Errorf("--probe %d: it takes at least one shard; leave it out for no probe", probe))
			}
			if workers.process {
				if err := a.functions(ctx); err != nil {
					return err
				}
			}
			ws, r, err := a.asked(ctx, &f, args[0])
			if err != nil {
				return err
			}
			r.Functions = workers.process
			if r.Window != nil {
				a.say("window   %s", r.Window)
			}
			a.say("run      %s", r.Run)
			r.Promote, r.Probe = local.Promotes(promote, approval, r.Spec), probe
			defer workers.limit()()
			return a.drive(ctx, ws, r.Run, func(opts local.RunOptions) (local.Outcome, error) {
				workers.set(&opts)
				return ws.Start(ctx, r, opts)
			})
		},
	}
	f.add(cmd)
	cmd.PreRunE = countsGiven
	workers.add(cmd)
	cmd.Flags().Int64Var(&f.lapRows, "lap-rows", 0, "end a worker's lap after so many rows and go on from its checkpoint (default: no laps)")
	cmd.Flags().BoolVar(&promote, "promote", false, "promote when the checks pass")
	cmd.Flags().BoolVar(&approval, "approval", false, "when the checks pass, wait for: hindcast approve RUN; promote then")
	cmd.Flags().IntVar(&probe, "probe", 0, "compute so many shards, check what they came to, and wait for: hindcast approve RUN; compute the rest then")
	cmd.Flags().StringVar(&f.why, "why", "", "why, for the record")
	return cmd
}

func (a *app) resumeCmd() *cobra.Command {
	var workers workersFlags
	cmd := &cobra.Command{
		Use:     "resume RUN",
		Short:   "Go on with a run that was paused or interrupted, or has failed; finished shards are not redone",
		Example: "  hindcast resume 20111210-090000-daily-country-revenue-1f2e3d4c",
		Args:    exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := workers.check(&a.opts); err != nil {
				return err
			}
			ws, err := a.open()
			if err != nil {
				return err
			}
			r, err := ws.Env.Request(ctx, args[0])
			if err != nil {
				return err
			}
			control, err := ws.Env.Control(ctx, args[0])
			if err != nil {
				return err
			}
			if _, paused := control.Paused(); paused {
				if _, err := ws.Env.Ask(ctx, args[0], step.Change{By: local.By(), Paused: new(bool)}); err != nil {
					return err
				}
				if ws.Running(args[0]) {
					s, err := ws.Status(ctx, args[0])
					if err != nil {
						return err
					}
					return a.print(s, func(w io.Writer) { fmt.Fprintf(w, "%s: goes on where it was paused\n", s.Run) })
				}
			}
			return a.goOn(ctx, ws, r, &workers, ws.Resume)
		},
	}
	workers.add(cmd)
	return cmd
}

func (a *app) redriveCmd() *cobra.Command {
	var workers workersFlags
	var why string
	cmd := &cobra.Command{
		Use:   "redrive RUN",
		Short: "Run again what failed of a run, once its cause is repaired: exactly the shards that are not done, and what comes after",
		Long: `Shards that fail keep no others from being done, as long as they are not more than one in twenty; then the run ends, failed. When the input is
repaired (the same bytes again: the plan has pinned them), redrive computes what is left, in the same execution, as AWS Step Functions redrives one. What was
computed by other code is not joined: after a correction of the code, start a new run.`,
		Example: "  hindcast redrive 20111210-090000-daily-country-revenue-1f2e3d4c --why \"the segment is restored\"",
		Args:    exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := workers.check(&a.opts); err != nil {
				return err
			}
			ws, err := a.open()
			if err != nil {
				return err
			}
			s, err := ws.Status(ctx, args[0])
			if err != nil {
				return err
			}
			r, err := ws.Env.Request(ctx, args[0])
			if err != nil {
				return err
			}
			switch {
			case s.Running:
				return fmt.Errorf("run %s: %w: see how it goes on with: %s", s.Run, local.ErrRunning, a.command("status", s.Run))
			case s.Phase == local.Quarantined:
				return &coded{exitChecks, fmt.Errorf("run %s: a check failed, of what all shards came to: there is nothing to redrive; start a new run: %s", s.Run, a.command(again(s)...))}
			case s.Phase != local.Aborted && s.Failure == "":
				return usage(fmt.Errorf("run %s has not failed, it is %s: there is nothing to redrive; see: %s", s.Run, phase(s), a.command("status", s.Run)))
			}
			return a.goOn(ctx, ws, r, &workers, func(ctx context.Context, run string, opts local.RunOptions) (local.Outcome, error) {
				if err := ws.Env.Resumable(ctx, run); err != nil {
					return local.Outcome{}, err
				}
				if _, err := ws.Env.Ask(ctx, run, step.Change{By: local.By(), Why: why, Redrive: true}); err != nil {
					return local.Outcome{}, err
				}
				return ws.Redrive(ctx, run, opts)
			})
		},
	}
	workers.add(cmd)
	cmd.Flags().StringVar(&why, "why", "", "why, for the record")
	return cmd
}

// goOn drives a run that was begun before, by the workers that it began with.
func (a *app) goOn(ctx context.Context, ws *local.Workspace, r step.Request, workers *workersFlags,
	do func(context.Context, string, local.RunOptions) (local.Outcome, error),
) error {
	if workers.process && !r.Functions {
		return usage(fmt.Errorf("run %s began with workers in this process, and goes on with these: leave out --workers %s", r.Run, processes))
	}
	if workers.process = r.Functions; workers.process {
		if err := a.functions(ctx); err != nil {
			return err
		}
	}
	defer workers.limit()()
	return a.drive(ctx, ws, r.Run, func(opts local.RunOptions) (local.Outcome, error) {
		workers.set(&opts)
		return do(ctx, r.Run, opts)
	})
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

// workersFlags say what computes shards: so many goroutines of this process, or so many processes of the functions that are deployed.
type workersFlags struct {
	text    string
	n       int
	process bool
	timeout time.Duration
	memory  int64 // MiB
}

const processes = "process"

// minWorkerMemory is in MiB: what a worker reads and writes takes about half of it.
const minWorkerMemory = 128

func (f *workersFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.text, "workers", strconv.Itoa(local.DefaultWorkers),
		`shards computed at once: N, or "process" or "process:N" for workers that are the Lambda functions' own binaries, under their limits`)
	cmd.Flags().Int64Var(&f.memory, "worker-memory", 0, "MiB that each worker may take; what it must remember beyond that goes to temporary files (default: no limit)")
	cmd.Flags().DurationVar(&f.timeout, "worker-timeout", 0, "with --workers process: the most that a call of a worker takes (default: as template.yaml says)")
}

// check refuses flags that go against one another, and puts what is the workspace's of them into opts.
func (f *workersFlags) check(opts *local.Options) (err error) {
	count := f.text
	if rest, ok := strings.CutPrefix(f.text, processes); ok {
		f.process = true
		if count, ok = strings.CutPrefix(rest, ":"); !ok && rest == "" {
			count = strconv.Itoa(local.DefaultWorkers)
		}
	}
	if f.n, err = strconv.Atoi(count); err != nil || f.n < 1 {
		return usage(fmt.Errorf("--workers %s: it takes a number from 1 on, %q, or %q and a number; see hindcast run --help", f.text, processes, processes+":"))
	}
	if f.timeout < 0 || f.timeout > lambda.MaxTimeout {
		return usage(fmt.Errorf("--worker-timeout %s: a call takes at most %s", f.timeout, lambda.MaxTimeout))
	}
	if f.memory != 0 && (f.memory < minWorkerMemory || f.memory > 1<<24) {
		return usage(fmt.Errorf("--worker-memory %d: a worker needs at least %d MiB; leave it out for no limit", f.memory, minWorkerMemory))
	}
	if f.memory != 0 && f.process {
		return usage(fmt.Errorf("--worker-memory with --workers %s: a function's memory is what template.yaml says", f.text))
	}
	opts.WorkerMemory = cmp.Or(unit.Bytes(f.memory<<20), opts.WorkerMemory)
	return nil
}

// limit has the collector keep to what the workers may take: without a limit it lets garbage grow with what is in use. The result undoes that.
func (f *workersFlags) limit() func() {
	if f.memory == 0 {
		return func() {}
	}
	before := debug.SetMemoryLimit(f.memory << 20 * int64(f.n))
	return func() { debug.SetMemoryLimit(before) }
}

func (f *workersFlags) set(opts *local.RunOptions) { opts.Workers, opts.Timeout = f.n, f.timeout }

// functions has what runs from now on run as Lambda functions.
func (a *app) functions(ctx context.Context) error {
	ws, err := a.open()
	if err != nil {
		return err
	}
	a.say("building the functions")
	return ws.UseFunctions(ctx)
}

// aborted is the error that a run ends with that was given up.
func aborted(s local.Status) error {
	return &step.Error{Name: step.Aborted, Err: &serve.DecidedError{Decision: *s.Decision}}
}

// quarantined is the error that a run ends with of which a check failed.
func (a *app) quarantined(s local.Status) error {
	return &coded{exitChecks, fmt.Errorf("a check failed: the pointer was not moved; see: %s", a.command("status", s.Run))}
}

// drive runs or resumes a run under a progress display, and tells how it ended.
func (a *app) drive(ctx context.Context, ws *local.Workspace, run string, do func(local.RunOptions) (local.Outcome, error)) error {
	p := newProgress(a.IO, true)
	ws.Env.Waiting = p.waiting
	out, err := do(local.RunOptions{Watch: func(u local.Update) {
		p.update(u)
		if u.Question {
			a.tellQuestion(ctx, ws, run, p)
		}
	}})
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
		return aborted(s)
	case out.Status == asl.Succeeded:
		return nil
	case s.Phase == local.Quarantined:
		return a.quarantined(s)
	case out.Failure != nil:
		return out.Failure
	default:
		return &step.Error{Name: step.Failed, Err: errors.New(cmp.Or(s.Failure, out.Error+": "+out.Cause))}
	}
}
