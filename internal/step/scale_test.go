package step

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"hindcast/internal/blob/fileblob"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
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

// A plan of 10,000 segments of 100 row groups is made, digested and written in less than a gigabyte.
func TestLargePlansAreWrittenInAGigabyte(t *testing.T) {
	segments, limit := int64(150), uint64(200<<20)
	if testenv.Full() {
		segments, limit = 10_000, 1<<30
	}
	store, err := fileblob.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var p Planned
	most := testenv.Peak(func() {
		s, inv := largeTopic(segments)
		pl, err := plan.Build(s, nil, inv, plan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p = Planned{Plan: pl}
		if _, err := p.Summary(); err != nil {
			t.Fatal(err)
		}
		p.Digest = digestOf(p)
		if err := writeOnce(t.Context(), store, planKey, &p); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d segments: at most %d MB in use", segments, most>>20)
	if most > limit {
		t.Errorf("%d MB were in use, more than %d", most>>20, limit>>20)
	}
	var back Planned
	if err := readJSON(t.Context(), store, planKey, &back); err != nil || back.Digest != p.Digest || digestOf(back) != p.Digest {
		t.Errorf("the plan reads back as another: %v", err)
	}
}
