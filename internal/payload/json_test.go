package payload

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"hindcast/internal/record"
	"hindcast/internal/spec"
)

var everyKind = record.Schema{
	{Name: "s", Kind: record.String, Nullable: true},
	{Name: "i", Kind: record.Int64, Nullable: true},
	{Name: "f", Kind: record.Float64, Nullable: true},
	{Name: "b", Kind: record.Bool, Nullable: true},
	{Name: "t", Kind: record.Timestamp, Nullable: true},
	{Name: "d", Kind: record.Date, Nullable: true},
	{Name: "must", Kind: record.Int64},
}

// decoded returns the row that a value gives: its columns, or why there are none.
func decoded(t testing.TB, value string) string {
	t.Helper()
	d, err := New(everyKind, Options{Format: spec.JSON})
	if err != nil {
		t.Fatal(err)
	}
	return row(t, d, []byte(value))
}

// row decodes a value and renders the row that it gives.
func row(t testing.TB, d *Decoder, value []byte) string {
	t.Helper()
	columns := make([]record.Column, len(d.schema)+1)
	for i, f := range Schema(d.schema, "why") {
		columns[i].Kind = f.Kind
	}
	if err := d.Append(t.Context(), columns, 0, value); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i, f := range d.schema {
		c := &columns[i]
		switch {
		case c.Nulls.Get(0):
		case f.Kind == record.String:
			out = append(out, fmt.Sprintf("%s=%q", f.Name, c.Strings.At(0)))
		case f.Kind == record.Float64:
			out = append(out, fmt.Sprintf("%s=%v", f.Name, c.Float64s[0]))
		default:
			out = append(out, fmt.Sprintf("%s=%d", f.Name, c.Int64s[0]))
		}
	}
	if c := &columns[len(d.schema)]; !c.Nulls.Get(0) {
		if len(out) > 0 {
			t.Errorf("%q: an error, and values %v", value, out)
		}
		return string(c.Strings.At(0))
	}
	return strings.Join(out, " ")
}

func TestDecodeValues(t *testing.T) {
	for value, want := range map[string]string{
		`{"must":1}`: "must=1",
		` { "must" : 1 , "s" : "a\"}\\" , "x" : [1,{"must":2},"}"] } `: `s="a\"}\\" must=1`,
		`{"m\u0075st":1,"s":"\u00e9\ud83d\ude00\ufffd"}`:               `s="é😀` + "\uFFFD" + `" must=1`,
		`{"must":1,"s":""}`:      `s="" must=1`,
		`{"must":1,"s":null}`:    "must=1",
		`{"MUST":1}`:             "must: it is missing, expected an integer of 64 bits",
		`{"must":null}`:          "must: it is null, expected an integer of 64 bits",
		`{"must":1,"must":2}`:    "must: it is there twice",
		`{"x":1,"x":2,"must":1}`: "must=1",
		`{"must":1,"s":7}`:       "s: it is 7, expected a string",
		`{"must":1,"s":{}}`:      "s: it is an object, expected a string",

		fmt.Sprintf(`{"must":1,"i":%d}`, int64(math.MinInt64)): "i=-9223372036854775808 must=1",
		`{"must":9007199254740993}`:                            "must=9007199254740993",
		`{"must":1,"i":9223372036854775808}`:                   "i: it is 9223372036854775808, expected an integer of 64 bits",
		`{"must":1,"i":1.0}`:                                   "i: it is 1.0, expected an integer of 64 bits",
		`{"must":1,"i":1e3}`:                                   "i: it is 1e3, expected an integer of 64 bits",
		`{"must":1,"i":"1"}`:                                   `i: it is "1", expected an integer of 64 bits`,
		`{"must":1,"i":true}`:                                  "i: it is true, expected an integer of 64 bits",
		`{"must":1,"i":[1]}`:                                   "i: it is an array, expected an integer of 64 bits",

		`{"must":1,"f":1}`:      "f=1 must=1",
		`{"must":1,"f":-0.25}`:  "f=-0.25 must=1",
		`{"must":1,"f":1e999}`:  "f: it is 1e999, expected a number",
		`{"must":1,"f":"1"}`:    `f: it is "1", expected a number`,
		`{"must":1,"f":false}`:  "f: it is false, expected a number",
		`{"must":1,"b":true}`:   "b=1 must=1",
		`{"must":1,"b":false}`:  "b=0 must=1",
		`{"must":1,"b":0}`:      "b: it is 0, expected true or false",
		`{"must":1,"b":"true"}`: `b: it is "true", expected true or false`,

		`{"must":1,"t":"1970-01-01T00:00:01Z"}`:           "t=1000000 must=1",
		`{"must":1,"t":"1970-01-01T01:00:00.5+01:00"}`:    "t=500000 must=1",
		`{"must":1,"t":"1970-01-01T00:00:00.000001999Z"}`: "t=1 must=1",
		`{"must":1,"t":"1969-12-31T23:59:59.9999999Z"}`:   "t=-1 must=1",
		`{"must":1,"t":"1970-01-01T00:00:01"}`:            `t: it is "1970-01-01T00:00:01", expected an RFC 3339 time with its zone, as "2011-11-01T08:26:00Z"`,
		`{"must":1,"t":1000}`:                             `t: it is 1000, expected an RFC 3339 time with its zone, as "2011-11-01T08:26:00Z"`,
		`{"must":1,"d":"1969-12-31"}`:                     "d=-1 must=1",
		`{"must":1,"d":"2024-02-30"}`:                     `d: it is "2024-02-30", expected a date, as "2011-11-01"`,

		`[]`:                           "the value is an array, expected an object",
		`"a"`:                          `the value is "a", expected an object`,
		``:                             "the value is no JSON: unexpected end of JSON input",
		`{"must":1`:                    "the value is no JSON: unexpected end of JSON input",
		`{"must":1}{}`:                 "the value is no JSON: invalid character '{' after top-level value",
		`{"must":NaN}`:                 "the value is no JSON: invalid character 'N' looking for beginning of value",
		"{\"must\":1,\"s\":\"a\xff\"}": "s: the string is not UTF-8",
		`{"must":1,"s":"\ud83d"}`:      "s: the string has half of a surrogate pair",
		`{"must":1,"s":"` + strings.Repeat("é", 50) + `","i":"` + strings.Repeat("é", 50) + `"}`: `i: it is "` + strings.Repeat("é", 29) + "\uFFFD…, expected an integer of 64 bits",
	} {
		if got := decoded(t, value); got != want {
			t.Errorf("%s\n     gave %s\nexpected %s", value, got, want)
		}
	}
}

// FuzzMembers compares with the standard library: the same members with the same values, or an error.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":[{"c":"}"}],"":null}`, `{}`, ` {"a" : "\u0041\\" } `, `{"a":"\ud83d\ude00","b":-1.5e+3}`, `{"\ufffd":"\ud800"}`, `[{"a":1}]`, "{\"\xff\":1}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := map[string]json.RawMessage{}
		text := map[string]string{}
		err := members(raw, func(name, value []byte) error {
			got[string(name)] = value
			delete(text, string(name))
			if value[0] == '"' {
				s, err := unquote(value)
				if err != nil {
					return err
				}
				text[string(name)] = string(s)
			}
			return nil
		})
		var want map[string]json.RawMessage
		errWant := json.Unmarshal(raw, &want)
		switch {
		case err != nil && errWant == nil && want != nil:
			if utf8.Valid(raw) && !strings.Contains(string(raw), `\u`) {
				t.Fatalf("%q: %v, the library reads it", raw, err)
			}
			return
		case err == nil && errWant != nil:
			t.Fatalf("%q: read as %v, the library says %v", raw, got, errWant)
		case err != nil:
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d members, want %d", raw, len(got), len(want))
		}
		for name, value := range want {
			if string(got[name]) != string(value) {
				t.Fatalf("%q: %q is %q, want %q", raw, name, got[name], value)
			}
			if s, ok := text[name]; ok {
				var v string
				if err := json.Unmarshal(value, &v); err != nil || v != s {
					t.Fatalf("%q: %q is %q, want %q (%v)", raw, name, s, v, err)
				}
			}
		}
	})
}

func BenchmarkJSON(b *testing.B) {
	value := []byte(`{"event_id":"581000-1","occurred_at":"2011-12-07T08:03:00Z","version":341,"kind":"sale","invoice_no":"581000",` +
		`"stock_code":"22961","description":"JAM MAKING SET PRINTED","quantity":12,"unit_price_mills":1450,"account_id":"12720","country":"Germany"}`)
	benchmark(b, value, Options{Format: spec.JSON})
}

func BenchmarkJSONByVersion(b *testing.B) {
	value := []byte(`{"event_id":"581000-1","occurred_at":"2011-12-07T08:03:00Z","version":341,"kind":"sale","invoice_no":"581000",` +
		`"stock_code":"22961","description":"JAM MAKING SET PRINTED","quantity":12,"unit_price_mills":1450,"account_id":"12720","country":"Germany"}`)
	benchmark(b, value, Options{Format: spec.JSON, Upcasts: []spec.Upcast{{By: "version", Below: 300, Rename: map[string]string{"price": "unit_price_mills"}}}})
}

var line = record.Schema{
	{Name: "event_id", Kind: record.String},
	{Name: "occurred_at", Kind: record.Timestamp},
	{Name: "kind", Kind: record.String},
	{Name: "quantity", Kind: record.Int64},
	{Name: "unit_price_mills", Kind: record.Int64},
	{Name: "country", Kind: record.String},
}

func benchmark(b *testing.B, value []byte, opts Options) {
	d, err := New(line, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	var columns []record.Column
	n := 10_000
	for b.Loop() {
		if n == 10_000 {
			columns, n = make([]record.Column, len(line)+1), 0
			for i, f := range Schema(line, "why") {
				columns[i].Kind = f.Kind
			}
		}
		if err := d.Append(b.Context(), columns, n, value); err != nil {
			b.Fatal(err)
		}
		n++
	}
	if !columns[len(line)].Nulls.Get(0) {
		b.Fatal(string(columns[len(line)].Strings.At(0)))
	}
}
