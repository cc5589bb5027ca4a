package payload

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/avro"

	"hindcast/internal/record"
	"hindcast/internal/spec"
)

// wrote encodes values of a record's fields, as a producer does.
func wrote(t testing.TB, schema string, fields map[string]any) []byte {
	t.Helper()
	s, err := avro.Parse(schema)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Encode(fields)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func one(kind record.Kind, nullable bool) record.Schema {
	return record.Schema{{Name: "x", Kind: kind, Nullable: nullable}}
}

func plain(t testing.TB, schema record.Schema, avsc string, rules map[string]spec.Column) *Decoder {
	t.Helper()
	d, err := New(schema, Options{Format: spec.Avro, Schema: avsc, Columns: rules})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func scale(n int) spec.Column { return spec.Column{Scale: &n} }

func TestAvroFields(t *testing.T) {
	dec := func(scale int) string {
		return fmt.Sprintf(`{"type":"bytes","logicalType":"decimal","precision":30,"scale":%d}`, scale)
	}
	for _, c := range []struct {
		kind record.Kind
		typ  string // of field x
		rule spec.Column
		in   any
		want string
	}{
		{record.Bool, `"boolean"`, spec.Column{}, true, "x=1"},
		{record.Bool, `"int"`, spec.Column{}, 1, "x: it is an int, expected a boolean (the schema)"},
		{record.Int64, `"int"`, spec.Column{}, math.MinInt32, "x=-2147483648"},
		{record.Int64, `"long"`, spec.Column{}, int64(1 << 40), "x=1099511627776"},
		{record.Int64, `"double"`, spec.Column{}, 1.0, "x: it is a double, expected an int or a long (the schema)"},
		{record.Int64, `"string"`, spec.Column{}, "1", "x: it is a string, expected an int or a long (the schema)"},
		{record.Int64, `{"type":"long","logicalType":"timestamp-millis"}`, spec.Column{}, int64(1), "x: it is a long (timestamp-millis), expected an int or a long (the schema)"},
		{record.Int64, `{"type":"int","logicalType":"time-millis"}`, spec.Column{}, 1, "x: it is an int (time-millis), expected an int or a long (the schema)"},
		{record.Float64, `"float"`, spec.Column{}, float32(0.1), "x=0.10000000149011612"},
		{record.Float64, `"double"`, spec.Column{}, 0.1, "x=0.1"},
		{record.Float64, `"int"`, spec.Column{}, 7, "x=7"},
		{record.Float64, `"long"`, spec.Column{}, int64(7), "x: it is a long, expected a float, a double or an int: a long may have more digits than fit (the schema)"},
		{record.String, `"string"`, spec.Column{}, "é", `x="é"`},
		{record.String, `"bytes"`, spec.Column{}, []byte{0xff}, `x="\xff"`},
		{record.String, `{"type":"string","logicalType":"uuid"}`, spec.Column{}, "0f3a1ce2-0000-4000-8000-000000000001", `x="0f3a1ce2-0000-4000-8000-000000000001"`},
		{record.String, `{"type":"enum","name":"E","symbols":["A","B"]}`, spec.Column{}, "B", `x="B"`},
		{record.String, `{"type":"fixed","name":"F","size":2}`, spec.Column{}, []byte("ab"), `x="ab"`},
		{record.String, dec(2), spec.Column{}, big.NewRat(1, 4), "x: it is bytes (decimal), expected a string, bytes, a fixed or an enum (the schema)"},
		{record.Timestamp, `{"type":"long","logicalType":"timestamp-millis"}`, spec.Column{}, int64(-1), "x=-1000"},
		{record.Timestamp, `{"type":"long","logicalType":"timestamp-micros"}`, spec.Column{}, int64(1001), "x=1001"},
		{record.Timestamp, `{"type":"long","logicalType":"timestamp-nanos"}`, spec.Column{}, int64(-1), "x=-1"},
		{record.Timestamp, `{"type":"long","logicalType":"timestamp-millis"}`, spec.Column{}, int64(math.MaxInt64), "x: the time 9223372036854775807 ms is beyond any calendar"},
		{
			record.Timestamp, `{"type":"long","logicalType":"local-timestamp-millis"}`,
			spec.Column{},
			int64(0), "x: it is a long (local-timestamp-millis), expected a timestamp (zone in source.event.columns allows local ones and dates) (unit allows integers) (the schema)",
		},
		{record.Timestamp, `{"type":"long","logicalType":"local-timestamp-millis"}`, spec.Column{Zone: "Asia/Tokyo"}, int64(0), "x=-32400000000"},
		{record.Timestamp, `"long"`, spec.Column{Unit: spec.Seconds}, int64(-2), "x=-2000000"},
		{record.Timestamp, `"string"`, spec.Column{}, "1970-01-01T01:00:00+01:00", "x=0"},
		{record.Timestamp, `{"type":"int","logicalType":"date"}`, spec.Column{Zone: "Asia/Tokyo"}, 1, "x=54000000000"},
		{
			record.Timestamp, `{"type":"int","logicalType":"date"}`,
			spec.Column{},
			1,
			"x: it is an int (date), expected a timestamp (zone in source.event.columns allows local ones and dates) (unit allows integers) (the schema)",
		},
		{record.Date, `{"type":"int","logicalType":"date"}`, spec.Column{}, -1, "x=-1"},
		{record.Date, `"int"`, spec.Column{}, -1, "x: it is an int, expected a date (the schema)"},
		{record.Int64, dec(2), scale(3), big.NewRat(-5, 4), "x=-1250"},
		{record.Int64, dec(2), scale(1), big.NewRat(12, 10), "x=12"},
		{record.Int64, dec(2), scale(1), big.NewRat(125, 100), "x: its value, a decimal of scale 2, does not fit an integer of 64 bits with scale 1 exactly"},
		{record.Int64, dec(0), scale(0), new(big.Rat).SetInt64(math.MinInt64), "x=-9223372036854775808"},
		{
			record.Int64, dec(0), scale(0), new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 63)),
			"x: its value, a decimal of scale 0, does not fit an integer of 64 bits with scale 0 exactly",
		},
		{record.Int64, `{"type":"fixed","name":"D","size":16,"logicalType":"decimal","precision":30,"scale":2}`, scale(2), big.NewRat(-1, 100), "x=-1"},
		{record.Int64, dec(2), spec.Column{}, big.NewRat(1, 4), "x: it is a decimal: say in source.event.columns with what scale it is read as an integer (the schema)"},
		{record.Int64, `"long"`, scale(2), int64(5), "x: it is a long, expected a decimal, as the column's scale says (the schema)"},
		{record.Int64, `["null","long"]`, spec.Column{}, int64(5), "x=5"},
		{record.Int64, `["long","null"]`, spec.Column{}, nil, ""},
		{record.Int64, `["long"]`, spec.Column{}, int64(5), "x=5"},
		{record.Int64, `"null"`, spec.Column{}, nil, ""},
		{record.Int64, `["null","int","long"]`, spec.Column{}, int32(5), "x: it is a union of several types; only one type, or null, is read (the schema)"},
		{record.Int64, `{"type":"record","name":"In","fields":[]}`, spec.Column{}, map[string]any{}, "x: it is a record; only flat fields are read (the schema)"},
		{record.Int64, `{"type":"array","items":"int"}`, spec.Column{}, []int32{1}, "x: it is an array; only flat fields are read (the schema)"},
		{record.Int64, `{"type":"map","values":"int"}`, spec.Column{}, map[string]int32{}, "x: it is a map; only flat fields are read (the schema)"},
	} {
		avsc := `{"type":"record","name":"R","fields":[{"name":"before","type":"string"},{"name":"x","type":` + c.typ + `},{"name":"after","type":{"type":"map","values":"double"}}]}`
		d := plain(t, one(c.kind, true), avsc, map[string]spec.Column{"x": c.rule})
		value := wrote(t, avsc, map[string]any{"before": "b", "x": c.in, "after": map[string]float64{"y": 1}})
		if got := row(t, d, value); got != c.want {
			t.Errorf("%s of %s: %v gave\n     %s\nwant %s", c.kind, c.typ, c.in, got, c.want)
		}
		if got := row(t, d, append(slices.Clone(value), 0)); !strings.HasPrefix(got, "the value is no record of its schema: 1 bytes follow it") {
			t.Errorf("%s with a byte more gave %s", c.typ, got)
		}
		if got := row(t, d, value[:len(value)-1]); !strings.HasPrefix(got, "the value is no record of its schema: ") {
			t.Errorf("%s with a byte less gave %s", c.typ, got)
		}
	}
}

// A field whose type is a name, the second use of a type, is read as what the name stands for.
func TestAvroNamesOfTypes(t *testing.T) {
	const avsc = `{"type":"record","name":"R","namespace":"a.b","fields":[{"name":"w","type":{"type":"enum","name":"E","symbols":["A","B"]}},{"name":"x","type":["null","E"]}]}`
	d := plain(t, one(record.String, false), avsc, nil)
	if got := row(t, d, wrote(t, avsc, map[string]any{"w": "A", "x": "B"})); got != `x="B"` {
		t.Error(got)
	}
	if got := row(t, d, wrote(t, avsc, map[string]any{"w": "A", "x": nil})); got != "x: it is null, expected a string" {
		t.Error(got)
	}
	if got := row(t, d, nil); got != "the record has no value (a tombstone)" {
		t.Error(got)
	}
}

// The bytes are those that the specification gives, not what the library writes.
func TestAvroBytesOfTheSpecification(t *testing.T) {
	const avsc = `{"type":"record","name":"test","fields":[{"name":"a","type":"long"},{"name":"b","type":"string"}]}`
	d := plain(t, record.Schema{{Name: "a", Kind: record.Int64}, {Name: "b", Kind: record.String}}, avsc, nil)
	if got := row(t, d, []byte{0x36, 0x06, 0x66, 0x6f, 0x6f}); got != `a=27 b="foo"` {
		t.Error(got)
	}
	if got := row(t, d, []byte{0x36, 0x02, 0xff}); got != `b: the string is not UTF-8` {
		t.Error(got)
	}
}

func TestAvroSchemasThatHoldNoEvents(t *testing.T) {
	for avsc, want := range map[string]string{
		`"string"`:         "the schema is a string: only records are events",
		`{"type":"recrd"}`: "it is no Avro schema",
		``:                 "values in Avro need a schema registry or a schema",
		`["null",{"type":"record","name":"R","fields":[]}]`: "the schema is a union: only records are events",
	} {
		if _, err := New(one(record.Int64, true), Options{Format: spec.Avro, Schema: avsc}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", avsc, err, want)
		}
	}
}

// A few bytes may claim billions of items, or nest without end: neither is followed.
func TestAvroBombs(t *testing.T) {
	for name, avsc := range map[string]string{
		"a list in a list": `{"type":"record","name":"R","fields":[{"name":"next","type":["null","R"]},{"name":"x","type":"int"}]}`,
		"nulls":            `{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":"null"}},{"name":"x","type":"int"}]}`,
		"strings":          `{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"array","items":"string"}},{"name":"x","type":"int"}]}`,
	} {
		d := plain(t, one(record.Int64, true), avsc, nil)
		deep := make([]byte, 1<<20)
		for i := range deep {
			deep[i] = 2
		}
		for _, value := range [][]byte{deep, binary.AppendVarint(nil, math.MaxInt64), binary.AppendVarint(nil, 1<<40), binary.AppendVarint(nil, math.MinInt64)} {
			if got := row(t, d, value); !strings.HasPrefix(got, "the value is no record of its schema: ") {
				t.Errorf("%s: %d bytes gave %s", name, len(value), got)
			}
		}
	}
}

// FuzzAvro gives any bytes to decoders of several schemas: a row comes out, or a sentence.
func FuzzAvro(f *testing.F) {
	const flat = `{"type":"record","name":"R","fields":[{"name":"x","type":["null","long"]},{"name":"s","type":"string"},{"name":"d","type":` +
		`{"type":"bytes","logicalType":"decimal","precision":20,"scale":2}},{"name":"t","type":{"type":"long","logicalType":"local-timestamp-micros"}}]}`
	const nested = `{"type":"record","name":"R","fields":[{"name":"m","type":{"type":"map","values":["null","R"]}},{"name":"x","type":"double"}]}`
	event := record.Schema{{Name: "x", Kind: record.Int64, Nullable: true}, {Name: "s", Kind: record.String}, {Name: "d", Kind: record.Int64}, {Name: "t", Kind: record.Timestamp}}
	rules := map[string]spec.Column{"d": scale(3), "t": {Zone: "Europe/London"}}
	f.Add(wrote(f, flat, map[string]any{"x": int64(7), "s": "abc", "d": big.NewRat(5, 4), "t": int64(1e15)}))
	f.Add(wrote(f, nested, map[string]any{"m": map[string]any{}, "x": 1.5}))
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, d := range []*Decoder{plain(t, event, flat, rules), plain(t, one(record.Float64, false), nested, nil)} {
			a, b := row(t, d, value), row(t, d, value)
			if a != b {
				t.Fatalf("%x gave %s, then %s", value, a, b)
			}
		}
	})
}

func BenchmarkAvro(b *testing.B) {
	const avsc = `{"type":"record","name":"Line","fields":[{"name":"event_id","type":"string"},{"name":"occurred_at","type":{"type":"long","logicalType":"timestamp-millis"}},` +
		`{"name":"version","type":"int"},{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["sale","cancel"]}},{"name":"invoice_no","type":"string"},` +
		`{"name":"stock_code","type":"string"},{"name":"description","type":["null","string"]},{"name":"quantity","type":"long"},{"name":"unit_price_mills","type":"long"},` +
		`{"name":"account_id","type":["null","string"]},{"name":"country","type":"string"}]}`
	benchmark(b, wrote(b, avsc, map[string]any{
		"event_id": "581000-1", "occurred_at": int64(1323244980000), "version": 341, "kind": "sale", "invoice_no": "581000", "stock_code": "22961",
		"description": "JAM MAKING SET PRINTED", "quantity": int64(12), "unit_price_mills": int64(1450), "account_id": "12720", "country": "Germany",
	}), Options{Format: spec.Avro, Schema: avsc})
}
