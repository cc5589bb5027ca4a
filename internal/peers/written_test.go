package peers

import (
	"bytes"
	"crypto/md5" // for values that do not compress
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"hindcast/internal/parquetfile"
	"hindcast/internal/record"
)

// mustAgree reads a file by all three. Hindcast and those named must read all of its columns, and nobody may read one otherwise.
func mustAgree(t *testing.T, all trio, path string, columns int, named ...string) {
	t.Helper()
	got := all.read(t, request{Path: path})
	v := compare(got)
	for _, c := range slices.Concat(v.mismatch, v.split, v.alone) {
		t.Errorf("column %q: %s", c, all.show(t, path, c, got))
	}
	for _, name := range append(named, "hindcast") {
		res, read := got[name], 0
		for i := range res.Columns {
			if usable(&res.Columns[i]) {
				read++
			} else {
				t.Errorf("%s, column %q: %s", name, res.Columns[i].Name, res.Columns[i].Err)
			}
		}
		if read != columns {
			t.Errorf("%s reads %d of %d columns: %s%s", name, read, columns, res.Err, res.Died)
		}
	}
	t.Logf("%d of %d columns are read by all three", v.agreed, columns)
}

// Every type of DuckDB's that is flat, in both versions of its pages and each of its codecs. arrow-go does not read all of its delta-encoded
// unsigned integers.
func TestWhatDuckDBWrites(t *testing.T) {
	all := newTrio(t)
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exprs := []string{
		"i AS n", "(i % 7 = 0) AS seldom", "(i // 50 % 2 = 0) AS runs", "true AS always", "(i % 128)::TINYINT", "(i * -3 % 30000)::SMALLINT", "(i * 77777)::INTEGER",
		"(i % 256)::UTINYINT", "(i * 3 % 65536)::USMALLINT", "(i % 6000 * 700000)::UINTEGER", "(i * 1000000007)::UBIGINT", "(i / 7)::FLOAT", "i / 7 AS d",
		"CASE WHEN i % 11 = 0 THEN NULL ELSE 'country-' || i % 30 END AS country", "md5(i::VARCHAR) AS id",
		"CASE WHEN i < 5000 THEN 'k' || i % 5 ELSE md5((i + 1)::VARCHAR) END AS overflows",
		"((i % 400) / 4)::DECIMAL(4, 1)", "(i * 1.25)::DECIMAL(9, 2)", "(-i * 1.0625)::DECIMAL(18, 4)", "(i * 1000.000001)::DECIMAL(38, 6)",
		"DATE '1969-06-01' + i::INTEGER", "TIMESTAMP '1969-12-31 23:00:00' + to_microseconds(i * 999983)", "TIMESTAMPTZ '2024-03-31 00:00:00+00' + to_milliseconds(i * 7919)",
		"make_timestamp_ns(1700000000000000001 + i * 12345678901)", "TIME '00:00:00' + to_microseconds(i * 4319999)",
		"md5(i::VARCHAR)::UUID", "encode('b' || i) AS bytes", "to_months((i % 30)::INTEGER) + to_days((i % 40)::INTEGER) + to_milliseconds(i)",
		"CASE WHEN i % 3 = 0 THEN i END AS maybe", "NULL::INTEGER AS never",
	}
	for i, e := range exprs {
		if !strings.Contains(e, " AS ") {
			exprs[i] = fmt.Sprintf("%s AS c%d", e, i)
		}
	}
	for _, version := range []string{"V1", "V2"} {
		for _, codec := range []string{"uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4_raw"} {
			t.Run(version+" "+codec, func(t *testing.T) {
				rows := 20_000
				if codec == "brotli" { // at its slowest setting
					rows = 1000
				}
				path := filepath.Join(t.TempDir(), "duck.parquet")
				if _, err := db.Exec(fmt.Sprintf("COPY (SELECT %s FROM range(%d) r(i)) TO '%s' (FORMAT parquet, PARQUET_VERSION %s, COMPRESSION %s, ROW_GROUP_SIZE 6000)",
					strings.Join(exprs, ", "), rows, path, version, codec)); err != nil {
					t.Fatal(err)
				}
				mustAgree(t, all, path, len(exprs), "duckdb")
			})
		}
	}
}

// Columns in structures, some of which are null, as both peers write them.
func TestColumnsInStructuresThatPeersWrite(t *testing.T) {
	all := newTrio(t)
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	deep := "{'n': i, 's': CASE WHEN i % 7 = 3 THEN NULL ELSE 'k' || i % 20 END, 'd': CASE WHEN i // 60 % 2 = 0 THEN {'x': i / 3, 'y': CASE WHEN i % 2 = 0 THEN i END} END}"
	for _, version := range []string{"V1", "V2"} {
		path := filepath.Join(t.TempDir(), "duck.parquet")
		if _, err := db.Exec(fmt.Sprintf("COPY (SELECT i, %[1]s AS always, CASE WHEN i %% 5 < 2 THEN %[1]s END AS maybe FROM range(20000) r(i)) TO '%[2]s' (FORMAT parquet, PARQUET_VERSION %[3]s, ROW_GROUP_SIZE 6000)",
			deep, path, version)); err != nil {
			t.Fatal(err)
		}
		mustAgree(t, all, path, 9, "duckdb", "arrow")
	}
	optional, required := parquet.Repetitions.Optional, parquet.Repetitions.Required
	group := func(name string, rep parquet.Repetition, fields ...schema.Node) schema.Node {
		return schema.MustGroup(schema.NewGroupNode(name, rep, fields, -1))
	}
	inner := func(rep parquet.Repetition) schema.Node {
		return group("inner", rep, schema.NewInt64Node("n", required, -1), schema.NewByteArrayNode("s", optional, -1))
	}
	root := group("schema", required, group("r", required, inner(required)), group("o", optional, inner(optional)), group("m", required, inner(optional))).(*schema.GroupNode)
	for _, page := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
		var buf bytes.Buffer
		w := file.NewParquetWriter(&buf, root, file.WithWriterProps(parquet.NewWriterProperties(parquet.WithDataPageVersion(page))))
		const rows = 5000
		rg := w.AppendRowGroup()
		for range 6 {
			c, err := rg.NextColumn()
			if err != nil {
				t.Fatal(err)
			}
			top := int(c.Descr().MaxDefinitionLevel())
			var levels []int16
			present := 0
			for i := range rows {
				level := int16(min(top, (i/9+i%4)%(top+1)))
				if levels = append(levels, level); int(level) == top {
					present++
				}
			}
			switch c := c.(type) {
			case *file.Int64ColumnChunkWriter:
				values := make([]int64, present)
				for i := range values {
					values[i] = int64(i) * 1_000_003
				}
				_, err = c.WriteBatch(values, levels, nil)
			case *file.ByteArrayColumnChunkWriter:
				values := make([]parquet.ByteArray, present)
				for i := range values {
					values[i] = fmt.Append(nil, i%50)
				}
				_, err = c.WriteBatch(values, levels, nil)
			}
			if err == nil {
				err = c.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "arrow.parquet")
		if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		mustAgree(t, all, path, 6, "duckdb", "arrow")
	}
}

// R2, R5, R6: what arrow-go writes: booleans as runs, dictionaries that overflow within a chunk, decimals of each physical type, each encoding,
// both versions of pages. DuckDB does not read all of the split columns.
func TestWhatArrowWrites(t *testing.T) {
	all := newTrio(t)
	const rows = 30_000
	optional, required := parquet.Repetitions.Optional, parquet.Repetitions.Required
	decimal := func(name string, typ parquet.Type, length int, precision, scale int32) schema.Node {
		return schema.MustPrimitive(schema.NewPrimitiveNodeLogical(name, required, schema.NewDecimalLogicalType(precision, scale), typ, length, -1))
	}
	fields := schema.FieldList{
		schema.NewBooleanNode("always", required, -1), schema.NewBooleanNode("seventh", required, -1), schema.NewBooleanNode("runs", optional, -1),
		schema.NewInt32Node("int32 delta", required, -1), schema.NewInt64Node("int64 delta", optional, -1), schema.NewInt32Node("int32 split", required, -1),
		schema.NewInt64Node("int64 split", optional, -1), schema.NewFloat32Node("float split", required, -1), schema.NewFloat64Node("double split", optional, -1),
		schema.NewFloat64Node("double dictionary", optional, -1), schema.NewInt96Node("int96", optional, -1),
		schema.NewByteArrayNode("overflows", optional, -1), schema.NewByteArrayNode("delta length", required, -1), schema.NewByteArrayNode("delta bytes", optional, -1),
		schema.NewFixedLenByteArrayNode("fixed split", required, 5, -1), schema.NewFixedLenByteArrayNode("fixed", optional, 6, -1),
		decimal("decimal32", parquet.Types.Int32, 0, 9, 2), decimal("decimal64", parquet.Types.Int64, 0, 18, 5),
		decimal("decimal bytes", parquet.Types.ByteArray, 0, 20, 3), decimal("decimal fixed", parquet.Types.FixedLenByteArray, 9, 20, 3),
	}
	encodings := map[string]parquet.Encoding{
		"always": parquet.Encodings.RLE, "seventh": parquet.Encodings.RLE, "runs": parquet.Encodings.RLE,
		"int32 delta": parquet.Encodings.DeltaBinaryPacked, "int64 delta": parquet.Encodings.DeltaBinaryPacked,
		"int32 split": parquet.Encodings.ByteStreamSplit, "int64 split": parquet.Encodings.ByteStreamSplit, "float split": parquet.Encodings.ByteStreamSplit,
		"double split": parquet.Encodings.ByteStreamSplit, "fixed split": parquet.Encodings.ByteStreamSplit,
		"delta length": parquet.Encodings.DeltaLengthByteArray, "delta bytes": parquet.Encodings.DeltaByteArray,
	}
	for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
		for _, codec := range []compress.Compression{
			compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Zstd, compress.Codecs.Lz4Raw,
		} {
			t.Run(fmt.Sprintf("%v, pages v%d", codec, version+1), func(t *testing.T) {
				props := []parquet.WriterProperty{
					parquet.WithVersion(parquet.V2_LATEST), parquet.WithDataPageVersion(version), parquet.WithCompression(codec), parquet.WithDataPageSize(9000),
					parquet.WithDictionaryPageSizeLimit(20_000), parquet.WithStats(codec != compress.Codecs.Zstd),
				}
				for name, enc := range encodings {
					props = append(props, parquet.WithDictionaryFor(name, false), parquet.WithEncodingFor(name, enc))
				}
				root, err := schema.NewGroupNode("schema", required, fields, -1)
				if err != nil {
					t.Fatal(err)
				}
				var buf bytes.Buffer
				w := file.NewParquetWriter(&buf, root, file.WithWriterProps(parquet.NewWriterProperties(props...)))
				for from := 0; from < rows; from += rows / 2 {
					group, err := w.AppendRowGroupChecked()
					if err != nil {
						t.Fatal(err)
					}
					for range fields {
						c, err := group.NextColumn()
						if err == nil {
							err = arrowWrite(c, from, from+rows/2)
						}
						if err != nil {
							t.Fatal(err)
						}
					}
					if err := group.Close(); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(t.TempDir(), "arrow.parquet")
				if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
				mustAgree(t, all, path, len(fields), "arrow")
			})
		}
	}
}

func arrowWrite(w file.ColumnChunkWriter, from, to int) error {
	name := w.Descr().Name()
	defer w.Close()
	switch w := w.(type) {
	case *file.BooleanColumnChunkWriter:
		return put(w.WriteBatch, w.Descr(), from, to, func(i int) bool {
			return name == "always" || name == "seventh" && i%7 == 0 || name == "runs" && i/50%2 == 0
		})
	case *file.Int32ColumnChunkWriter:
		return put(w.WriteBatch, w.Descr(), from, to, func(i int) int32 { return int32(i*i) - 40_000 })
	case *file.Int64ColumnChunkWriter:
		return put(w.WriteBatch, w.Descr(), from, to, func(i int) int64 { return int64(i) * int64(i) * -1_000_003 })
	case *file.Int96ColumnChunkWriter:
		return put(w.WriteBatch, w.Descr(), from, to, func(i int) (v parquet.Int96) {
			v.SetNanoSeconds(int64(i) * 1_000_001)
			v[8], v[9], v[10] = 0x8c, 0x3d, 0x25 // 1970-01-01
			return v
		})
	case *file.Float32ColumnChunkWriter:
		return put(w.WriteBatch, w.Descr(), from, to, func(i int) float32 { return float32(i) / 3 })
	case *file.Float64ColumnChunkWriter:
		return put(w.WriteBatch, w.Descr(), from, to, func(i int) float64 { return float64(i%40) / 7 })
	case *file.ByteArrayColumnChunkWriter:
		return put(w.WriteBatch, w.Descr(), from, to, func(i int) parquet.ByteArray {
			switch {
			case name == "decimal bytes":
				v := int64(i) * 1_000_000_007 * int64(1-i%2*2)
				b := []byte{byte(v >> 56), byte(v >> 48), byte(v >> 40), byte(v >> 32), byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}
				return b[:8]
			case name == "overflows" && i%(30_000/2) < 5000:
				return fmt.Appendf(nil, "key-%d", i%5)
			}
			sum := md5.Sum(fmt.Append(nil, i))
			return fmt.Appendf(nil, "%x", sum[:i%17])
		})
	case *file.FixedLenByteArrayColumnChunkWriter:
		n := w.Descr().TypeLength()
		return put(w.WriteBatch, w.Descr(), from, to, func(i int) parquet.FixedLenByteArray {
			b := make([]byte, n)
			for at := range b {
				b[at] = byte(i >> (8 * (n - 1 - at)))
			}
			return b
		})
	}
	return fmt.Errorf("its writer is a %T", w)
}

func put[T any](write func([]T, []int16, []int16) (int64, error), c *schema.Column, from, to int, value func(i int) T) error {
	var values []T
	var levels []int16
	for i := from; i < to; i++ {
		if c.MaxDefinitionLevel() > 0 {
			if i%9 == 4 {
				levels = append(levels, 0)
				continue
			}
			levels = append(levels, 1)
		}
		values = append(values, value(i))
	}
	_, err := write(values, levels, nil)
	return err
}

// R9: what Hindcast writes, three other readers read alike.
func TestWhatHindcastWrites(t *testing.T) {
	all := newTrio(t)
	const rows = 30_000
	var s record.Schema
	for kind := record.Bool; kind <= record.Date; kind++ {
		s = append(s, record.Field{Name: kind.String(), Kind: kind}, record.Field{Name: kind.String() + " or null", Kind: kind, Nullable: true})
	}
	b := &record.Batch{Len: rows, Columns: make([]record.Column, len(s))}
	for i := range b.Columns {
		c := &b.Columns[i]
		c.Kind = s[i].Kind
		if s[i].Nullable {
			c.Nulls = record.NewBitmap(rows)
		}
		for row := range rows {
			null := s[i].Nullable && row%5 == 2
			if null {
				c.Nulls.Set(row)
			}
			switch c.Kind {
			case record.String:
				text := fmt.Sprintf("värde-%d", row%70)
				if row > 9000 {
					text = fmt.Sprintf("%x", md5.Sum([]byte(text+fmt.Sprint(row))))
				}
				if null {
					text = ""
				}
				c.Strings.Append([]byte(text))
			case record.Float64:
				c.Float64s = append(c.Float64s, []float64{float64(row) / 3, math.Copysign(0, -1), math.NaN(), math.Inf(-1)}[row%4])
			case record.Bool:
				c.Int64s = append(c.Int64s, int64(row/100%2))
			case record.Date:
				c.Int64s = append(c.Int64s, int64(row)-20_000)
			default:
				c.Int64s = append(c.Int64s, int64(row)*1_000_003_000-7_000_000_000_000)
			}
		}
	}
	for name, opts := range map[string]parquetfile.WriterOptions{
		"defaults": {}, "small groups, delta": {RowGroupRows: 7000, Encodings: map[string]parquetfile.Encoding{
			"int64": parquetfile.Delta, "string or null": parquetfile.Delta, "timestamp": parquetfile.Delta, "date": parquetfile.Delta,
		}, Millis: []string{"timestamp or null"}},
	} {
		t.Run(name, func(t *testing.T) {
			var buf bytes.Buffer
			w, err := parquetfile.NewWriter(&buf, s, opts)
			if err == nil {
				err = w.Write(b)
			}
			if err == nil {
				err = w.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			for name, data := range map[string][]byte{"own.parquet": buf.Bytes(), "taken.parquet": taken(t, s, b, buf.Bytes())} {
				path := filepath.Join(t.TempDir(), name)
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
				mustAgree(t, all, path, len(s), "duckdb", "arrow")
				mustReadInPython(t, path, s, b)
			}
		})
	}
}

// taken is a file of the rows of another, whose columns lie as they did there, but for one, and in pages of their own where row groups end elsewhere.
func taken(t *testing.T, s record.Schema, b *record.Batch, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := parquetfile.NewWriter(&buf, s, parquetfile.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := s.Index(record.Int64.String())
	lent, at := 0, 0
	for n := range 2 {
		f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), "own") // anew, so that what is taken the second time is no part of the same row group
		if err != nil {
			t.Fatal(err)
		}
		for g, group := range f.RowGroups() {
			third := int(group.Rows) / 3
			from, to := 0, int(group.Rows)
			switch {
			case n == 0 && g == 0:
				to = third
			case n == 0:
				continue
			case g == 0:
				from = third
			}
			l, err := f.Lend(g)
			if err != nil {
				t.Fatal(err)
			}
			part := &record.Batch{Len: to - from, Columns: make([]record.Column, len(s)), Lent: &record.Lent{From: l, Names: make([]string, len(s))}}
			for row := from; row < to; row++ {
				part.Lent.Rows = append(part.Lent.Rows, int64(row))
			}
			for i, c := range s {
				part.Columns[i].Kind = c.Kind
				if i != own && f.CanLend(c.Name, c) {
					part.Lent.Names[i], lent = c.Name, lent+1
				} else {
					part.Columns[i] = rowsOf(&b.Columns[i], at, at+part.Len)
				}
			}
			if err := w.Write(part); err != nil {
				t.Fatal(err)
			}
			at += part.Len
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if at != b.Len || lent < 2*(len(s)-2) {
		t.Fatalf("%d columns were lent, %d rows of %d", lent, at, b.Len)
	}
	return buf.Bytes()
}

// rowsOf are rows [from, to) of a column.
func rowsOf(c *record.Column, from, to int) record.Column {
	out := record.Column{Kind: c.Kind}
	if c.Nulls != nil {
		out.Nulls = record.NewBitmap(to - from)
	}
	for row := from; row < to; row++ {
		if c.Nulls.Get(row) {
			out.Nulls.Set(row - from)
		}
		switch c.Kind {
		case record.String:
			out.Strings.Append(c.Strings.At(row))
		case record.Float64:
			out.Float64s = append(out.Float64s, c.Float64s[row])
		default:
			out.Int64s = append(out.Int64s, c.Int64s[row])
		}
	}
	return out
}
