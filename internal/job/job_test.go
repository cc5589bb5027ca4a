package job

import (
	"strings"
	"testing"
	"testing/fstest"

	"hindcast/internal/record"
	"hindcast/internal/spec"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestDigestIsThatOfTheCode(t *testing.T) {
	digest := func(j Job) string {
		t.Helper()
		d, err := j.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := fstest.MapFS{"job.go": file("package a"), "job.yaml": file("job: a"), "job_test.go": file("package a_test")}
	base := digest(New(first, nil))
	if got := digest(New(fstest.MapFS{"job.go": file("package a"), "job.yaml": file("job: b")}, nil)); got != base {
		t.Error("files that are not code change the digest")
	}
	for name, other := range map[string]Job{
		"contents": New(fstest.MapFS{"job.go": file("package b")}, nil),
		"name":     New(fstest.MapFS{"main.go": file("package a")}, nil),
		"another":  New(fstest.MapFS{"job.go": file("package a"), "more.go": file("package a")}, nil),
		"with":     New(first, nil).With(fstest.MapFS{"shared.go": file("package b")}),
	} {
		if digest(other) == base {
			t.Errorf("%s: the digest is the same", name)
		}
	}
	if _, err := New(fstest.MapFS{"job.yaml": file("")}, nil).Digest(); err == nil || !strings.Contains(err.Error(), "add *.go to its go:embed line") {
		t.Errorf("got %v", err)
	}
}

const yaml = `
job: sums
source:
  topic: events
  segments: { parquet: samples, naming: kafka-connect }
  event: { id: id, time: at, lateness: 1h }
outputs:
  - table: by-day
    partition: { day: at, zone: Europe/London }
  - table: by-key
    partition: { bucket: k, count: 4 }
dataset: sums
checks:
  canaries: canaries.csv
`

func TestValidate(t *testing.T) {
	files := fstest.MapFS{"job.go": file("package a"), "job.yaml": file(yaml), "canaries.csv": file("")}
	good := Fold[simple, sum]{Key: func(e *simple) sum { return sum{K: e.K} }, Apply: func(*sum, *simple) {}}
	type dayRow struct {
		Day string `row:"day,key"`
	}
	type boolRow struct {
		K bool `row:"k,key"`
	}
	type offset struct {
		Offset int64 `event:"kafka_offset"`
	}
	type timeAsInt struct {
		At int64 `event:"at"`
	}
	for want, j := range map[string]Job{
		"": New(files, Outputs{"by-day": good, "by-key": good}),
		"table by-key: job.yaml names it, but the job's code has no transform for it: it has by-day": New(files, Outputs{"by-day": good}),
		"table other: the job's code has a transform for it, but job.yaml does not name it":          New(files, Outputs{"by-day": good, "by-key": good, "other": good}),
		"table by-day: fold has no Apply": New(files, Outputs{"by-day": Fold[simple, sum]{}, "by-key": good}),
		"table by-day: its rows have a column day, which is the name of its partition column": New(files, Outputs{
			"by-day": Map[simple, dayRow]{Each: func(*simple, func(dayRow)) {}}, "by-key": good,
		}),
		"table by-key: it is cut by bucket of k, which is no key column of its rows: they have day": New(files, Outputs{
			"by-day": good, "by-key": Map[simple, dayRow]{Each: func(*simple, func(dayRow)) {}},
		}),
		"table by-key: it is cut by bucket of k, a bool": New(files, Outputs{
			"by-day": good, "by-key": Map[simple, boolRow]{Each: func(*simple, func(boolRow)) {}},
		}),
		"table by-day reads column kafka_offset, which belongs to the log": New(files, Outputs{
			"by-day": Map[offset, sum]{Each: func(*offset, func(sum)) {}}, "by-key": good,
		}),
		"column at is timestamp for source.event.time, but int64 for table by-day": New(files, Outputs{
			"by-day": Map[timeAsInt, sum]{Each: func(*timeAsInt, func(sum)) {}}, "by-key": good,
		}),
		"canaries canaries.csv: the file is not among the job's": New(fstest.MapFS{"job.yaml": file(yaml)}, Outputs{"by-day": good, "by-key": good}),
	} {
		s, err := j.Spec()
		if err != nil {
			t.Fatal(err)
		}
		switch err := Validate(j, s); {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), "job sums: ") || !strings.Contains(err.Error(), want)):
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := New(fstest.MapFS{}, nil).Spec(); err == nil || !strings.HasPrefix(err.Error(), "jobs/job/job.yaml: ") {
		t.Errorf("got %v", err)
	}
}

func TestColumns(t *testing.T) {
	type other struct {
		ID int64    `event:"id"`
		K  string   `event:"k"`
		X  *float64 `event:"x"`
	}
	s, err := spec.Parse("job.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Columns(s, Outputs{
		"by-day": Map[simple, sum]{Each: func(*simple, func(sum)) {}},
		"by-key": Map[other, sum]{Each: func(*other, func(sum)) {}},
	})
	want := record.Schema{
		{Name: "at", Kind: record.Timestamp, Nullable: true},
		{Name: "id", Kind: record.Int64, Nullable: true},
		{Name: "k", Kind: record.String, Nullable: true},
		{Name: "n", Kind: record.Int64, Nullable: true},
		{Name: "small", Kind: record.Int64, Nullable: true},
		{Name: "x", Kind: record.Float64, Nullable: true},
	}
	if err != nil || !got.Equal(want) {
		t.Errorf("got %v, %v", got, err)
	}
}

// Only a column that some transform reads into a pointer may be missing from events, and never their id or time.
func TestNeeds(t *testing.T) {
	type optional struct {
		ID *int64   `event:"id"`
		K  *string  `event:"k"`
		X  *float64 `event:"x"`
	}
	s, err := spec.Parse("job.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Needs(s, Outputs{
		"by-day": Map[simple, sum]{Each: func(*simple, func(sum)) {}},
		"by-key": Map[optional, sum]{Each: func(*optional, func(sum)) {}},
	})
	want := record.Schema{
		{Name: "at", Kind: record.Timestamp},
		{Name: "id", Kind: record.Int64},
		{Name: "k", Kind: record.String, Nullable: true},
		{Name: "n", Kind: record.Int64},
		{Name: "small", Kind: record.Int64},
		{Name: "x", Kind: record.Float64, Nullable: true},
	}
	if err != nil || !got.Equal(want) {
		t.Errorf("got %v, %v", got, err)
	}
}

// A checkpoint that was made up neither panics nor allocates beyond its size.
func FuzzRestore(f *testing.F) {
	var saved strings.Builder
	fold := lastSeenFold()
	r, err := fold.Open(Options{Slots: 2})
	if err != nil {
		f.Fatal(err)
	}
	if err := r.Snapshot(&saved); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(saved.String()))
	f.Add([]byte{1, 0, 1, 'k', 0, 255, 255, 255, 255, 255, 255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, tr := range []Transform{fold, Map[every, everyRow]{Each: func(*every, func(everyRow)) {}}} {
			r, err := tr.Open(Options{Slots: 2})
			if err != nil {
				t.Fatal(err)
			}
			if r.Restore(strings.NewReader(string(b))) != nil {
				continue
			}
			var again strings.Builder
			if err := r.Snapshot(&again); err != nil {
				t.Fatal(err)
			}
		}
	})
}
