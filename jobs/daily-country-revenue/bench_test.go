package revenue_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	revenue "hindcast/jobs/daily-country-revenue"

	"hindcast/internal/parquetfile"
	"hindcast/internal/partition"
	"hindcast/internal/record"
	"hindcast/internal/testenv"
	"hindcast/internal/transform"
)

// BenchmarkSampleLog runs the job over the exported log, from batches in memory: the engine without reading and writing.
func BenchmarkSampleLog(b *testing.B) {
	columns := record.Schema{
		{Name: "occurred_at", Kind: record.Timestamp},
		{Name: "event_id", Kind: record.String},
		{Name: "invoice_no", Kind: record.String},
		{Name: "kind", Kind: record.String},
		{Name: "quantity", Kind: record.Int64},
		{Name: "unit_price_mills", Kind: record.Int64},
		{Name: "country", Kind: record.String},
	}
	log := exported(b, columns)
	scheme := partition.Scheme{Unit: partition.Day, Column: "occurred_at", Zone: "Europe/London"}
	slots, err := scheme.Slots(time.Date(2010, 12, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), time.Date(2011, 12, 10, 0, 0, 0, 0, time.UTC).UnixMicro())
	if err != nil {
		b.Fatal(err)
	}
	for _, id := range []string{"event_id", ""} {
		b.Run(map[bool]string{true: "dedupe", false: "plain"}[id != ""], func(b *testing.B) {
			b.ReportAllocs()
			var rows int64
			for b.Loop() {
				res, err := transform.Run(b.Context(), &memory{batches: log}, transform.Config{
					Outputs: []transform.Output{{Table: "t", Transform: revenue.Transform()}}, Scheme: scheme, Slots: slots,
					Columns: columns, Time: "occurred_at", ID: id, Rows: 535_507,
					Sink: func(_, _ string, rows iter.Seq2[*record.Batch, error]) error {
						for _, err := range rows {
							if err != nil {
								return err
							}
						}
						return nil
					},
				})
				if err != nil {
					b.Fatal(err)
				}
				rows = 0
				for _, c := range res.Counts {
					rows += c.Total()
				}
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

type logBatch struct {
	partition int32
	batch     *record.Batch
}

// memory is a log in memory.
type memory struct{ batches []logBatch }

func (m *memory) Next(context.Context) (int32, *record.Batch, error) {
	if len(m.batches) == 0 {
		return 0, nil, io.EOF
	}
	next := m.batches[0]
	m.batches = m.batches[1:]
	return next.partition, next.batch, nil
}

func (m *memory) Close() error { return nil }

func exported(b *testing.B, columns record.Schema) []logBatch {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(testenv.Root(b), "samples/retail/topics/*/*/*.parquet"))
	if err != nil {
		b.Fatal(err)
	}
	names := []string{"kafka_partition", "kafka_offset"}
	for _, c := range columns {
		names = append(names, c.Name)
	}
	var out []logBatch
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), file)
		if err != nil {
			b.Fatal(err)
		}
		for r := f.Read(parquetfile.ReadOptions{Columns: names}); ; {
			batch, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			copied := &record.Batch{Len: batch.Len, Offsets: slices.Clone(batch.Columns[1].Int64s)}
			for _, c := range batch.Columns[2:] {
				copied.Columns = append(copied.Columns, record.Column{
					Kind: c.Kind, Nulls: slices.Clone(c.Nulls), Int64s: slices.Clone(c.Int64s), Strings: record.Strings{
						Codes: slices.Clone(c.Strings.Codes), Offsets: slices.Clone(c.Strings.Offsets), Data: slices.Clone(c.Strings.Data),
					},
				})
			}
			fine := record.Column{Kind: record.String, Nulls: record.NewBitmap(batch.Len), Strings: record.Strings{Offsets: make([]uint32, batch.Len+1)}}
			for i := range fine.Nulls {
				fine.Nulls[i] = ^uint64(0)
			}
			copied.Columns = append(copied.Columns, fine)
			out = append(out, logBatch{int32(batch.Columns[0].Int64s[0]), copied})
		}
	}
	return out
}
