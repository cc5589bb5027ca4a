package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"hindcast/internal/local"
	"hindcast/internal/serve"
)

func (a *app) promoteCmd() *cobra.Command {
	return a.swapCmd("promote RUN", "Serve a run's proven candidate: one compare-and-swap of the pointer",
		func(ctx context.Context, ws *local.Workspace, run, why string) (serve.Result, error) {
			return ws.Env.PromoteRun(ctx, run, local.By(), why, true)
		})
}

func (a *app) rollbackCmd() *cobra.Command {
	return a.swapCmd("rollback RUN", "Take a run's partitions back out; what others committed since stays",
		func(ctx context.Context, ws *local.Workspace, run, why string) (serve.Result, error) {
			return ws.Env.RollBack(ctx, run, local.By(), why)
		})
}

// swapped is what a move of the pointer came to.
type swapped struct {
	Run      string `json:"run"`
	Op       string `json:"op"`
	Version  int64  `json:"version"`
	Repeated bool   `json:"repeated"` // it had been made before
	Served   int64  `json:"served"`
}

func (a *app) swapped(run string, res serve.Result) error {
	s := swapped{run, string(res.Commit.Op), res.Version.Generation, res.Repeated, res.Served.Generation}
	return a.print(s, func(w io.Writer) {
		already := ""
		if s.Repeated {
			already = " already"
		}
		fmt.Fprintf(w, "%s: %s made version %d%s; version %d is served\n", s.Run, s.Op, s.Version, already, s.Served)
	})
}

func (a *app) swapCmd(use, short string, do func(context.Context, *local.Workspace, string, string) (serve.Result, error)) *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: "  hindcast " + strings.Replace(use, "RUN", "20111210-090000-daily-country-revenue-1f2e3d4c", 1),
		Args:    exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ws, err := a.open()
			if err != nil {
				return err
			}
			res, err := do(cmd.Context(), ws, args[0], why)
			if err != nil {
				return err
			}
			return a.swapped(args[0], res)
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "why, for the record")
	return cmd
}

func (a *app) abortCmd() *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:     "abort RUN",
		Short:   "Give a run up: nothing promotes it any more, and it ends if it runs",
		Example: `  hindcast abort 20111210-090000-daily-country-revenue-1f2e3d4c --why "wrong window"`,
		Args:    exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ws, err := a.open()
			if err != nil {
				return err
			}
			d, err := ws.Env.Abort(cmd.Context(), args[0], local.By(), why)
			if err != nil {
				return err
			}
			return a.print(d, func(w io.Writer) { fmt.Fprintf(w, "%s: aborted\n", d.Run) })
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "why, for the record")
	return cmd
}
