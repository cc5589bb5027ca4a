//go:build full

package parquetfile

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/parquet-go/parquet-go"

	"hindcast/internal/record"
)

// A column of any bytes is not called text, and is read back as it was.
func TestWriterOfBytes(t *testing.T) {
	schema := record.Schema{{Name: "key", Kind: record.String, Nullable: true}}
	b := record.Batch{Len: 1, Columns: []record.Column{{Kind: record.String}}}
	b.Columns[0].Strings.Append([]byte("\xff\x00"))
	data := writeFile(t, schema, WriterOptions{Binary: []string{"key"}}, &b)
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if e := f.Metadata().Schema[1]; e.LogicalType.String() != "" || e.ConvertedType.Valid {
		t.Errorf("the column is annotated: %v", e)
	}
	own, err := Open(bytes.NewReader(data), int64(len(data)), "f")
	if err != nil {
		t.Fatal(err)
	}
	in := own.Read(ReadOptions{Columns: []string{"key"}})
	got, err := in.Next()
	if err != nil || string(got.Columns[0].Strings.At(0)) != "\xff\x00" {
		t.Errorf("read %v, %v", got, err)
	}
}

// What another reader makes of our files.
func TestWriterFooter(t *testing.T) {
	schema := allKinds()
	data := writeFile(t, schema, WriterOptions{RowGroupRows: 1000, KeyValue: map[string]string{"k": "v"}, Millis: nil},
		randomBatch(rand.New(rand.NewPCG(3, 4)), schema, 2500))
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if f.NumRows() != 2500 || len(f.RowGroups()) != 3 {
		t.Fatalf("%d rows in %d groups", f.NumRows(), len(f.RowGroups()))
	}
	if v, _ := f.Lookup("k"); v != "v" {
		t.Errorf("key-value metadata is %q", v)
	}
	own, err := Open(bytes.NewReader(data), int64(len(data)), "f")
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := own.KeyValue("k"); v != "v" || !ok {
		t.Errorf("key-value metadata is read as %q", v)
	}
	if v, ok := own.KeyValue("other"); v != "" || ok {
		t.Errorf("metadata that is not there is read as %q", v)
	}
	if got := f.Metadata().CreatedBy; got != "hindcast version 1.0.0(build parquet-go-0.32.0)" {
		t.Errorf("created by %q", got)
	}
	for i, e := range f.Metadata().Schema[1:] {
		if e.Name != schema[i].Name || int(e.FieldID) != i+1 {
			t.Errorf("column %d is %q with field id %d, want %q", i, e.Name, e.FieldID, schema[i].Name)
		}
	}
	for i, want := range map[int]string{8: "TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)", 10: "DATE", 6: "STRING"} {
		if got := f.Metadata().Schema[1+i].LogicalType.String(); got != want {
			t.Errorf("%s is %s, want %s", schema[i].Name, got, want)
		}
	}
}

// BenchmarkDecodeSnappy is [BenchmarkDecode] of numbers as DuckDB and Java write them: pages of version 1 of a MiB with Snappy.
func BenchmarkDecodeSnappy(b *testing.B) {
	const rows = 1 << 17
	schema, batch := numeric(rows)
	types := map[string]parquet.Node{"int64": parquet.Int(64), "int32": parquet.Int(32), "double": parquet.Leaf(parquet.DoubleType), "timestamp": parquet.Timestamp(parquet.Microsecond)}
	for i, f := range schema {
		for _, nulls := range nullness {
			plain := sparse(batch.Columns[i], nulls.every)
			benchSnappy(b, f.Name+"/plain"+nulls.name, parquet.Encoded(types[f.Name], &parquet.Plain), nulls.nullable, plain)
			benchSnappy(b, f.Name+"/dictionary"+nulls.name, parquet.Encoded(types[f.Name], &parquet.RLEDictionary), nulls.nullable, sparse(few(plain, 1000), nulls.every))
		}
	}
}

func benchSnappy(b *testing.B, name string, node parquet.Node, optional bool, c record.Column) {
	b.Run(name, func(b *testing.B) {
		of, level := node, 0
		if optional {
			of, level = parquet.Optional(node), 1
		}
		var rows []parquet.Row
		for i := range max(len(c.Int64s), len(c.Float64s)) {
			var v parquet.Value
			switch {
			case c.Nulls.Get(i):
				rows = append(rows, parquet.Row{parquet.NullValue().Level(0, 0, 0)})
				continue
			case c.Kind == record.Float64:
				v = parquet.DoubleValue(c.Float64s[i])
			case c.Kind == record.Date:
				v = parquet.Int32Value(int32(c.Int64s[i])) //nolint:gosec // numeric has small ones there
			default:
				v = parquet.Int64Value(c.Int64s[i])
			}
			rows = append(rows, parquet.Row{v.Level(0, level, 0)})
		}
		var buf bytes.Buffer
		w := parquet.NewGenericWriter[any](&buf, parquet.NewSchema("schema", parquet.Group{"v": of}), parquet.Compression(&parquet.Snappy),
			parquet.DataPageVersion(1), parquet.PageBufferSize(1<<20))
		if _, err := w.WriteRows(rows); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		benchDecode(b, buf.Bytes())
	})
}

// BenchmarkDecodeLengths is [BenchmarkDecode] of strings behind their lengths, which our writer does not write.
func BenchmarkDecodeLengths(b *testing.B) {
	_, batch := events(50_000)
	type row struct {
		ID string `parquet:"event_id,zstd"`
	}
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[row](&buf, parquet.MaxRowsPerRowGroup(1<<17), parquet.PageBufferSize(256<<10))
	for i := range batch.Len {
		if _, err := w.Write([]row{{string(batch.Columns[2].Strings.At(i))}}); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	benchDecode(b, buf.Bytes())
}
