package cli

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
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

	"hindcast/internal/job"
	"hindcast/internal/parquetfile"
	"hindcast/internal/record"
)

// What follows builds small logs, and jobs that show which event went where.

// rec is a record of a log that a test builds: a visit of someone in a shop, who left an amount.
type rec struct {
	Partition int32
	Offset    int64
	Time      string // record time, RFC 3339; empty: a second after At
	ID        string
	At        string // event time, RFC 3339; empty: null
	Shop      string
	Amount    int64
	Raw       string // what stands in the tail in place of the event
}

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func (r rec) recordTime(t *testing.T) time.Time {
	t.Helper()
	if r.Time != "" {
		return instant(t, r.Time)
	}
	return instant(t, r.At).Add(time.Second).Truncate(time.Millisecond)
}

// inOrder numbers records of a partition from an offset on.
func inOrder(partition int32, first int64, recs ...rec) []rec {
	for i := range recs {
		recs[i].Partition, recs[i].Offset = partition, first+int64(i)
	}
	return recs
}

// visitSchema has the columns of a segment of such a log.
func visitSchema() record.Schema {
	return record.Schema{
		{Name: "kafka_partition", Kind: record.Int64},
		{Name: "kafka_offset", Kind: record.Int64},
		{Name: "kafka_timestamp", Kind: record.Timestamp},
		{Name: "id", Kind: record.String},
		{Name: "at", Kind: record.Timestamp, Nullable: true},
		{Name: "shop", Kind: record.String},
		{Name: "amount", Kind: record.Int64},
	}
}

// smallLog is a log in a folder: segments as Kafka Connect leaves them, and a tail for the embedded broker.
type smallLog struct {
	t       *testing.T
	dir     string
	hasTail bool
}

const smallTopic = "visits"

func newSmallLog(t *testing.T) *smallLog { return &smallLog{t: t, dir: t.TempDir()} }

func (l *smallLog) segmentFile(partition int32, first int64) string {
	return filepath.Join(l.dir, "topics", smallTopic, fmt.Sprintf("partition=%d", partition),
		fmt.Sprintf("%s+%d+%010d.zstd.parquet", smallTopic, partition, first))
}

// put stores a file under the log's folder.
func (l *smallLog) put(file string, data []byte) string {
	l.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		l.t.Fatal(err)
	}
	return file
}

// segment writes records of one partition, which ascend by offset, as one segment, with times in milliseconds.
func (l *smallLog) segment(recs ...rec) string {
	l.t.Helper()
	return l.segmentWith(parquetfile.WriterOptions{RowGroupRows: 4, Millis: []string{"kafka_timestamp", "at"}}, recs...)
}

func (l *smallLog) segmentWith(opts parquetfile.WriterOptions, recs ...rec) string {
	l.t.Helper()
	return l.put(l.segmentFile(recs[0].Partition, recs[0].Offset), l.encode(opts, time.Microsecond, recs))
}

// encode makes a segment's bytes. Its times count units.
func (l *smallLog) encode(opts parquetfile.WriterOptions, unit time.Duration, recs []rec) []byte {
	l.t.Helper()
	schema := visitSchema()
	b := record.Batch{Len: len(recs), Columns: make([]record.Column, len(schema))}
	for i, f := range schema {
		b.Columns[i].Kind = f.Kind
	}
	b.Columns[4].Nulls = record.NewBitmap(len(recs))
	count := func(t time.Time) int64 {
		if unit == time.Nanosecond {
			return t.UnixNano()
		}
		return t.UnixMicro() // which reaches further
	}
	for row, r := range recs {
		at := int64(0)
		if r.At == "" {
			b.Columns[4].Nulls.Set(row)
		} else {
			at = count(instant(l.t, r.At))
		}
		for i, v := range []any{int64(r.Partition), r.Offset, count(r.recordTime(l.t)), r.ID, at, r.Shop, r.Amount} {
			c := &b.Columns[i]
			switch v := v.(type) {
			case int64:
				c.Int64s = append(c.Int64s, v)
			case string:
				c.Strings.Append([]byte(v))
			}
		}
	}
	var buf bytes.Buffer
	w, err := parquetfile.NewWriter(&buf, schema, opts)
	if err == nil {
		err = w.Write(&b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return buf.Bytes()
}

func (l *smallLog) tailFile() string { return filepath.Join(l.dir, "tail.jsonl") }

// tail writes what the brokers have: of each partition at least one record, by offset without a gap.
func (l *smallLog) tail(recs ...rec) {
	l.t.Helper()
	var buf bytes.Buffer
	for _, r := range recs {
		value := json.RawMessage(r.Raw)
		if r.Raw == "" {
			event := map[string]any{"id": r.ID, "shop": r.Shop, "amount": r.Amount}
			if r.At != "" {
				event["at"] = r.At
			}
			value = jsonOf(l.t, event)
		}
		buf.Write(jsonOf(l.t, map[string]any{
			"partition": r.Partition, "offset": r.Offset, "timestamp": r.recordTime(l.t).UnixMilli(), "key": r.Shop, "value": value,
		}))
		buf.WriteByte('\n')
	}
	l.put(l.tailFile(), buf.Bytes())
	l.hasTail = true
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Visit is what the jobs here read of a record.
type Visit struct {
	ID     string    `event:"id"`
	At     time.Time `event:"at"`
	Shop   string    `event:"shop"`
	Amount int64     `event:"amount"`
}

// Placed is an event as it was put into a partition of a table.
type Placed struct {
	ID     string    `row:"id,key"`
	At     time.Time `row:"at"`
	Shop   string    `row:"shop"`
	Amount int64     `row:"amount"`
}

// placing is a transform that shows every event where it was put.
func placing() job.Transform {
	return job.Map[Visit, Placed]{Each: func(v *Visit, emit func(Placed)) { emit(Placed(*v)) }}
}

// Takings are what a shop took.
type Takings struct {
	Shop   string `row:"shop,key"`
	Visits int64  `row:"visits"`
	Amount int64  `row:"amount"`
}

// adding is a transform that adds up the events of a shop.
func adding() job.Transform {
	return job.Fold[Visit, Takings]{
		Key:   func(v *Visit) Takings { return Takings{Shop: v.Shop} },
		Apply: func(s *Takings, v *Visit) { s.Visits, s.Amount = s.Visits+1, s.Amount+v.Amount },
	}
}

// smallJob describes a job over a small log. The zero value of what may be left out is right.
type smallJob struct {
	Lateness, Ahead string // empty: 1d, 1h
	Event           string // further keys of source.event, as "dedupe: false"
	Checks          string // in braces, as "{ emptied: allow }"
	// Tables are cut as their text says: "hour America/New_York", "day Asia/Kolkata", "month UTC" or "bucket shop 4". Those whose name
	// begins with "sum" add up, the others show every event.
	Tables map[string]string
}

// job makes the job, which is called visits, as its dataset is.
func (l *smallLog) job(s smallJob) job.Job {
	l.t.Helper()
	var y strings.Builder
	fmt.Fprintf(&y, "job: visits\nsource:\n  topic: %s\n  segments: { parquet: %q, naming: kafka-connect }\n", smallTopic, l.dir)
	if l.hasTail {
		fmt.Fprintf(&y, "  tail: { brokers: %q, value: json }\n", "embedded:"+l.tailFile())
	}
	fmt.Fprintf(&y, "  event: { id: id, time: at, lateness: %s, ahead: %s", cmp.Or(s.Lateness, "1d"), cmp.Or(s.Ahead, "1h"))
	if s.Event != "" {
		y.WriteString(", " + s.Event)
	}
	y.WriteString(" }\noutputs:\n")
	outputs := job.Outputs{}
	for _, table := range slices.Sorted(maps.Keys(s.Tables)) {
		cut := strings.Fields(s.Tables[table])
		if cut[0] == "bucket" {
			fmt.Fprintf(&y, "  - table: %s\n    partition: { bucket: %s, count: %s }\n", table, cut[1], cut[2])
		} else {
			fmt.Fprintf(&y, "  - table: %s\n    partition: { %s: at, zone: %s }\n", table, cut[0], cut[1])
		}
		outputs[table] = placing()
		if strings.HasPrefix(table, "sum") {
			outputs[table] = adding()
		}
	}
	y.WriteString("dataset: visits\n")
	if s.Checks != "" {
		fmt.Fprintf(&y, "checks: %s\n", s.Checks)
	}
	return job.New(fstest.MapFS{"job.yaml": {Data: []byte(y.String())}, "job.go": {Data: []byte("package visits")}}, outputs)
}

// changedJob is a job whose job.yaml has other words, each of which must be there once, and with some of its tables if any are named.
func changedJob(t *testing.T, j job.Job, words map[string]string, outputs job.Outputs) job.Job {
	t.Helper()
	b, err := fs.ReadFile(j.Files(), "job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for old, new := range words {
		if strings.Count(text, old) != 1 {
			t.Fatalf("%q is %d times in:\n%s", old, strings.Count(text, old), text)
		}
		text = strings.Replace(text, old, new, 1)
	}
	files := fstest.MapFS{"job.yaml": {Data: []byte(text)}}
	for _, pattern := range []string{"*.go", "*.csv"} {
		names, err := fs.Glob(j.Files(), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := fs.ReadFile(j.Files(), name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = &fstest.MapFile{Data: data}
		}
	}
	if outputs == nil {
		outputs = j.Outputs()
	}
	return job.New(files, outputs)
}

// tableRows reads what a table serves: its columns' names, then its rows.
func tableRows(t *testing.T, list []job.Job, workspace, table string) [][]string {
	t.Helper()
	text := hindcastWith(t, list, "table", "cat", table, "--workspace", workspace).ok(t).out
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// lines joins the values of rows with commas.
func lines(rows [][]string) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = strings.Join(r, ",")
	}
	return out
}
