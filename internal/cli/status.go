package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"hindcast/internal/check"
	"hindcast/internal/local"
	"hindcast/internal/step"
	"hindcast/internal/transform"
)

func (a *app) runsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "runs",
		Short:   "List the workspace's runs",
		Example: "  hindcast runs",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ws, err := a.open()
			if err != nil {
				return err
			}
			list, err := ws.Runs(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(list, func(w io.Writer) {
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				defer t.Flush()
				fmt.Fprintln(t, "RUN\tPHASE\tSHARDS\tWINDOW")
				for _, s := range list {
					if s.Error != "" {
						fmt.Fprintf(t, "%s\t%s\t\t%s\n", s.Run, s.Phase, s.Error)
						continue
					}
					fmt.Fprintf(t, "%s\t%s\t%d/%d\t%s\n", s.Run, phase(s), s.Done, s.Shards, window(s))
				}
			})
		},
	}
}

func (a *app) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "status RUN",
		Short:   "Show how far a run has come, what became of its input, and what the checks said",
		Example: "  hindcast status 20111210-090000-daily-country-revenue-1f2e3d4c",
		Args:    exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ws, err := a.open()
			if err != nil {
				return err
			}
			s, err := ws.Status(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { a.printStatus(w, s) })
		},
	}
}

func phase(s local.Status) string {
	switch {
	case s.Waits != nil:
		return fmt.Sprintf("%s, waits for approval of the %s", s.Phase, s.Waits.For)
	case s.Running && s.Paused:
		return string(s.Phase) + ", paused"
	case s.Running:
		return string(s.Phase) + ", running"
	case s.Phase == local.Planning || s.Phase == local.Capturing || s.Phase == local.Computing || s.Phase == local.Validating:
		return string(s.Phase) + ", stopped"
	case s.Version != 0:
		return fmt.Sprintf("%s, version %d", s.Phase, s.Version)
	default:
		return string(s.Phase)
	}
}

func window(s local.Status) string {
	if s.Window == "" {
		return "the whole log"
	}
	return s.Window
}

func (a *app) printStatus(w io.Writer, s local.Status) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "run\t%s\n", s.Run)
	fmt.Fprintf(t, "job\t%s\n", s.Job)
	fmt.Fprintf(t, "window\t%s\n", window(s))
	fmt.Fprintf(t, "asked\tby %s at %s\n", s.By, s.At.Format(time.RFC3339))
	if s.Why != "" {
		fmt.Fprintf(t, "why\t%s\n", s.Why)
	}
	fmt.Fprintf(t, "phase\t%s\n", phase(s))
	if s.Shards > 0 {
		fmt.Fprintf(t, "shards\t%d of %d done\n", s.Done, s.Shards)
	}
	if asked := local.Asked(step.Control{Changes: s.Asked}); asked != "" {
		fmt.Fprintf(t, "asked for\t%s\n", asked)
	}
	if s.Failure != "" {
		fmt.Fprintf(t, "failed\t%s\n", strings.ReplaceAll(s.Failure, "\n", "\n\t"))
	}
	t.Flush()
	printPreflight(w, s.Preflight, false)
	printWarnings(w, s.Warnings)
	printAccount(w, s)
	switch {
	case s.Verdict != nil:
		printVerdict(w, *s.Verdict)
	case s.Probe != nil:
		printProbe(w, *s.Probe)
	}
	if s.Waits != nil && s.Moved == "" {
		a.printWaits(w, s)
		return
	}
	switch s.Phase {
	case local.Proven:
		if s.Moved != "" {
			fmt.Fprintf(w, "it can be promoted no more: %s\nnext: %s\n", s.Moved, a.command(again(s)...))
			return
		}
		fmt.Fprintf(w, "next: %s\n", a.command("promote", s.Run))
	case local.Promoted:
		fmt.Fprintf(w, "to undo: %s\n", a.command("rollback", s.Run))
	case local.RolledBack:
		fmt.Fprintf(w, "to serve it again: %s\n", a.command("promote", s.Run))
	case local.Planning, local.Capturing, local.Computing, local.Validating:
		switch {
		case s.Failure != "":
			fmt.Fprintf(w, "next: repair what failed, then: %s\n", a.command("redrive", s.Run))
		case !s.Running || s.Paused:
			fmt.Fprintf(w, "next: %s\n", a.command("resume", s.Run))
		}
	case local.Quarantined, local.Aborted:
		fmt.Fprintf(w, "it cannot be promoted; correct the cause and start a new run: %s\n", a.command(again(s)...))
	}
}

// again are the arguments of a new run for the same.
func again(s local.Status) []string {
	args := []string{"run", s.Job}
	if from, to, ok := strings.Cut(s.Window, "/"); ok {
		args = append(args, "--from", from, "--to", to)
	}
	return args
}

// printAccount shows what became of the read range, a line a table and origin; --json has it by topic partition.
func printAccount(w io.Writer, s local.Status) {
	if len(s.Account) == 0 {
		return
	}
	type key struct {
		table  string
		origin transform.Origin
	}
	sums := map[key]check.Account{}
	for _, a := range s.Account {
		k := key{a.Table, a.Origin}
		sums[k] = step.Total(sums[k], a)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "table\tread from\toffsets\tapplied\tfiltered\tduplicate\tstale\toutside\tdead\tskipped\t")
	for _, k := range slices.SortedFunc(maps.Keys(sums), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.origin, b.origin))
	}) {
		c := sums[k]
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n",
			k.table, k.origin, c.Offsets, c.Applied, c.Filtered, c.Duplicate, c.Stale, c.Outside, c.Dead+c.Conflict, c.Skipped)
	}
	t.Flush()
}

var marks = map[check.Status]string{check.OK: "ok", check.Warn: "WARN", check.Fail: "FAIL", check.NotApplicable: "n/a"}

func printVerdict(w io.Writer, v check.Verdict) {
	for _, r := range v.Results {
		fmt.Fprintf(w, "%-5s %-15s %s\n", marks[r.Status], r.Check, r.Summary)
		for _, f := range r.Findings {
			fmt.Fprintf(w, "      %s\n", f)
		}
		if more := r.Total - int64(len(r.Findings)); more > 0 {
			fmt.Fprintf(w, "      and %d more\n", more)
		}
		if r.Do != "" && r.Status != check.OK {
			fmt.Fprintf(w, "      do: %s\n", strings.TrimSpace(r.Do))
		}
	}
}
