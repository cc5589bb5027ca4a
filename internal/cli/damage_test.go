package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/table"
)

// The days of the logs that are damaged here: two topic partitions, three segments each, an event every two hours.
const (
	threeFrom, threeTo = "2024-05-01", "2024-05-04"
	threeSegment       = 12 // records
)

func threeVisits(partition int32, first, next int) []rec {
	start := time.Date(2024, 5, 1, 4, 0, 0, 0, time.UTC)
	var recs []rec
	for i := first; i < next; i++ {
		recs = append(recs, rec{
			ID: fmt.Sprintf("p%d-%02d", partition, i), At: start.Add(time.Duration(i) * 2 * time.Hour).Format(time.RFC3339),
			Shop: fmt.Sprintf("shop-%d", i%3), Amount: int64(i + 1),
		})
	}
	return inOrder(partition, int64(first), recs...)
}

func threeDays(t *testing.T) *smallLog {
	t.Helper()
	l := newSmallLog(t)
	for p := range int32(2) {
		for first := 0; first < 3*threeSegment; first += threeSegment {
			l.segment(threeVisits(p, first, first+threeSegment)...)
		}
	}
	return l
}

// twoTables is a job that shows every event and adds them up, by day.
func (l *smallLog) twoTables() job.Job {
	return l.job(smallJob{Tables: map[string]string{"seen": "day UTC", "sums": "day UTC"}})
}

// withSums has the job hold segments against a file of sums, which is made of what lies there now.
func (l *smallLog) withSums(j job.Job) job.Job {
	l.t.Helper()
	return changedJob(l.t, j, map[string]string{"naming: kafka-connect": "naming: kafka-connect, sums: " + writeSums(l.t, l.dir)}, nil)
}

func writeSums(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".parquet") {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(data), name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "SHA256SUMS")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// withCanaries adds a file of canaries to a job.
func withCanaries(t *testing.T, j job.Job, canaries string) job.Job {
	t.Helper()
	files := fstest.MapFS{"canaries.csv": {Data: []byte(canaries)}}
	for _, name := range []string{"job.yaml", "job.go"} {
		data, err := fs.ReadFile(j.Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "job.yaml" && !strings.Contains(string(data), "canaries:") {
			data = append(data, "checks: { canaries: canaries.csv }\n"...)
		}
		files[name] = &fstest.MapFile{Data: data}
	}
	return job.New(files, j.Outputs())
}

// threeRun runs a job over the three days in a workspace.
func threeRun(t *testing.T, j job.Job, ws string, args ...string) result {
	t.Helper()
	return hindcastWith(t, []job.Job{j}, append([]string{"run", "visits", "--from", threeFrom, "--to", threeTo, "--workspace", ws}, args...)...)
}

// hooked runs the command line with a function around every durable effect of every store.
func hooked(t *testing.T, list []job.Job, hook func(blob.Op) error, args ...string) result {
	t.Helper()
	return hindcastUnder(t, local.Options{Jobs: list, Embedded: true, Wrap: func(s blob.Store) blob.Store { return blob.Hook(s, hook) }}, args...)
}

// fileSums are the sums of the files that are served, by table and partition.
func fileSums(t *testing.T, list []job.Job, ws string, tables ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range tables {
		var files []table.Served
		decode(t, hindcastWith(t, list, "table", "files", name, "--json", "--workspace", ws).ok(t), &files)
		for _, f := range files {
			out[name+" "+f.Partition] += f.SHA256
		}
	}
	return out
}

// decode reads the one JSON document of standard output.
func decode(t *testing.T, r result, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(r.out))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil || d.More() {
		t.Fatalf("%v, more: %v, in:\n%s\nstderr:\n%s", err, d.More(), r.out, r.err)
	}
}

// historyOf are the operations of a table's history, oldest first; none if there is no version.
func historyOf(t *testing.T, list []job.Job, ws, name string) []string {
	t.Helper()
	r := hindcastWith(t, list, "table", "log", name, "--json", "--workspace", ws)
	if r.code != 0 && strings.Contains(r.err, "no version") {
		return nil
	}
	var commits []table.Commit
	decode(t, r.ok(t), &commits)
	slices.Reverse(commits)
	var ops []string
	for i, c := range commits {
		if c.Generation != int64(i+1) {
			t.Errorf("version %d stands in place %d", c.Generation, i+1)
		}
		ops = append(ops, string(c.Op))
	}
	return ops
}

func runOf(t *testing.T, r result) string {
	t.Helper()
	for line := range strings.Lines(r.err) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "run" {
			return f[1]
		}
	}
	t.Fatalf("no run is named in:\n%s", r.err)
	return ""
}

func TestAWrongCanaryKeepsTheCandidateOut(t *testing.T) {
	t.Parallel()
	l := threeDays(t)
	right := l.twoTables()
	ws := filepath.Join(t.TempDir(), "ws")
	list := []job.Job{right}
	threeRun(t, right, ws, "--promote").ok(t)
	was, rows := fileSums(t, list, ws, "seen", "sums"), tableRows(t, list, ws, "sums")

	for name, c := range map[string]struct {
		canaries string
		says     []string
	}{
		"a value":    {"table,day,shop,visits,amount\nsums,2024-05-02,shop-1,8,1\n", []string{"canaries.csv:2", "day=2024-05-02 shop=shop-1", "amount is 124, expected 1"}},
		"a row":      {"table,day,shop,visits\nsums,2024-05-02,shop-7,8\n", []string{"canaries.csv:2", "sums has no row with day=2024-05-02 shop=shop-7"}},
		"no table":   {"table,day,shop,visits\nsum,2024-05-02,shop-1,8\n", []string{"canaries.csv:2", `no table "sum"`, "Correct the canary file"}},
		"one of two": {"table,day,shop,visits\nsums,2024-05-02,shop-1,8\nsums,2024-05-03,shop-1,9\n", []string{"1 of 2 canaries are wrong", "canaries.csv:3"}},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := withCanaries(t, right, c.canaries)
			r := threeRun(t, wrong, ws, "--promote").exits(t, exitChecks).has(t, c.says...).has(t, "FAIL  canaries", "the pointer was not moved")
			run := runOf(t, r)
			for _, args := range [][]string{{"promote", run}, {"resume", run}} {
				hindcastWith(t, []job.Job{wrong}, append(args, "--workspace", ws)...).exits(t, exitChecks).has(t, "check")
			}
			hindcastWith(t, []job.Job{wrong}, "rollback", run, "--workspace", ws).exits(t, exitConflict).has(t, "never promoted")
			hindcastWith(t, list, "table", "cat", "sums", "--version", "2", "--workspace", ws).exits(t, exitUsage).has(t, "versions 1 to 1")
			if got := historyOf(t, list, ws, "sums"); !slices.Equal(got, []string{"promote"}) {
				t.Errorf("the history is %v", got)
			}
			if got := fileSums(t, list, ws, "seen", "sums"); !maps.Equal(got, was) {
				t.Errorf("other files are served: %v", got)
			}
			if got := tableRows(t, list, ws, "sums"); !slices.Equal(lines(got), lines(rows)) {
				t.Errorf("other rows are served: %v", got)
			}
			s := hindcastWith(t, list, "status", run, "--json", "--workspace", ws).ok(t).status(t)
			if s.Phase != local.Quarantined || s.Verdict == nil || s.Verdict.Passed() {
				t.Errorf("%s is %s", run, s.Phase)
			}
		})
	}
}

// TestExportsOfTheSameLog exports one log in many ways. All of them come to the same bytes.
func TestExportsOfTheSameLog(t *testing.T) {
	t.Parallel()
	whole := threeDays(t)
	j := whole.twoTables()
	ws := filepath.Join(t.TempDir(), "ws")
	threeRun(t, j, ws, "--promote").ok(t)
	want := fileSums(t, []job.Job{j}, ws, "seen", "sums")
	if len(want) != 6 {
		t.Fatalf("%d partitions: %v", len(want), want)
	}

	pick := func(p int32, of func(i int) bool) (out []rec) {
		for i, r := range threeVisits(p, 0, 3*threeSegment) {
			if of(i) {
				out = append(out, r)
			}
		}
		return out
	}
	copyOf := func(l *smallLog, file, as string) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		l.put(filepath.Join(filepath.Dir(file), as), data)
	}
	for name, export := range map[string]func(t *testing.T, l *smallLog){
		"a segment twice, under another key": func(_ *testing.T, l *smallLog) {
			copyOf(l, l.segmentFile(1, 12), "visits+1+0000000012.again.zstd.parquet")
		},
		"every segment twice": func(_ *testing.T, l *smallLog) {
			for p := range int32(2) {
				for first := int64(0); first < 3*threeSegment; first += threeSegment {
					copyOf(l, l.segmentFile(p, first), fmt.Sprintf("visits+%d+%010d.parquet", p, first))
				}
			}
		},
		"overlapping segments": func(_ *testing.T, l *smallLog) {
			l.segment(threeVisits(0, 7, 31)...)
			l.segment(threeVisits(1, 11, 13)...)
			l.segment(threeVisits(1, 5, 36)...)
		},
		"the offsets of a partition in two files, row by row": func(t *testing.T, l *smallLog) {
			removeSegments(t, l, 0)
			l.segment(pick(0, func(i int) bool { return i%2 == 0 })...)
			l.segment(pick(0, func(i int) bool { return i%2 == 1 })...)
		},
		"in three files, one of them again whole": func(t *testing.T, l *smallLog) {
			removeSegments(t, l, 1)
			l.segment(pick(1, func(i int) bool { return i%3 == 0 })...)
			l.segment(pick(1, func(i int) bool { return i%3 == 1 })...)
			l.segment(pick(1, func(i int) bool { return i%3 == 2 })...)
			l.segment(threeVisits(1, 3, 20)...)
		},
		"holes in one file, filled by another": func(t *testing.T, l *smallLog) {
			removeSegments(t, l, 0)
			l.segment(pick(0, func(i int) bool { return i < 5 || i > 8 && i < 20 || i > 29 })...)
			l.segment(pick(0, func(i int) bool { return i > 3 && i < 30 })...)
		},
		"one segment a record": func(t *testing.T, l *smallLog) {
			removeSegments(t, l, 0)
			for i := range 3 * threeSegment {
				l.segment(threeVisits(0, i, i+1)...)
			}
		},
		"other row groups": func(t *testing.T, l *smallLog) {
			removeSegments(t, l, 0)
			l.segmentWith(parquetfile.WriterOptions{RowGroupRows: 1}, threeVisits(0, 0, 17)...)
			l.segmentWith(parquetfile.WriterOptions{}, threeVisits(0, 17, 36)...)
		},
		"a segment without rows at the end": func(_ *testing.T, l *smallLog) {
			l.put(l.segmentFile(1, 36), parquetOf(t, visitSchema(), nil))
		},
		"a segment without rows beside a full one": func(_ *testing.T, l *smallLog) {
			l.put(filepath.Join(filepath.Dir(l.segmentFile(1, 12)), "visits+1+0000000012.empty.parquet"), parquetOf(t, visitSchema(), nil))
		},
		"more columns": func(_ *testing.T, l *smallLog) {
			schema := append(visitSchema(), record.Field{Name: "note", Kind: record.String})
			l.put(l.segmentFile(1, 36), parquetOf(t, schema, nil))
		},
		"markers and checksums among the segments": func(_ *testing.T, l *smallLog) { l.litter() },
		"the tail holds the last segment as well": func(_ *testing.T, l *smallLog) {
			l.tail(append(threeVisits(0, 24, 36), threeVisits(1, 24, 36)...)...)
		},
		"the tail holds it alone": func(t *testing.T, l *smallLog) {
			for p := range int32(2) {
				if err := os.Remove(l.segmentFile(p, 24)); err != nil {
					t.Fatal(err)
				}
			}
			l.tail(append(threeVisits(0, 24, 36), threeVisits(1, 24, 36)...)...)
		},
		"the tail holds all": func(t *testing.T, l *smallLog) {
			removeSegments(t, l, 0)
			removeSegments(t, l, 1)
			l.tail(append(threeVisits(0, 0, 36), threeVisits(1, 0, 36)...)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := threeDays(t)
			export(t, l)
			j := l.twoTables()
			ws := filepath.Join(t.TempDir(), "ws")
			s := threeRun(t, j, ws, "--promote", "--json").ok(t).status(t)
			if got := fileSums(t, []job.Job{j}, ws, "seen", "sums"); !maps.Equal(got, want) {
				t.Errorf("other bytes: %v\nwant %v\n%v", got, want, tableRows(t, []job.Job{j}, ws, "seen"))
			}
			for _, a := range s.Account {
				if a.Duplicate != 0 || a.Total()+a.Skipped != a.Offsets {
					t.Errorf("%+v", a)
				}
			}
		})
	}
}

func removeSegments(t *testing.T, l *smallLog, partition int32) {
	t.Helper()
	for first := int64(0); first < 3*threeSegment; first += threeSegment {
		if err := os.Remove(l.segmentFile(partition, first)); err != nil {
			t.Fatal(err)
		}
	}
}

// litter leaves among the segments what tools leave there: five objects.
func (l *smallLog) litter() {
	dir := filepath.Dir(l.segmentFile(0, 0))
	l.put(filepath.Join(filepath.Dir(dir), "_SUCCESS"), nil)
	l.put(filepath.Join(dir, "_temporary", "0", "part-0.parquet"), []byte("half"))
	l.put(filepath.Join(dir, ".visits+0+0000000000.zstd.parquet.crc"), []byte("crc"))
	l.put(filepath.Join(dir, "visits+0+0000000000.zstd.parquet.crc"), []byte("crc"))
	l.put(filepath.Join(dir, "visits+0+0000000000.keys.parquet"), []byte("keys"))
}

func TestWhatIsNoSegmentIsCounted(t *testing.T) {
	t.Parallel()
	l := threeDays(t)
	l.litter()
	args := []string{"plan", "visits", "--from", threeFrom, "--to", threeTo, "--workspace", filepath.Join(t.TempDir(), "ws")}
	hindcastWith(t, []job.Job{l.twoTables()}, args...).ok(t).has(t, "ignored  5 objects")
	var sum struct {
		Ignored int `json:"ignored"`
	}
	if err := json.Unmarshal([]byte(hindcastWith(t, []job.Job{l.twoTables()}, append(args, "--json")...).ok(t).out), &sum); err != nil || sum.Ignored != 5 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// parquetOf is a Parquet file.
func parquetOf(t *testing.T, schema record.Schema, b *record.Batch) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := parquetfile.NewWriter(&buf, schema, parquetfile.WriterOptions{})
	if err == nil && b != nil {
		err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// refused asks that a run ends refused and says so, that the dataset is as it was, and that the run's candidate cannot be promoted.
func refused(t *testing.T, j job.Job, ws string, words ...string) {
	t.Helper()
	was := historyOf(t, []job.Job{j}, ws, "seen")
	r := threeRun(t, j, ws, "--promote").exits(t, exitRefused).has(t, words...)
	hindcastWith(t, []job.Job{j}, "promote", runOf(t, r), "--workspace", ws).exits(t, exitChecks).has(t, "no verdict yet", "resume")
	if got := historyOf(t, []job.Job{j}, ws, "seen"); !slices.Equal(got, was) {
		t.Errorf("the history is %v, it was %v", got, was)
	}
	// Whoever asks later is told the same.
	hindcastWith(t, []job.Job{j}, "status", runOf(t, r), "--workspace", ws).ok(t).has(t, words...)
}

func TestDamagedSegmentsAreNamed(t *testing.T) {
	t.Parallel()
	float := visitSchema()
	float[6].Kind = record.Float64
	const key = "topics/visits/partition=1/visits+1+0000000012.zstd.parquet"
	for name, c := range map[string]struct {
		damage func(l *smallLog, data []byte) []byte // the segment's new bytes; nil removes it
		says   []string
	}{
		"empty":           {func(*smallLog, []byte) []byte { return []byte{} }, []string{key, "it is empty or cut off", "export the file again"}},
		"cut off":         {func(_ *smallLog, b []byte) []byte { return b[:len(b)-30] }, []string{key, "cut off, or still being written", "export the file again"}},
		"half":            {func(_ *smallLog, b []byte) []byte { return b[:len(b)/2] }, []string{key, "cut off", "export the file again"}},
		"not Parquet":     {func(*smallLog, []byte) []byte { return []byte(strings.Repeat("id;at;shop\n", 9)) }, []string{key, `it begins with "id;a"`}},
		"another kind":    {func(*smallLog, []byte) []byte { return parquetOf(t, float, nil) }, []string{key, `column "amount"`, "float64 where the job reads int64", "export it again"}},
		"a column less":   {func(*smallLog, []byte) []byte { return parquetOf(t, visitSchema()[:6], nil) }, []string{key, `column "amount"`, "no such column", "export it again"}},
		"an event column": {func(*smallLog, []byte) []byte { return parquetOf(t, visitSchema()[:4], nil) }, []string{key, `column "at"`, "no such column"}},
		"a Kafka column":  {func(*smallLog, []byte) []byte { return parquetOf(t, visitSchema()[2:], nil) }, []string{key, "partition 1: no record with the offsets 12-24", `it has no column "kafka_offset"`}},
		"gone": {func(*smallLog, []byte) []byte { return nil }, []string{
			"partition 1: no record with the offsets 12-24", "visits+1+0000000000.zstd.parquet", "visits+1+0000000024.zstd.parquet", "bring back the missing segments",
		}},
		"without rows": {func(*smallLog, []byte) []byte { return parquetOf(t, visitSchema(), nil) }, []string{"partition 1: no record with the offsets 12-24"}},
		"shortened": {func(l *smallLog, _ []byte) []byte {
			data, err := os.ReadFile(l.segment(threeVisits(1, 12, 20)...))
			if err != nil {
				t.Fatal(err)
			}
			return data
		}, []string{"partition 1: no record with the offsets 20-24", "between the segments " + key}},
		"another one's bytes": {func(l *smallLog, _ []byte) []byte {
			data, err := os.ReadFile(l.segmentFile(1, 0))
			if err != nil {
				t.Fatal(err)
			}
			return data
		}, []string{key, `column "kafka_offset"`, "it begins with offset 0, but its name says 12", "export it again"}},
		"of another partition": {func(l *smallLog, _ []byte) []byte {
			data, err := os.ReadFile(l.segmentFile(0, 12))
			if err != nil {
				t.Fatal(err)
			}
			return data
		}, []string{key, `column "kafka_partition"`, "a record of partition 0, but its name says 1", "put it back"}},
		"an object beside it": {func(l *smallLog, b []byte) []byte {
			l.put(filepath.Join(filepath.Dir(l.segmentFile(1, 0)), "notes.txt"), []byte("hello"))
			return b
		}, []string{"partition=1/notes.txt", "it is no .parquet file", "move other objects away"}},
		"a flipped byte in a page": {func(_ *smallLog, b []byte) []byte {
			end := chunkEnd(t, b, 0, "shop")
			return flipped(b, end-1)
		}, []string{key, "row group 0", `column "shop"`, "checksum (CRC)", "export the file again"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := threeDays(t)
			file := l.segmentFile(1, 12)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if damaged := c.damage(l, data); damaged != nil {
				l.put(file, damaged)
			} else if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			ws := filepath.Join(t.TempDir(), "ws")
			refused(t, l.twoTables(), ws, c.says...)
			hindcastWith(t, []job.Job{l.twoTables()}, "table", "cat", "seen", "--workspace", ws).exits(t, exitError).has(t, "no version", "promote a run of visits first")
		})
	}
}

func TestSegmentsThatChangeUnderARun(t *testing.T) {
	t.Parallel()
	const key = "visits+1+0000000012.zstd.parquet"
	for name, c := range map[string]struct {
		change func(l *smallLog) error
		anew   int // how a new run ends
	}{
		"replaced": {func(l *smallLog) error {
			recs := threeVisits(1, 12, 24)
			recs[3].Amount += 1000
			l.segment(recs...)
			return nil
		}, 0},
		"shortened": {func(l *smallLog) error {
			l.segment(threeVisits(1, 12, 20)...)
			return nil
		}, exitRefused},
		"cut off":  {func(l *smallLog) error { return os.Truncate(l.segmentFile(1, 12), 900) }, exitRefused},
		"emptied":  {func(l *smallLog) error { return os.Truncate(l.segmentFile(1, 12), 0) }, exitRefused},
		"gone":     {func(l *smallLog) error { return os.Remove(l.segmentFile(1, 12)) }, exitRefused},
		"appended": {func(l *smallLog) error { return appendTo(l.segmentFile(1, 12), "more") }, exitRefused},
	} {
		t.Run(name, func(t *testing.T) {
			l := threeDays(t)
			j := l.twoTables()
			ws := filepath.Join(t.TempDir(), "ws")
			changed := false
			r := hooked(t, []job.Job{j}, func(op blob.Op) error {
				if !changed && op.Done && strings.HasSuffix(op.Key, "/plan.json") {
					changed = true
					return c.change(l)
				}
				return nil
			}, "run", "visits", "--from", threeFrom, "--to", threeTo, "--promote", "--workspace", ws)
			r.exits(t, exitRefused).has(t, "segment changed since it was planned", key, "start a new run")
			hindcastWith(t, []job.Job{j}, "resume", runOf(t, r), "--workspace", ws).exits(t, exitRefused).has(t, key)
			if got := historyOf(t, []job.Job{j}, ws, "seen"); got != nil {
				t.Errorf("the history is %v", got)
			}
			threeRun(t, j, ws, "--promote").exits(t, c.anew)
		})
	}
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func TestAMissingSegmentCanBeBroughtBack(t *testing.T) {
	t.Parallel()
	l := threeDays(t)
	j := l.twoTables()
	ws := filepath.Join(t.TempDir(), "ws")
	file := l.segmentFile(1, 12)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	run := runOf(t, threeRun(t, j, ws).exits(t, exitRefused))
	hindcastWith(t, []job.Job{j}, "runs", "--workspace", ws).ok(t).has(t, run, "planning, stopped")
	l.put(file, data)
	hindcastWith(t, []job.Job{j}, "resume", run, "--workspace", ws).ok(t).has(t, "proven", "promote "+run)
	hindcastWith(t, []job.Job{j}, "promote", run, "--workspace", ws).ok(t)
	if n := len(tableRows(t, []job.Job{j}, ws, "seen")) - 1; n != 6*threeSegment-4 {
		t.Errorf("%d events", n)
	}
}

func TestGapsAreAcceptedByName(t *testing.T) {
	t.Parallel()
	l := threeDays(t)
	j := l.twoTables()
	for _, first := range []int64{12, 24} {
		if err := os.Remove(l.segmentFile(1, first)); err != nil {
			t.Fatal(err)
		}
	}
	l.segment(threeVisits(1, 30, 36)...)
	ws := filepath.Join(t.TempDir(), "ws")
	threeRun(t, j, ws).exits(t, exitRefused).has(t, "partition 1: no record with the offsets 12-30", "accept them by name: 1:12-30", "--accept-gap 1:12-30")
	for _, part := range []string{"1:12-24", "1:13-30", "0:12-30", "1:0-12"} {
		threeRun(t, j, ws, "--accept-gap", part).exits(t, exitRefused).has(t, "1:12-30")
	}
	for _, bad := range []string{"12-30", "1", "1:30-12", "1:12", "-1:12-30", "1:a-b", ""} {
		threeRun(t, j, ws, "--accept-gap", bad).exits(t, exitUsage).has(t, "write ")
	}
	threeRun(t, j, ws, "--accept-gap", "1:0-99").exits(t, exitRefused).has(t, "no gaps that the plan finds: 1:0-99; it finds: 1:12-30")
	for _, gap := range [][]string{{"1:12-30"}, {"1:12-24", "1:24-30"}, {"1:5-"}} {
		ws := filepath.Join(t.TempDir(), "ws")
		args := []string{"--promote", "--json"}
		for _, g := range gap {
			args = append(args, "--accept-gap", g)
		}
		s := threeRun(t, j, ws, args...).ok(t).status(t)
		if len(s.Warnings) != 2 || !strings.Contains(s.Warnings[1], "accepted: partition 1: no record with the offsets 12-30") {
			t.Errorf("the warnings are %q", s.Warnings)
		}
		for _, a := range s.Account {
			if want := map[bool]int64{true: 18}[a.Partition == 1 && a.Origin == "segment"]; a.SkippedFor[plan.Absent] != want || a.Total()+a.Skipped != a.Offsets {
				t.Errorf("%+v", a)
			}
		}
		hindcastWith(t, []job.Job{j}, "status", s.Run, "--workspace", ws).ok(t).has(t, "warning: accepted: partition 1")
		if n := len(tableRows(t, []job.Job{j}, ws, "seen")) - 1; n != 6*threeSegment-18-4 {
			t.Errorf("%d events", n)
		}
	}
}
