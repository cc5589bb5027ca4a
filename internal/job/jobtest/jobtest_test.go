package jobtest

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"hindcast/internal/job"
)

const yaml = `
job: sums
source:
  topic: events
  segments: { parquet: samples, naming: kafka-connect }
  event: { id: id, time: at, lateness: 1h }
outputs:
  - table: by-hour
    partition: { hour: at, zone: Asia/Kolkata }
  - table: by-key
    partition: { bucket: n, count: 3 }
dataset: sums
`

type event struct {
	K string    `event:"k"`
	N int64     `event:"n"`
	D time.Time `event:"d,date"`
	F *float64  `event:"f"`
	B bool      `event:"b"`
}

type out struct {
	N int64     `row:"n,key"`
	K string    `row:"k"`
	D time.Time `row:"d,date"`
	F *float64  `row:"f"`
	B bool      `row:"b"`
}

func of(e *event) out { return out{e.N, e.K, e.D, e.F, e.B} }

func newJob(fold job.Fold[event, out]) job.Job {
	return job.New(fstest.MapFS{"job.yaml": &fstest.MapFile{Data: []byte(yaml)}}, job.Outputs{
		"by-hour": fold, "by-key": job.Map[event, out]{Each: func(e *event, emit func(out)) { emit(of(e)) }},
	})
}

func TestRunWritesTables(t *testing.T) {
	got := Run(t, newJob(job.Fold[event, out]{Key: of, Apply: func(*out, *event) {}}), JSONL(t, `
{"id":"a","at":"2024-01-01T00:29:59.999999Z","k":"x","n":10,"d":"2024-02-29","f":0.5,"b":true}

{"id":"b","at":"2024-01-01T00:30:00Z","k":"y,z","n":9,"d":"1969-12-31","f":null,"b":false}
{"id":"a","at":"2024-01-01T00:29:59.999999Z","k":"x","n":10,"d":"2024-02-29","f":0.5,"b":true}
{"id":"a","at":"2024-01-01T00:29:59.999999Z","k":"x","n":10,"d":"2024-02-29","f":0.75,"b":true}
{"id":"c","k":"no time","n":1,"d":"2024-02-29","b":true}
`), Options{DeadLetters: 2, Conflicts: 2}) // in each of the two schemes
	if want := "by-hour 2 1 1 1"; summary(got, "by-hour") != want || got.CSV("no-such") != "" {
		t.Errorf("got %s, want %s", summary(got, "by-hour"), want)
	}
	Equal(t, got.CSV("by-key"), "n,k,d,f,b\n9,\"y,z\",1969-12-31,,false\n10,x,2024-02-29,0.5,true\n")
	lines := strings.Split(got.CSV("by-hour"), "\n")
	if len(lines) != 4 || !strings.HasSuffix(lines[1], ",10,x,2024-02-29,0.5,true") || !strings.HasSuffix(lines[2], `,9,"y,z",1969-12-31,,false`) {
		t.Errorf("got %q", lines)
	}
}

func summary(t *Tables, table string) string {
	c := t.Count(table)
	return fmt.Sprint(table, " ", c.Applied, " ", c.Duplicate, " ", c.Conflict, " ", c.Dead)
}

// recorder is a test that takes errors down.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestImpureTransformsAreFound(t *testing.T) {
	n := int64(0)
	rec := &recorder{TB: t}
	Run(rec, newJob(job.Fold[event, out]{Key: of, Apply: func(r *out, _ *event) { n++; r.K = fmt.Sprint(n) }}),
		JSONL(t, `{"id":"a","at":"2024-01-01T00:29:59Z","k":"x","n":10,"d":"2024-02-29","b":true}`), Options{DeadLetters: 1})
	if len(rec.errors) != 2 || !strings.HasPrefix(rec.errors[0], "table by-hour depends on how the log is cut") ||
		!strings.HasPrefix(rec.errors[1], "0 dead letters, want 1") {
		t.Errorf("got %q", rec.errors)
	}
}
