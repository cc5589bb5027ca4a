package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/parquetfile/footer"
	"hindcast/internal/record"
)

// events is a batch as logs have them: offsets, times, 16-byte ids, few countries, amounts, a nullable account.
func events(n int) (record.Schema, *record.Batch) {
	rng := rand.New(rand.NewPCG(11, 12))
	schema := record.Schema{
		{Name: "kafka_offset", Kind: record.Int64},
		{Name: "event_time", Kind: record.Timestamp},
		{Name: "event_id", Kind: record.String},
		{Name: "country", Kind: record.String},
		{Name: "amount", Kind: record.Int64},
		{Name: "account", Kind: record.String, Nullable: true},
	}
	b := &record.Batch{Len: n, Columns: make([]record.Column, len(schema))}
	for i, f := range schema {
		b.Columns[i].Kind = f.Kind
	}
	c := b.Columns
	c[5].Nulls = record.NewBitmap(n)
	for i := range n {
		c[0].Int64s = append(c[0].Int64s, int64(i))
		c[1].Int64s = append(c[1].Int64s, 1_700_000_000_000_000+int64(i)*4000+rng.Int64N(200_000))
		c[2].Strings.Append(fmt.Appendf(nil, "%016x", rng.Uint64()))
		c[3].Strings.Append(fmt.Appendf(nil, "country-%d", rng.IntN(38)))
		c[4].Int64s = append(c[4].Int64s, rng.Int64N(100_000))
		account := []byte(nil)
		if rng.IntN(4) == 0 {
			c[5].Nulls.Set(i)
		} else {
			account = fmt.Appendf(nil, "account-%d", rng.IntN(4000))
		}
		c[5].Strings.Append(account)
	}
	return schema, b
}

func BenchmarkWrite(b *testing.B) {
	schema, batch := events(200_000)
	var parts []*record.Batch
	for at := 0; at < batch.Len; at += 4096 {
		parts = append(parts, cut(batch, at, min(at+4096, batch.Len)))
	}
	b.ReportAllocs()
	for b.Loop() {
		w, err := NewWriter(io.Discard, schema, WriterOptions{})
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range parts {
			if err := w.Write(p); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(batch.Len)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func BenchmarkRead(b *testing.B) {
	schema, batch := events(500_000)
	for name, enc := range map[string]map[string]Encoding{
		"plain": {"event_id": Plain},
		"delta": {"kafka_offset": Delta, "event_time": Delta, "amount": Delta, "event_id": Delta},
	} {
		data := writeFile(b, schema, WriterOptions{Encodings: enc}, batch)
		b.Run(name, func(b *testing.B) { benchRead(b, data, ReadOptions{}) })
		for _, f := range schema {
			b.Run(name+"/"+f.Name, func(b *testing.B) { benchRead(b, data, ReadOptions{Columns: []string{f.Name}}) })
		}
	}
}

func benchRead(b *testing.B, data []byte, opts ReadOptions) {
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	n := int64(0)
	for b.Loop() {
		f, err := Open(bytes.NewReader(data), int64(len(data)), "bench")
		if err != nil {
			b.Fatal(err)
		}
		r := f.Read(opts)
		for {
			batch, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			n += int64(batch.Len)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

// numeric are columns of numbers: amounts, as integers of both sizes and as floats, and times.
func numeric(n int) (record.Schema, *record.Batch) {
	rng := rand.New(rand.NewPCG(13, 14))
	schema := record.Schema{
		{Name: "int64", Kind: record.Int64},
		{Name: "int32", Kind: record.Date}, // as the file has it
		{Name: "double", Kind: record.Float64},
		{Name: "timestamp", Kind: record.Timestamp},
	}
	b := &record.Batch{Len: n, Columns: make([]record.Column, len(schema))}
	for i, f := range schema {
		b.Columns[i].Kind = f.Kind
	}
	c := b.Columns
	for i := range n {
		c[0].Int64s = append(c[0].Int64s, rng.Int64N(100_000))
		c[1].Int64s = append(c[1].Int64s, rng.Int64N(100_000))
		c[2].Float64s = append(c[2].Float64s, float64(rng.IntN(100_000))/100)
		c[3].Int64s = append(c[3].Int64s, 1_700_000_000_000_000+int64(i)*4000+rng.Int64N(200_000))
	}
	return schema, b
}

// few has each value be one of n, as columns have them that writers put into dictionaries.
func few(c record.Column, n int) record.Column {
	rng := rand.New(rand.NewPCG(15, 16))
	out := record.Column{Kind: c.Kind}
	for range max(len(c.Int64s), len(c.Float64s)) {
		if i := rng.IntN(n); c.Kind == record.Float64 {
			out.Float64s = append(out.Float64s, c.Float64s[i])
		} else {
			out.Int64s = append(out.Int64s, c.Int64s[i])
		}
	}
	return out
}

// nullness is whether a column may be null, and whether it is.
var nullness = []struct {
	name     string
	nullable bool
	every    int // one of so many rows is null, in no order; 0 is none
}{{"", false, 0}, {"/optional", true, 0}, {"/nulls", true, 4}}

// sparse has one of so many rows of a column be null, if any.
func sparse(c record.Column, every int) record.Column {
	if rng := rand.New(rand.NewPCG(17, 18)); every > 0 {
		n := max(len(c.Int64s), len(c.Float64s))
		c.Nulls = record.NewBitmap(n)
		for i := range n {
			if rng.IntN(every) == 0 {
				c.Nulls.Set(i)
			}
		}
	}
	return c
}

// BenchmarkDecode holds reading a column against the least that anyone could do to have its values: take each page's
// bytes and decompress them. Both take turns on the same file and have their best turn stated, so that "x-floor" stands on a busy machine, too.
// Files are as we write them; [BenchmarkDecodeSnappy] has those of others.
func BenchmarkDecode(b *testing.B) {
	const rows = 1 << 17
	bench := func(name string, f record.Field, c record.Column, enc Encoding) {
		b.Run(name, func(b *testing.B) {
			opts := WriterOptions{Encodings: map[string]Encoding{f.Name: enc}}
			benchDecode(b, writeFile(b, record.Schema{f}, opts, &record.Batch{Len: rows, Columns: []record.Column{c}}))
		})
	}
	schema, batch := numeric(rows)
	for i, f := range schema {
		for _, nulls := range nullness {
			f.Nullable = nulls.nullable
			c := sparse(batch.Columns[i], nulls.every)
			bench(f.Name+"/plain"+nulls.name, f, c, Plain)
			bench(f.Name+"/dictionary"+nulls.name, f, sparse(few(c, 1000), nulls.every), Dictionary)
			if f.Kind == record.Int64 || f.Kind == record.Timestamp {
				bench(f.Name+"/delta"+nulls.name, f, c, Delta)
			}
		}
	}
	bench("int64/dictionary-20000", schema[0], few(batch.Columns[0], 20_000), Dictionary)
	schema, batch = events(rows)
	for _, s := range []struct {
		name, column string
		enc          Encoding
	}{
		{"offset/plain", "kafka_offset", Plain},
		{"offset/delta", "kafka_offset", Delta},
		{"string/dictionary", "country", Dictionary},
		{"string/dictionary-nulls", "account", Dictionary},
		{"string/plain-16", "event_id", Plain},
		{"string/delta-16", "event_id", Delta},
	} {
		i := schema.Index(s.column)
		bench(s.name, schema[i], batch.Columns[i], s.enc)
	}
}

func benchDecode(b *testing.B, data []byte) {
	f, err := Open(bytes.NewReader(data), int64(len(data)), "bench")
	if err != nil {
		b.Fatal(err)
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		b.Fatal(err)
	}
	decompress := func(codec format.CompressionCodec, dst, src []byte) ([]byte, error) {
		if codec == format.Snappy {
			return snappy.Decode(dst[:cap(dst)], src)
		}
		return z.DecodeAll(src, dst[:0])
	}
	r := f.Read(ReadOptions{})
	page, floor := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	var in []byte
	out := make([]byte, 16<<20)
	for b.Loop() {
		start := time.Now()
		r.groups, r.err = []int{}, nil
		for i := range f.footer.Groups {
			r.groups = append(r.groups, i)
		}
		for {
			if _, err := r.Next(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
		between := time.Now()
		page = min(page, between.Sub(start))
		for _, g := range f.footer.Groups {
			c := &g.Chunks[0]
			in = slices.Grow(in[:0], int(c.Length()))[:c.Length()]
			if _, err := f.r.ReadAt(in, c.Start()); err != nil {
				b.Fatal(err)
			}
			for rest := in; len(rest) > 0; {
				h, n, err := footer.ParsePage(rest)
				if err != nil {
					b.Fatal(err)
				}
				levels := int(h.DefLength + h.RepLength)
				if out, err = decompress(c.Codec, out, rest[n+levels:n+int(h.Compressed)]); err != nil {
					b.Fatal(err)
				}
				rest = rest[n+int(h.Compressed):]
			}
		}
		floor = min(floor, time.Since(between))
	}
	rows := float64(f.Rows())
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(page.Nanoseconds())/rows, "read-ns/row")
	b.ReportMetric(float64(floor.Nanoseconds())/rows, "floor-ns/row")
	b.ReportMetric(float64(page)/float64(floor), "x-floor")
}
