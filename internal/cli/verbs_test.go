package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/parquetfile"
	"hindcast/internal/table"
	"hindcast/internal/testenv"
)

// keysOf are the fields of a JSON object, or of the first in a list.
func keysOf(t *testing.T, r result) []string {
	t.Helper()
	var doc any
	decode(t, r, &doc)
	if list, ok := doc.([]any); ok {
		if len(list) == 0 {
			t.Fatalf("an empty list:\n%s", r.out)
		}
		doc = list[0]
	}
	object, ok := doc.(map[string]any)
	if !ok {
		t.Fatalf("no object:\n%s", r.out)
	}
	return slices.Sorted(maps.Keys(object))
}

// TestEveryVerbPrintsJSON holds the fields that scripts rely on: one JSON document on standard output, and no talk among it.
func TestEveryVerbPrintsJSON(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	window := []string{"--from", threeFrom, "--to", threeTo}
	const swap = "op repeated run served version"
	const status = "account at by done job phase plan preflight run running shards verdict warnings window"
	for _, c := range []struct {
		args   []string
		fields string
	}{
		{[]string{"jobs"}, "folder job spec"},
		{append([]string{"plan", "visits"}, window...), "amplification base bytes digest ignored job listed partitions preflight pruned_bytes pruned_rows read_bytes read_rows requests row_groups " +
			"rows segments shards slots tail_records warnings window"},
		{append([]string{"run", "visits", "--why", "because"}, window...), status + " why"},
		{[]string{"runs"}, status + " decision version"},
		{[]string{"status", a.early}, status},
		{[]string{"resume", a.early}, status},
		{[]string{"promote", a.early, "--why", "right"}, swap},
		{[]string{"status", a.early}, "decision version " + status},
		{[]string{"rollback", a.early}, swap},
		{[]string{"abort", a.late, "--why", "wrong"}, "at by format kind run why"},
		{[]string{"status", a.late}, "decision " + status},
		{[]string{"table", "commit", "seen", "day=2024-05-09:", "--name", "live-1", "--parent", "3", "--code", "v1", "--why", "late"}, swap},
		{[]string{"table", "log", "seen"}, "at by candidate dataset generation nonce op parent provenance run why"},
		{[]string{"table", "files", "seen"}, "bytes max_key min_key partition path rows sha256"},
		{[]string{"table", "files", "seen", "--as", "duckdb"}, "as query"},
		{[]string{"table", "files", "seen", "--as", "spark", "--version", "1"}, "as query"},
		{[]string{"table", "cat", "seen", "--version", "4"}, "amount at day id shop"},
	} {
		r := a.do(t, append(c.args, "--json")...).ok(t)
		if slices.Contains(c.args, "cat") { // an object a row, and a row a line
			r.out, _, _ = strings.Cut(r.out, "\n")
		}
		want := strings.Fields(c.fields)
		slices.Sort(want)
		if got := keysOf(t, r); !slices.Equal(got, want) {
			t.Errorf("%v has the fields\n%v, expected\n%v", c.args, got, want)
		}
	}

	empty := filepath.Join(t.TempDir(), "ws")
	if r := hindcastWith(t, a.list, "runs", "--json", "--workspace", empty).ok(t); strings.TrimSpace(r.out) != "[]" {
		t.Errorf("the runs of an empty workspace are %q", r.out)
	}
}

// TestErrorsAreJSONToo has each code but those that need a fault.
func TestErrorsAreJSONToo(t *testing.T) {
	t.Parallel()
	l := threeDays(t)
	good := l.twoTables()
	bad := withCanaries(t, good, "table,day,shop,visits\nsums,2024-05-02,shop-1,9\n")
	ws := filepath.Join(t.TempDir(), "ws")
	quarantined := runOf(t, threeRun(t, bad, ws).exits(t, exitChecks))
	proven := threeRun(t, good, ws, "--json").ok(t).status(t).Run
	for _, c := range []struct {
		code  int
		args  []string
		phase local.Phase // of the run that was not what it should be, where there is one
	}{
		{exitError, []string{"table", "cat", "seen"}, ""},
		{exitUsage, []string{"status", "nosuch"}, ""},
		{exitUsage, []string{"plan", "visits"}, ""},
		{exitUsage, []string{"run", "nosuch"}, ""},
		{exitUsage, []string{"promote"}, ""},
		{exitUsage, []string{"table", "cat", "seen", "--format", "xml"}, ""},
		{exitRefused, []string{"plan", "visits", "--from", threeFrom, "--to", threeTo}, ""},
		{exitRefused, []string{"run", "visits", "--from", threeFrom, "--to", threeTo}, local.Planning},
		{exitChecks, []string{"promote", quarantined}, ""},
		{exitChecks, []string{"resume", quarantined}, local.Quarantined},
		{exitConflict, []string{"rollback", proven}, ""},
	} {
		if c.code == exitRefused {
			if err := os.Truncate(l.segmentFile(0, 0), 100); err != nil {
				t.Fatal(err)
			}
		}
		r := hindcastWith(t, []job.Job{bad}, append(c.args, "--json", "--workspace", ws)...).exits(t, c.code)
		f := failed{Data: &local.Status{}}
		decode(t, r, &f)
		if f.Exit != c.code || f.Error == "" || !strings.Contains(r.err, f.Error) {
			t.Errorf("%v: %+v; standard error has:\n%s", c.args, f, r.err)
		}
		if s, ok := f.Data.(*local.Status); !ok || s.Phase != c.phase {
			t.Errorf("%v: the data is %+v", c.args, f.Data)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	l := threeDays(t)
	l.tail(threeVisits(0, 36, 37)...)
	list := []job.Job{l.twoTables()}
	ws := filepath.Join(t.TempDir(), "ws")
	window := []string{"--from", threeFrom, "--to", threeTo}
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"bogus"}, []string{`no command "bogus"`, "hindcast --help"}},
		{[]string{"tabel"}, []string{`no command "tabel"`, "did you mean table?"}},
		{[]string{"jobs", "visits"}, []string{"jobs takes 0 argument", "hindcast jobs --help"}},
		{[]string{"runs", "x"}, []string{"runs takes 0 argument"}},
		{[]string{"demo", "x"}, []string{"demo takes 0 argument"}},
		{[]string{"plan"}, []string{"plan takes 1 argument(s) [JOB], not 0", "hindcast plan --help"}},
		{[]string{"run", "visits", "visits"}, []string{"run takes 1 argument(s) [JOB], not 2"}},
		{[]string{"status"}, []string{"status takes 1 argument(s) [RUN], not 0"}},
		{[]string{"resume"}, []string{"resume takes 1 argument(s) [RUN], not 0"}},
		{[]string{"promote"}, []string{"promote takes 1 argument(s) [RUN], not 0"}},
		{[]string{"rollback", "a", "b"}, []string{"rollback takes 1 argument(s) [RUN], not 2"}},
		{[]string{"abort"}, []string{"abort takes 1 argument(s) [RUN], not 0"}},
		{[]string{"table"}, []string{"log, cat, files and commit"}},
		{[]string{"table", "show"}, []string{"log, cat, files and commit, not show"}},
		{[]string{"table", "cat"}, []string{"table cat takes 1 argument(s) [TABLE], not 0", "hindcast table cat --help"}},
		{[]string{"plan", "visits", "--form", "2024-05-01"}, []string{"unknown flag: --form", "hindcast plan --help"}},
		{[]string{"run", "visits", "--workers", "two"}, []string{"--workers", "hindcast run --help"}},
		{[]string{"plan", "visit", "--from", threeFrom, "--to", threeTo}, []string{`no job "visit"`, "jobs are visits"}},
		{[]string{"run", "visit"}, []string{`no job "visit"`, "jobs are visits"}},
		{[]string{"table", "cat", "saw"}, []string{`no job writes a table "saw"`, "tables are seen, sums"}},
		{[]string{"table", "log", "saw"}, []string{"tables are seen, sums"}},
		{[]string{"table", "files", "saw"}, []string{"tables are seen, sums"}},
		{[]string{"status", "nosuch"}, []string{"there is no run nosuch", "hindcast runs"}},
		{[]string{"resume", "nosuch"}, []string{"there is no run nosuch", "hindcast runs"}},
		{[]string{"promote", "nosuch"}, []string{"there is no run nosuch", "hindcast runs"}},
		{[]string{"rollback", "nosuch"}, []string{"there is no run nosuch", "hindcast runs"}},
		{[]string{"abort", "nosuch"}, []string{"there is no run nosuch", "hindcast runs"}},
		{[]string{"status", "../../etc"}, []string{"cannot name a run"}},
		{[]string{"abort", ""}, []string{"cannot name a run"}},
		{[]string{"plan", "visits"}, []string{"no window was given", "--from and --to"}},
		{[]string{"plan", "visits", "--from", threeFrom}, []string{"--from and --to belong together"}},
		{[]string{"plan", "visits", "--from", threeTo, "--to", threeFrom}, []string{"swap --from and --to"}},
		{[]string{"plan", "visits", "--from", "2024-05-01T00:00:00", "--to", threeTo}, []string{"does not say in which zone"}},
		{[]string{"plan", "visits", "--from", "2024-05-01T06:00:00Z", "--to", threeTo}, []string{"2024-05-01T00:00:00Z", "--align expand"}},
		{append([]string{"plan", "visits", "--last", "24h"}, window...), []string{"--last"}},
		{append([]string{"plan", "visits", "--as-of", "2024-05-03T00:00:00Z"}, window...), []string{"2024-05-03T00:00:00Z"}},
		{append([]string{"run", "visits", "--accept-gap", "x"}, window...), []string{`"x" is not a gap`, "2:12-40"}},
		{append([]string{"run", "visits", "--align", "sideways"}, window...), []string{"--align", "expand"}},
		{append([]string{"run", "visits", "--shard-rows", "-1"}, window...), []string{"-1", "shard"}},
		{append([]string{"run", "visits", "--lap-rows", "-1"}, window...), []string{"-1", "lap"}},
		{append([]string{"run", "visits", "--workers", "-1"}, window...), []string{"-1", "worker"}},
		{append([]string{"run", "visits", "--workers", "0"}, window...), []string{"0", "worker"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			hindcastWith(t, list, append(c.args, "--workspace", ws)...).exits(t, exitUsage).has(t, c.says...)
			if _, err := os.Stat(ws); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something was begun: %v", err)
			}
		})
	}
	hindcastWith(t, list, "jobs", "--workspace", "s3://bucket/ws").ok(t)
	hindcastWith(t, list, "runs", "--workspace", "s3://bucket/ws").exits(t, exitUsage).has(t, "workspaces in object storage")
}

func TestHelpOfEveryVerb(t *testing.T) {
	t.Parallel()
	root := hindcast(t, "--help").ok(t).out
	readme, err := os.ReadFile(filepath.Join(testenv.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for code := range 8 {
		if !strings.Contains(root, fmt.Sprintf("\n  %d  ", code)) || !strings.Contains(string(readme), fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("the exit code %d is not told by both --help and the README", code)
		}
	}
	for _, verb := range []string{
		"demo", "jobs", "plan", "run", "runs", "status", "resume", "abort", "promote", "rollback", "table log", "table cat", "table files", "table commit",
		"source inspect",
	} {
		r := hindcast(t, append(strings.Fields(verb), "--help")...).ok(t).has(t, "Usage:\n  hindcast "+verb, "Examples:\n  hindcast "+verb, "--json", "--workspace", "exit codes")
		if !strings.Contains(root, strings.Fields(verb)[0]) || r.err != "" {
			t.Errorf("%s is not told by hindcast --help, or talks: %q", verb, r.err)
		}
	}
}

// cells reads CSV.
func cells(t *testing.T, text string) [][]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// jsonCells reads lines of JSON objects: the names of their members in order, and the values as CSV has them.
func jsonCells(t *testing.T, text string) (rows [][]string) {
	t.Helper()
	for line := range strings.Lines(text) {
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		var names, values []string
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		for d.More() {
			for _, to := range []*[]string{&names, &values} {
				token, err := d.Token()
				if err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				if token == nil {
					token = ""
				}
				*to = append(*to, fmt.Sprint(token))
			}
		}
		if rows == nil {
			rows = append(rows, names)
		}
		if !slices.Equal(rows[0], names) {
			t.Fatalf("members %v, then %v", rows[0], names)
		}
		rows = append(rows, values)
	}
	return rows
}

func parquetCells(t *testing.T, data []byte) (rows [][]string) {
	t.Helper()
	f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), "cat.parquet")
	if err != nil {
		t.Fatal(err)
	}
	rows = append(rows, f.Columns())
	for r := f.Read(parquetfile.ReadOptions{}); ; {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Len {
			var row []string
			for c := range b.Columns {
				row = append(row, table.Text(&b.Columns[c], i))
			}
			rows = append(rows, row)
		}
	}
}

func TestCatInEveryFormat(t *testing.T) {
	t.Parallel()
	l := newSmallLog(t)
	// Among them names that each format must take care of.
	l.segment(inOrder(0, 0, append(threeVisits(0, 0, 36),
		rec{ID: `a "quoted", id`, At: "2024-05-03T22:00:00.123Z", Shop: "line\nbreak", Amount: -1 << 63},
		rec{ID: "ünï<&>\u2028", At: "2024-05-03T23:59:59.999Z", Shop: "", Amount: 1<<63 - 1},
	)...)...)
	windowed := l.job(smallJob{Tables: map[string]string{"by-hour": "hour Asia/Kolkata", "by-day": "day Asia/Kolkata", "sum-day": "day Asia/Kolkata"}})
	whole := changedJob(t, l.job(smallJob{Tables: map[string]string{"by-shop": "bucket shop 4", "by-month": "month UTC"}}),
		map[string]string{"job: visits": "job: whole", "dataset: visits": "dataset: whole"}, job.Outputs{"by-shop": adding(), "by-month": placing()})
	list := []job.Job{windowed, whole}
	ws := filepath.Join(t.TempDir(), "ws")
	hindcastWith(t, list, "run", "visits", "--from", "2024-05-02", "--to", "2024-05-04", "--promote", "--workspace", ws).ok(t)
	hindcastWith(t, list, "run", "whole", "--promote", "--workspace", ws).ok(t)
	for name, columns := range map[string]string{
		"by-hour": "hour id at shop amount", "by-day": "day id at shop amount", "sum-day": "day shop visits amount", "by-month": "month id at shop amount", "by-shop": "shop visits amount",
	} {
		cat := func(args ...string) string {
			return hindcastWith(t, list, append([]string{"table", "cat", name, "--workspace", ws}, args...)...).ok(t).out
		}
		rows := cells(t, cat())
		if got := strings.Join(rows[0], " "); got != columns || len(rows) < 4 {
			t.Errorf("%s: %d rows of %q, expected %q", name, len(rows), got, columns)
		}
		for format, got := range map[string][][]string{
			"json": jsonCells(t, cat("--format", "json")), "--json": jsonCells(t, cat("--json")), "parquet": parquetCells(t, []byte(cat("--format", "parquet"))),
			"csv, though --json": cells(t, cat("--json", "--format", "csv")),
		} {
			if !slices.EqualFunc(got, rows, slices.Equal) {
				t.Errorf("%s as %s is\n%q\nas csv\n%q", name, format, got, rows)
			}
		}
		// Ordered by partition, then key; buckets are no column.
		keyed := slices.Clone(rows[1:])
		if columns[0] != 's' && !slices.IsSortedFunc(keyed, func(a, b []string) int { return slices.Compare(a[:2], b[:2]) }) {
			t.Errorf("%s is not sorted: %q", name, keyed)
		}
	}
}

var quotedPath = regexp.MustCompile(`['"](/[^'"]+\.parquet)['"]`)

func TestQueriesNameExactlyTheServedFiles(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	a.do(t, "promote", a.early).ok(t)
	for _, version := range []string{"1", "2"} {
		var files []table.Served
		decode(t, a.do(t, "table", "files", "seen", "--version", version, "--json").ok(t), &files)
		var want []string
		for _, f := range files {
			if info, err := os.Stat(f.Path); err != nil || info.Size() != int64(f.Bytes) {
				t.Errorf("%s: %v", f.Path, err)
			}
			want = append(want, f.Path)
		}
		for dialect, words := range map[string][]string{
			"duckdb": {"SELECT * FROM read_parquet([", "hive_partitioning = false", "-- version " + version + " of seen: 3 files"},
			"spark":  {"spark.read.parquet(", "# version " + version + " of seen: 3 files"},
		} {
			r := a.do(t, "table", "files", "seen", "--version", version, "--as", dialect).ok(t).has(t, words...)
			var got []string
			for _, m := range quotedPath.FindAllStringSubmatch(r.out, -1) {
				got = append(got, m[1])
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s names\n%q\nserved are\n%q", dialect, got, want)
			}
			var doc struct{ As, Query string }
			decode(t, a.do(t, "table", "files", "seen", "--version", version, "--as", dialect, "--json").ok(t), &doc)
			if doc.As != dialect || doc.Query != r.out {
				t.Errorf("%q, as JSON %q", r.out, doc.Query)
			}
		}
	}
	a.do(t, "table", "files", "seen", "--as", "athena").exits(t, exitUsage).has(t, "athena reads s3://", a.ws)
	a.do(t, "table", "files", "seen", "--as", "mysql").exits(t, exitUsage).has(t, `"mysql"`, "duckdb, athena and spark")
	a.do(t, "table", "files", "seen", "--version", "3").exits(t, exitUsage).has(t, "there is no version 3", "versions 1 to 2")
	a.do(t, "table", "cat", "seen", "--version", "-1").exits(t, exitUsage).has(t, "--version -1: versions count from 1")
}
