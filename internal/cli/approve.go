package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"hindcast/internal/local"
	"hindcast/internal/step"
)

func (a *app) approveCmd() *cobra.Command {
	return a.answerCmd(&cobra.Command{
		Use:   "approve RUN",
		Short: "Let a run go on that waits for a person: after its probe, or before it promotes its candidate",
		Long: `A run that was begun with --probe waits when the probe's shards are checked; then the other shards are computed. One with --approval, or of a job
with promote: approval, waits when its candidate is proven; then that is promoted.`,
		Example: `  hindcast approve 20111210-090000-daily-country-revenue-1f2e3d4c --why "the probe's figures are right"`,
	}, func(ws *local.Workspace, cmd *cobra.Command, s local.Status, why string) error {
		_, err := ws.Env.Ask(cmd.Context(), s.Run, step.Change{By: local.By(), Why: why, Approve: s.Waits.For})
		return err
	})
}

func (a *app) rejectCmd() *cobra.Command {
	return a.answerCmd(&cobra.Command{
		Use:     "reject RUN",
		Short:   "End a run that waits for a person: nothing promotes it any more",
		Example: `  hindcast reject 20111210-090000-daily-country-revenue-1f2e3d4c --why "revenue of the 9th is still wrong"`,
	}, func(ws *local.Workspace, cmd *cobra.Command, s local.Status, why string) error {
		_, err := ws.Env.Reject(cmd.Context(), s.Run, step.Change{By: local.By(), Why: why, Reject: s.Waits.For})
		return err
	})
}

// answerCmd completes a verb that answers what a run waits for.
func (a *app) answerCmd(cmd *cobra.Command, answer func(*local.Workspace, *cobra.Command, local.Status, string) error) *cobra.Command {
	var why string
	cmd.Args = exactly("RUN")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ws, err := a.open()
		if err != nil {
			return err
		}
		s, err := ws.Status(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if s.Waits == nil {
			return usage(fmt.Errorf("run %s waits for no approval, it is %s; see: %s", s.Run, phase(s), a.command("status", s.Run)))
		}
		if err := answer(ws, cmd, s, why); err != nil {
			return err
		}
		if s, err = ws.Status(cmd.Context(), args[0]); err != nil {
			return err
		}
		return a.print(s, func(w io.Writer) {
			fmt.Fprintf(w, "%s: %s\n", s.Run, local.Asked(step.Control{Changes: s.Asked}))
			if !s.Running && s.Phase != local.Aborted {
				fmt.Fprintf(w, "no process of this machine drives it now: go on with: %s\n", a.command("resume", s.Run))
			}
		})
	}
	cmd.Flags().StringVar(&why, "why", "", "why, for the record")
	return cmd
}

// tellQuestion tells that a run waits for a person, with all that there is to decide by.
func (a *app) tellQuestion(ctx context.Context, ws *local.Workspace, run string, p *progress) {
	s, err := ws.Status(ctx, run)
	if err != nil || s.Waits == nil {
		return // the run itself tells what is wrong; status has the rest
	}
	var text strings.Builder
	fmt.Fprintf(&text, "waiting  for a person to approve the %s\n", s.Waits.For)
	switch {
	case s.Verdict != nil:
		printVerdict(&text, *s.Verdict)
	case s.Probe != nil:
		printProbe(&text, *s.Probe)
	}
	a.printWaits(&text, s)
	p.tell(text.String())
}

// printWaits says what a run waits for, and how to answer.
func (a *app) printWaits(w io.Writer, s local.Status) {
	fmt.Fprintf(w, "next: %s\n  or: %s\n", a.command("approve", s.Run), a.command("reject", s.Run))
}

// printProbe shows what a probe came to.
func printProbe(w io.Writer, p step.Probed) {
	fmt.Fprintf(w, "probe: %d of %d shards, %d rows accounted for\n", len(p.Shards), p.Of, p.Rows)
	printVerdict(w, p.Verdict)
}
