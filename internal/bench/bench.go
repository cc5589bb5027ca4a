package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What can be measured against.
const (
	duckDB     = "duckdb"
	otherBuild = "hindcast"
	inPolars   = "polars"
)

var peers = []string{duckDB, otherBuild, inPolars}

// missing are peers that were asked for, and why there is no measuring against them.
var missing = map[string]string{
	"spark":           "its jobs are not written: they need a JVM and PySpark",
	"confluent-kafka": "it needs a broker with the log in it, which is not made here",
}

// bench has what the measurements share. It writes talk to standard error.
type bench struct {
	*options
	self, hindcast, duckdb string // binaries
	scratch                string // of results; removed at the end
}

func newBench(ctx context.Context, o *options) (*bench, error) {
	b := &bench{options: o}
	var err error
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.data, 0o755); err != nil {
		return nil, err
	}
	// Beside the segments, and so on a disk, as a workspace is.
	if b.scratch, err = os.MkdirTemp(o.data, "results-*"); err != nil {
		return nil, err
	}
	b.say("building the product and DuckDB's runner")
	b.hindcast, b.duckdb = filepath.Join(b.scratch, "hindcast"), filepath.Join(b.scratch, "duck")
	for _, build := range []struct{ binary, pkg string }{{b.hindcast, "./hindcast"}, {b.duckdb, "./duck"}} {
		if _, _, err := (command{args: []string{"go", "build", "-o", build.binary, build.pkg}}).run(ctx); err != nil {
			b.close()
			return nil, fmt.Errorf("build (the working directory must be internal/bench): %w", err)
		}
	}
	return b, nil
}

func (b *bench) close() { os.RemoveAll(b.scratch) }

func (b *bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// duck is DuckDB, as tuned as it can be for the statements.
func (b *bench) duck(sql string) command {
	args := []string{b.duckdb, "-threads", strconv.Itoa(b.threads), "-temp", filepath.Join(b.scratch, "spilled")}
	if b.memory != "" {
		args = append(args, "-memory", b.memory)
	}
	return command{args: args, stdin: sql}
}

// result is one side's run of a case: what it took, and a query over the rows that it made.
type result struct {
	usage
	rows string
	dir  string
}

// side runs a case over a log once, with what it makes in the new folder out.
type side func(ctx context.Context, c measured, log, out string) (result, error)

// product runs the job through the whole state machine, in a workspace of its own, and promotes it.
func (b *bench) product(binary string) side { return b.productAt(binary, nil) }

// productAt is product with more of an environment.
func (b *bench) productAt(binary string, env []string) side {
	return func(ctx context.Context, c measured, log, out string) (result, error) {
		args := []string{binary, "run", c.Job, "--promote", "--json", "--workspace", out, "--workers", strconv.Itoa(b.workers)}
		if !c.Whole {
			args = append(args, "--from", windowFrom.Format(time.RFC3339), "--to", windowTo.Format(time.RFC3339))
		}
		run := command{dir: log, env: append([]string{"GOMAXPROCS=" + strconv.Itoa(b.threads)}, env...), args: append(args, b.runFlags...)}
		u, _, err := run.run(ctx)
		if err != nil {
			return result{}, err
		}
		files := command{dir: log, env: env, args: []string{binary, "table", "files", c.Job, "--as", "duckdb", "--json", "--workspace", out}}
		_, text, err := files.run(ctx)
		if err != nil {
			return result{}, err
		}
		var served struct{ Query string }
		if err := json.Unmarshal(text, &served); err != nil {
			return result{}, fmt.Errorf("read what is served: %w", err)
		}
		return result{u, strings.TrimSuffix(strings.TrimSpace(served.Query), ";"), out}, nil
	}
}

func (b *bench) peer() side {
	switch b.options.peer {
	case otherBuild:
		return b.product(b.against)
	case inPolars:
		return b.made(func(c measured, log, out string) (command, error) {
			script, err := filepath.Abs("python/polars_jobs.py")
			args := []string{b.python, script, c.Name, pattern(log), out, windowFrom.Format(time.RFC3339), windowTo.Format(time.RFC3339)}
			return command{args: args, env: []string{"POLARS_MAX_THREADS=" + strconv.Itoa(b.threads)}}, err
		})
	default:
		return b.made(func(c measured, log, out string) (command, error) {
			sql, err := query(c.SQL, pattern(log), out)
			return b.duck(sql), err
		})
	}
}

// made is a side that leaves Parquet files in out and below.
func (b *bench) made(by func(c measured, log, out string) (command, error)) side {
	return func(ctx context.Context, c measured, log, out string) (result, error) {
		run, err := by(c, log, out)
		if err != nil {
			return result{}, err
		}
		if err := os.MkdirAll(out, 0o755); err != nil {
			return result{}, err
		}
		u, _, err := run.run(ctx)
		return result{u, fmt.Sprintf("SELECT * FROM read_parquet('%s/**/*.parquet', hive_partitioning = false)", out), out}, err
	}
}

// ready fails where a peer cannot be run.
func (b *bench) ready(ctx context.Context) error {
	if b.options.peer != inPolars {
		return nil
	}
	if _, _, err := (command{args: []string{b.python, "-c", "import polars"}}).run(ctx); err != nil {
		return fmt.Errorf("--peer %s needs Python with Polars: pip install polars==2.1.0, or name one that has it by --python: %w", inPolars, err)
	}
	return nil
}

// pairs runs both sides in turn, after a first run of either that is not counted, and whose results are compared row by row.
func (b *bench) pairs(ctx context.Context, c measured, written string, report *report) error {
	log, err := b.folder(ctx, written)
	if err != nil {
		return err
	}
	ours, theirs := b.product(b.hindcast), b.peer()
	l := &line{Case: c.Name, Written: written, Peer: b.options.peer}
	if b.options.peer == duckDB && b.memory == "" {
		l.Least, l.Aim = c.Bars[written].least, c.Bars[written].aim
	}
	if l.Read, err = b.rowsRead(ctx, c, log); err != nil {
		return err
	}
	for i := range b.options.pairs + 1 {
		p := pair{Load: load()}
		digests := [2]digest{}
		var made [2]result
		for j, side := range []side{ours, theirs} {
			if made[j], err = side(ctx, c, log, filepath.Join(b.scratch, strconv.Itoa(j))); err != nil {
				return err
			}
			if digests[j], err = b.digest(ctx, c, made[j].rows); err != nil {
				return err
			}
		}
		p.Ours, p.Theirs = made[0].usage, made[1].usage
		if digests[0] != digests[1] || i > 0 && digests[0] != l.Result {
			return fmt.Errorf("the results differ, so there is no ratio: %+v here, %+v there, %+v at first", digests[0], digests[1], l.Result)
		}
		if i == 0 {
			l.Result = digests[0]
			if err := b.equal(ctx, c, made[0].rows, made[1].rows); err != nil {
				return err
			}
			b.say("%s over segments written by %s: equal: %d rows, sum of %s %s", c.Name, written, l.Result.Rows, c.Sum, l.Result.Sum)
		} else {
			b.say("  pair %d: %s", i, p)
			l.Pairs = append(l.Pairs, p)
		}
		for _, m := range made {
			if err := os.RemoveAll(m.dir); err != nil {
				return err
			}
		}
	}
	report.Lines = append(report.Lines, l)
	return nil
}

// load is the machine's one-minute load average before a pair: above the number of its processors, others were at work as well.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}
