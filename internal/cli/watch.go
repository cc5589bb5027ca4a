package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"hindcast/internal/local"
)

func (a *app) watchCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "watch RUN",
		Short: "Show live how a run goes on, from any terminal; ends as the run ends, with its exit code",
		Long: `It reads the workspace, and nothing else, twice a second. In a pipe it prints a line a change, with --json a JSON object a change. Shards in
flight and failed are those of the round that goes on. The rate is that of the last half minute.`,
		Example: "  hindcast watch 20111210-090000-daily-country-revenue-1f2e3d4c",
		Args:    exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			ws, err := a.open()
			if err != nil {
				return err
			}
			if _, err := ws.Env.Request(ctx, args[0]); err != nil {
				return err
			}
			show := a.watchShow()
			for v, err := range ws.Watch(ctx, args[0]) {
				if err == nil {
					err = show(v)
				}
				if err != nil {
					return err
				}
			}
			return a.watched(ctx, ws, args[0])
		},
	}
}

// watched is the error that a run that nobody drives any more has ended with.
func (a *app) watched(ctx context.Context, ws *local.Workspace, run string) error {
	s, err := ws.Status(ctx, run)
	if err != nil {
		return err
	}
	if !a.json {
		fmt.Fprintf(a.Out, "%s\n", phase(s))
	}
	failed, err := ws.Failure(run)
	switch {
	case err != nil:
		return err
	case s.Phase == local.Aborted:
		return aborted(s)
	case s.Phase == local.Quarantined:
		return a.quarantined(s)
	case s.Phase == local.Promoted || s.Phase == local.RolledBack:
		return nil
	case failed != nil:
		return failed
	case s.Phase == local.Proven && s.Waits == nil:
		return nil
	}
	return &coded{exitAgain, fmt.Errorf("no process of this machine drives run %s, and it has not ended: go on with: %s", run, a.command("resume", run))}
}

// rowsEvery is how often, where lines are printed, one is for no other change than that rows were read.
const rowsEvery = 10 * time.Second

// watchShow gives what shows a view: drawn over the one before on a terminal; else where something has changed.
func (a *app) watchShow() func(local.View) error {
	if a.Width != nil && !a.json {
		drawn := 0
		return func(v local.View) error {
			text := drawView(v, a.Width())
			up := ""
			if drawn > 0 {
				up = fmt.Sprintf("\x1b[%dA\x1b[J", drawn) // back to the first line, and clear from there
			}
			drawn = strings.Count(text, "\n")
			_, err := io.WriteString(a.Out, up+text)
			return err
		}
	}
	before, rows, at := "", int64(-1), time.Time{}
	return func(v local.View) error {
		bare := v
		bare.Rows, bare.RowsPerSecond, bare.Left = 0, 0, 0
		b, err := json.Marshal(bare)
		if err != nil {
			return err
		}
		if string(b) == before && (v.Rows == rows || time.Since(at) < rowsEvery) {
			return nil
		}
		before, rows, at = string(b), v.Rows, time.Now()
		if a.json {
			return json.NewEncoder(a.Out).Encode(v)
		}
		_, err = fmt.Fprintln(a.Out, lineOfView(v))
		return err
	}
}

// lineOfView tells a view in a line.
func lineOfView(v local.View) string {
	parts := []string{v.State}
	if v.State == "" {
		parts[0] = "not begun"
	}
	if v.Shards > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d shards done", v.Done, v.Shards))
	}
	if v.InFlight > 0 {
		parts = append(parts, fmt.Sprintf("%d in flight", v.InFlight))
	}
	if v.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", v.Failed))
	}
	if r := rateOf(v); r != "" {
		parts = append(parts, r)
	}
	if v.Waits != nil {
		parts = append(parts, fmt.Sprintf("waits for approval of the %s", v.Waits.For))
	}
	if v.Asked != "" {
		parts = append(parts, "asked: "+v.Asked)
	}
	if n := len(v.Errors); n > 0 {
		parts = append(parts, fmt.Sprintf("calls that failed: %d, the last with: %s", v.Attempts, oneLine(v.Errors[n-1])))
	}
	return strings.Join(parts, "; ")
}

func rateOf(v local.View) string {
	if v.RowsPerSecond == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f records a second, about %s left", v.RowsPerSecond, time.Duration(v.Left)*time.Second)
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

// barWidth is in characters.
const barWidth = 16

// drawView draws a view for a terminal of a width. A line that the terminal would break is cut: it could not be drawn over.
func drawView(v local.View, width int) string {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, oneLine(fmt.Sprintf(format, args...)))
	}
	row("run", "%s", v.Run)
	driven := ""
	if !v.Running {
		driven = " (no process of this machine drives it)"
	}
	row("state", "%s%s", v.State, driven)
	if v.Shards > 0 {
		full := v.Done * barWidth / v.Shards
		row("shards", "[%s%s] %d of %d done, %d in flight, %d failed", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), v.Done, v.Shards, v.InFlight, v.Failed)
		row("records", "%d of about %d", v.Rows, v.RowsTotal)
	}
	if r := rateOf(v); r != "" {
		row("rate", "%s", r)
	}
	if v.Waits != nil {
		row("waits", "for approval of the %s, since %s", v.Waits.For, v.Waits.Since.Format(time.RFC3339))
	}
	if v.Asked != "" {
		row("asked", "%s", v.Asked)
	}
	for i, e := range v.Errors {
		name := ""
		if i == 0 {
			name = fmt.Sprintf("failed (%d)", v.Attempts)
		}
		row(name, "%s", e)
	}
	t.Flush()
	var cut strings.Builder
	for line := range strings.Lines(text.String()) {
		if r := []rune(line); len(r) > width {
			line = string(r[:max(width-2, 0)]) + "…\n"
		}
		cut.WriteString(line)
	}
	return cut.String()
}
