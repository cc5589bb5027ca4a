package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/archive"
	"hindcast/internal/job"
	"hindcast/internal/testenv"
	"hindcast/jobs"
)

func reported(t *testing.T, r result) archive.Report {
	t.Helper()
	var out archive.Report
	if err := json.Unmarshal([]byte(r.out), &out); err != nil {
		t.Fatalf("%v in:\n%s", err, r.out)
	}
	return out
}

// The archived tail of the sample, beside its exports, is input enough without a broker: a run gives the same rows as with one.
func TestARunFromAnArchivedTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	to := filepath.Join(dir, "archive")
	args := []string{"archive", "retail.invoice-lines", "--job", "daily-country-revenue", "--to", to, "--records-per-segment", "1000", "--json", "--workspace", ws}
	if r := reported(t, hindcast(t, args...).ok(t)); r.Records != 9110 || r.Segments != 11 {
		t.Errorf("archived %+v", r)
	}
	if r := reported(t, hindcast(t, args...).ok(t)); r.Records != 0 || r.Partitions[2].Next != 142394 {
		t.Errorf("archived again %+v", r)
	}

	// The exports and the archive in one folder, which knows no partition of the log but these.
	both := filepath.Join(dir, "both")
	for _, from := range []string{filepath.Join(testenv.Root(t), "samples", "retail", "topics"), filepath.Join(to, "topics")} {
		if err := os.CopyFS(filepath.Join(both, "topics"), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	i := slices.IndexFunc(jobs.All(), func(j job.Job) bool { return j.Folder() == "daily-country-revenue" })
	offline := []job.Job{changedJob(t, jobs.All()[i], map[string]string{
		"segments: { parquet: samples/retail, naming: kafka-connect, sums: samples/retail/SHA256SUMS }": "segments: { parquet: " + both + ", naming: kafka-connect }",
		"  tail: { brokers: \"embedded:samples/retail/tail.jsonl.zst\", value: json }\n":                "",
	}, nil)}
	window := []string{"--from", "2011-11-20", "--to", "2011-12-10", "--promote", "--workspace"}
	run := append([]string{"run", "daily-country-revenue"}, window...)
	hindcastWith(t, offline, append(run, ws)...).ok(t)
	live := filepath.Join(dir, "live")
	hindcast(t, append(run, live)...).ok(t)
	same(t, strings.Join(lines(tableRows(t, offline, ws, "daily-country-revenue")), "\n"), strings.Join(lines(tableRows(t, jobs.All(), live, "daily-country-revenue")), "\n"))
}

// A raw archive of a topic is all that a job needs: its values are decoded when they are read, and what the archive proves to be no record is no gap.
func TestARunFromARawArchive(t *testing.T) {
	t.Parallel()
	b := newBrokered(t, map[string]string{"retention.ms": "-1"})
	to := filepath.Join(b.dir, "archive")
	addr := b.cluster.ListenAddrs()[0]
	ws := filepath.Join(b.dir, "ws")
	call := func(args ...string) result {
		t.Helper()
		return hindcast(t, append([]string{"archive", smallTopic, "--brokers", addr, "--to", to, "--workspace", ws}, args...)...)
	}
	first := call().ok(t)
	if !strings.Contains(first.out, "copied   6 records into 1 segments") || !strings.Contains(first.out, "0          0-6       0-6         6        1\n") {
		t.Errorf("it says\n%s", first.out)
	}
	b.abort(rec{ID: "never", At: "2024-05-02T12:00:00Z"}) // offset 6, and the marker
	b.produce(rec{ID: "g", At: "2024-05-03T12:00:00Z"})   // offset 8
	if r := reported(t, call("--json").ok(t)); r.Partitions[0].Next != 9 || r.Records != 1 {
		t.Errorf("archived %+v", r)
	}
	j := b.smallLog.job(smallJob{Tables: map[string]string{"seen": "day UTC"}})
	raw := []job.Job{changedJob(t, j, map[string]string{
		"segments: { parquet: \"" + b.dir + "\", naming: kafka-connect }": "segments: { parquet: \"" + to + "\", naming: kafka-connect, value: { column: value, format: json } }",
	}, nil)}
	if out := b.do(raw, "plan").ok(t).out; !strings.Contains(out, "0-9") {
		t.Errorf("the plan says\n%s", out)
	}
	b.do(raw, "run", "--promote").ok(t)
	var ids []string
	for _, row := range tableRows(t, raw, ws, "seen")[1:] {
		ids = append(ids, row[1])
	}
	if want := []string{"a", "b", "c", "d", "e", "f", "g"}; !slices.Equal(ids, want) {
		t.Errorf("the table has %v, want %v", ids, want)
	}
}

func TestArchiveRefuses(t *testing.T) {
	t.Parallel()
	b := newBrokered(t, nil)
	to := filepath.Join(b.dir, "archive")
	call := func(args ...string) result {
		t.Helper()
		return hindcast(t, append([]string{"archive", smallTopic, "--workspace", filepath.Join(b.dir, "ws")}, args...)...)
	}
	addr := b.cluster.ListenAddrs()[0]
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--to", to}, "no brokers: name them with --brokers"},
		{[]string{"--brokers", addr}, "--to is missing"},
		{[]string{"--brokers", addr, "--to", to, "--raw"}, "--raw says what to keep with --job"},
		{[]string{"--brokers", addr, "--to", to, "--records-per-segment", "0"}, "it takes at least one record"},
		{[]string{"--brokers", addr, "--to", to, "--from-offsets", "latest"}, "--from-offsets latest: write earliest, or"},
		{[]string{"--brokers", addr, "--to", to, "--from-offsets", "7:1"}, "topic visits has 1 partitions, so none numbered 7"},
		{[]string{"--to", to, "--job", "daily-country-revenue"}, "job daily-country-revenue reads the topic retail.invoice-lines, not visits"},
		{[]string{"--brokers", addr, "--to", to, "--job", "nothing"}, `there is no job "nothing"`},
	} {
		call(c.args...).exits(t, exitUsage).has(t, c.says)
	}
	if _, err := os.Stat(filepath.Join(to, "topics")); err == nil {
		t.Error("something was written")
	}
	// What was lost between two calls is named, and nothing is copied behind it.
	call("--brokers", addr, "--to", to).ok(t)
	b.produce(b.recs...)
	if err := b.cluster.DeleteRecords(smallTopic, 0, 9); err != nil {
		t.Fatal(err)
	}
	call("--brokers", addr, "--to", to).exits(t, exitRefused).has(t, "the archive ends at offset 6", "the offsets 6-9 were deleted before they were archived")
}
