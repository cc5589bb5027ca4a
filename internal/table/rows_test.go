package table

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/partition"
	"hindcast/internal/record"
	"hindcast/internal/unit"
)

// row is a row of the table "all", which has every kind of column.
type row struct {
	key   string
	seq   int64
	flag  bool
	ratio *float64
	at    *int64
	date  *int64
	note  *string
}

var allRows = record.Schema{
	{Name: "key", Kind: record.String},
	{Name: "seq", Kind: record.Int64},
	{Name: "flag", Kind: record.Bool},
	{Name: "ratio", Kind: record.Float64, Nullable: true},
	{Name: "at", Kind: record.Timestamp, Nullable: true},
	{Name: "date", Kind: record.Date, Nullable: true},
	{Name: "note", Kind: record.String, Nullable: true},
}

var schemes = map[string]partition.Scheme{
	"hour":   {Unit: partition.Hour, Column: "at", Zone: "Pacific/Auckland"},
	"day":    {Unit: partition.Day, Column: "at", Zone: "Europe/London"},
	"month":  {Unit: partition.Month, Column: "at", Zone: "America/New_York"},
	"bucket": {Buckets: 4},
}

// labels are in the order of readers: Auckland's repeated hour comes with summer time first.
var labels = map[string][]string{
	"hour":   {"2011-04-03T01+1300", "2011-04-03T02+1300", "2011-04-03T02+1200", "2011-04-03T03+1200"},
	"day":    {"2011-10-29", "2011-10-30", "2011-10-31", "2012-01-01"},
	"month":  {"2010-12", "2011-01", "2011-02", "2011-10"},
	"bucket": {"0000", "0001", "0002", "0003"},
}

func null[T any](c *record.Column, i int, v *T) (out T) {
	if v == nil {
		for len(c.Nulls)*64 <= i {
			c.Nulls = append(c.Nulls, 0)
		}
		c.Nulls.Set(i)
		return out
	}
	for c.Nulls != nil && len(c.Nulls)*64 <= i {
		c.Nulls = append(c.Nulls, 0)
	}
	return *v
}

// batches cuts rows into batches of random size.
func batches(rows []row, rnd *rand.Rand) iter.Seq2[*record.Batch, error] {
	return func(yield func(*record.Batch, error) bool) {
		for len(rows) > 0 {
			n := 1 + rnd.IntN(len(rows))
			b := newBatch(allRows)
			for i, r := range rows[:n] {
				c := b.Columns
				c[0].Strings.Append([]byte(r.key))
				c[1].Int64s = append(c[1].Int64s, r.seq)
				c[2].Int64s = append(c[2].Int64s, int64(btoi(r.flag)))
				c[3].Float64s = append(c[3].Float64s, null(&c[3], i, r.ratio))
				c[4].Int64s = append(c[4].Int64s, null(&c[4], i, r.at))
				c[5].Int64s = append(c[5].Int64s, null(&c[5], i, r.date))
				c[6].Strings.Append([]byte(null(&c[6], i, r.note)))
				b.Len++
			}
			rows = rows[n:]
			if !yield(b, nil) {
				return
			}
		}
	}
}

func randomRows(n int, rnd *rand.Rand) []row {
	maybe := func(v int64) *int64 {
		if rnd.IntN(4) == 0 {
			return nil
		}
		return &v
	}
	var out []row
	for range n {
		r := row{key: fmt.Sprintf("k%02d", rnd.IntN(40)), seq: rnd.Int64N(1000), flag: rnd.IntN(2) == 0}
		r.at, r.date = maybe(rnd.Int64N(1e15)), maybe(rnd.Int64N(20000)-5000)
		if rnd.IntN(2) == 0 {
			f := []float64{0, math.Copysign(0, -1), 0.1, 1e300, math.Inf(1), -1.5}[rnd.IntN(6)]
			r.ratio = &f
		}
		if rnd.IntN(3) > 0 {
			s := strings.Repeat("né", rnd.IntN(5))
			r.note = &s
		}
		out = append(out, r)
	}
	sortRows(out)
	return out
}

func sortRows(rows []row) {
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.seq, b.seq)) })
}

func text(r row) string {
	show := func(v *int64) string {
		if v == nil {
			return "null"
		}
		return fmt.Sprint(*v)
	}
	ratio, note := "null", "null"
	if r.ratio != nil {
		ratio = fmt.Sprint(math.Float64bits(*r.ratio))
	}
	if r.note != nil {
		note = fmt.Sprintf("%q", *r.note)
	}
	return strings.Join([]string{r.key, fmt.Sprint(r.seq), fmt.Sprint(r.flag), ratio, show(r.at), show(r.date), note}, " ")
}

// scanned reads rows back, after skip columns.
func scanned(b *record.Batch, skip int) []string {
	var out []string
	for i := range b.Len {
		c := b.Columns[skip:]
		r := row{key: string(c[0].Strings.At(i)), seq: c[1].Int64s[i], flag: c[2].Int64s[i] == 1}
		if !c[3].Nulls.Get(i) {
			r.ratio = &c[3].Float64s[i]
		}
		if !c[4].Nulls.Get(i) {
			r.at = &c[4].Int64s[i]
		}
		if !c[5].Nulls.Get(i) {
			r.date = &c[5].Int64s[i]
		}
		if !c[6].Nulls.Get(i) {
			s := string(c[6].Strings.At(i))
			r.note = &s
		}
		out = append(out, text(r))
	}
	return out
}

// TestRoundTrip writes random rows into several files a partition, and reads them back merged: by partition, then by key.
func TestRoundTrip(t *testing.T) {
	for unit, scheme := range schemes {
		t.Run(unit, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 2))
			store := memblob.New()
			schema := Schema{Rows: allRows, Keys: 2, Scheme: scheme}
			out := Output{Schema: schema, Partitions: map[string][]File{}}
			var want []string
			for _, label := range labels[unit] {
				var all []row
				for part := range rnd.IntN(4) {
					rows := randomRows(rnd.IntN(6000), rnd)
					f, err := writeFile(t.Context(), store, Path("run-1", "all", schema.Partition(label), part), schema, label, batches(rows, rnd), WriteOptions{Scratch: t.TempDir()})
					if err != nil {
						t.Fatal(err)
					}
					if f.Rows != int64(len(rows)) {
						t.Errorf("wrote %d rows of %d", f.Rows, len(rows))
					}
					out.Partitions[schema.Partition(label)] = append(out.Partitions[schema.Partition(label)], f)
					all = append(all, rows...)
				}
				if _, ok := out.Partitions[schema.Partition(label)]; !ok {
					out.Partitions[schema.Partition(label)] = nil
				}
				sortRows(all) // stable: of equal keys those of the first file come first
				for _, r := range all {
					want = append(want, text(r))
				}
			}
			c, err := NewCandidate("retail", "run-1", nil, Provenance{}, map[string]Output{"all": out})
			if err != nil {
				t.Fatal(err)
			}
			s := publish(t, store, c)
			skip := len(schema.Columns()) - len(allRows)
			var got, partitions []string
			err = s.Scan(t.Context(), "all", func(b *record.Batch) error {
				got = append(got, scanned(b, skip)...)
				if skip == 1 {
					partitions = append(partitions, Text(&b.Columns[0], 0))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("read %d rows, want the %d that were written, in order", len(got), len(want))
			}
			if partitions = slices.Compact(partitions); unit == "day" && !slices.IsSorted(partitions) || unit == "hour" && !slices.IsSortedFunc(partitions, strings.Compare) {
				t.Errorf("partitions came as %v", partitions)
			}
		})
	}
}

// TestSameRowsSameBytes: how rows are cut into batches, and where they are spooled, is not seen in the file; a repeat is no error, other rows are.
func TestSameRowsSameBytes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	store := memblob.New()
	schema := Schema{Rows: allRows, Keys: 2, Scheme: schemes["day"]}
	rows := randomRows(5000, rnd)
	var first File
	for i := range 3 {
		f, err := writeFile(t.Context(), store, "data/run-1/all/x", schema, "2011-10-30", batches(rows, rnd), WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = f
		} else if !(Partition{Files: []File{first}}).equal(Partition{Files: []File{f}}) {
			t.Errorf("%+v, then %+v", first, f)
		}
	}
	if first.MinKey[0] != rows[0].key || first.MaxKey[0] != rows[4999].key || len(first.MaxKey) != 2 {
		t.Errorf("bounds %v and %v", first.MinKey, first.MaxKey)
	}
	if _, err := writeFile(t.Context(), store, "data/run-1/all/x", schema, "2011-10-30", batches(rows[1:], rnd), WriteOptions{}); !errors.Is(err, ErrOther) {
		t.Errorf("other rows under the same name: %v", err)
	}
}

// Files end by the rows alone. Together they have the rows of one file, in order, and are read one after the other, whatever else lies in the partition.
// brokenOff writes files, breaks off now and again, and goes on after those that were whole, with the rows that were not in one.
func brokenOff(t *testing.T, store blob.Store, s Schema, label string, rows iter.Seq2[*record.Batch, error], target unit.Bytes) (all []File) {
	t.Helper()
	begin := func() *Files {
		before := len(all)
		f, err := NewFiles(store, func(n int) string { return Path("run-3", "all", "x", before+n) }, s, label, WriteOptions{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := begin()
	defer func() { f.Discard() }()
	write := func(b *record.Batch) {
		if err := f.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	at, next := 0, 700
	for b, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		if write(b); at+b.Len >= next {
			old := f
			files, rest := old.Break()
			all = append(all, files...)
			f = begin()
			for b, err := range rest {
				if err != nil {
					t.Fatal(err)
				}
				write(b)
			}
			old.Discard()
			next += 2900
		}
		at += b.Len
	}
	files, err := f.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return append(all, files...)
}

func TestFilesOfATargetSize(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	for name, schema := range map[string]Schema{
		"keys":    {Rows: allRows, Keys: 2, Scheme: schemes["day"]},
		"no keys": {Rows: allRows, Scheme: schemes["day"]},
		"buckets": {Rows: allRows, Keys: 2, Scheme: schemes["bucket"]},
	} {
		t.Run(name, func(t *testing.T) {
			store := memblob.New()
			label := "2011-10-30"
			if name == "buckets" {
				label = "0001"
			}
			rows := randomRows(9000, rnd)
			var all []File
			for i := range 2 {
				path := func(n int) string { return BucketPath("run-1", "all", schema.Partition(label), 3, n) }
				files, err := WriteFiles(t.Context(), store, path, schema, label, batches(rows, rnd), WriteOptions{Target: 40_000})
				if err != nil {
					t.Fatal(err)
				}
				if i > 0 && !slices.EqualFunc(all, files, func(a, b File) bool { return a.Path == b.Path && a.SHA256 == b.SHA256 }) {
					t.Fatalf("first %v, then %v", all, files)
				}
				all = files
			}
			if len(all) < 3 || len(all) > 9 {
				t.Fatalf("%d files", len(all))
			}
			if files := brokenOff(t, store, schema, label, batches(rows, rnd), 40_000); !slices.EqualFunc(all, files, func(a, b File) bool { return a.SHA256 == b.SHA256 }) {
				t.Errorf("files that were broken off are %v, not %v", files, all)
			}
			for i, f := range all {
				if f.Rows%1024 != 0 && i < len(all)-1 || f.Bytes > 80_000 {
					t.Errorf("file %s has %d rows, %s", f.Path, f.Rows, f.Bytes)
				}
			}
			if chains := schema.chains(all); len(chains) != 1 {
				t.Errorf("%d files are read at once", len(chains))
			}
			// Those of another writer, between and around: they are merged.
			others := randomRows(3000, rnd)
			more, err := WriteFiles(t.Context(), store, func(n int) string { return Path("run-2", "all", "x", n) }, schema, label, batches(others, rnd), WriteOptions{Target: 40_000})
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Concat(rows, others)
			if schema.Keys > 0 {
				sortRows(want)
			}
			var got []string
			err = ScanFiles(t.Context(), store, schema, schema.Partition(label), slices.Concat(all, more), ScanOptions{}, func(b *record.Batch) error {
				got = append(got, scanned(b, len(schema.Columns())-len(allRows))...)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, want, func(g string, w row) bool { return g == text(w) }) {
				t.Errorf("read %d rows, want the %d that were written, in order", len(got), len(want))
			}
			// Files in a wrong order do not pass.
			if schema.Keys > 0 {
				swapped := slices.Clone(all)
				swapped[1].MinKey, swapped[1].MaxKey, swapped[0].MinKey, swapped[0].MaxKey = all[0].MinKey, all[0].MaxKey, all[1].MinKey, all[1].MaxKey
				slices.Reverse(swapped[:2])
				err := ScanFiles(t.Context(), store, schema, schema.Partition(label), swapped, ScanOptions{}, func(*record.Batch) error { return nil })
				if err == nil || !strings.Contains(err.Error(), "not sorted") {
					t.Errorf("files in a wrong order: %v", err)
				}
			}
		})
	}
}

// What bounds say of the order of two files is what the values say.
func TestBoundsAreInTheOrderOfValues(t *testing.T) {
	for kind, ascending := range map[record.Kind][]string{
		record.Int64:     {"-10", "-9", "0", "5", "10"},
		record.Float64:   {"NaN", "-Inf", "-10", "-9.5", "2", "10", "1e+21"},
		record.Bool:      {"false", "true"},
		record.String:    {"", "A", "a", "ab", "b"},
		record.Timestamp: {"1969-12-31T23:59:59.999999Z", "2011-01-01T00:00:05Z", "2011-01-01T00:00:05.5Z"},
		record.Date:      {"1960-01-01", "2011-02-01"},
	} {
		for i, a := range ascending {
			for j, b := range ascending {
				if got, err := compareText(kind, a, b); err != nil || got != cmp.Compare(i, j) {
					t.Errorf("%s, %q and %q: %d, %v", kind, a, b, got, err)
				}
			}
		}
	}
	if _, err := compareText(record.Int64, "x", "1"); err == nil {
		t.Error("x is an integer")
	}
}

func TestWhatIsNotWritten(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	schema := Schema{Rows: allRows, Keys: 2, Scheme: schemes["day"]}
	rows := randomRows(100, rnd)
	backwards := slices.Clone(rows)
	slices.Reverse(backwards)
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		schema Schema
		label  string
		rows   iter.Seq2[*record.Batch, error]
		want   string
	}{
		"unsorted":  {schema, "2011-10-30", batches(backwards, rnd), "not sorted by key"},
		"no day":    {schema, "2011-02-30", batches(rows, rnd), "2011-02-30"},
		"columns":   {Schema{Rows: allRows[:3], Keys: 1, Scheme: schemes["day"]}, "2011-10-30", batches(rows, rnd), "7 columns, expected 3"},
		"no bucket": {Schema{Rows: allRows, Keys: 2, Scheme: schemes["bucket"]}, "0004", batches(rows, rnd), "0004"},
		"source":    {schema, "2011-10-30", func(yield func(*record.Batch, error) bool) { yield(nil, broken) }, "broken"},
	} {
		store := memblob.New()
		if _, err := writeFile(t.Context(), store, "data/x/y", c.schema, c.label, c.rows, WriteOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if page, err := store.List(t.Context(), "", "", 10); err != nil || len(page) > 0 {
			t.Errorf("%s: it left %v, %v", name, page, err)
		}
	}
	store := memblob.New()
	f, err := writeFile(t.Context(), store, "data/x/y", schema, "2011-10-30", batches(nil, rnd), WriteOptions{})
	if page, errList := store.List(t.Context(), "", "", 10); err != nil || f.Rows != 0 || errList != nil || len(page) > 0 {
		t.Errorf("no rows: %+v, %v; it left %v, %v", f, err, page, errList)
	}
}

// oneFile publishes a table of one file and gives the store and the file's entry.
func oneFile(t *testing.T, change func(*File)) (blob.Store, *Snapshot) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(7, 8))
	store := memblob.New()
	schema := Schema{Rows: allRows, Keys: 2, Scheme: schemes["day"]}
	f, err := writeFile(t.Context(), store, Path("run-1", "all", "day=2011-10-30", 0), schema, "2011-10-30", batches(randomRows(3000, rnd), rnd), WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&f)
	}
	c, err := NewCandidate("retail", "run-1", nil, Provenance{}, map[string]Output{"all": {Schema: schema, Partitions: map[string][]File{"day=2011-10-30": {f}}}})
	if err != nil {
		t.Fatal(err)
	}
	return store, publish(t, store, c)
}

// TestDamageIsNamed: a file that is not what the manifest says gives no row without an error that names it.
// A folder for scratch that is not there, or full, is an error of writing.
func TestNoScratch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	schema := Schema{Rows: allRows, Keys: 2, Scheme: schemes["day"]}
	opts := WriteOptions{Scratch: filepath.Join(t.TempDir(), "gone")}
	path := Path("run-1", "all", schema.Partition("2011-10-30"), 0)
	_, err := writeFile(t.Context(), memblob.New(), path, schema, "2011-10-30", batches(randomRows(10, rnd), rnd), opts)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestDamageIsNamed(t *testing.T) {
	path := Path("run-1", "all", "day=2011-10-30", 0)
	flip := func(t *testing.T, store blob.Store) {
		b, _, err := blob.ReadAll(t.Context(), store, path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if _, err := blob.PutBytes(t.Context(), store, path, b, blob.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		entry  func(*File)
		damage func(*testing.T, blob.Store)
		want   string
	}{
		"flipped byte": {nil, flip, "SHA-256"},
		"cut off": {nil, func(t *testing.T, store blob.Store) {
			if _, err := blob.PutBytes(t.Context(), store, path, []byte("PAR1"), blob.Condition{}); err != nil {
				t.Fatal(err)
			}
		}, "has 4 bytes"},
		"gone": {nil, func(t *testing.T, store blob.Store) {
			if err := store.Delete(t.Context(), path); err != nil {
				t.Fatal(err)
			}
		}, "not found"},
		"fewer rows than listed": {func(f *File) { f.Rows++ }, nil, "has 3000 rows, the manifest says 3001"},
	} {
		store, s := oneFile(t, c.entry)
		if c.damage != nil {
			c.damage(t, store)
		}
		err := s.Scan(t.Context(), "all", func(*record.Batch) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForeignFiles: a file of another partition, order or shape is refused, though its checksum is right.
func TestForeignFiles(t *testing.T) {
	day := Schema{Rows: allRows, Keys: 2, Scheme: schemes["day"]}
	unsorted := day
	unsorted.Keys = 0
	for name, c := range map[string]struct {
		schema Schema
		label  string
		rows   []row
		want   string
	}{
		"another day":     {day, "2011-10-29", []row{{key: "a"}}, "a row of 2011-10-29 in the partition 2011-10-30"},
		"unsorted":        {unsorted, "2011-10-30", []row{{key: "b"}, {key: "a"}}, "not sorted by key"},
		"another's table": {Schema{Rows: allRows, Keys: 2, Scheme: schemes["month"]}, "2011-10", []row{{key: "a"}}, "it has the columns"},
	} {
		store := memblob.New()
		rnd := rand.New(rand.NewPCG(9, 9))
		f, err := writeFile(t.Context(), store, Path("run-1", "all", "day=2011-10-30", 0), c.schema, c.label, batches(c.rows, rnd), WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f.MinKey, f.MaxKey = nil, nil
		cand, err := NewCandidate("retail", "run-1", nil, Provenance{}, map[string]Output{"all": {Schema: day, Partitions: map[string][]File{"day=2011-10-30": {f}}}})
		if err != nil {
			t.Fatal(err)
		}
		err = publish(t, store, cand).Scan(t.Context(), "all", func(*record.Batch) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), f.Path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLargeFilesGoThroughScratch(t *testing.T) {
	_, s := oneFile(t, nil)
	f := s.Manifest.Tables["all"].Partitions["day=2011-10-30"].Files[0]
	for _, limit := range []int64{0, 1 << 30} {
		data, tag, done, err := download(t.Context(), s.store, f, limit)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := s.store.Head(t.Context(), f.Path); err != nil || tag != info.ETag {
			t.Errorf("limit %d: ETag %q, it is %q, %v", limit, tag, info.ETag, err)
		}
		file, err := parquetfile.Open(data, int64(f.Bytes), f.Path)
		if err != nil || file.Rows() != f.Rows {
			t.Errorf("limit %d: %v", limit, err)
		}
		done()
	}
}

// A file is told of by its ETag once its bytes were compared, and only where they are the manifest's.
func TestFilesThatAreFoundAreToldOf(t *testing.T) {
	_, s := oneFile(t, nil)
	path := s.Manifest.Tables["all"].Partitions["day=2011-10-30"].Files[0].Path
	body, info, err := blob.ReadAll(t.Context(), s.store, path)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]blob.ETag{}
	opts := ScanOptions{Found: func(path string, tag blob.ETag) { found[path] = tag }}
	if err := s.ScanPartition(t.Context(), "all", "day=2011-10-30", opts, func(*record.Batch) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if want := map[string]blob.ETag{path: info.ETag}; !maps.Equal(found, want) {
		t.Errorf("told of %v, want %v", found, want)
	}
	clear(found)
	body[100] ^= 1
	if _, err := blob.PutBytes(t.Context(), s.store, path, body, blob.Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := s.ScanPartition(t.Context(), "all", "day=2011-10-30", opts, func(*record.Batch) error { return nil }); err == nil || len(found) != 0 {
		t.Errorf("of a damaged file: told of %v, %v", found, err)
	}
}

func TestScanStops(t *testing.T) {
	_, s := oneFile(t, nil)
	enough := errors.New("enough")
	if err := s.Scan(t.Context(), "all", func(*record.Batch) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("fn's error: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Scan(ctx, "all", func(*record.Batch) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	rows := 0
	count := func(b *record.Batch) error { rows += b.Len; return nil }
	if err := s.ScanPartition(t.Context(), "all", "day=2011-10-30", ScanOptions{}, count); err != nil || rows != 3000 {
		t.Errorf("one partition: %d rows, %v", rows, err)
	}
	if err := s.ScanPartition(t.Context(), "all", "day=2011-10-31", ScanOptions{}, count); err != nil || rows != 3000 {
		t.Errorf("a partition that is not there: %d rows, %v", rows, err)
	}
}

// small publishes a few rows that show how values are written.
func small(t *testing.T) *Snapshot {
	t.Helper()
	store := memblob.New()
	schema := Schema{Rows: allRows, Keys: 2, Scheme: schemes["day"]}
	at := time.Date(2011, 10, 30, 1, 30, 0, 250_000_000, time.UTC).UnixMicro()
	whole, date, ratio, nan, note, empty := int64(0), int64(-1), 0.1, math.NaN(), "a \"b\", <c>\n", ""
	rows := []row{
		{key: "EIRE", seq: math.MinInt64, flag: true, ratio: &ratio, at: &at, date: &date, note: &note},
		{key: "EIRE", seq: 1<<53 + 1, ratio: &nan, at: &whole, date: &whole, note: &empty},
		{key: "Ελλάς"},
	}
	out := Output{Schema: schema, Partitions: map[string][]File{}}
	for _, label := range []string{"2011-10-31", "2011-10-30"} {
		f, err := writeFile(t.Context(), store, Path("run-1", "all", "day="+label, 0), schema, label, batches(rows, rand.New(rand.NewPCG(1, 1))), WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		out.Partitions["day="+label] = []File{f}
	}
	c, err := NewCandidate("retail", "run-1", nil, Provenance{}, map[string]Output{"all": out, "none": {Schema: schema, Partitions: map[string][]File{"day=2011-10-30": nil}}})
	if err != nil {
		t.Fatal(err)
	}
	return publish(t, store, c)
}

func TestCat(t *testing.T) {
	s := small(t)
	for _, format := range []OutputFormat{CSV, JSON} {
		var buf bytes.Buffer
		if err := Cat(t.Context(), s, "all", &buf, format); err != nil {
			t.Fatal(err)
		}
		golden(t, "cat."+string(format), buf.Bytes())
	}
	var buf bytes.Buffer
	if err := Cat(t.Context(), s, "all", &buf, Parquet); err != nil {
		t.Fatal(err)
	}
	f, err := parquetfile.Open(bytes.NewReader(buf.Bytes()), int64(buf.Len()), "cat.parquet")
	if err != nil {
		t.Fatal(err)
	}
	if want := s.Manifest.Tables["all"].Schema.Columns(); !f.Schema().Equal(want) || f.Rows() != 6 {
		t.Errorf("parquet: %d rows of %v, want 6 of %v", f.Rows(), f.Schema(), want)
	}
	buf.Reset()
	if err := Cat(t.Context(), s, "none", &buf, CSV); err != nil || strings.Count(buf.String(), "\n") != 1 {
		t.Errorf("an empty table: %q, %v", buf.String(), err)
	}
	if err := Cat(t.Context(), s, "all", &buf, "xml"); err == nil || !strings.Contains(err.Error(), "csv, json and parquet") {
		t.Errorf("xml: %v", err)
	}
	buf.Reset()
	if err := Cat(t.Context(), s, "all", &buf, CSV); err != nil {
		t.Fatal(err)
	}
	if records, err := csv.NewReader(&buf).ReadAll(); err != nil || len(records) != 7 || records[1][7] != "a \"b\", <c>\n" {
		t.Errorf("csv read back: %q, %v", records, err)
	}
}

func TestQuery(t *testing.T) {
	s := small(t)
	for _, as := range []Dialect{DuckDB, Athena, Spark} {
		var all string
		for _, name := range []string{"all", "none"} {
			q, err := s.Query(name, "s3://lake/o'neill/", as)
			if err != nil {
				t.Fatal(err)
			}
			all += q + "\n"
		}
		golden(t, "query."+string(as), []byte(all))
	}
	if _, err := s.Query("all", "/data/lake", Athena); err == nil || !strings.Contains(err.Error(), "s3://") {
		t.Errorf("athena on files: %v", err)
	}
	if _, err := s.Query("all", "s3://a", "hive"); err == nil || !strings.Contains(err.Error(), "duckdb, athena and spark") {
		t.Errorf("hive: %v", err)
	}
}

// writeFile writes a partition's rows as one file. Without rows it has none.
func writeFile(
	ctx context.Context, store blob.Store, path string, s Schema, label string, rows iter.Seq2[*record.Batch, error], opts WriteOptions,
) (File, error) {
	files, err := WriteFiles(ctx, store, func(int) string { return path }, s, label, rows, opts)
	if err != nil || len(files) == 0 {
		return File{Path: path}, err
	}
	return files[0], nil
}
