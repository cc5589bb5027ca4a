package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"hindcast/internal/local"
	"hindcast/internal/step"
)

func (a *app) pauseCmd() *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:   "pause RUN",
		Short: "Have a run stand still: no shard begins, and workers store their state; resume goes on",
		Long: `Workers look once a second what is asked of the run. One that is at work stores its state and reads no more. The process
that drives the run goes on to wait, so that resume lets it go on at once; it can be stopped, too.`,
		Example: `  hindcast pause 20111210-090000-daily-country-revenue-1f2e3d4c --why "the store is slow"`,
		Args:    exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			paused := true
			return a.ask(cmd, args[0], step.Change{Why: why, Paused: &paused})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "why, for the record")
	return cmd
}

func (a *app) throttleCmd() *cobra.Command {
	var ch step.Change
	var concurrency int
	var rate int64
	cmd := &cobra.Command{
		Use:   "throttle RUN",
		Short: "Change, while a run goes on, how many shards are computed at once and how fast records are read",
		Long: `With less concurrency, workers of shards that are too many store their state, and go on when others are done. The rate is that of all workers together; brokers are
not read by workers, but once, before. 0 takes a limit back.`,
		Example: `  hindcast throttle 20111210-090000-daily-country-revenue-1f2e3d4c --concurrency 1
  hindcast throttle 20111210-090000-daily-country-revenue-1f2e3d4c --records-per-second 100000`,
		Args: exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("concurrency") {
				ch.Concurrency = &concurrency
			}
			if cmd.Flags().Changed("records-per-second") {
				ch.RecordsPerSecond = &rate
			}
			switch {
			case ch.Concurrency == nil && ch.RecordsPerSecond == nil:
				return usage(errors.New("throttle: say --concurrency, --records-per-second, or both"))
			case concurrency < 0 || rate < 0:
				return usage(errors.New("throttle: a limit is a number from 1 on, or 0 for none"))
			}
			return a.ask(cmd, args[0], ch)
		},
	}
	cmd.Flags().IntVar(&concurrency, "concurrency", 0, "shards computed at once; 0: as the run was started")
	cmd.Flags().Int64Var(&rate, "records-per-second", 0, "records that all workers together read in a second; 0: no limit")
	cmd.Flags().StringVar(&ch.Why, "why", "", "why, for the record")
	return cmd
}

// ask records what is asked of a run. It is obeyed within seconds by a run that goes on, and by others when they do.
func (a *app) ask(cmd *cobra.Command, run string, ch step.Change) error {
	ws, err := a.open()
	if err != nil {
		return err
	}
	s, err := ws.Status(cmd.Context(), run)
	if err != nil {
		return err
	}
	switch s.Phase {
	case local.Planning, local.Capturing, local.Computing, local.Validating, local.Aborted: // Ask refuses one that was given up
	default:
		return usage(fmt.Errorf("run %s has ended, %s: there is nothing left to control", run, phase(s)))
	}
	ch.By = local.By()
	c, err := ws.Env.Ask(cmd.Context(), run, ch)
	if err != nil {
		return err
	}
	if s, err = ws.Status(cmd.Context(), run); err != nil {
		return err
	}
	return a.print(s, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s\n", run, local.Asked(c))
		if !s.Running {
			fmt.Fprintln(w, "no process of this machine drives it now: it holds when the run goes on")
		}
	})
}
