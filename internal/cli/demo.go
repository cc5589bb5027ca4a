package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hindcast/internal/check"
	"hindcast/internal/local"
	"hindcast/internal/record"
	"hindcast/internal/serve"
	"hindcast/internal/spec"
	"hindcast/internal/step"
	"hindcast/internal/table"
)

// The story that the demo tells: see samples/retail.
const (
	demoTable = "daily-country-revenue"
	demoJob   = "daily-country-revenue"
	demoBuggy = "daily-country-revenue-buggy"

	demoBegin, demoEnd = "2010-12-01", "2011-12-10" // the whole log, in London days
	demoFrom, demoTo   = "2011-11-01", "2011-11-22" // the three bad weeks
)

func (a *app) demoCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "demo",
		Short:   "Correct three bad weeks of a real retailer: plan, run, promote, roll back",
		Example: "  hindcast demo\n  hindcast demo --workspace /tmp/demo",
		Long: `Plays a correction on a real retailer's year of invoice lines (samples/retail). Production counted
cancellations as sales for three weeks of November 2011. The demo leaves a workspace that all other verbs work on.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := os.Stat(a.workspace); err == nil {
				return usage(fmt.Errorf("there is a workspace in %s already: name another with --workspace, or remove it", a.workspace))
			}
			err := (&demo{app: a, ctx: cmd.Context()}).play()
			if errors.Is(err, context.Canceled) {
				return &coded{exitAgain, fmt.Errorf("interrupted; to play it again, remove %s, or name another workspace with --workspace", a.workspace)}
			}
			return err
		},
	}
}

type demo struct {
	*app
	ctx context.Context //nolint:containedctx // lives for one call of play
	ws  *local.Workspace
}

// tell tells the story: on standard output, unless JSON is wanted there.
func (d *demo) tell(format string, args ...any) { fmt.Fprintf(d.story(), format+"\n", args...) }

func (d *demo) story() io.Writer {
	if d.json {
		return d.Err
	}
	return d.Out
}

func (d *demo) play() (err error) {
	if d.ws, err = d.open(); err != nil {
		return err
	}
	d.tell("A retailer's year: 544,617 records of retail.invoice-lines, exported as Parquet but for the last days, which the broker has.")
	d.say("making version 1, what production served (the live job's whole year) ...")
	if err := d.production(); err != nil {
		return fmt.Errorf("make what production served: %w", err)
	}
	d.tell("From %s to 2011-11-21 the live job counted cancellations as sales. Version 1, which is served, says:", demoFrom)
	if err := d.figures(); err != nil {
		return err
	}

	flags := runFlags{window: spec.WindowFlags{From: demoFrom, To: demoTo}, why: "cancellations were counted as sales"}
	r, _, err := flags.request(d.ctx, d.ws, demoJob)
	if err != nil {
		return err
	}
	began := time.Now()
	p, err := d.ws.Env.Preview(d.ctx, r)
	if err != nil {
		return err
	}
	sum, err := p.Summary()
	if err != nil {
		return err
	}
	d.tell("\n$ hindcast plan %s --from %s --to %s", demoJob, demoFrom, demoTo)
	printPlanLines(d.story(), sum)

	d.tell("$ hindcast run %s --from %s --to %s", demoJob, demoFrom, demoTo)
	if err := d.run(d.ws, r); err != nil {
		return err
	}
	v, err := d.ws.Env.Verdict(d.ctx, r.Run)
	if err != nil {
		return err
	}
	d.tell("checks   %s", strings.Join(each(v.Results, func(c check.Result) string { return c.Check + " " + marks[c.Status] }), ", "))

	d.tell("$ hindcast promote %s", r.Run)
	if err := d.swap(func() (serve.Result, error) { return d.ws.Env.PromoteRun(d.ctx, r.Run, local.By(), flags.why, true) }); err != nil {
		return err
	}
	d.tell("From plan to promotion it took %.1f s. Served now:", time.Since(began).Seconds())
	if err := d.figures(); err != nil {
		return err
	}

	d.tell("$ hindcast rollback %s", r.Run)
	if err := d.swap(func() (serve.Result, error) { return d.ws.Env.RollBack(d.ctx, r.Run, local.By(), "to show it") }); err != nil {
		return err
	}
	d.tell("$ hindcast promote %s", r.Run)
	if err := d.swap(func() (serve.Result, error) {
		return d.ws.Env.PromoteRun(d.ctx, r.Run, local.By(), "forward again", true)
	}); err != nil {
		return err
	}
	if d.json {
		s, err := d.ws.Status(d.ctx, r.Run)
		if err != nil {
			return err
		}
		return d.print(s, nil)
	}
	where := ""
	if d.workspace != ".hindcast" {
		where = " --workspace " + d.workspace
	}
	d.tell("\nThe workspace is %s. Try next:", d.workspace)
	d.tell("  go run . table log %s%s", demoTable, where)
	d.tell("  go run . table cat %s --version 1%s", demoTable, where)
	d.tell("  go run . status %s%s", r.Run, where)
	d.tell("  go run . run account-balance --promote%s", where)
	return nil
}

func each[T any](list []T, f func(T) string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// swap tells what a move of the pointer came to.
func (d *demo) swap(do func() (serve.Result, error)) error {
	began := time.Now()
	res, err := do()
	if err == nil {
		d.tell("version %d is served; the swap took %d ms", res.Served.Generation, time.Since(began).Milliseconds())
	}
	return err
}

// run drives a run under a progress display, and asks for success.
func (d *demo) run(ws *local.Workspace, r step.Request) error {
	p := newProgress(d.IO, false)
	out, err := ws.Start(d.ctx, r, local.RunOptions{Watch: p.update})
	p.done(err != nil || out.Error != "")
	if err == nil && out.Failure != nil {
		err = out.Failure
	}
	if err == nil && out.Error != "" {
		err = fmt.Errorf("%s: %s", out.Error, out.Cause)
	}
	return err
}

// production makes version 1 as a live writer would have: the right job's days, but the buggy one's for the bad weeks.
func (d *demo) production() error {
	dir, err := os.MkdirTemp("", "hindcast-demo-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	live, err := local.Open(dir, d.opts)
	if err != nil {
		return err
	}
	defer live.Close()
	partitions := map[string]step.Rows{}
	for _, part := range []struct{ job, from, to string }{{demoJob, demoBegin, demoEnd}, {demoBuggy, demoFrom, demoTo}} {
		flags := runFlags{window: spec.WindowFlags{From: part.from, To: part.to}}
		r, _, err := flags.request(d.ctx, live, part.job)
		if err != nil {
			return err
		}
		if err := d.run(live, r); err != nil {
			return err
		}
		snap, err := live.Env.Candidate(d.ctx, r.Run)
		if err != nil {
			return err
		}
		t, err := snap.Table(demoTable)
		if err != nil {
			return err
		}
		for _, name := range t.Order() {
			partitions[name] = d.rows(snap, name)
		}
	}
	_, err = d.ws.Env.Commit(d.ctx, step.LiveCommit{
		Table: demoTable, Name: "live-job", Code: "live-job-v1", Request: serve.Request{By: "live-job", At: d.ws.Env.Now(), Why: "what production served"},
	}, partitions)
	return err
}

// rows are a partition's, without the partition's column.
func (d *demo) rows(snap *table.Snapshot, partition string) iter.Seq2[*record.Batch, error] {
	return func(yield func(*record.Batch, error) bool) {
		stop := errors.New("enough")
		err := snap.ScanPartition(d.ctx, demoTable, partition, table.ScanOptions{}, func(b *record.Batch) error {
			c := *b
			c.Columns = c.Columns[1:]
			if !yield(&c, nil) {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(nil, err)
		}
	}
}

// figures tells what is served of the three weeks: a day of the main country, and the sum.
func (d *demo) figures() error {
	snap, _, err := d.snapshot(d.ctx, demoTable, 0)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := table.Cat(d.ctx, snap, demoTable, &b, table.CSV); err != nil {
		return err
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		return err
	}
	col := map[string]int{}
	for i, name := range rows[0] {
		col[name] = i
	}
	var total int64
	for _, r := range rows[1:] {
		day := r[col["day"]]
		if day < demoFrom || day >= demoTo {
			continue
		}
		net, err := strconv.ParseInt(r[col["net_mills"]], 10, 64)
		if err != nil {
			return err
		}
		total += net
		if r[col["country"]] == "United Kingdom" && day == "2011-11-18" {
			refunds, err := strconv.ParseInt(r[col["refunds_mills"]], 10, 64)
			if err != nil {
				return err
			}
			d.tell("  %s  United Kingdom  refunds %12s  net %15s", day, pounds(refunds), pounds(net))
		}
	}
	d.tell("  all 21 days, all countries                          net %15s", pounds(total))
	return nil
}

// pounds writes mills as pounds with two decimals and thousands apart.
func pounds(mills int64) string {
	s := fmt.Sprintf("%03d", (mills+5)/10)
	whole, pence := s[:len(s)-2], s[len(s)-2:]
	var b strings.Builder
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return "£" + b.String() + "." + pence
}
