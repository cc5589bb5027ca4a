package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

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
