//go:build full

package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // of zones, wherever the tests run

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/record"
)

// oneColumn writes a column c of a type and values, by the library, in pages of either version.
func oneColumn(t testing.TB, node parquet.Node, values []parquet.Value) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[any](&buf, parquet.NewSchema("s", parquet.Group{"c": node}), parquet.DataPageVersion(1+len(values)%2),
		parquet.CreatedBy("hindcast", "1.0.0", "test"))
	var rows []parquet.Row
	for _, v := range values {
		level := 0
		if node.Optional() && !v.IsNull() {
			level = 1
		}
		rows = append(rows, parquet.Row{v.Level(0, level, 0)})
	}
	if _, err := w.WriteRows(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// read reads the column c by a rule.
func read(t testing.TB, data []byte, rule Rule) ([]string, record.Field, error) {
	t.Helper()
	f, err := Open(bytes.NewReader(data), int64(len(data)), "test.parquet")
	if err != nil {
		t.Fatal(err)
	}
	if f, err = f.WithRules(map[string]Rule{"c": rule, "not there": {}}); err != nil {
		t.Fatal(err)
	}
	field, err := f.Column("c")
	if err != nil {
		return nil, field, err
	}
	var out []string
	for r := f.Read(ReadOptions{BatchRows: 3}); ; {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, field, nil
		}
		if err != nil {
			return nil, field, err
		}
		out = append(out, rows(b)...)
	}
}

// R5: one logical column, stored as each physical type and with another scale in each segment, gives the same integers.
func TestDecimalsOfAnyTypeAreReadAtTheDeclaredScale(t *testing.T) {
	bytesOf := func(v int64, n int) []byte {
		b := make([]byte, n)
		big.NewInt(0).SetUint64(uint64(v)).FillBytes(b[max(0, n-8):])
		for i := range b[:max(0, n-8)] {
			b[i] = byte(v >> 63)
		}
		return b
	}
	var values [4][]parquet.Value
	var want []string
	for i := range int64(40) {
		v := (i - 20) * 2340 // in units of 10^-2
		values[0] = append(values[0], parquet.Int32Value(int32(v)))
		values[1] = append(values[1], parquet.Int64Value(v*100))
		values[2] = append(values[2], parquet.FixedLenByteArrayValue(bytesOf(v*100, 11)))
		short := bytesOf(v, 8)
		for len(short) > 1 && short[0] == byte(v>>63) && short[1]>>7 == byte(v>>63)&1 {
			short = short[1:]
		}
		values[3] = append(values[3], parquet.ByteArrayValue(short))
		want = append(want, fmt.Sprintf("|%d", v*10))
	}
	for i, node := range []parquet.Node{
		parquet.Decimal(2, 9, parquet.Int32Type), parquet.Decimal(4, 18, parquet.Int64Type), parquet.Decimal(4, 24, parquet.FixedLenByteArrayType(11)),
		parquet.Decimal(2, 20, parquet.ByteArrayType),
	} {
		for _, node := range []parquet.Node{node, parquet.Encoded(node, &parquet.RLEDictionary)} {
			data := oneColumn(t, node, values[i])
			got, field, err := read(t, data, Rule{Scale: new(3)})
			if err != nil || field.Kind != record.Int64 {
				t.Fatalf("%v: %v, %v", node, field, err)
			}
			equalRows(t, got, want)
			if _, _, err := read(t, data, Rule{}); err == nil || !strings.Contains(err.Error(), "declare the column's scale") {
				t.Errorf("%v without a scale: %v", node, err)
			}
			// 23.4 has no whole number of units.
			_, _, err = read(t, data, Rule{Scale: new(0)})
			var e *Error
			if !errors.As(err, &e) || e.Column != "c" || e.RowGroup != 0 || !strings.Contains(err.Error(), "places") {
				t.Errorf("%v at scale 0: %v", node, err)
			}
		}
	}
}

// A decimal that 64 bits do not hold is refused, or read as text with all its digits.
func TestDecimalsPastInt64AreRefusedOrText(t *testing.T) {
	v, _ := new(big.Int).SetString("-123456789012345678901234567890123456", 10)
	u := new(big.Int).Add(v, new(big.Int).Lsh(big.NewInt(1), 128))
	data := oneColumn(t, parquet.Optional(parquet.Decimal(5, 38, parquet.FixedLenByteArrayType(16))),
		[]parquet.Value{parquet.FixedLenByteArrayValue(u.FillBytes(make([]byte, 16))), parquet.NullValue()})
	if _, _, err := read(t, data, Rule{Scale: new(5)}); err == nil || !strings.Contains(err.Error(), "does not fit 64 bits; it can be read as text") {
		t.Error(err)
	}
	got, field, err := read(t, data, Rule{Text: true})
	if err != nil || field.Kind != record.String || !slices.Equal(got, []string{`|"-1234567890123456789012345678901.23456"`, "|null"}) {
		t.Error(got, field, err)
	}
	type unsigned struct {
		C uint64 `parquet:"c"`
	}
	var buf bytes.Buffer
	if err := parquet.Write(&buf, []unsigned{{math.MaxUint64}, {7}}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := read(t, buf.Bytes(), Rule{Text: true}); err != nil || !slices.Equal(got, []string{`|"18446744073709551615"`, `|"7"`}) {
		t.Error(got, err)
	}
	if _, _, err := read(t, data, Rule{Text: true, Scale: new(1)}); err == nil {
		t.Error("a scale and text were both declared, and it was read")
	}
	if _, _, err := read(t, data, Rule{Scale: new(19)}); err == nil || !strings.Contains(err.Error(), "scales are 0 to 18") {
		t.Error(err)
	}
}

// A scale says nothing about numbers that have none: whether 5 is 5 or 5 units is not to be guessed.
func TestAScaleForWhatIsNoDecimalIsRefused(t *testing.T) {
	for _, typ := range []parquet.Type{parquet.Int64Type, parquet.DoubleType, parquet.ByteArrayType} {
		var v parquet.Value
		switch typ {
		case parquet.Int64Type:
			v = parquet.Int64Value(5)
		case parquet.DoubleType:
			v = parquet.DoubleValue(5)
		default:
			v = parquet.ByteArrayValue([]byte("5"))
		}
		if _, _, err := read(t, oneColumn(t, parquet.Leaf(typ), []parquet.Value{v}), Rule{Scale: new(2)}); err == nil || !strings.Contains(err.Error(), "no decimal") {
			t.Errorf("%v: %v", typ, err)
		}
	}
}

// R4: the same stored microseconds at the edge of a UTC day are the instant itself where the flag says so, and eight hours earlier where
// clocks of Shanghai showed them. Without a zone they are not read.
func TestWallClocksNeedADeclaredZone(t *testing.T) {
	edge := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).UnixMicro()
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	values := []parquet.Value{parquet.Int64Value(edge - 1), parquet.Int64Value(edge)}
	instants := oneColumn(t, parquet.TimestampAdjusted(parquet.Microsecond, true), values)
	clocks := oneColumn(t, parquet.TimestampAdjusted(parquet.Microsecond, false), values)
	if _, _, err := read(t, clocks, Rule{}); err == nil || !strings.Contains(err.Error(), "no stated zone") {
		t.Error(err)
	}
	const hours = 8 * 3600 * 1_000_000
	for name, c := range map[string]struct {
		data []byte
		less int64
	}{"instants": {instants, 0}, "clocks": {clocks, hours}} {
		got, field, err := read(t, c.data, Rule{Zone: shanghai})
		if err != nil || field.Kind != record.Timestamp || !slices.Equal(got, []string{fmt.Sprintf("|%d", edge-1-c.less), fmt.Sprintf("|%d", edge-c.less)}) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		f, _ := Open(bytes.NewReader(c.data), int64(len(c.data)), "x")
		if f, err = f.WithRules(map[string]Rule{"c": {Zone: shanghai}}); err != nil {
			t.Fatal(err)
		}
		if lo, hi, ok := f.Bounds(0, "c"); !ok || lo != edge-1-c.less || hi != edge-c.less {
			t.Errorf("%s: bounds %d to %d, %v", name, lo, hi, ok)
		}
	}
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	never := time.Date(2024, 3, 10, 2, 30, 0, 0, time.UTC)
	data := oneColumn(t, parquet.TimestampAdjusted(parquet.Millisecond, false), []parquet.Value{parquet.Int64Value(never.UnixMilli())})
	if _, _, err := read(t, data, Rule{Zone: newYork}); err == nil || !strings.Contains(err.Error(), "2024-03-10T02:30:00 never was in America/New_York") {
		t.Error(err)
	}
}

func TestINT96IsReadByDeclarationOnly(t *testing.T) {
	at := time.Date(2009, 4, 1, 12, 0, 0, 1999, time.UTC)
	nanos := uint64(12*3600)*1_000_000_000 + 1999
	v := parquet.Int96Value(deprecated.Int96{uint32(nanos), uint32(nanos >> 32), 2_454_923})
	data := oneColumn(t, parquet.Optional(parquet.Leaf(parquet.Int96Type)), []parquet.Value{v, parquet.NullValue(), v})
	if _, _, err := read(t, data, Rule{}); err == nil || !strings.Contains(err.Error(), "declare int96") {
		t.Error(err)
	}
	micros := fmt.Sprintf("|%d", at.UnixMicro())
	if got, field, err := read(t, data, Rule{INT96: true}); err != nil || field.Kind != record.Timestamp || !slices.Equal(got, []string{micros, "|null", micros}) {
		t.Error(got, err)
	}
	london, err := time.LoadLocation("Europe/London")
	if err != nil {
		t.Fatal(err)
	}
	micros = fmt.Sprintf("|%d", at.Add(-time.Hour).UnixMicro()) // summer
	if got, _, err := read(t, data, Rule{INT96: true, Zone: london}); err != nil || !slices.Equal(got, []string{micros, "|null", micros}) {
		t.Error(got, err)
	}
}

// Times of day are microseconds since midnight, whatever their unit.
func TestTimesOfDay(t *testing.T) {
	for _, c := range []struct {
		node parquet.Node
		v    parquet.Value
	}{
		{parquet.Time(parquet.Millisecond), parquet.Int32Value(3_600_001)},
		{parquet.Time(parquet.Microsecond), parquet.Int64Value(3_600_001_000)},
		{parquet.Time(parquet.Nanosecond), parquet.Int64Value(3_600_001_000_999)},
	} {
		if got, field, err := read(t, oneColumn(t, c.node, []parquet.Value{c.v}), Rule{}); err != nil || field.Kind != record.Int64 || got[0] != "|3600001000" {
			t.Errorf("%v: %v, %v", c.node, got, err)
		}
	}
}

// ruledFiles has a file for each way in which values are read by a rule.
func ruledFiles(t testing.TB) (files [][]byte) {
	numbers := make([]parquet.Value, 25)
	for i := range numbers {
		numbers[i] = parquet.FixedLenByteArrayValue([]byte{byte(i), 2, 3, 4, 5, 6, 7, 8, 9})
	}
	decimal := parquet.Decimal(3, 20, parquet.FixedLenByteArrayType(9))
	files = append(files, oneColumn(t, decimal, numbers), oneColumn(t, parquet.Encoded(decimal, &parquet.RLEDictionary), numbers))
	for i := range numbers {
		numbers[i] = parquet.Int96Value(deprecated.Int96{uint32(i), 5, 2_440_000})
	}
	files = append(files, oneColumn(t, parquet.Leaf(parquet.Int96Type), numbers))
	for i := range numbers {
		numbers[i] = parquet.Int64Value(int64(i) * 77_777_777_777)
	}
	data := oneColumn(t, parquet.TimestampAdjusted(parquet.Nanosecond, false), numbers)
	files = append(files, data, oneColumn(t, parquet.Decimal(3, 18, parquet.Int64Type), numbers), oneColumn(t, parquet.Uint(64), numbers))
	var nested bytes.Buffer
	var rows []nesting
	for i := range 50 {
		row, _ := nestingRow(i)
		rows = append(rows, row)
	}
	if err := parquet.Write(&nested, rows); err != nil {
		t.Fatal(err)
	}
	files = append(files, nested.Bytes())
	return append(files, refooted(t, data, func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.Codec = format.Lz4 }))
}
