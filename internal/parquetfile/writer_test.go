package parquetfile

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hindcast/internal/record"
)

// allKinds has one column of every kind, plain and nullable.
func allKinds() record.Schema {
	var s record.Schema
	for k := record.Bool; k <= record.Date; k++ {
		s = append(s, record.Field{Name: "z_" + k.String(), Kind: k}, record.Field{Name: "a_" + k.String(), Kind: k, Nullable: true})
	}
	return s
}

// randomBatch fills n rows: small ranges that suit dictionaries, long runs and nulls among them.
func randomBatch(rng *rand.Rand, schema record.Schema, n int) *record.Batch {
	b := &record.Batch{Len: n, Columns: make([]record.Column, len(schema))}
	for i, f := range schema {
		c := &b.Columns[i]
		c.Kind = f.Kind
		nulls := record.NewBitmap(n)
		mode := rng.IntN(3)
		for row := range n {
			null := f.Nullable && (mode == 0 && rng.IntN(3) == 0 || mode == 1 && row/100%2 == 0)
			if null {
				nulls.Set(row)
			}
			var v int64
			switch f.Kind {
			case record.Bool:
				v = rng.Int64N(2)
			case record.Date:
				v = 15000 + int64(row/50) - rng.Int64N(2)
			default:
				v = rng.Int64() >> (rng.IntN(8) * 8)
			}
			if null {
				v = 0
			}
			switch f.Kind {
			case record.Float64:
				x := float64(v) / 7
				if rng.IntN(100) == 0 {
					x = math.NaN()
				}
				c.Float64s = append(c.Float64s, x)
			case record.String:
				s := fmt.Sprintf("value-%d", v%50)
				if mode == 2 {
					s = fmt.Sprintf("%x", v)
				}
				if null {
					s = ""
				}
				c.Strings.Append([]byte(s))
			default:
				c.Int64s = append(c.Int64s, v)
			}
		}
		if f.Nullable {
			c.Nulls = nulls
		}
	}
	return b
}

// cut is rows [from, to) of b, as views.
func cut(b *record.Batch, from, to int) *record.Batch {
	out := &record.Batch{Len: to - from, Columns: make([]record.Column, len(b.Columns))}
	for i := range b.Columns {
		in, c := &b.Columns[i], &out.Columns[i]
		c.Kind = in.Kind
		if in.Nulls != nil {
			c.Nulls = record.NewBitmap(out.Len)
			for r := from; r < to; r++ {
				if in.Nulls.Get(r) {
					c.Nulls.Set(r - from)
				}
			}
		}
		switch in.Kind {
		case record.Float64:
			c.Float64s = in.Float64s[from:to]
		case record.String:
			c.Strings.Offsets, c.Strings.Data = in.Strings.Offsets[from:to+1], in.Strings.Data
		default:
			c.Int64s = in.Int64s[from:to]
		}
	}
	return out
}

func writeFile(t testing.TB, schema record.Schema, opts WriterOptions, batches ...*record.Batch) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter(&buf, schema, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestWriterBytesDoNotDependOnBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	schema := allKinds()
	for _, opts := range []WriterOptions{
		{},
		{RowGroupRows: 5000},
		{RowGroupRows: 777, Encodings: map[string]Encoding{"z_string": Delta, "a_string": Plain, "z_int64": Delta, "a_timestamp": Dictionary}},
	} {
		b := randomBatch(rng, schema, 20_000)
		want := writeFile(t, schema, opts, b)
		for range 2 {
			var parts []*record.Batch
			for at := 0; at < b.Len; {
				n := min(b.Len-at, 1+rng.IntN(6000))
				parts = append(parts, cut(b, at, at+n))
				at += n
			}
			if got := writeFile(t, schema, opts, parts...); !bytes.Equal(got, want) {
				t.Fatalf("%+v: %d batches gave other bytes (%d, want %d)", opts, len(parts), len(got), len(want))
			}
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	one := record.Schema{{Name: "a", Kind: record.Int64}}
	for name, c := range map[string]struct {
		schema record.Schema
		opts   WriterOptions
	}{
		"no column":            {nil, WriterOptions{}},
		"repeated name":        {record.Schema{{Name: "a", Kind: record.Int64}, {Name: "a", Kind: record.Bool}}, WriterOptions{}},
		"unknown kind":         {record.Schema{{Name: "a"}}, WriterOptions{}},
		"encoding of nothing":  {one, WriterOptions{Encodings: map[string]Encoding{"b": Plain}}},
		"bytes of an integer":  {one, WriterOptions{Binary: []string{"a"}}},
		"millis of an integer": {one, WriterOptions{Millis: []string{"a"}}},
		"delta of floats":      {record.Schema{{Name: "a", Kind: record.Float64}}, WriterOptions{Encodings: map[string]Encoding{"a": Delta}}},
	} {
		if _, err := NewWriter(&bytes.Buffer{}, c.schema, c.opts); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	w, err := NewWriter(&bytes.Buffer{}, one, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nulls := record.NewBitmap(1)
	nulls.Set(0)
	if err := w.Write(&record.Batch{Len: 1, Columns: []record.Column{{Kind: record.Int64, Int64s: []int64{1}, Nulls: nulls}}}); err == nil {
		t.Error("a null in a required column was accepted")
	}
	if err := w.Close(); err == nil {
		t.Error("a writer that failed closed as if whole")
	}
}
