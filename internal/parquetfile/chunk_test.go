package parquetfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/record"
)

// indexed writes one column, and returns the footer and the column's page index in each row group.
func indexed(t *testing.T, f record.Field, opts WriterOptions, c record.Column, rows int) (format.FileMetaData, []format.ColumnIndex, []format.OffsetIndex) {
	t.Helper()
	c.Kind = f.Kind
	data := writeFile(t, record.Schema{f}, opts, &record.Batch{Len: rows, Columns: []record.Column{c}})
	decode := func(b []byte, v any) {
		if err := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(bytes.NewReader(b))).Decode(v); err != nil {
			t.Fatal(err)
		}
	}
	var meta format.FileMetaData
	end := len(data) - 8
	decode(data[end-int(binary.LittleEndian.Uint32(data[end:])):end], &meta)
	var indexes []format.ColumnIndex
	var offsets []format.OffsetIndex
	for _, g := range meta.RowGroups {
		var index format.ColumnIndex
		var at format.OffsetIndex
		chunk := g.Columns[0]
		decode(data[chunk.ColumnIndexOffset:][:chunk.ColumnIndexLength], &index)
		decode(data[chunk.OffsetIndexOffset:][:chunk.OffsetIndexLength], &at)
		indexes, offsets = append(indexes, index), append(offsets, at)
		// Each page begins where the index says, with the rows before it.
		for i, p := range at.PageLocations {
			var h format.PageHeader
			decode(data[p.Offset:][:p.CompressedPageSize], &h)
			rows := g.NumRows
			if i+1 < len(at.PageLocations) {
				rows = at.PageLocations[i+1].FirstRowIndex
			}
			if got := int64(h.DataPageHeaderV2.V.NumRows); h.Type != format.DataPageV2 || got != rows-p.FirstRowIndex {
				t.Fatalf("page %d has %d rows, the index %d", i, got, rows-p.FirstRowIndex)
			}
		}
	}
	return meta, indexes, offsets
}

func TestBoundsOfFloatsLeaveNaNOutAndCoverBothZeros(t *testing.T) {
	t.Parallel()
	bits := func(v float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)) }
	negative := math.Copysign(0, -1)
	for name, c := range map[string]struct {
		values      []float64
		least, most []byte
	}{
		"NaN among others": {[]float64{3, math.NaN(), -2}, bits(-2), bits(3)},
		"NaN alone":        {[]float64{math.NaN()}, nil, nil},
		"zeros":            {[]float64{0, negative}, bits(negative), bits(0)},
		"infinities":       {[]float64{math.Inf(1), math.Inf(-1)}, bits(math.Inf(-1)), bits(math.Inf(1))},
	} {
		for _, enc := range []Encoding{Plain, Dictionary} {
			meta, index, _ := indexed(t, record.Field{Name: "x", Kind: record.Float64}, WriterOptions{Encodings: map[string]Encoding{"x": enc}},
				record.Column{Float64s: c.values}, len(c.values))
			stats := meta.RowGroups[0].Columns[0].MetaData.Statistics
			for where, got := range map[string][2][]byte{
				"statistics": {stats.MinValue, stats.MaxValue}, "index": {index[0].MinValues[0], index[0].MaxValues[0]},
			} {
				if !bytes.Equal(got[0], c.least) || !bytes.Equal(got[1], c.most) {
					t.Errorf("%s, encoding %d: the %s have %x to %x, want %x to %x", name, enc, where, got[0], got[1], c.least, c.most)
				}
			}
		}
	}
}

// Pages of nulls have no bounds, and do not disturb the order of the others.
func TestPagesOfNullsInThePageIndex(t *testing.T) {
	t.Parallel()
	const rows = 100_000 // some 20,000 fill a page
	c := record.Column{Nulls: record.NewBitmap(rows)}
	for row := range rows {
		c.Int64s = append(c.Int64s, int64(row))
		if row >= 30_000 && row < 70_000 {
			c.Nulls.Set(row)
			c.Int64s[row] = 0
		}
	}
	f := record.Field{Name: "x", Kind: record.Int64, Nullable: true}
	meta, index, _ := indexed(t, f, WriterOptions{}, c, rows)
	empty := slices.Index(index[0].NullPages, true)
	if empty < 0 || len(index[0].MinValues[empty]) != 0 || len(index[0].MaxValues[empty]) != 0 {
		t.Fatalf("no page of nulls alone, or one with bounds: %v", index[0].NullPages)
	}
	if index[0].BoundaryOrder != format.Ascending {
		t.Errorf("ascending pages are said to be %v", index[0].BoundaryOrder)
	}
	nulls := int64(0)
	for _, n := range index[0].NullCounts {
		nulls += n
	}
	if m := meta.RowGroups[0].Columns[0].MetaData; nulls != 40_000 || m.Statistics.NullCount != nulls || !slices.Equal(m.SizeStatistics.DefinitionLevelHistogram, []int64{40_000, 60_000}) {
		t.Errorf("%d nulls in the index, %+v", nulls, m.SizeStatistics)
	}
}

func TestBoundsOfLongStringsAreShortAndHold(t *testing.T) {
	t.Parallel()
	long, top := strings.Repeat("m", 40), strings.Repeat("\xff", 20)
	for name, c := range map[string]struct{ least, most, short, above string }{
		"short":         {"a", "b", "a", "b"},
		"long":          {long, long, long[:16], long[:15] + "n"},
		"carried":       {"a", strings.Repeat("\xff", 15) + "a" + "\xff\xff", "a", strings.Repeat("\xff", 15) + "b"},
		"nothing above": {"a", top, "a", top},
	} {
		var col record.Column
		col.Strings.Append([]byte(c.most))
		col.Strings.Append([]byte(c.least))
		meta, index, _ := indexed(t, record.Field{Name: "x", Kind: record.String}, WriterOptions{}, col, 2)
		if lo, hi := string(index[0].MinValues[0]), string(index[0].MaxValues[0]); lo != c.short || hi != c.above || hi < c.most {
			t.Errorf("%s: the index has %q to %q", name, lo, hi)
		}
		if s := meta.RowGroups[0].Columns[0].MetaData.Statistics; string(s.MinValue) != c.least || string(s.MaxValue) != c.most {
			t.Errorf("%s: the statistics have %q to %q", name, s.MinValue, s.MaxValue)
		}
	}
}

// A dictionary that passes its limit is kept for the pages that it has, and the others' strings lie behind their lengths.
func TestADictionaryThatGrowsTooLarge(t *testing.T) {
	t.Parallel()
	const rows = 60_000
	var col record.Column
	for row := range rows {
		col.Strings.Append(numbered(row / 2))
	}
	meta, _, offsets := indexed(t, record.Field{Name: "x", Kind: record.String}, WriterOptions{}, col, rows)
	m := meta.RowGroups[0].Columns[0].MetaData
	var coded, plain int32
	for _, s := range m.EncodingStats {
		switch {
		case s.PageType == format.DataPageV2 && s.Encoding == format.RLEDictionary:
			coded = s.Count
		case s.PageType == format.DataPageV2 && s.Encoding == format.DeltaLengthByteArray:
			plain = s.Count
		}
	}
	if coded == 0 || plain == 0 || int(coded+plain) != len(offsets[0].PageLocations) {
		t.Errorf("%d pages with the dictionary, %d without, %d in all", coded, plain, len(offsets[0].PageLocations))
	}
	if m.SizeStatistics.UnencodedByteArrayDataBytes != 0 {
		t.Error("the size of strings is told, of which some were counted once")
	}
}

// Integers lie as differences in row groups where that makes them small, and plain where not.
func TestIntegersThatDifferencesSuit(t *testing.T) {
	t.Parallel()
	const rows = 5_000
	rng := rand.New(rand.NewPCG(5, 6))
	col := record.Column{Kind: record.Int64}
	for row := range 3 * rows {
		v := int64(rng.Uint64())
		switch row / rows {
		case 1:
			v = 1_700_000_000_000_000 + int64(row)*1000 + rng.Int64N(5000)
		case 2:
			v = int64(row%2) << 40 // matches are smaller than any difference
		}
		col.Int64s = append(col.Int64s, v)
	}
	meta, _, _ := indexed(t, record.Field{Name: "x", Kind: record.Int64}, WriterOptions{RowGroupRows: rows}, col, 3*rows)
	for g, want := range []format.Encoding{format.Plain, format.DeltaBinaryPacked, format.Plain} {
		if got := meta.RowGroups[g].Columns[0].MetaData.Encoding; !slices.Equal(got, []format.Encoding{want}) {
			t.Errorf("row group %d: encodings %v, not %v", g, got, want)
		}
	}
}

// A row group whose first page repeats hardly a value has no dictionary; the next one has one again.
func TestADictionaryThatIsOfNoUse(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	for _, kind := range []record.Kind{record.String, record.Date} {
		field := record.Field{Name: "x", Kind: kind, Nullable: true}
		col := record.Column{Kind: kind, Nulls: record.NewBitmap(2 * rows)}
		for row := range 2 * rows {
			v := row
			if row >= rows {
				v = row % 3
			}
			if row%10 == 0 {
				col.Nulls.Set(row)
			}
			if kind == record.String {
				col.Strings.Append(numbered(v))
			} else {
				col.Int64s = append(col.Int64s, int64(v))
			}
		}
		meta, _, _ := indexed(t, field, WriterOptions{RowGroupRows: rows}, col, 2*rows)
		without := []format.Encoding{format.Plain, format.RLE}
		if kind == record.String {
			without = []format.Encoding{format.RLE, format.DeltaLengthByteArray}
		}
		for g, want := range [][]format.Encoding{without, {format.Plain, format.RLE, format.RLEDictionary}} {
			m := meta.RowGroups[g].Columns[0].MetaData
			if !slices.Equal(m.Encoding, want) || (m.DictionaryPageOffset == 0) != (g == 0) {
				t.Errorf("%v, row group %d: encodings %v, a dictionary at %d", kind, g, m.Encoding, m.DictionaryPageOffset)
			}
		}
		data := writeFile(t, record.Schema{field}, WriterOptions{RowGroupRows: rows}, &record.Batch{Len: 2 * rows, Columns: []record.Column{col}})
		f, err := Open(bytes.NewReader(data), int64(len(data)), "f")
		if err != nil {
			t.Fatal(err)
		}
		r := f.Read(ReadOptions{})
		for at := 0; at < 2*rows; {
			b, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			got := &b.Columns[0]
			for i := range b.Len {
				switch null := (at+i)%10 == 0; {
				case got.Nulls.Get(i) != null:
					t.Fatalf("row %d: null is %v", at+i, !null)
				case null:
				case kind == record.String && !bytes.Equal(got.Strings.At(i), col.Strings.At(at+i)), kind == record.Date && got.Int64s[i] != col.Int64s[at+i]:
					t.Fatalf("%v: row %d is another", kind, at+i)
				}
			}
			at += b.Len
		}
	}
}

func numbered(row int) []byte {
	return append(bytes.Repeat([]byte{'x'}, 40), byte(row), byte(row>>8), byte(row>>16))
}

// Strings that come by the codes of other dictionaries are written as those that do not.
func TestStringsByCodesAreWrittenAsOthers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	schema := record.Schema{{Name: "few", Kind: record.String}, {Name: "null", Kind: record.String, Nullable: true}, {Name: "many", Kind: record.String}}
	var files [2]bytes.Buffer
	var writers [2]*Writer
	for i := range writers {
		var err error
		if writers[i], err = NewWriter(&files[i], schema, WriterOptions{RowGroupRows: 9000}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 8 {
		coded := record.Batch{Len: 1 + rng.IntN(4096), Columns: make([]record.Column, len(schema))}
		plain := record.Batch{Len: coded.Len, Columns: make([]record.Column, len(schema))}
		for c, distinct := range []int{5, 900, 20_000} {
			from, to := &coded.Columns[c], &plain.Columns[c]
			from.Kind, to.Kind = record.String, record.String
			for v := range distinct {
				from.Strings.Append(fmt.Appendf(nil, "%d-%d", n%2*v, v))
			}
			if from.Strings.Dictionary = record.NewDictionary(); schema[c].Nullable {
				from.Nulls = record.NewBitmap(coded.Len)
			}
			for row := range coded.Len {
				from.Strings.Codes = append(from.Strings.Codes, uint32(rng.IntN(distinct)))
				if from.Nulls != nil && row%3 == 0 {
					from.Nulls.Set(row)
				}
			}
			for row := range coded.Len {
				to.Append(row, from, row)
			}
		}
		for i, b := range []*record.Batch{&coded, &plain} {
			if err := writers[i].Write(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, w := range writers {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
		t.Error("the files differ")
	}
}
