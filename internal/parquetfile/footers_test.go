package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/record"
)

// refooted is data with another footer.
func refooted(t testing.TB, data []byte, change func(m *format.FileMetaData)) []byte {
	t.Helper()
	end := len(data) - 8 - int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	var m format.FileMetaData
	if err := thrift.Unmarshal(&thrift.CompactProtocol{}, data[end:len(data)-8], &m); err != nil {
		t.Fatal(err)
	}
	change(&m)
	b, err := thrift.Marshal(&thrift.CompactProtocol{}, &m)
	if err != nil {
		t.Fatal(err)
	}
	out := append(bytes.Clone(data[:end]), b...)
	return append(binary.LittleEndian.AppendUint32(out, uint32(len(b))), "PAR1"...)
}

func twoColumns(t testing.TB, n int, opts WriterOptions) (data []byte, want []string) {
	t.Helper()
	schema := record.Schema{{Name: "country", Kind: record.String, Nullable: true}, {Name: "n", Kind: record.Int64}}
	b := &record.Batch{Len: n, Columns: []record.Column{{Kind: record.String}, {Kind: record.Int64}}}
	for i := range n {
		b.Columns[0].Strings.Append(fmt.Appendf(nil, "c%d", i%7))
		b.Columns[1].Int64s = append(b.Columns[1].Int64s, int64(i))
	}
	return writeFile(t, schema, opts, b), rows(b)
}

// What is wrong in a footer and bears on no value does not keep a file from being read: DuckDB's offset of the first data page, indexes,
// bloom filters and their offsets (R9), statistics of sizes (R15).
func TestWhatBearsOnNoValueDoesNotMatter(t *testing.T) {
	data, want := twoColumns(t, 300, WriterOptions{RowGroupRows: 100})
	each := func(change func(c *format.ColumnChunk)) func(m *format.FileMetaData) {
		return func(m *format.FileMetaData) {
			for _, g := range m.RowGroups {
				for i := range g.Columns {
					change(&g.Columns[i])
				}
			}
		}
	}
	for name, change := range map[string]func(m *format.FileMetaData){
		"a data page's offset past the first page": each(func(c *format.ColumnChunk) {
			if c.MetaData.DictionaryPageOffset > 0 {
				c.MetaData.DataPageOffset += 3
			}
		}),
		"a dictionary's offset that is left out": each(func(c *format.ColumnChunk) {
			if d := c.MetaData.DictionaryPageOffset; d > 0 {
				c.MetaData.DataPageOffset, c.MetaData.DictionaryPageOffset = d, 0
			}
		}),
		"indexes that lie elsewhere": each(func(c *format.ColumnChunk) {
			c.OffsetIndexOffset, c.OffsetIndexLength, c.ColumnIndexOffset, c.ColumnIndexLength = 1<<60, -7, -5, 1<<30
		}),
		"a bloom filter that lies elsewhere": each(func(c *format.ColumnChunk) { c.MetaData.BloomFilterOffset, c.MetaData.BloomFilterLength = 1<<61, -1 }),
		"sizes that are wrong": each(func(c *format.ColumnChunk) {
			c.MetaData.TotalUncompressedSize = -1
			c.MetaData.EncodingStats = nil
			c.MetaData.SizeStatistics = format.SizeStatistics{UnencodedByteArrayDataBytes: -3, DefinitionLevelHistogram: []int64{1 << 60, -2, 3, 4, 5}, RepetitionLevelHistogram: []int64{7, 7}}
			c.FileOffset = -9
		}),
		"no statistics": each(func(c *format.ColumnChunk) { c.MetaData.Statistics = format.Statistics{} }),
		"an entry of metadata": func(m *format.FileMetaData) {
			m.KeyValueMetadata = append(m.KeyValueMetadata, format.KeyValue{Key: "only"})
		},
	} {
		t.Run(name, func(t *testing.T) { equalRows(t, readRows(t, refooted(t, data, change), ReadOptions{}), want) })
	}
}

// R7: no rows are no error, be it a file, a first, a middle or a last group; offsets of a group without rows mean nothing.
func TestGroupsWithoutRows(t *testing.T) {
	data, want := twoColumns(t, 200, WriterOptions{RowGroupRows: 100})
	for at := range 3 {
		changed := refooted(t, data, func(m *format.FileMetaData) {
			empty := m.RowGroups[0]
			empty.NumRows = 0
			empty.Columns = append(empty.Columns[:0:0], empty.Columns...)
			for i := range empty.Columns {
				c := &empty.Columns[i].MetaData
				c.NumValues, c.DataPageOffset, c.DictionaryPageOffset, c.TotalCompressedSize = 0, 0, 0, 0
			}
			groups := append(m.RowGroups[:at:at], empty)
			m.RowGroups = append(groups, m.RowGroups[at:]...)
		})
		equalRows(t, readRows(t, changed, ReadOptions{}), want)
	}
	none, _ := twoColumns(t, 0, WriterOptions{})
	if got := readRows(t, none, ReadOptions{}); len(got) != 0 {
		t.Error(got)
	}
}

// P4, P5, P10, P11: a footer that contradicts itself or its pages is refused, by name, for the price of what is there.
func TestFootersThatContradict(t *testing.T) {
	data, _ := twoColumns(t, 300, WriterOptions{RowGroupRows: 100, Encodings: map[string]Encoding{"n": Plain}})
	n := func(m *format.FileMetaData) *format.ColumnMetaData { return &m.RowGroups[1].Columns[1].MetaData }
	for name, c := range map[string]struct {
		change func(m *format.FileMetaData)
		says   string
	}{
		"no rows, but groups that have some": {func(m *format.FileMetaData) { m.NumRows = 0 }, "it states 0 rows, but its row groups hold 300"},
		"rows for 100 GB": {func(m *format.FileMetaData) {
			m.NumRows, m.RowGroups[1].NumRows = 200+1<<31, 1<<31
			for i := range m.RowGroups[1].Columns {
				m.RowGroups[1].Columns[i].MetaData.NumValues = 1 << 31
			}
		}, "too early"},
		"more rows than are read":  {func(m *format.FileMetaData) { m.RowGroups[1].NumRows = 1 << 40 }, "more than is read"},
		"a column of fewer values": {func(m *format.FileMetaData) { n(m).NumValues = 99 }, "99 values for 100 rows"},
		"fewer rows than the pages have": {func(m *format.FileMetaData) {
			m.NumRows, m.RowGroups[1].NumRows = 299, 99
			for i := range m.RowGroups[1].Columns {
				m.RowGroups[1].Columns[i].MetaData.NumValues = 99
			}
		}, "more values than the 99"},
		"a codec that it is not (LZ4_RAW)": {func(m *format.FileMetaData) { n(m).Codec = format.Lz4Raw }, "decompress a page (LZ4_RAW)"},
		"a codec that it is not (LZ4)":     {func(m *format.FileMetaData) { n(m).Codec = format.Lz4 }, "decompress a page (LZ4)"},
		"a codec that it is not (brotli)":  {func(m *format.FileMetaData) { n(m).Codec = format.Brotli }, "decompress a page (BROTLI)"},
		"another type":                     {func(m *format.FileMetaData) { n(m).Type = format.Int96 }, "its chunk has the type INT96, its schema INT64"},
		"another name":                     {func(m *format.FileMetaData) { n(m).PathInSchema = thrift.Slice[string]{"N"} }, `that of the column "N"`},
		"a chunk past the data":            {func(m *format.FileMetaData) { n(m).TotalCompressedSize = 1 << 40 }, "outside the data"},
		"a chunk that is cut off":          {func(m *format.FileMetaData) { n(m).TotalCompressedSize /= 2 }, "cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := refooted(t, data, c.change)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := drain(changed)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "test.parquet") || strings.Contains(err.Error(), "panic") {
				t.Errorf("%v; want: %s", err, c.says)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
				t.Errorf("%d MiB allocated", n>>20)
			}
		})
	}
}

// R10: a list may be written in many shapes, of which a reader that goes by one makes a single value, or rows of another length. Each is refused by name, whatever
// its annotation, and the flat columns beside it are read.
func TestListsOfEveryShapeAreRefused(t *testing.T) {
	data, _ := twoColumns(t, 50, WriterOptions{})
	some := func(v format.FieldRepetitionType) thrift.Null[format.FieldRepetitionType] { return thrift.New(v) }
	group := func(name string, repetition format.FieldRepetitionType, list bool) format.SchemaElement {
		e := format.SchemaElement{Name: name, RepetitionType: some(repetition), NumChildren: thrift.New(int32(1))}
		if list {
			e.ConvertedType = thrift.New(deprecated.List)
		}
		return e
	}
	leaf := func(name string, repetition format.FieldRepetitionType) format.SchemaElement {
		return format.SchemaElement{Name: name, RepetitionType: some(repetition), Type: thrift.New(format.Int64)}
	}
	for name, shape := range map[string][]format.SchemaElement{
		"a repeated value":                   {leaf("n", format.Repeated)},
		"a repeated group":                   {group("n", format.Repeated, false), leaf("x", format.Required)},
		"two levels":                         {group("n", format.Optional, true), leaf("array", format.Repeated)},
		"a group of one field, called array": {group("n", format.Optional, true), group("array", format.Repeated, false), leaf("x", format.Required)},
		"a group of one field, called tuple": {group("n", format.Optional, true), group("n_tuple", format.Repeated, false), leaf("x", format.Required)},
		"Hive's bag":                         {group("n", format.Optional, true), group("bag", format.Repeated, false), leaf("array_element", format.Optional)},
		"three levels":                       {group("n", format.Required, true), group("list", format.Repeated, false), leaf("element", format.Optional)},
		"three levels without an annotation": {group("n", format.Required, false), group("list", format.Repeated, false), leaf("element", format.Optional)},
	} {
		changed := refooted(t, data, func(m *format.FileMetaData) {
			m.Schema = append(m.Schema[:len(m.Schema)-1:len(m.Schema)-1], shape...)
			var path []string
			for _, e := range shape {
				path = append(path, e.Name)
			}
			m.RowGroups[0].Columns[1].MetaData.PathInSchema = path
		})
		f, err := Open(bytes.NewReader(changed), int64(len(changed)), "test.parquet")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := f.Schema(); len(got) != 1 || got[0].Name != "country" {
			t.Errorf("%s: the columns %v can be read", name, got)
		}
		for _, column := range []string{"n", "n." + shape[len(shape)-1].Name, "n.list", "n.list.element"} {
			_, err = f.Read(ReadOptions{Columns: []string{column}}).Next()
			var e *Error
			if !errors.As(err, &e) || e.File != "test.parquet" || e.Column != column {
				t.Errorf("%s: column %s is read, or refused with %v", name, column, err)
			}
		}
		b, err := f.Read(ReadOptions{}).Next()
		if err != nil || b.Len != 50 || len(b.Columns) != 1 || string(b.Columns[0].Strings.At(8)) != "c1" {
			t.Errorf("%s: the column beside it: %v", name, err)
		}
	}
}

// P3: names are compared exactly, and nothing is made up for a column that is not there.
func TestNamesAreExact(t *testing.T) {
	data, _ := twoColumns(t, 10, WriterOptions{})
	f, err := Open(bytes.NewReader(data), int64(len(data)), "test.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"N", "Country", "country ", ""} {
		if _, err := f.Read(ReadOptions{Columns: []string{name}}).Next(); err == nil || !strings.Contains(err.Error(), "no such column") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
