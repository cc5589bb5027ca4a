package payload

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"hindcast/internal/record"
	"hindcast/internal/spec"
)

func TestRulesOfJSON(t *testing.T) {
	for _, c := range []struct {
		kind     record.Kind
		rule     spec.Column
		in, want string
	}{
		{record.Int64, scale(3), `12.5`, "x=12500"},
		{record.Int64, scale(3), `"-0.001"`, "x=-1"},
		{record.Int64, scale(3), `1.25e1`, "x=12500"},
		{record.Int64, scale(3), `12`, "x=12000"},
		{record.Int64, scale(3), `0.0000`, "x=0"},
		{record.Int64, scale(0), `9223372036854775807`, "x=9223372036854775807"},
		{record.Int64, scale(0), `-9223372036854775808`, "x=-9223372036854775808"},
		{record.Int64, scale(0), `9223372036854775808`, "x: it is 9223372036854775808, expected a decimal number of at most 0 digits behind the point that fits 64 bits without it"},
		{record.Int64, scale(2), `0.125`, "x: it is 0.125, expected a decimal number of at most 2 digits behind the point that fits 64 bits without it"},
		{record.Int64, scale(2), `1e999999999`, "x: it is 1e999999999, expected a decimal number of at most 2 digits behind the point that fits 64 bits without it"},
		{record.Int64, scale(2), `1e-999999999`, "x: it is 1e-999999999, expected a decimal number of at most 2 digits behind the point that fits 64 bits without it"},
		{record.Int64, scale(2), `"1,5"`, `x: it is "1,5", expected a decimal number of at most 2 digits behind the point that fits 64 bits without it`},
		{record.Int64, scale(2), `true`, `x: it is true, expected a decimal number of at most 2 digits behind the point that fits 64 bits without it`},
		{record.Timestamp, spec.Column{Unit: spec.Millis}, `-1`, "x=-1000"},
		{record.Timestamp, spec.Column{Unit: spec.Millis}, `"1970-01-01T00:00:00Z"`, "x=0"},
		{record.Timestamp, spec.Column{Unit: spec.Seconds}, `9223372036854775807`, `x: it is 9223372036854775807, expected an RFC 3339 time with its zone, as "2011-11-01T08:26:00Z", or an integer (s since 1970)`},
		{record.Timestamp, spec.Column{Unit: spec.Millis}, `1.5`, `x: it is 1.5, expected an RFC 3339 time with its zone, as "2011-11-01T08:26:00Z", or an integer (ms since 1970)`},
		{record.Timestamp, spec.Column{Zone: "Asia/Tokyo"}, `"1970-01-01T09:00:00.5"`, "x=500000"},
		{record.Timestamp, spec.Column{Zone: "Asia/Tokyo"}, `"1970-01-01 09:00:00"`, "x=0"},
		{record.Timestamp, spec.Column{Zone: "Asia/Tokyo"}, `"1970-01-02"`, "x=54000000000"},
		{record.Timestamp, spec.Column{Zone: "Asia/Tokyo"}, `"1970-01-01T00:00:00Z"`, "x=0"},
		{record.Timestamp, spec.Column{Zone: "Europe/London"}, `"2011-03-27T01:30:00"`, "x: the clocks of Europe/London skip 2011-03-27T01:30:00"},
		{record.Timestamp, spec.Column{Zone: "Europe/London"}, `"2011-10-30T01:30:00"`, "x=1319934600000000"}, // the first of two,
		{record.Timestamp, spec.Column{Zone: "Europe/London"}, `"noon"`, `x: it is "noon", expected an RFC 3339 time, without a zone one of Europe/London, as "2011-11-01T08:26:00"`},
	} {
		d, err := New(one(c.kind, false), Options{Format: spec.JSON, Columns: map[string]spec.Column{"x": c.rule}})
		if err != nil {
			t.Fatal(err)
		}
		if got := row(t, d, []byte(`{"x":`+c.in+`}`)); got != c.want {
			t.Errorf("%s gave\n     %s\nwant %s", c.in, got, c.want)
		}
	}
}

// Wall-clock times are held against the standard library, over zones that skip and repeat hours, half hours and a whole day.
func TestInstantsOfWallClocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"UTC", "Europe/London", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu", "Africa/Casablanca"} {
		z, err := NewZone(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 3000 {
			at := rng.Int64N(70*365*24*3600) - 3600
			shown := time.Unix(at, 0).In(z.loc)
			_, offset := shown.Zone()
			wall := (at + int64(offset)) * microsPerSecond
			twins, first := 0, at // instants at which the clocks show the same
			for d := int64(-26 * 3600); d <= 26*3600; d += 900 {
				if _, o := time.Unix(at+d, 0).In(z.loc).Zone(); at+d+int64(o) == at+int64(offset) {
					twins, first = twins+1, min(first, at+d)
				}
			}
			got, err := z.Instant(wall + 7)
			if err != nil || got != first*microsPerSecond+7 {
				t.Errorf("%s at %d, shown %d times: %d, %v", name, at, twins, got, err)
			}
		}
	}
	z, err := NewZone("Pacific/Apia")
	if err != nil {
		t.Fatal(err)
	}
	skipped := time.Date(2011, 12, 30, 12, 0, 0, 0, time.UTC).UnixMicro()
	if _, err := z.Instant(skipped); err == nil || err.Error() != "the clocks of Pacific/Apia skip 2011-12-30T12:00:00" {
		t.Error(err)
	}
}

func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "-1.50", "100e-2", "9223372036854775807", "-9223372036854775808", "1e18", "0.000", "1.", ".5", "-", "1e", "00012"} {
		f.Add(s, 2)
	}
	f.Fuzz(func(t *testing.T, s string, scale int) {
		if scale < 0 || scale > 18 || len(s) > 60 {
			return
		}
		if _, e, ok := strings.Cut(strings.ToLower(s), "e"); ok && len(e) > 4 {
			return // the library would make numbers of as many digits
		}
		got, ok := decimal([]byte(s), scale)
		rat, valid := new(big.Rat).SetString(s)
		if strings.ContainsAny(s, "+_/xXoObBpP") && !strings.ContainsAny(s, "eE") {
			valid = false // forms of the library's own
		}
		if valid {
			rat.Mul(rat, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)))
			valid = rat.IsInt() && rat.Num().IsInt64()
		}
		if ok && (!valid || rat.Num().Int64() != got) {
			t.Fatalf("%q with scale %d is %d, want %v (%v)", s, scale, got, rat, valid)
		}
		if !ok && valid && json.Valid([]byte(s)) {
			t.Fatalf("%q with scale %d is not read, want %v", s, scale, rat)
		}
	})
}

func TestRescaleIsExactOrRefused(t *testing.T) {
	for _, c := range []struct {
		v        int64
		from, to int
		want     int64
		ok       bool
	}{
		{234, 1, 2, 2340, true},
		{2340, 2, 1, 234, true},
		{2345, 2, 1, 0, false},
		{0, 40, 2, 0, true},
		{0, 2, 40, 0, true},
		{-5, 0, 18, -5_000_000_000_000_000_000, true},
		{10, 0, 18, 0, false},
		{math.MinInt64, 3, 3, math.MinInt64, true},
		{math.MinInt64, 2, 3, 0, false},
		{math.MaxInt64, 0, 1, 0, false},
	} {
		if got, ok := rescale(c.v, c.from, c.to); ok != c.ok || ok && got != c.want {
			t.Errorf("%d from %d to %d is %d, %v", c.v, c.from, c.to, got, ok)
		}
	}
}

func defaults(pairs ...string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return out
}

func TestUpcasts(t *testing.T) {
	event := record.Schema{{Name: "price", Kind: record.Int64}, {Name: "net", Kind: record.Int64, Nullable: true}, {Name: "currency", Kind: record.String}}
	opts := Options{
		Format:  spec.JSON,
		Columns: map[string]spec.Column{"currency": {Aliases: []string{"ccy"}}},
		Upcasts: []spec.Upcast{
			// Version 1 had pounds in amount; version 2 pence in cost, and its amount is another thing; version 3 mills in price.
			{By: "v", Below: 2, Rename: map[string]string{"amount": "cost"}, Multiply: map[string]int64{"cost": 100}},
			{By: "v", Below: 3, Rename: map[string]string{"cost": "price", "amount": "net"}, Multiply: map[string]int64{"price": 10}, Default: defaults("currency", `"GBP"`)},
			{Default: defaults("net", "0")},
		},
	}
	d, err := New(event, opts)
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		`{"amount":3}`:                                    `price=3000 net=0 currency="GBP"`,
		`{"v":null,"amount":3}`:                           `price=3000 net=0 currency="GBP"`,
		`{"amount":3,"v":1}`:                              `price=3000 net=0 currency="GBP"`,
		`{"v":2,"cost":300,"amount":7}`:                   `price=3000 net=7 currency="GBP"`,
		`{"v":2,"cost":300,"amount":7,"ccy":"EUR"}`:       `price=3000 net=7 currency="EUR"`,
		`{"v":3,"price":3000,"currency":"EUR","net":7}`:   `price=3000 net=7 currency="EUR"`,
		`{"v":3,"price":3000,"currency":"EUR"}`:           `price=3000 net=0 currency="EUR"`,
		`{"v":3,"price":3000,"ccy":"EUR","net":null}`:     `price=3000 currency="EUR"`,
		`{"v":3,"price":3000}`:                            `currency: it is missing, expected a string`,
		`{"v":2,"cost":1,"currency":null}`:                `currency: it is null, expected a string`,
		`{"v":3,"cost":300,"currency":"EUR"}`:             `price: it is missing, expected an integer of 64 bits`,
		`{"v":"2","cost":300}`:                            `v: it is "2", expected an integer of 64 bits`,
		`{"v":2.0,"cost":300}`:                            `v: it is 2.0, expected an integer of 64 bits`,
		`{"v":2,"cost":1,"price":2}`:                      `price: it is there twice, under the names cost and price`,
		`{"v":3,"price":1,"ccy":"EUR","currency":"EUR"}`:  `currency: it is there twice, under the names ccy and currency`,
		`{"v":2,"cost":922337203685477581}`:               `cost: it is too large to be multiplied by 10, as its upcast says`,
		`{"v":1,"amount":-9223372036854776}`:              `amount: it is too large to be multiplied by 1000, as its upcast says`,
		`{"v":1,"amount":-9223372036854775,"cost":null}`:  `price: it is there twice, under the names amount and cost`,
		`{"v":1,"amount":-9223372036854775,"other":null}`: `price=-9223372036854775000 net=0 currency="GBP"`,
	} {
		if got := row(t, d, []byte(value)); got != want {
			t.Errorf("%s gave\n     %s\nwant %s", value, got, want)
		}
	}
}

func TestRulesThatCannotBe(t *testing.T) {
	event := record.Schema{{Name: "price", Kind: record.Int64}, {Name: "at", Kind: record.Timestamp}, {Name: "name", Kind: record.String}}
	for want, e := range map[string]spec.Event{
		"source.event.columns.name.scale: the job reads the column as string, and the rule is for int64":    {Columns: map[string]spec.Column{"name": scale(2)}},
		"source.event.columns.price.zone: the job reads the column as int64, and the rule is for timestamp": {Columns: map[string]spec.Column{"price": {Zone: "UTC"}}},
		"source.event.columns.price.int96: the job reads the column as int64":                               {Columns: map[string]spec.Column{"price": {INT96: true}}},
		"source.event.columns.prize: the job reads no such column; it reads price, at and name":             {Columns: map[string]spec.Column{"prize": scale(2)}},
		"source.event.columns.price: the alias at is a name of the column at":                               {Columns: map[string]spec.Column{"price": {Aliases: []string{"at"}}}},
		"source.event.upcast[0].rename.a: the job reads no column b":                                        {Upcasts: []spec.Upcast{{Rename: map[string]string{"a": "b"}}}},
		"source.event.upcast[0]: the job reads no column b":                                                 {Upcasts: []spec.Upcast{{Default: defaults("b", "1")}}},
		"source.event.upcast[1]: the job reads no column b":                                                 {Upcasts: []spec.Upcast{{Rename: map[string]string{"b": "price"}}, {Multiply: map[string]int64{"b": 2}}}},
		"source.event.upcast[0].default.price: it is \"x\", expected an integer of 64 bits":                 {Upcasts: []spec.Upcast{{Default: defaults("price", `"x"`)}}},
		"source.event.upcast[0].multiply.name: the column is string, and only integers are multiplied":      {Upcasts: []spec.Upcast{{Multiply: map[string]int64{"name": 2}}}},
		"source.event.upcast[1].multiply.price: the factors of all upcasts do not fit 64 bits":              {Upcasts: []spec.Upcast{{Multiply: map[string]int64{"price": 1 << 40}}, {Multiply: map[string]int64{"price": 1 << 40}}}},
		"source.event.upcast[1].multiply.price: a default before it does not fit 64 bits then":              {Upcasts: []spec.Upcast{{Default: defaults("price", "9")}, {Multiply: map[string]int64{"price": 1 << 62}}}},
	} {
		if err := Unused(event, e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := Unused(event, spec.Event{Upcasts: []spec.Upcast{{Rename: map[string]string{"a": "b"}}, {Rename: map[string]string{"b": "price"}}}}); err != nil {
		t.Error(err)
	}
}

// The same events in JSON and Avro, in every age of their schema, give the same rows.
func TestEveryEncodingAndAgeGivesTheSameRows(t *testing.T) {
	event := record.Schema{
		{Name: "id", Kind: record.String},
		{Name: "at", Kind: record.Timestamp},
		{Name: "price", Kind: record.Int64},
		{Name: "rate", Kind: record.Float64, Nullable: true},
		{Name: "currency", Kind: record.String},
		{Name: "day", Kind: record.Date, Nullable: true},
		{Name: "live", Kind: record.Bool},
	}
	rules := map[string]spec.Column{"price": {Aliases: []string{"unit_price"}, Scale: scale(3).Scale}, "at": {Unit: spec.Millis}}
	upcasts := []spec.Upcast{
		{By: "v", Below: 3, Rename: map[string]string{"name": "id"}},
		{By: "v", Below: 2, Default: defaults("currency", `"GBP"`, "live", "true")},
	}
	const v1 = `{"type":"record","name":"E","fields":[{"name":"name","type":"string"},{"name":"at","type":"long"},` +
		`{"name":"unit_price","type":{"type":"bytes","logicalType":"decimal","precision":18,"scale":2}},{"name":"rate","type":["null","float"]},{"name":"day","type":["null",{"type":"int","logicalType":"date"}]}]}`
	const v2 = `{"type":"record","name":"E","fields":[{"name":"v","type":"int"},{"name":"live","type":"boolean"},{"name":"currency","type":{"type":"enum","name":"C","symbols":["GBP","EUR"]}},` +
		`{"name":"name","type":"string"},{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":18,"scale":4}},{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}}]}`
	const v3 = `{"type":"record","name":"E","fields":[{"name":"v","type":"long"},{"name":"id","type":"string"},{"name":"at","type":"string"},{"name":"rate","type":"double"},{"name":"currency","type":"string"},` +
		`{"name":"price","type":{"type":"fixed","name":"D","size":12,"logicalType":"decimal","precision":20,"scale":3}},{"name":"day","type":{"type":"int","logicalType":"date"}},{"name":"live","type":"boolean"}]}`
	s := serve(t, map[string]string{
		"/schemas/ids/1": answered(t, answer{Schema: v1}), "/schemas/ids/2": answered(t, answer{Schema: v2}), "/schemas/ids/3": answered(t, answer{Schema: v3}),
	})
	opts := Options{Format: spec.Avro, Columns: rules, Upcasts: upcasts, Registry: registry(t, s.URL, nil)}
	avro, err := New(event, opts)
	if err != nil {
		t.Fatal(err)
	}
	opts.Format, opts.Registry = spec.JSON, nil
	js, err := New(event, opts)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 500 {
		id, at, price := fmt.Sprintf("é%d", i), rng.Int64N(1e12), rng.Int64N(1e9)-5e8 // milliseconds, hundredths
		rate, day, live := float64(rng.IntN(100))/4, rng.IntN(20000), rng.IntN(2) == 0
		when := time.UnixMilli(at).UTC()
		money := big.NewRat(price, 100)
		date := time.Unix(int64(day)*secondsPerDay, 0).UTC().Format(time.DateOnly)
		var value []byte
		var text, want string
		switch i % 3 {
		case 0:
			value = framed(1, wrote(t, v1, map[string]any{"name": id, "at": at, "unit_price": money, "rate": float32(rate), "day": day}))
			text = fmt.Sprintf(`{"name":%q,"at":%d,"unit_price":%s,"rate":%v,"day":%q}`, id, at, money.FloatString(2), rate, date)
			want = fmt.Sprintf(`id=%q at=%d price=%d rate=%v currency="GBP" day=%d live=1`, id, at*1000, price*10, rate, day)
		case 1:
			value = framed(2, wrote(t, v2, map[string]any{"v": 2, "live": live, "currency": "EUR", "name": id, "price": money, "at": at * 1000}))
			text = fmt.Sprintf(`{"v":2,"live":%v,"currency":"EUR","name":%q,"price":"%s","at":%q}`, live, id, money.FloatString(4), when.Format(time.RFC3339Nano))
			want = fmt.Sprintf(`id=%q at=%d price=%d currency="EUR" live=%d`, id, at*1000, price*10, map[bool]int{true: 1}[live])
		case 2:
			value = framed(3, wrote(t, v3, map[string]any{
				"v": int64(3), "id": id, "at": when.Format(time.RFC3339Nano), "rate": rate, "currency": "EUR", "price": money, "day": day, "live": live,
			}))
			text = fmt.Sprintf(`{"v":3,"id":%q,"at":%d,"rate":%v,"currency":"EUR","price":%s,"day":%q,"live":%v}`, id, at, rate, money.FloatString(3), date, live)
			want = fmt.Sprintf(`id=%q at=%d price=%d rate=%v currency="EUR" day=%d live=%d`, id, at*1000, price*10, rate, day, map[bool]int{true: 1}[live])
		}
		if got := row(t, avro, value); got != want {
			t.Errorf("Avro gave\n     %s\nwant %s", got, want)
		}
		if got := row(t, js, []byte(text)); got != want {
			t.Errorf("%s gave\n     %s\nwant %s", text, got, want)
		}
	}
}
