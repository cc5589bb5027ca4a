package step

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/fileblob"
	"hindcast/internal/job"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/source/sourcetest"
	"hindcast/internal/spec"
	"hindcast/internal/testenv"
)

// largeTopic is a job over a whole log, and what there is of it: segments of 100 row groups.
func largeTopic(segments int64) (*spec.Spec, plan.Inventory) {
	const groups, rows, partitions = 100, 1000, 20
	s := &spec.Spec{
		Job: "j", Dataset: "d", Source: spec.Source{Topic: "t", Event: spec.Event{ID: "id", Time: "at", Dedupe: true}},
		Outputs: []spec.Output{{Table: "t", Scheme: partition.Scheme{Buckets: 16}, BucketColumn: "id"}},
	}
	inv := plan.Inventory{Topic: "t"}
	for i := range segments {
		p, first := int32(i%partitions), i/partitions*groups*rows
		seg := plan.Segment{
			Key: fmt.Sprintf("topics/t/partition=%d/t+%d+%010d.zstd.parquet", p, p, first), ETag: "0123456789abcdef0123456789abcdef", Size: 64 << 20,
			Partition: p, First: first, Next: first + groups*rows, Rows: groups * rows,
		}
		for g := range int64(groups) {
			at := first + g*rows
			seg.RowGroups = append(seg.RowGroups, plan.RowGroup{
				Rows: rows, Bytes: 600_000, First: at, Next: at + rows, Timed: true,
				RecordTime: &plan.Span{Min: 1_700_000_000_000_000 + at, Max: 1_700_000_001_000_000 + at}, EventTime: &plan.Span{Min: 1_700_000_000_000_000 + at, Max: 1_700_000_001_000_000 + at},
			})
		}
		inv.Segments = append(inv.Segments, seg)
	}
	return s, inv
}

// What is encoded piece by piece is what is encoded as one.
func TestPlansAreEncodedAsJSONIs(t *testing.T) {
	s, inv := largeTopic(60)
	whole, err := plan.Build(s, nil, inv, plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	bare := *whole
	bare.Partitions = []plan.Partition{{Partition: 1}, {Partition: 2, Segments: []plan.Use{}}}
	none := *whole
	none.Partitions = []plan.Partition{}
	for _, p := range []Planned{{Plan: whole, Digest: "d"}, {Plan: &bare}, {Plan: &none}, {Plan: &plan.Plan{}}, {}} {
		want, err := json.Marshal(&p)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := marshal(&p); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: encoded as\n%.300s\nwant\n%.300s", err, got, want)
		}
	}
}

// LargeEvent and LargeRow are the least that a job can be made of.
type (
	LargeEvent struct {
		ID      string    `event:"id"`
		At      time.Time `event:"at"`
		Country *string   `event:"country"`
	}
	LargeRow struct {
		ID string `row:"id,key"`
	}
)

// A large topic's quarter, 10,000 segments of 100 row groups, is listed, planned, looked over, digested, written and read back as a run's
// in less than a gigabyte; and of the segments nothing is asked for but the footers.
func TestTenThousandSegmentsArePlannedInAGigabyte(t *testing.T) {
	const groups, rows = 100, 10
	segments, limit := int64(100), uint64(200<<20)
	if testenv.Full() {
		segments, limit = 10_000, 1<<30
	}
	log := sourcetest.NewLargeLog(t, segments, groups, rows)
	files, err := fileblob.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	yaml := fmt.Sprintf(`
job: large
source:
  topic: %s
  segments: { parquet: "s3://log", naming: kafka-connect }
  event: { id: id, time: at, lateness: 1d }
outputs:
  - table: t
    partition: { bucket: id, count: 16 }
dataset: large
`, sourcetest.Topic)
	e := &Env{
		Program: func() (string, error) { return "", nil },
		Jobs: []job.Job{job.New(fstest.MapFS{"job.yaml": {Data: []byte(yaml)}, "job.go": {Data: []byte("package large")}}, job.Outputs{
			"t": job.Map[LargeEvent, LargeRow]{Each: func(v *LargeEvent, emit func(LargeRow)) { emit(LargeRow{v.ID}) }},
		})},
		Workspace: files, Datasets: "datasets", Now: time.Now,
		Open: func(_ context.Context, location string) (blob.Store, error) {
			if location == "s3://log" {
				return log, nil
			}
			return blob.Sub(files, location), nil
		},
	}
	j, s, err := e.Job("large")
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.NewRequest(j, s, "run-1", time.Now())
	if err == nil {
		err = e.Create(t.Context(), r)
	}
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	most := testenv.Peak(func() {
		if _, err := e.plan(t.Context(), planIn{Run: "run-1"}); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d segments: planned in %v, at most %d MB in use", segments, time.Since(begin).Round(time.Millisecond), most>>20)
	if most > limit {
		t.Errorf("%d MB were in use, more than %d", most>>20, limit>>20)
	}
	if err := log.Stray(); err != nil {
		t.Error(err)
	}
	p, err := e.Planned(t.Context(), "run-1") // whose digest is held against it
	if err != nil {
		t.Fatal(err)
	}
	sum, err := p.Summary()
	if err != nil || sum.Rows != segments*groups*rows || sum.RowGroups != int(segments)*groups || int64(sum.Listed.Footers) != segments || sum.Listed.Scanned != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	if len(p.Preflight) == 0 {
		t.Error("the log was not looked over")
	}
}
