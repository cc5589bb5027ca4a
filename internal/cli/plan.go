package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"hindcast/internal/local"
	"hindcast/internal/plan"
	"hindcast/internal/preflight"
	"hindcast/internal/spec"
	"hindcast/internal/step"
)

// runFlags are the flags that say what a run computes, shared by plan and run.
type runFlags struct {
	window    spec.WindowFlags
	gaps      []string
	accept    []string
	noPrune   bool
	shardRows int64
	lapRows   int64
	why       string
}

func (f *runFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.window.From, "from", "", "start of the window: RFC 3339, or a date of the output's zone, as 2011-11-01")
	fl.StringVar(&f.window.To, "to", "", "end of the window, not included")
	fl.StringVar(&f.window.Last, "last", "", "the window of this length before now or --as-of, as PT6H or 21d")
	fl.StringVar(&f.window.AsOf, "as-of", "", "the instant that counts as now, in RFC 3339")
	fl.StringVar(&f.window.Zone, "zone", "", "zone of dates without one, where the output has none, as Europe/London")
	fl.StringVar(&f.window.Align, "align", "", `"expand" widens a window that cuts a partition`)
	fl.StringArrayVar(&f.gaps, "accept-gap", nil, "accept missing offsets, as PARTITION:FIRST-NEXT; may be repeated")
	fl.StringArrayVar(&f.accept, "accept", nil, "accept what the preflight finds of the log, by name, as compacted,retention; may be repeated")
	fl.BoolVar(&f.noPrune, "no-prune", false, "read everything: trust no statistics of the segments")
	fl.Int64Var(&f.shardRows, "shard-rows", 0, fmt.Sprintf("rows at which a shard takes no further partition (default %d)", plan.DefaultShardRows))
}

// request turns the flags into what a run is asked to do.
func (f *runFlags) request(ctx context.Context, ws *local.Workspace, name string) (step.Request, []string, error) {
	j, s, err := ws.Env.Job(name)
	if err != nil {
		return step.Request{}, nil, usage(err)
	}
	now := ws.Env.Now().UTC()
	w, notes, err := spec.ParseWindow(f.window, now, s.Outputs)
	if err != nil {
		return step.Request{}, nil, usage(err)
	}
	asOf, err := f.window.AsOfInstant(now, s.Outputs)
	if err != nil {
		return step.Request{}, nil, usage(err)
	}
	if f.shardRows < 0 || f.lapRows < 0 {
		return step.Request{}, nil, usage(fmt.Errorf("--shard-rows %d, --lap-rows %d: a shard and a lap have at least one row", f.shardRows, f.lapRows))
	}
	var gaps []plan.Gap
	for _, arg := range f.gaps {
		g, err := plan.ParseGap(arg)
		if err != nil {
			return step.Request{}, nil, usage(err)
		}
		gaps = append(gaps, g)
	}
	accept, err := preflight.ParseRules(f.accept)
	if err != nil {
		return step.Request{}, nil, usage(fmt.Errorf("--accept: %w", err))
	}
	r, err := ws.Env.NewRequest(j, s, local.NewRunID(s.Job, now), now)
	if err != nil {
		return step.Request{}, nil, err
	}
	r.Window, r.AsOf = w, asOf
	r.Accept, r.AcceptGaps, r.NoPrune, r.ShardRows, r.LapRows = accept, gaps, f.noPrune, f.shardRows, f.lapRows
	r.By, r.Why = local.By(), f.why
	return r, notes, ctx.Err()
}

// asked opens the workspace and makes the request for a job, telling what was decided for the user.
func (a *app) asked(ctx context.Context, f *runFlags, name string) (*local.Workspace, step.Request, error) {
	ws, err := a.open()
	if err != nil {
		return nil, step.Request{}, err
	}
	r, notes, err := f.request(ctx, ws, name)
	for _, n := range notes {
		a.say("%s", n)
	}
	return ws, r, err
}

func (a *app) planCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "plan JOB",
		Short: "Show what a run would read and compute, without side effects",
		Example: `  hindcast plan daily-country-revenue --from 2011-11-01 --to 2011-11-22
  hindcast plan account-balance`,
		Args: exactly("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			ws, r, err := a.asked(ctx, &f, args[0])
			if err != nil {
				return err
			}
			p, refused := ws.Env.Preview(ctx, r)
			if p.Plan == nil {
				return refused
			}
			sum, err := p.Summary()
			if err == nil {
				err = a.print(sum, func(w io.Writer) { printSummary(w, sum) })
			}
			return errors.Join(refused, err)
		},
	}
	f.add(cmd)
	cmd.PreRunE = countsGiven
	return cmd
}

// printPlanLines tells a plan in a few lines.
func printPlanLines(w io.Writer, s step.Summary) {
	if st := s.Stored; st == nil {
		fmt.Fprintf(w, "reads    %d segments, %d rows, %s; %d records of the tail from the brokers, once\n",
			s.Segments, s.ReadRows-s.TailRecords, s.ReadBytes, s.TailRecords)
	} else {
		fmt.Fprintf(w, "captures %d records of %s in tiered storage, %s; %d records of the tail from the brokers, once\n",
			st.Records, segments(st.Segments), st.Bytes, s.TailRecords)
	}
	fmt.Fprintf(w, "pruned   %d rows, %s: provably outside the window\n", s.PrunedRows, s.PrunedBytes)
	shards := "1 shard"
	if s.Shards != 1 {
		shards = fmt.Sprintf("%d shards", s.Shards)
	}
	grow := ""
	if s.SlotsMayGrow {
		grow = ", and those that only the tail has,"
	}
	fmt.Fprintf(w, "writes   %d partitions%s in %s; each row is read %.2f times; about %s on one worker\n",
		s.Slots, grow, shards, s.Amplification, estimate(s))
	for i, d := range s.Divided {
		if i == 5 {
			fmt.Fprintf(w, "         and %d partitions more, likewise\n", len(s.Divided)-i)
			break
		}
		how := fmt.Sprintf("%d stretches of the log, computed beside each other and merged", d.Workers)
		if d.ByKey {
			how = fmt.Sprintf("%d shares of its keys, each of which reads all of it, since not every transform says how parts are merged", d.Workers)
		}
		fmt.Fprintf(w, "divides  %s of %s, %d rows, in %s\n", d.Slot, strings.Join(d.Tables, " and "), d.Rows, how)
	}
}

// dash writes offsets, and a dash for none.
func dash(rs plan.Ranges) string {
	return cmp.Or(rs.String(), "-")
}

func estimate(s step.Summary) time.Duration {
	return time.Duration(preflight.Estimate(s.Captured(), s.ReadRows)) * time.Microsecond
}

func printWarnings(w io.Writer, warnings []string) {
	for _, n := range warnings {
		fmt.Fprintf(w, "warning: %s\n", n)
	}
}

func printSummary(w io.Writer, s step.Summary) {
	fmt.Fprintf(w, "job      %s\n", s.Job)
	if s.Window != nil {
		fmt.Fprintf(w, "window   %s\n", s.Window)
	} else {
		fmt.Fprintln(w, "window   the whole log")
	}
	if s.Base != nil {
		fmt.Fprintf(w, "base     version %d\n", s.Base.Generation)
	} else {
		fmt.Fprintln(w, "base     none: the dataset has no version yet")
	}
	printPlanLines(w, s)
	fmt.Fprintf(w, "costs    %s; about %d requests to read\n", listingCost(s.Listed), s.Requests)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if s.Stored == nil {
		fmt.Fprintln(t, "\nPARTITION\tREAD RANGE\tSEGMENTS\tROWS\tTAIL")
	} else {
		fmt.Fprintln(t, "\nPARTITION\tREAD RANGE\tTIERED\tTAIL")
	}
	for _, p := range s.Partitions {
		if s.Stored == nil {
			fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%s\n", p.Partition, dash(p.Read), p.Segments, p.Rows, dash(p.Tail))
		} else {
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", p.Partition, dash(p.Read), dash(p.Stored), dash(p.Tail))
		}
	}
	t.Flush()
	if s.Ignored > 0 {
		fmt.Fprintf(w, "ignored  %d objects among the segments that are none by their names, as _SUCCESS and .crc\n", s.Ignored)
	}
	printPreflight(w, s.Preflight, true)
	printWarnings(w, s.Warnings)
	fmt.Fprintf(w, "digest   %s\n", s.Digest)
}
