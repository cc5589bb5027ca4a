package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"hindcast/internal/job"
	"hindcast/internal/parquetfile"
	"hindcast/internal/record"
	"hindcast/internal/testenv"
	revenue "hindcast/jobs/daily-country-revenue"
)

// exported is a copy of the sample log's segments, and the sample job over it, with and without their sums.
type exported struct {
	dir         string
	sums, plain job.Job
}

func exportedCopy(t *testing.T) exported {
	t.Helper()
	e := exported{dir: t.TempDir()}
	from := filepath.Join(testenv.Root(t), "samples", "retail")
	if err := os.CopyFS(filepath.Join(e.dir, "topics"), os.DirFS(filepath.Join(from, "topics"))); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(from, "SHA256SUMS"))
	if err == nil {
		err = os.WriteFile(filepath.Join(e.dir, "SHA256SUMS"), sums, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	const parquet, named = "parquet: samples/retail,", ", sums: samples/retail/SHA256SUMS"
	e.sums = changedJob(t, revenue.Job(), map[string]string{parquet: "parquet: " + e.dir + ",", named: ", sums: " + e.dir + "/SHA256SUMS"}, nil)
	e.plain = changedJob(t, revenue.Job(), map[string]string{parquet: "parquet: " + e.dir + ",", named: ""}, nil)
	return e
}

func (e exported) segment(partition, first int) string {
	return filepath.Join(e.dir, "topics", "retail.invoice-lines", fmt.Sprintf("partition=%d", partition),
		fmt.Sprintf("retail.invoice-lines+%d+%010d.zstd.parquet", partition, first))
}

// weeks runs a verb over the bad weeks.
func weeks(t *testing.T, j job.Job, ws string, args ...string) result {
	t.Helper()
	return hindcastWith(t, []job.Job{j}, append(args, demoJob, "--from", demoFrom, "--to", demoTo, "--workspace", ws)...)
}

func rewrite(t *testing.T, file string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, change(data), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// everyOther writes the rows of a segment that stand at even places, or at odd ones, as another.
func everyOther(t *testing.T, data []byte, odd int) []byte {
	t.Helper()
	f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), "segment")
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w, err := parquetfile.NewWriter(&buf, f.Schema(), parquetfile.WriterOptions{RowGroupRows: 1000})
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for r := f.Read(parquetfile.ReadOptions{}); ; {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		out := &record.Batch{Columns: make([]record.Column, len(b.Columns))}
		for row := range b.Len {
			if at++; at%2 == odd {
				continue
			}
			for i := range b.Columns {
				c, o := &b.Columns[i], &out.Columns[i]
				if o.Kind = c.Kind; o.Nulls == nil {
					o.Nulls = record.NewBitmap(b.Len)
				}
				if c.Nulls.Get(row) {
					o.Nulls.Set(out.Len)
				}
				if c.Kind == record.String {
					var text []byte
					if !c.Nulls.Get(row) {
						text = c.Strings.At(row)
					}
					o.Strings.Append(text)
				} else {
					o.Int64s = append(o.Int64s, c.Int64s[row])
				}
			}
			out.Len++
		}
		if err := w.Write(out); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestTheSampleLogExportedOtherwise(t *testing.T) {
	if !testenv.Full() {
		t.Skip("takes seconds: part of the full counts")
	}
	t.Parallel()
	makeSpoilt(t)
	e := exportedCopy(t)
	ws := filepath.Join(t.TempDir(), "ws")
	weeks(t, e.sums, ws, "plan").ok(t)

	// One segment is there twice, the rows of another are spread over two.
	data, err := os.ReadFile(e.segment(1, 120_000))
	if err != nil {
		t.Fatal(err)
	}
	twice := filepath.Join(filepath.Dir(e.segment(1, 0)), "retail.invoice-lines+1+0000120000.parquet")
	if err := os.WriteFile(twice, data, 0o644); err != nil {
		t.Fatal(err)
	}
	weeks(t, e.sums, ws, "plan").exits(t, exitRefused).has(t, "retail.invoice-lines+1+0000120000.parquet", "SHA256SUMS has no sum for it", "add its sum")
	if data, err = os.ReadFile(e.segment(2, 120_000)); err != nil {
		t.Fatal(err)
	}
	rewrite(t, e.segment(2, 120_000), func([]byte) []byte { return everyOther(t, data, 0) })
	if err := os.WriteFile(e.segment(2, 120_001), everyOther(t, data, 1), 0o644); err != nil {
		t.Fatal(err)
	}
	weeks(t, e.plain, ws, "run", "--promote").ok(t)
	sameContents(t, "exported otherwise", contents(t, ws, demoTable), spoilt.becomes)
}

func TestDamageOfTheSampleLog(t *testing.T) {
	t.Parallel()
	e := exportedCopy(t)
	file := e.segment(1, 120_000)
	const name = "retail.invoice-lines+1+0000120000.zstd.parquet"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(t.TempDir(), "ws")
	put := func(b []byte) { rewrite(t, file, func([]byte) []byte { return b }) }

	end := chunkEnd(t, data, 1, "country")
	put(flipped(data, end-1))
	weeks(t, e.sums, ws, "plan").exits(t, exitRefused).has(t, name, "its SHA-256 is", "damaged or replaced", "restore it")
	weeks(t, e.plain, ws, "run", "--promote").exits(t, exitRefused).has(t, name, "row group 1", `column "country"`, "checksum (CRC)", "export the file again")

	at := footerOf(data) + 40
	put(flipped(data, at))
	weeks(t, e.sums, ws, "run", "--promote").exits(t, exitRefused).has(t, name, "its SHA-256 is", "restore it")

	put(data[:len(data)/3])
	weeks(t, e.plain, ws, "plan").exits(t, exitRefused).has(t, name, "cut off", "export the file again")

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	weeks(t, e.sums, ws, "plan").exits(t, exitRefused).has(t, name, "names it, but it is not there", "restore it")
	weeks(t, e.plain, ws, "run", "--promote").exits(t, exitRefused).
		has(t, "partition 1: no record with the offsets 120000-130000", "+0000110000.zstd.parquet", "+0000130000.zstd.parquet", "--accept-gap 1:120000-130000")

	hindcastWith(t, []job.Job{e.plain}, "table", "cat", demoTable, "--workspace", ws).exits(t, exitError).has(t, "no version")
}
