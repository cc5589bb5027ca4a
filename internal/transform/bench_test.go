//go:build full && unix

package transform

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"syscall"
	"testing"

	"hindcast/internal/job"
	"hindcast/internal/partition"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/spec"
)

// What the engine itself costs a row: order, windows, partitions, dedupe and the account, with a transform that does nothing.
func BenchmarkEngine(b *testing.B) {
	for _, kind := range []string{"none", "16 bytes", "8 bytes", "uuid", "integer"} {
		b.Run("id="+kind, func(b *testing.B) {
			const rows = 1 << 20
			batches := benchBatches(rows, kind)
			c := Config{
				Outputs: []Output{{Table: "t", Transform: idle{}}},
				Scheme:  partition.Scheme{Unit: partition.Hour, Column: "at", Zone: "UTC"},
				Window:  &spec.Window{From: 0, To: 4 * int64(spec.Hour)},
				Columns: benchColumns(kind), Time: "at", Lateness: spec.Hour, Ahead: spec.Hour, Rows: rows, Owned: map[int32]plan.Ranges{0: {{First: 0, Next: 1 << 40}}},
				Sink: func(string, string, iter.Seq2[*record.Batch, error]) error { return nil },
			}
			for h := range int64(4) {
				c.Slots = append(c.Slots, partition.Slot{Label: fmt.Sprint(h), From: h * int64(spec.Hour), To: (h + 1) * int64(spec.Hour)})
			}
			if kind != "none" {
				c.ID, c.Fingerprints = "id", io.Discard
			}
			before := cpu()
			for b.Loop() {
				if _, err := Run(b.Context(), &batchReader{batches: batches}, c); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpu()-before)*1e9/float64(b.N)/rows, "cpu-ns/row")
		})
	}
}

// cpu is the time in seconds that this process has had, which is told where machines are shared.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// idle is a transform that takes every event and does nothing.
type idle struct{}

func (idle) Shape() (job.Shape, error) {
	return job.Shape{Rows: record.Schema{{Name: "n", Kind: record.Int64}}, Keys: 1}, nil
}

func (idle) Open(job.Options) (job.Runner, error) { return idleRunner{}, nil }

type idleRunner struct{}

func (idleRunner) Add(_ *record.Batch, rows, _ []int32, out *job.Outcome) error {
	out.Applied += int64(len(rows))
	return nil
}
func (idleRunner) Size() int64                                { return 0 }
func (idleRunner) Drain(int, func(*record.Batch) error) error { return nil }
func (idleRunner) Snapshot(io.Writer) error                   { return nil }
func (idleRunner) Restore(io.Reader) error                    { return nil }

func benchColumns(kind string) record.Schema {
	s := record.Schema{
		{Name: "at", Kind: record.Timestamp},
		{Name: "id", Kind: record.String},
		{Name: "account", Kind: record.String},
		{Name: "type", Kind: record.String},
		{Name: "amount", Kind: record.Int64},
		{Name: "version", Kind: record.Int64},
	}
	if kind == "integer" {
		s[1].Kind = record.Int64
	}
	return s
}

func benchBatches(rows int, kind string) []*record.Batch {
	const size = 4096
	rng := rand.New(rand.NewPCG(1, 2))
	words := func(n int, format string) record.Strings {
		s := record.Strings{Dictionary: record.NewDictionary()}
		for i := range n {
			s.Append(fmt.Appendf(nil, format, i))
		}
		return s
	}
	accounts, types := words(50_000, "acct-%08d"), words(4, "payment_of_kind_%d")
	var batches []*record.Batch
	for at := 0; at < rows; at += size {
		b := &record.Batch{Len: size, Columns: make([]record.Column, 7)}
		for i, f := range benchColumns(kind) {
			b.Columns[i].Kind = f.Kind
		}
		b.Columns[6] = record.Column{Kind: record.String, Nulls: record.NewBitmap(size)}
		b.Columns[2].Strings, b.Columns[3].Strings = accounts, types
		for row := range size {
			n := uint64(at + row)
			b.Offsets = append(b.Offsets, int64(n))
			b.RecordTimes = append(b.RecordTimes, int64(n)*4*int64(spec.Hour)/int64(rows))
			b.Columns[0].Int64s = append(b.Columns[0].Int64s, max(0, b.RecordTimes[row]-rng.Int64N(1000)))
			if rng.IntN(200) == 0 {
				n = rng.Uint64N(n + 1)
			}
			switch x, y := scramble(n), scramble(^n); kind {
			case "16 bytes":
				b.Columns[1].Strings.Append(fmt.Appendf(nil, "%016x", x))
			case "8 bytes":
				b.Columns[1].Strings.Append(fmt.Appendf(nil, "%08x", n))
			case "uuid":
				b.Columns[1].Strings.Append(fmt.Appendf(nil, "%08x-%04x-4%03x-8%03x-%012x", x>>32, x>>16&0xffff, x&0xfff, y>>52, y&0xffffffffffff))
			case "integer":
				b.Columns[1].Int64s = append(b.Columns[1].Int64s, int64(n))
			default:
				b.Columns[1].Strings.Append(nil)
			}
			b.Columns[2].Strings.Codes = append(b.Columns[2].Strings.Codes, uint32(rng.IntN(50_000)))
			b.Columns[3].Strings.Codes = append(b.Columns[3].Strings.Codes, uint32(rng.IntN(4)))
			b.Columns[4].Int64s = append(b.Columns[4].Int64s, rng.Int64N(100_000))
			b.Columns[5].Int64s = append(b.Columns[5].Int64s, int64(n))
		}
		for row := range size {
			b.Columns[6].Nulls.Set(row)
			b.Columns[6].Strings.Offsets = make([]uint32, size+1)
		}
		batches = append(batches, b)
	}
	return batches
}

type batchReader struct{ batches []*record.Batch }

func (r *batchReader) Next(context.Context) (int32, *record.Batch, error) {
	if len(r.batches) == 0 {
		return 0, nil, io.EOF
	}
	b := r.batches[0]
	r.batches = r.batches[1:]
	return 0, b, nil
}

func (*batchReader) Close() error { return nil }
