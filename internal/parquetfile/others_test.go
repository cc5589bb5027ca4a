//go:build full

package parquetfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"hindcast/internal/record"
	"hindcast/internal/testenv"
)

// foreign has columns in encodings and types that our writer does not write.
type foreign struct {
	Bool    bool     `parquet:"bool"`
	Int32   int32    `parquet:"int32,delta"`
	Int32S  int32    `parquet:"int32_split,split"`
	Int64S  *int64   `parquet:"int64_split,optional,split"`
	Uint32  uint32   `parquet:"uint32"`
	Uint64  uint64   `parquet:"uint64"`
	Float   float32  `parquet:"float"`
	FloatS  float32  `parquet:"float_split,split"`
	DoubleS float64  `parquet:"double_split,split"`
	DoubleD *float64 `parquet:"double_dict,optional,dict"`
	Length  string   `parquet:"length,delta"`
	Dict    *string  `parquet:"dict,optional,dict"`
	Fixed   [5]byte  `parquet:"fixed"`
	Nanos   int64    `parquet:"nanos,timestamp(nanosecond)"`
	Bytes   []byte   `parquet:"bytes,plain"`
}

func foreignRow(i int) foreign {
	r := foreign{
		Bool: i/7%3 == 0, Int32: int32(i*i) - 40_000, Int32S: -int32(i), Uint32: math.MaxUint32 - uint32(i), Uint64: uint64(i) << 40,
		Float: float32(i) / 3, FloatS: -float32(i) / 3, DoubleS: float64(i) / 7, Length: strings.Repeat("x", i%9),
		Fixed: [5]byte{byte(i), 1, 2, 3, byte(i >> 8)}, Nanos: int64(i)*1500 - 100_000, Bytes: []byte{byte(i)},
	}
	if i%4 != 2 {
		n, d, s := int64(i)*-3, float64(i%6), fmt.Sprintf("value %d", i%30)
		r.Int64S, r.DoubleD, r.Dict = &n, &d, &s
	}
	return r
}

// render writes the row as rows does.
func (r foreign) render() string {
	flag, int64s, double, dict := 0, "null", "null", "null"
	if r.Bool {
		flag = 1
	}
	if r.Dict != nil {
		int64s, double, dict = fmt.Sprint(*r.Int64S), fmt.Sprintf("%x", math.Float64bits(*r.DoubleD)), fmt.Sprintf("%q", *r.Dict)
	}
	micros := r.Nanos / 1000
	if r.Nanos%1000 < 0 {
		micros--
	}
	bits := func(f float64) string { return fmt.Sprintf("%x", math.Float64bits(f)) }
	return fmt.Sprintf("|%d|%d|%d|%s|%d|%d|%s|%s|%s|%s|%q|%s|%q|%d|%q", flag, r.Int32, r.Int32S, int64s, r.Uint32, r.Uint64, bits(float64(r.Float)),
		bits(float64(r.FloatS)), bits(r.DoubleS), double, r.Length, dict, r.Fixed[:], micros, r.Bytes)
}

func TestReadWhatTheLibraryWrites(t *testing.T) {
	var want []string
	var data []foreign
	for i := range 3000 {
		data = append(data, foreignRow(i))
		want = append(want, foreignRow(i).render())
	}
	for _, version := range []int{1, 2} {
		for _, codec := range []compress.Codec{
			&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Brotli, &parquet.Zstd, &parquet.Lz4Raw,
		} {
			var buf bytes.Buffer
			w := parquet.NewGenericWriter[foreign](&buf, parquet.DataPageVersion(version), parquet.Compression(codec), parquet.PageBufferSize(3000))
			for at := 0; at < len(data); at += 100 {
				if _, err := w.Write(data[at : at+100]); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprintf("%v, pages v%d", codec, version), func(t *testing.T) {
				equalRows(t, readRows(t, buf.Bytes(), ReadOptions{BatchRows: 700}), want)
			})
		}
	}
}

// Values past what a batch holds are refused, not wrapped.
func TestReadRefusesWhatDoesNotFit(t *testing.T) {
	type far struct {
		U  uint64 `parquet:"u"`
		Ms int64  `parquet:"ms,timestamp(millisecond)"`
	}
	for column, row := range map[string]far{"u": {U: math.MaxInt64 + 1}, "ms": {Ms: math.MaxInt64 / 999}} {
		var buf bytes.Buffer
		if err := parquet.Write(&buf, []far{row}); err != nil {
			t.Fatal(err)
		}
		f, err := Open(bytes.NewReader(buf.Bytes()), int64(buf.Len()), "far.parquet")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Read(ReadOptions{Columns: []string{column}}).Next(); err == nil || !strings.Contains(err.Error(), "past") {
			t.Errorf("%s: %v", column, err)
		}
	}
}

func TestColumnsThatAreRefused(t *testing.T) {
	type nested struct {
		List   []int64           `parquet:"list"`
		Map    map[string]int64  `parquet:"map"`
		Struct struct{ A int64 } `parquet:"struct"`
		Dec    int64             `parquet:"dec,decimal(2:10)"`
		Local  int64             `parquet:"local,timestamp(microsecond:local)"`
		Fine   int64             `parquet:"fine"`
	}
	var buf bytes.Buffer
	if err := parquet.Write(&buf, []nested{{Fine: 7, List: []int64{1, 2}}}); err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(buf.Bytes()), int64(buf.Len()), "n.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"list": "a list", "map": "nested", "struct": "name a column in it, as struct.A", "struct.B": "no such column; it has list, map, struct.A, dec", "dec": "DECIMAL(10, 2)", "local": "no stated zone", "nothing": "no such column",
	} {
		if _, err := f.Column(name); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "n.parquet") {
			t.Errorf("%s: %v", name, err)
		}
	}
	equalRows(t, readRows(t, buf.Bytes(), ReadOptions{}), []string{"|0|7"})
}

type (
	deepest struct {
		Key  *string          `parquet:"key,optional"`
		Size int64            `parquet:"size"`
		Tags []string         `parquet:"tags"`
		More map[string]int64 `parquet:"more"`
	}
	envelope struct {
		Offset int64    `parquet:"offset"`
		At     *int64   `parquet:"at,optional,timestamp(microsecond)"`
		Deep   *deepest `parquet:"deep,optional"`
	}
	nesting struct {
		ID  string    `parquet:"id,dict"`
		Log envelope  `parquet:"log"`
		May *envelope `parquet:"may,optional"`
	}
)

// nestingRow has each of its optional structures and values there or not, in runs and alone.
func nestingRow(i int) (nesting, string) {
	opt := func(i int) (e envelope, log, at, deep string) {
		e.Offset, log, at, deep = int64(i), fmt.Sprint(i), "null", "null|null"
		if i%3 != 1 {
			v := int64(i) * 1000
			e.At, at = &v, fmt.Sprint(v)
		}
		if i/40%3 != 0 {
			e.Deep = &deepest{Size: -int64(i), Tags: make([]string, i%4)}
			key := "null"
			if i%5 < 3 {
				text := fmt.Sprintf("key %d", i%7)
				e.Deep.Key, key = &text, strconv.Quote(text)
			}
			deep = fmt.Sprintf("%s|%d", key, e.Deep.Size)
		}
		return e, log, at, deep
	}
	r := nesting{ID: fmt.Sprint("id", i%3)}
	var log, at, deep string
	r.Log, log, at, deep = opt(i)
	want := fmt.Sprintf("|%q|%s|%s|%s", r.ID, log, at, deep)
	if i%11 < 7 {
		may, log, at, deep := opt(i * 3)
		r.May = &may
		return r, want + fmt.Sprintf("|%s|%s|%s", log, at, deep)
	}
	return r, want + "|null|null|null|null"
}

// Columns in structures are read by their paths: null where a structure is, or they are. Lists and maps in them are not.
func TestColumnsInStructuresAreRead(t *testing.T) {
	var data []nesting
	var want []string
	for i := range 2000 {
		r, text := nestingRow(i)
		data, want = append(data, r), append(want, text)
	}
	for _, version := range []int{1, 2} {
		var buf bytes.Buffer
		w := parquet.NewGenericWriter[nesting](&buf, parquet.DataPageVersion(version), parquet.Compression(&parquet.Zstd), parquet.PageBufferSize(3000), parquet.MaxRowsPerRowGroup(1300), parquet.CreatedBy("Redpanda", "25.3", "x"))
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		equalRows(t, readRows(t, buf.Bytes(), ReadOptions{BatchRows: 700}), want)
		f, err := Open(bytes.NewReader(buf.Bytes()), int64(buf.Len()), "n.parquet")
		if err != nil {
			t.Fatal(err)
		}
		names := "id log.offset log.at log.deep.key log.deep.size log.deep.tags log.deep.more may.offset may.at may.deep.key may.deep.size may.deep.tags may.deep.more"
		if got := strings.Join(f.Columns(), " "); got != names {
			t.Errorf("the columns are %s, want %s", got, names)
		}
		if c, err := f.Column("may.offset"); err != nil || !c.Nullable {
			t.Errorf("may.offset, which is required in a structure that is not: %+v, %v", c, err)
		}
		if c, err := f.Column("log.offset"); err != nil || c.Nullable {
			t.Errorf("log.offset: %+v, %v", c, err)
		}
		for name, says := range map[string]string{"log": "as log.offset", "may.deep": "as may.deep.key", "log.deep.tags": "a list", "log.deep.more": "nested", "log.no": "no such column"} {
			if _, err := f.Column(name); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if lo, hi, ok := f.Bounds(1, "log.offset"); !ok || lo != 1300 || hi != 1999 {
			t.Errorf("bounds of log.offset: %d to %d, %v", lo, hi, ok)
		}
		if n, ok := f.Nulls(0, "log.offset"); !ok || n != 0 {
			t.Errorf("nulls of log.offset: %d, %v", n, ok)
		}
		if _, ok := f.Nulls(0, "may.at"); ok {
			t.Error("the nulls of a column are known whose structure may be null: writers count them differently")
		}
		if f, err = f.WithRules(map[string]Rule{"log.deep.size": {Scale: new(int)}}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Column("log.deep.size"); err == nil || !strings.Contains(err.Error(), "a scale is declared for it") {
			t.Errorf("a rule for a column in a structure: %v", err)
		}
	}
}

// Files whose values are known from elsewhere: CSV files beside them, or what they were made of.
func TestCorpusValues(t *testing.T) {
	dir := filepath.Join(testenv.Shared(t, "HINDCAST_PARQUET_CORPUS", "parquet-corpus"), "parquet-testing", "data")
	for _, name := range []string{"delta_binary_packed", "delta_byte_array", "delta_encoding_optional_column", "delta_encoding_required_column"} {
		in, err := os.Open(filepath.Join(dir, name+"_expect.csv"))
		if err != nil {
			t.Fatal(err)
		}
		want, err := csv.NewReader(in).ReadAll()
		in.Close()
		if err != nil {
			t.Fatal(err)
		}
		compareCSV(t, filepath.Join(dir, name+".parquet"), want[1:])
	}
	// Runs of equal booleans in RLE, which the library misreads.
	data, err := os.ReadFile(filepath.Join(dir, "rle_boolean_encoding.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	const booleans = "10n110011100110n1100110n11001110000110n110011100n11001110110n1100111"
	got := readRows(t, data, ReadOptions{})
	if text := strings.NewReplacer("|", "", "null", "n").Replace(strings.Join(got, "")); len(text) != 68 || text != booleans {
		t.Errorf("booleans: %s", text)
	}
	// LZ4_RAW pages that compress well, which the library reads as empty (P1), and the same in Hadoop's framing (R1).
	for _, name := range []string{"lz4_raw_compressed_larger.parquet", "hadoop_lz4_compressed_larger.parquet"} {
		if data, err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		got = readRows(t, data, ReadOptions{})
		if len(got) != 10_000 || got[0] != `|"c7ce6bef-d5b0-4863-b199-8ea8c7fb117b"` || got[9999] != `|"85440778-460a-41ac-aa2e-ac3ee41696bf"` {
			t.Errorf("%s: %d strings from %s to %s", name, len(got), got[0], got[len(got)-1])
		}
	}
	// One table in three framings.
	bits := func(f float64) string { return fmt.Sprintf("%x", math.Float64bits(f)) }
	want := []string{
		`|1593604800|"abc"|` + bits(42), `|1593604800|"def"|` + bits(7.7), `|1593604801|"abc"|` + bits(42.125), `|1593604801|"def"|` + bits(7.7),
	}
	for _, name := range []string{"lz4_raw_compressed.parquet", "hadoop_lz4_compressed.parquet", "non_hadoop_lz4_compressed.parquet"} {
		if data, err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		equalRows(t, readRows(t, data, ReadOptions{}), want)
	}
}

func compareCSV(t *testing.T, file string, want [][]string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(data), int64(len(data)), file)
	if err != nil {
		t.Fatal(err)
	}
	r := f.Read(ReadOptions{})
	n := 0
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for row := range b.Len {
			for i := range b.Columns {
				c, got := &b.Columns[i], ""
				switch {
				case c.Nulls.Get(row):
				case c.Kind == record.String:
					got = string(c.Strings.At(row))
				default:
					got = strconv.FormatInt(c.Int64s[row], 10)
				}
				if w := want[n][i]; got != w {
					t.Fatalf("%s, row %d, column %s: %q, want %q", file, n, f.Schema()[i].Name, got, w)
				}
			}
			n++
		}
	}
	if n != len(want) {
		t.Errorf("%s: %d rows, want %d", file, n, len(want))
	}
}
