package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hindcast/internal/record"
)

// rows renders batches one row a string, so that any two cuts of the same rows are equal.
func rows(b *record.Batch) []string {
	out := make([]string, b.Len)
	for r := range out {
		for i := range b.Columns {
			c := &b.Columns[i]
			switch {
			case c.Nulls.Get(r):
				out[r] += "|null"
			case c.Kind == record.Float64:
				out[r] += fmt.Sprintf("|%x", math.Float64bits(c.Float64s[r]))
			case c.Kind == record.String:
				out[r] += fmt.Sprintf("|%q", c.Strings.At(r))
			default:
				out[r] += fmt.Sprintf("|%d", c.Int64s[r])
			}
		}
	}
	return out
}

func readRows(t testing.TB, data []byte, opts ReadOptions) []string {
	t.Helper()
	f, err := Open(bytes.NewReader(data), int64(len(data)), "test.parquet")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	r := f.Read(opts)
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rows(b)...)
	}
}

func equalRows(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("row %d is\n%s, want\n%s", i, got[i], want[i])
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	schema := allKinds()
	encodings := []map[string]Encoding{nil, {}, {}}
	for _, f := range schema {
		if f.Kind != record.Bool && f.Kind != record.Float64 {
			encodings[1][f.Name] = Delta
		}
		if f.Kind != record.Bool {
			encodings[2][f.Name] = Dictionary
		}
	}
	for i, n := range []int{0, 1, 7, 1000, 8000} {
		for _, enc := range encodings {
			b := randomBatch(rng, schema, n)
			data := writeFile(t, schema, WriterOptions{RowGroupRows: 1 + rng.IntN(3000) + 100*i, Encodings: enc}, b)
			want := rows(b)
			for _, batchRows := range []int{0, 1 + rng.IntN(50), 1 + rng.IntN(5000)} {
				if n > 5000 && batchRows < 50 {
					continue
				}
				equalRows(t, readRows(t, data, ReadOptions{BatchRows: batchRows}), want)
			}
		}
	}
}

func TestReadSelects(t *testing.T) {
	schema := allKinds()
	b := randomBatch(rand.New(rand.NewPCG(7, 8)), schema, 950)
	data := writeFile(t, schema, WriterOptions{RowGroupRows: 100}, b)
	part := &record.Batch{Len: b.Len, Columns: []record.Column{b.Columns[6], b.Columns[3]}}
	want := slices.Concat(rows(cut(part, 900, 950)), rows(cut(part, 200, 300)))
	equalRows(t, readRows(t, data, ReadOptions{Columns: []string{"z_string", "a_int64"}, RowGroups: []int{9, 2}}), want)
	if got := readRows(t, data, ReadOptions{Columns: []string{}}); len(got) != 950 {
		t.Errorf("without columns there are %d rows", len(got))
	}
}

// Values that do not fit the dictionary any more are written plain: within one chunk both occur.
func TestReadDictionaryThatOverflows(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	schema := record.Schema{{Name: "s", Kind: record.String, Nullable: true}, {Name: "n", Kind: record.Int64}}
	b := &record.Batch{Len: 30_000, Columns: []record.Column{{Kind: record.String, Nulls: record.NewBitmap(30_000)}, {Kind: record.Int64}}}
	for row := range b.Len {
		s := fmt.Sprintf("%d", rng.IntN(5))
		if row > 5000 {
			s = fmt.Sprintf("%064x", rng.Uint64())
		}
		if rng.IntN(10) == 0 {
			b.Columns[0].Nulls.Set(row)
			s = ""
		}
		b.Columns[0].Strings.Append([]byte(s))
		b.Columns[1].Int64s = append(b.Columns[1].Int64s, int64(row))
	}
	data := writeFile(t, schema, WriterOptions{Encodings: map[string]Encoding{"n": Dictionary}}, b)
	f, err := Open(bytes.NewReader(data), int64(len(data)), "test.parquet")
	if err != nil {
		t.Fatal(err)
	}
	coded, plain := 0, 0
	r := f.Read(ReadOptions{})
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.Columns[0].Strings.Codes != nil {
			coded++
		} else {
			plain++
		}
	}
	if coded == 0 || plain == 0 {
		t.Errorf("%d batches have codes, %d are plain: the case is not covered", coded, plain)
	}
	for _, batchRows := range []int{0, 777, 30_000} {
		equalRows(t, readRows(t, data, ReadOptions{BatchRows: batchRows}), rows(b))
	}
}

func TestBounds(t *testing.T) {
	schema := record.Schema{
		{Name: "ms", Kind: record.Timestamp},
		{Name: "us", Kind: record.Timestamp, Nullable: true},
		{Name: "n", Kind: record.Int64},
		{Name: "none", Kind: record.Int64, Nullable: true},
		{Name: "d", Kind: record.Date},
		{Name: "s", Kind: record.String},
	}
	all := record.NewBitmap(3)
	all.Set(0)
	all.Set(1)
	all.Set(2)
	second := record.NewBitmap(3)
	second.Set(1)
	b := &record.Batch{Len: 3, Columns: []record.Column{
		{Kind: record.Timestamp, Int64s: []int64{-5000, 7000, 3000}},
		{Kind: record.Timestamp, Int64s: []int64{1, 99, -4}, Nulls: second},
		{Kind: record.Int64, Int64s: []int64{math.MaxInt64, math.MinInt64, 0}},
		{Kind: record.Int64, Int64s: []int64{0, 0, 0}, Nulls: all},
		{Kind: record.Date, Int64s: []int64{-1, 5, 3}},
		{Kind: record.String, Strings: record.Strings{Offsets: []uint32{0, 1, 2, 3}, Data: []byte("abc")}},
	}}
	data := writeFile(t, schema, WriterOptions{Millis: []string{"ms"}}, b)
	f, err := Open(bytes.NewReader(data), int64(len(data)), "test.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]int64{
		"ms": {-5000, 7000}, "us": {-4, 1}, "n": {math.MinInt64, math.MaxInt64}, "none": nil, "d": {-1, 5}, "s": nil, "missing": nil,
	} {
		lo, hi, ok := f.Bounds(0, name)
		if ok != (want != nil) || ok && (lo != want[0] || hi != want[1]) {
			t.Errorf("bounds of %s are %d, %d, %v; want %v", name, lo, hi, ok, want)
		}
	}
	for name, want := range map[string]int64{"ms": 0, "us": 1, "none": 3} {
		if n, ok := f.Nulls(0, name); !ok || n != want {
			t.Errorf("%s has %d nulls (%v), want %d", name, n, ok, want)
		}
	}
	equalRows(t, readRows(t, data, ReadOptions{}), rows(b))
}

func TestErrorsName(t *testing.T) {
	schema := record.Schema{{Name: "country", Kind: record.String}, {Name: "n", Kind: record.Int64}}
	b := &record.Batch{Len: 100, Columns: []record.Column{{Kind: record.String}, {Kind: record.Int64}}}
	for i := range 100 {
		b.Columns[0].Strings.Append(fmt.Appendf(nil, "c%d", i%7))
		b.Columns[1].Int64s = append(b.Columns[1].Int64s, int64(i))
	}
	data := writeFile(t, schema, WriterOptions{RowGroupRows: 60}, b)
	f, err := Open(bytes.NewReader(data), int64(len(data)), "seg.parquet")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Column("nation"); err == nil || err.Error() != `parquet file seg.parquet, column "nation": the file has no such column; it has country, n` {
		t.Error(err)
	}
	if _, err := f.Read(ReadOptions{Columns: []string{"nation"}}).Next(); err == nil {
		t.Error("a missing column was read")
	}
	// Flip each byte of the pages in turn: every one is caught, with its place.
	for at := 4; at < int(f.end); at++ {
		damaged := slices.Clone(data)
		damaged[at] ^= 0x10
		err := drain(damaged)
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("byte %d: %v is no *Error", at, err)
		}
		if err == nil && !slices.Equal(mustRows(damaged), rows(b)) {
			t.Fatalf("byte %d flipped: other values without an error", at)
		}
	}
}

// drain reads everything and returns the error that ends it, nil at the end of the file.
func drain(data []byte) error {
	f, err := Open(bytes.NewReader(data), int64(len(data)), "test.parquet")
	if err != nil {
		return err
	}
	r := f.Read(ReadOptions{})
	for {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func mustRows(data []byte) (out []string) {
	f, err := Open(bytes.NewReader(data), int64(len(data)), "test.parquet")
	if err != nil {
		panic(err)
	}
	r := f.Read(ReadOptions{})
	for {
		b, err := r.Next()
		if err != nil {
			return out
		}
		out = append(out, rows(b)...)
	}
}

func TestColumnsOfRowsThatAreNotWantedAreNull(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	schema := allKinds()
	for round, n := range []int{1000, 1000, 70_000, 90_000} { // chunks of several pages and of one, which may be so large that only a part of it is decompressed
		if n > 1000 && len(schema) > 4 {
			schema = record.Schema{schema[2], schema[3], schema[6], schema[7]}
		}
		b := randomBatch(rng, schema, n)
		groupRows := 1 + rng.IntN(n)
		layout := WriterOptions{RowGroupRows: groupRows}
		if round%2 == 1 {
			if layout.PageBytes, layout.Encodings = 1<<30, map[string]Encoding{}; n > 1000 {
				layout.RowGroupRows, groupRows = n, n
				for _, f := range schema {
					layout.Encodings[f.Name] = Plain
				}
			}
		}
		data := writeFile(t, schema, layout, b)
		want := rows(b)
		for _, batchRows := range []int{1 + rng.IntN(100), 3000} {
			for _, rarely := range []int{2, 20} {
				// A batch is wanted or not by what it has in that column.
				decide := func(b *record.Batch) bool {
					h := fnv.New32()
					for _, text := range rows(&record.Batch{Len: b.Len, Columns: b.Columns[1:2]}) {
						_, _ = io.WriteString(h, text)
					}
					return int(h.Sum32()>>8)%rarely == 0
				}
				got := readRows(t, data, ReadOptions{BatchRows: batchRows, First: []string{schema[1].Name}, Wanted: decide})
				wanted := false
				for i := range got {
					want := want[i]
					if at := i % groupRows % batchRows; at == 0 {
						wanted = decide(cut(b, i, min(i+batchRows, i-i%groupRows+groupRows, n)))
					}
					if !wanted {
						one := cut(b, i, i+1)
						for j := range one.Columns {
							if j != 1 {
								one.Columns[j] = record.Nulls(schema[j].Kind, 1)
							}
						}
						want = rows(one)[0]
					}
					if got[i] != want {
						t.Fatalf("row %d is\n%s, want\n%s", i, got[i], want)
					}
				}
				if len(got) != n {
					t.Fatalf("%d rows were read of %d", len(got), n)
				}
			}
		}
	}
}
