package table

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/partition"
	"hindcast/internal/record"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

var at = time.Date(2011, 12, 10, 9, 0, 0, 123456000, time.UTC)

var dailySchema = Schema{
	Rows: record.Schema{
		{Name: "country", Kind: record.String}, {Name: "net_mills", Kind: record.Int64}, {Name: "last", Kind: record.Timestamp, Nullable: true},
	},
	Keys:   1,
	Scheme: partition.Scheme{Unit: partition.Day, Column: "occurred_at", Zone: "Europe/London"},
}

func entry(run, partition string) []File {
	return []File{{
		Path: Path(run, "daily", partition, 0), Rows: 2, Bytes: 100, SHA256: Digest([]byte(run + partition)), MinKey: []string{"EIRE"}, MaxKey: []string{"<Ελλάς>"},
	}}
}

func testCandidate(t *testing.T, run string, base *Snapshot, partitions ...string) *Candidate {
	t.Helper()
	out := Output{Schema: dailySchema, Partitions: map[string][]File{}}
	for _, p := range partitions {
		out.Partitions[p] = entry(run, p)
	}
	c, err := NewCandidate("retail", run, base, Provenance{
		Job: "daily", Window: "2011-11-01T00:00:00Z/2011-11-22T00:00:00Z", Plan: "sha256:ab", Code: "cd",
		Coverage: []Coverage{{Topic: "retail.invoice-lines", Partition: 0, First: 100, Tail: 250, Next: 300}},
	}, map[string]Output{"daily": out})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// publish serves what a candidate makes of the version that is served, as package serve would.
func publish(t *testing.T, store blob.Store, c *Candidate) *Snapshot {
	t.Helper()
	ctx := t.Context()
	var base *Manifest
	commit := Commit{Nonce: "nonce of " + c.Run, Op: OpPromote, By: "ann", At: at, Why: "wrong revenue"}
	now, err := OpenSnapshot(ctx, store)
	if err == nil {
		base, commit.Parent = now.Manifest, &now.Ref
	} else if !errors.Is(err, ErrNoVersion) {
		t.Fatal(err)
	}
	m, err := c.Apply(base, commit)
	if err != nil {
		t.Fatal(err)
	}
	b, ref, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	p, err := PointTo(ref, m.Commit).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for key, b := range map[string][]byte{ref.Manifest: b, PointerKey: p} {
		if _, err := blob.PutBytes(ctx, store, key, b, blob.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenSnapshot(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFormat holds what lies on disk: a change here is a change of the format, which old datasets must survive.
func TestFormat(t *testing.T) {
	store := memblob.New()
	publish(t, store, testCandidate(t, "run-1", nil, "day=2011-11-01", "day=2011-11-02"))
	base, err := OpenSnapshot(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	c := testCandidate(t, "run-2", base, "day=2011-11-02", "day=2011-11-03")
	b, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "candidate.json", b)
	s := publish(t, store, c)
	for name, key := range map[string]string{"pointer.json": PointerKey, "manifest.json": s.Ref.Manifest} {
		b, _, err := blob.ReadAll(t.Context(), store, key)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, b)
	}
	if want := "manifests/0000000002-" + s.Ref.Digest[:16] + ".json"; s.Ref.Manifest != want {
		t.Errorf("the manifest is called %s, want %s", s.Ref.Manifest, want)
	}
}

func TestHistory(t *testing.T) {
	store := memblob.New()
	ctx := t.Context()
	if _, err := OpenSnapshot(ctx, store); !errors.Is(err, ErrNoVersion) {
		t.Errorf("an empty dataset: %v", err)
	}
	publish(t, store, testCandidate(t, "run-1", nil, "day=2011-11-01"))
	first, err := OpenSnapshot(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, store, testCandidate(t, "run-2", first, "day=2011-11-01"))
	now := publish(t, store, testCandidate(t, "run-3", first, "day=2011-11-03"))
	var runs []string
	for v, err := range now.History(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, v.Manifest.Commit.Run)
	}
	if want := []string{"run-3", "run-2", "run-1"}; !slices.Equal(runs, want) {
		t.Errorf("history: %v, want %v", runs, want)
	}
	if v, err := now.Version(ctx, 1); err != nil || v.Ref != first.Ref {
		t.Errorf("version 1: %v, %v", v, err)
	}
	for _, n := range []int64{-1, 0, 4} {
		if _, err := now.Version(ctx, n); err == nil || !strings.Contains(err.Error(), "versions 1 to 3 exist") {
			t.Errorf("version %d: %v", n, err)
		}
	}
	if _, err := now.Table("dayly"); err == nil || !strings.Contains(err.Error(), "it has daily") {
		t.Errorf("a table that is none: %v", err)
	}

	// An altered manifest does not pass for what its child names.
	b, _, err := blob.ReadAll(ctx, store, first.Ref.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := blob.PutBytes(ctx, store, first.Ref.Manifest, bytes.Replace(b, []byte("ann"), []byte("eve"), 1), blob.Condition{}); err != nil {
		t.Fatal(err)
	}
	if _, err := now.Version(ctx, 1); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("an altered version: %v", err)
	}
}

func TestCandidateDependsOnItsArgumentsOnly(t *testing.T) {
	partitions := []string{"day=2011-11-03", "day=2011-11-01", "day=2011-11-02"}
	a, err := testCandidate(t, "run-1", nil, partitions...).Digest()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(partitions)
	if b, err := testCandidate(t, "run-1", nil, partitions...).Digest(); err != nil || a != b {
		t.Errorf("digests %s and %s, %v", a, b, err)
	}
	// The content's digest tells results apart, not runs.
	out := func(run, content string) string {
		files := entry(run, "day=2011-11-01")
		files[0].SHA256 = Digest([]byte(content))
		c, err := NewCandidate("retail", run, nil, Provenance{}, map[string]Output{"daily": {Schema: dailySchema, Partitions: map[string][]File{"day=2011-11-01": files}}})
		if err != nil {
			t.Fatal(err)
		}
		return c.Provenance.Content
	}
	if out("run-1", "a") != out("run-2", "a") || out("run-1", "a") == out("run-1", "b") {
		t.Error("the content's digest is not that of the content")
	}
}

func TestEmptyPartitionsAreKept(t *testing.T) {
	store := memblob.New()
	first := publish(t, store, testCandidate(t, "run-1", nil, "day=2011-11-01"))
	c, err := NewCandidate("retail", "run-2", first, Provenance{}, map[string]Output{
		"daily": {Schema: dailySchema, Partitions: map[string][]File{"day=2011-11-01": {{Path: Path("run-2", "daily", "day=2011-11-01", 0)}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := publish(t, store, c)
	p, ok := s.Manifest.Tables["daily"].Partitions["day=2011-11-01"]
	if !ok || p.Run != "run-2" || len(p.Files) != 0 || p.Rows() != 0 {
		t.Errorf("the emptied partition: %+v, %v", p, ok)
	}
}

func TestWhatACandidateCannotBe(t *testing.T) {
	day := "day=2011-11-01"
	with := func(f func(*File)) []File {
		files := entry("run-1", day)
		f(&files[0])
		return files
	}
	schema := func(f func(*Schema)) Schema {
		s := dailySchema
		s.Rows = slices.Clone(s.Rows)
		f(&s)
		return s
	}
	for name, c := range map[string]struct {
		run  string
		out  Output
		want string
	}{
		"path outside":        {"run-1", Output{dailySchema, map[string][]File{day: with(func(f *File) { f.Path = "manifests/x" })}}, "not below data/"},
		"path up":             {"run-1", Output{dailySchema, map[string][]File{day: with(func(f *File) { f.Path = "data/../x" })}}, "path element"},
		"file without sum":    {"run-1", Output{dailySchema, map[string][]File{day: with(func(f *File) { f.SHA256 = "ab" })}}, "SHA-256"},
		"file twice":          {"run-1", Output{dailySchema, map[string][]File{day: append(entry("a", day), entry("a", day)...)}}, "listed twice"},
		"bounds":              {"run-1", Output{dailySchema, map[string][]File{day: with(func(f *File) { f.MinKey = nil })}}, "key bounds"},
		"no such day":         {"run-1", Output{dailySchema, map[string][]File{"day=2011-11-31": nil}}, "2011-11-31"},
		"label only":          {"run-1", Output{dailySchema, map[string][]File{"2011-11-01": nil}}, "does not name a partition"},
		"other unit":          {"run-1", Output{dailySchema, map[string][]File{"month=2011-11": nil}}, "does not name a partition"},
		"run with a slash":    {"run/1", Output{dailySchema, map[string][]File{day: nil}}, "cannot name a run"},
		"no columns":          {"run-1", Output{schema(func(s *Schema) { s.Rows = nil; s.Keys = 0 }), map[string][]File{day: nil}}, "no columns"},
		"partition's name":    {"run-1", Output{schema(func(s *Schema) { s.Rows[1].Name = "day" }), map[string][]File{day: nil}}, "two columns are called day"},
		"nullable key":        {"run-1", Output{schema(func(s *Schema) { s.Rows[0].Nullable = true }), map[string][]File{day: nil}}, "nullable"},
		"more keys than rows": {"run-1", Output{schema(func(s *Schema) { s.Keys = 4 }), map[string][]File{day: nil}}, "4 key columns"},
		"no zone":             {"run-1", Output{schema(func(s *Schema) { s.Scheme.Zone = "Mars" }), map[string][]File{day: nil}}, "unknown zone"},
	} {
		if _, err := NewCandidate("retail", c.run, nil, Provenance{}, map[string]Output{"daily": c.out}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want something of %q", name, err, c.want)
		}
	}
}

func TestReadingIsStrict(t *testing.T) {
	good := map[string][]byte{}
	for _, name := range []string{"pointer.json", "manifest.json", "candidate.json"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		good[name] = b
	}
	decode := map[string]func([]byte) error{
		"pointer.json":   func(b []byte) error { _, err := DecodePointer(b); return err },
		"manifest.json":  func(b []byte) error { _, err := DecodeManifest(b); return err },
		"candidate.json": func(b []byte) error { _, err := DecodeCandidate(b); return err },
	}
	for name, b := range good {
		if err := decode[name](b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for what, bad := range map[string]string{
			"nothing":          "",
			"null":             "null\n",
			"cut off":          string(b[:len(b)/2]),
			"trailing":         string(b) + "{}\n",
			"unknown field":    strings.Replace(string(b), `{"format":1,`, `{"format":1,"more":1,`, 1),
			"repeated field":   strings.Replace(string(b), `{"format":1,`, `{"format":1,"format":1,`, 1),
			"other case":       strings.Replace(string(b), `"dataset"`, `"Dataset"`, 1),
			"newer format":     strings.Replace(string(b), `"format":1`, `"format":2`, 1),
			"spaces":           strings.Replace(string(b), `,`, `, `, 1),
			"bad dataset name": strings.Replace(string(b), `"retail"`, `"../retail"`, 1),
			"other content":    strings.Replace(string(b), `"digest":"`, `"digest":"0`, 1),
		} {
			if bad == string(b) {
				t.Fatalf("%s: %s changes nothing", name, what)
			}
			if err := decode[name]([]byte(bad)); err == nil {
				t.Errorf("%s, %s: it was read", name, what)
			} else if what == "newer format" && !strings.Contains(err.Error(), "format 2") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	big := bytes.Repeat([]byte(" "), maxPointer+1)
	store := memblob.New()
	if _, err := blob.PutBytes(t.Context(), store, PointerKey, big, blob.Condition{}); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSnapshot(t.Context(), store); err == nil || !strings.Contains(err.Error(), "more than the") {
		t.Errorf("an oversized pointer: %v", err)
	}
}

// FuzzDecode: whatever is read encodes back to the same bytes; nothing panics.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"pointer.json", "manifest.json", "candidate.json"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"format":1,"commit":{},"tables":{"a":{"schema":{"rows":[{"name":"x","kind":"int64"}],"scheme":{"buckets":4}},"partitions":{"bucket=0001":{}}}}}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := DecodePointer(b); err == nil {
			if again, err := p.Encode(); err != nil || !bytes.Equal(again, b) {
				t.Errorf("pointer %q became %q, %v", b, again, err)
			}
		}
		if m, err := DecodeManifest(b); err == nil {
			if again, ref, err := m.Encode(); err != nil || !bytes.Equal(again, b) || ref.Digest != Digest(b) {
				t.Errorf("manifest %q became %q, %v", b, again, err)
			}
			for _, table := range m.Tables {
				table.Order()
			}
		}
		if c, err := DecodeCandidate(b); err == nil {
			if again, err := c.Encode(); err != nil || !bytes.Equal(again, b) {
				t.Errorf("candidate %q became %q, %v", b, again, err)
			}
		}
	})
}

func TestPutOnce(t *testing.T) {
	lost := errors.Join(errors.New("connection reset"), blob.ErrTransient)
	sum := Digest([]byte("a"))
	for name, c := range map[string]struct {
		there string
		hook  func(n int, op blob.Op) error // n counts from 1
		want  error
	}{
		"free":          {},
		"a repeat":      {there: "a"},
		"other":         {there: "b", want: ErrOther},
		"lost reply":    {hook: func(n int, op blob.Op) error { return when(n == 1 && op.Done, lost) }},
		"lost request":  {hook: func(n int, _ blob.Op) error { return when(n == 1, lost) }},
		"never answers": {hook: func(int, blob.Op) error { return lost }, want: blob.ErrTransient},
	} {
		t.Run(name, func(t *testing.T) {
			store := memblob.New()
			if c.there != "" {
				if _, err := blob.PutBytes(t.Context(), store, "x", []byte(c.there), blob.Condition{}); err != nil {
					t.Fatal(err)
				}
			}
			n := 0
			s := blob.Hook(store, func(op blob.Op) error {
				if !op.Done {
					n++
				}
				if c.hook == nil {
					return nil
				}
				return c.hook(n, op)
			})
			err := PutOnce(t.Context(), s, "x", strings.NewReader("a"), sum)
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if err == nil {
				if b, _, err := blob.ReadAll(t.Context(), store, "x"); err != nil || string(b) != "a" {
					t.Errorf("stored %q, %v", b, err)
				}
			}
		})
	}
}

func when(cond bool, err error) error {
	if cond {
		return err
	}
	return nil
}

func TestMovedPartitionsAreToldByWriter(t *testing.T) {
	live := &Partition{Run: "live-2", Generation: 2}
	err := &MovedError{Moved: []Moved{{"daily", "day=2011-11-01", live}, {"daily", "day=2011-11-02", nil}, {"daily", "day=2011-11-03", live}}}
	want := "daily day=2011-11-01, daily day=2011-11-03 were written by live-2 in generation 2; daily day=2011-11-02 is gone"
	if err.Error() != want {
		t.Errorf("%q, want %q", err.Error(), want)
	}
}
