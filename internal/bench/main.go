// Command bench measures the product against others: whole processes over the same log, in alternating pairs, once their results are
// proven equal. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hindcast/internal/bench/generate"
)

// options are what the command line says.
type options struct {
	rows      int64
	pairs     int
	jobs      []string
	written   []string
	peer      string
	against   string
	python    string
	memory    string
	workers   int
	threads   int
	data      string
	asJSON    bool
	runFlags  []string
	onlyData  bool
	latency   time.Duration
	versitygw string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.onlyData {
		return generate.Write(filepath.Join(o.data, segments), o.rows)
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer b.close()
	report := newReport(o)
	for _, c := range cases {
		if !slices.Contains(o.jobs, c.Name) {
			continue
		}
		for _, w := range o.written {
			measure := b.pairs
			if o.latency > 0 {
				measure = b.late
			}
			if err := measure(ctx, c, w, report); err != nil {
				return fmt.Errorf("%s over segments written by %s: %w", c.Name, w, err)
			}
		}
	}
	return report.print(out, o.asJSON)
}

func parse(args []string) (*options, error) {
	o := &options{}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	var names []string
	for _, c := range cases {
		names = append(names, c.Name)
	}
	var jobs, written, runFlags string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.Int64Var(&o.rows, "rows", 20_000_000, "events of the log")
	f.IntVar(&o.pairs, "pairs", 7, "pairs of runs")
	f.StringVar(&jobs, "job", strings.Join(names, ","), "what to measure, separated by commas")
	f.StringVar(&written, "written-by", "hindcast", "whose writer made the segments: hindcast, duckdb, or both, separated by a comma")
	f.StringVar(&o.peer, "peer", duckDB, "what to measure against: "+strings.Join(peers, ", "))
	f.StringVar(&o.against, "against", "", "with --peer hindcast, the other binary, made by: go build -o BINARY ./hindcast")
	f.StringVar(&o.python, "python", "python3", "with --peer polars, the interpreter")
	f.StringVar(&o.memory, "memory-limit", "", "DuckDB's memory_limit, as 512MB")
	f.IntVar(&o.workers, "workers", 2, "of the product")
	f.IntVar(&o.threads, "threads", 2, "of either side: GOMAXPROCS, and DuckDB's threads")
	f.StringVar(&o.data, "data", filepath.Join(cache, "hindcast-bench"), "folder of the segments, which are made once")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.StringVar(&runFlags, "run-flags", "", "more flags of hindcast run, separated by spaces")
	f.DurationVar(&o.latency, "latency", 0, "as 30ms: compare with the same over an S3 server each of whose answers is so much later, in place of a peer")
	f.StringVar(&o.versitygw, "versitygw", "", "the S3 server's binary; empty: $HINDCAST_VERSITYGW, else what .ci/servers has built")
	f.BoolVar(&o.onlyData, "only-data", false, "make the segments in --data itself, and end: what the command calls itself for, since memory counts from the process that starts another")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%s is no flag; see --help", f.Arg(0))
	}
	o.jobs, o.written, o.runFlags = strings.Split(jobs, ","), strings.Split(written, ","), strings.Fields(runFlags)
	for _, name := range o.jobs {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--job %s: there are %s", name, strings.Join(names, ", "))
		}
	}
	for _, w := range o.written {
		if w != byHindcast && w != byDuckDB {
			return nil, fmt.Errorf("--written-by %s: there are %s and %s", w, byHindcast, byDuckDB)
		}
	}
	if why, ok := missing[o.peer]; ok {
		return nil, fmt.Errorf("--peer %s: %s", o.peer, why)
	}
	if !slices.Contains(peers, o.peer) {
		return nil, fmt.Errorf("--peer %s: there are %s", o.peer, strings.Join(peers, ", "))
	}
	if (o.peer == otherBuild) != (o.against != "") {
		return nil, fmt.Errorf("--peer %s and --against belong together", otherBuild)
	}
	if o.pairs < 1 || o.workers < 1 || o.threads < 1 || o.latency < 0 {
		return nil, errors.New("--pairs, --workers and --threads are at least 1, --latency is not negative")
	}
	if o.data, err = filepath.Abs(o.data); err != nil {
		return nil, err
	}
	return o, nil
}
