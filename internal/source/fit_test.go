//go:build full

package source_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/twmb/avro"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/payload"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source"
	"hindcast/internal/source/sourcetest"
	"hindcast/internal/spec"
	"hindcast/internal/unit"
)

// kafka are the columns that every segment here begins with.
type kafka struct {
	Partition int64 `parquet:"kafka_partition"`
	Offset    int64 `parquet:"kafka_offset"`
	Time      int64 `parquet:"kafka_timestamp,timestamp(microsecond)"`
}

func at(offset int64) kafka { return kafka{Offset: offset, Time: offset * 1_000_000} }

// exported writes rows of any shape as a segment, with another library's writer.
func exported[T any](tb testing.TB, store blob.Store, key string, rows ...T) plan.Input {
	tb.Helper()
	return noted(tb, store, key, nil, rows...)
}

// noted is exported, with options as what the footer notes.
func noted[T any](tb testing.TB, store blob.Store, key string, opts []parquet.WriterOption, rows ...T) plan.Input {
	tb.Helper()
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[T](&buf, append(opts, parquet.CreatedBy("parquet-mr", "1.13.1", "test"))...) // whose statistics are trusted
	if _, err := w.Write(rows); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	info := sourcetest.Put(tb, store, key, buf.Bytes())
	return plan.Input{Segment: key, ETag: info.ETag, Size: unit.Bytes(info.Size), RowGroups: []int{0}, Rows: int64(len(rows))}
}

// layout is that of segments whose Kafka columns are named as here.
func layoutOf(e spec.Event) source.Layout {
	return source.LayoutOf(spec.Source{Segments: spec.Segments{Columns: source.CapturedColumns}, Event: e}, nil)
}

// rendered reads all rows of the inputs, each as offset, columns and why there are none.
func rendered(tb testing.TB, store blob.Store, schema record.Schema, l source.Layout, inputs ...plan.Input) ([]string, error) {
	tb.Helper()
	r, err := source.Open(tb.Context(), source.Stores{Segments: store, Captured: store}, inputs, schema, l)
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	for {
		_, b, err := r.Next(tb.Context())
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		for row := range b.Len {
			line := fmt.Sprint(b.Offsets[row])
			for i := range b.Columns {
				c := &b.Columns[i]
				switch {
				case c.Nulls.Get(row):
					line += " null"
				case c.Kind == record.Float64:
					line += fmt.Sprintf(" %v", c.Float64s[row])
				case c.Kind == record.String:
					line += fmt.Sprintf(" %q", c.Strings.At(row))
				default:
					line += fmt.Sprintf(" %d", c.Int64s[row])
				}
			}
			out = append(out, line)
		}
	}
}

func wantRows(t *testing.T, got []string, err error, want ...string) {
	t.Helper()
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n got %s\nwant %s", err, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// refused asks for an error that names file and column.
func refused(t *testing.T, err error, column, says string) {
	t.Helper()
	var e *parquetfile.Error
	if !errors.As(err, &e) || e.Column != column || e.File == "" || !strings.Contains(err.Error(), says) {
		t.Errorf("%v\nwant one of column %q that says %s", err, column, says)
	}
}

type v1 struct {
	kafka
	ID     string `parquet:"id"`
	Amount int32  `parquet:"amount"`
	Gone   string `parquet:"gone"`
}

type v2 struct { // widened, reordered, one removed
	kafka
	Amount int64  `parquet:"amount"`
	ID     string `parquet:"id"`
}

type v3 struct { // one added
	kafka
	ID     string  `parquet:"id"`
	Amount int64   `parquet:"amount"`
	Rate   float32 `parquet:"rate"`
}

type v4 struct { // one renamed, one widened
	kafka
	Rate  float64 `parquet:"rate"`
	ID    string  `parquet:"id"`
	Total int64   `parquet:"total"`
}

// R12: a column was an int32, then an int64 that needs it; another was added; then it was renamed.
func TestSegmentsOfEverySchemaThatALogHadAreReadAsOne(t *testing.T) {
	mem := memblob.New()
	inputs := []plan.Input{
		exported(t, mem, "v1", v1{at(0), "a", math.MaxInt32, "x"}, v1{at(1), "b", -7, "x"}),
		exported(t, mem, "v2", v2{at(2), 1 << 40, "c"}),
		exported(t, mem, "v3", v3{at(3), "d", 5, 0.5}),
		exported(t, mem, "v4", v4{at(4), 0.1, "e", 1 << 41}),
	}
	schema := record.Schema{
		{Name: "amount", Kind: record.Int64}, {Name: "id", Kind: record.String}, {Name: "rate", Kind: record.Float64, Nullable: true}, {Name: "currency", Kind: record.String},
	}
	event := spec.Event{
		Columns: map[string]spec.Column{"amount": {Aliases: []string{"total"}}},
		Upcasts: []spec.Upcast{{Default: map[string]json.RawMessage{"currency": json.RawMessage(`"GBP"`)}}},
	}
	got, err := rendered(t, mem, schema, layoutOf(event), inputs...)
	wantRows(t, got, err,
		`0 2147483647 "a" null "GBP" null`, `1 -7 "b" null "GBP" null`, `2 1099511627776 "c" null "GBP" null`, `3 5 "d" 0.5 "GBP" null`, `4 2199023255552 "e" 0.1 "GBP" null`)

	event.Columns = nil
	fit := func(key string, schema record.Schema) error {
		data, _, err := blob.ReadAll(t.Context(), mem, key)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = source.NewFit(f, schema, layoutOf(event))
		return err
	}
	if err := fit("v3", schema); err != nil {
		t.Error(err)
	}
	refused(t, fit("v4", schema), "amount", "the file has no such column, which the job reads; it has kafka_partition, kafka_offset, kafka_timestamp, rate, id, total; "+
		"if it had another name then, say so in source.event.columns.amount.aliases")
	refused(t, fit("v2", record.Schema{{Name: "rate", Kind: record.Float64}}), "rate", "if it was added later, make the job's field a pointer")
}

// P3: nothing is narrowed, rounded, cut or guessed.
func TestWhatWouldLoseSomethingIsRefused(t *testing.T) {
	type all struct {
		kafka
		Int   int32   `parquet:"int"`
		Long  int64   `parquet:"long"`
		Small int64   `parquet:"small"`
		Float float64 `parquet:"float"`
		Text  string  `parquet:"text"`
		Flag  bool    `parquet:"flag"`
		Day   int32   `parquet:"day,date"`
		When  int64   `parquet:"when,timestamp(millisecond)"`
		Upper string  `parquet:"Upper"`
	}
	mem := memblob.New()
	in := exported(t, mem, "a", all{at(0), 1, 1<<53 + 1, 1 << 53, 1, "1", true, 1, 1, ""})
	for _, c := range []struct {
		column string
		kind   record.Kind
		rule   spec.Column
		says   string // empty: it is read
	}{
		{"int", record.Float64, spec.Column{}, ""},
		{"small", record.Float64, spec.Column{}, ""},
		{"long", record.Float64, spec.Column{}, "it holds int64 where the job reads float64; integers past 2^53 would lose digits, and the footer does not rule them out"},
		{"float", record.Int64, spec.Column{}, "it holds float64 where the job reads int64"},
		{"long", record.String, spec.Column{}, "it holds int64 where the job reads string"},
		{"text", record.Int64, spec.Column{}, "it holds string where the job reads int64"},
		{"flag", record.Int64, spec.Column{}, "it holds bool where the job reads int64"},
		{"int", record.Bool, spec.Column{}, "it holds int64 where the job reads bool"},
		{"when", record.Date, spec.Column{}, "it holds timestamp where the job reads date"},
		{"when", record.Int64, spec.Column{}, "it holds timestamp where the job reads int64"},
		{"text", record.Timestamp, spec.Column{}, "it holds string where the job reads timestamp"},
		{"day", record.Timestamp, spec.Column{}, "a date begins at an instant of a zone; if that is meant, say which: source.event.columns.day.zone"},
		{"day", record.Timestamp, spec.Column{Zone: "Asia/Tokyo"}, ""},
		{"int", record.Timestamp, spec.Column{}, "if they count a unit of time since 1970, say so: source.event.columns.int.unit"},
		{"int", record.Timestamp, spec.Column{Unit: spec.Seconds}, ""},
		{"long", record.Timestamp, spec.Column{Unit: spec.Seconds}, "the time 9007199254740993 s is beyond any calendar"},
		{"upper", record.String, spec.Column{}, "the file has no such column, but one called Upper; names are compared exactly: if it is the same, add it to source.event.columns.upper.aliases"},
		{"upper", record.String, spec.Column{Aliases: []string{"Upper"}}, ""},
		{"lower", record.String, spec.Column{Aliases: []string{"UPPER"}}, "but one called Upper"},
		{"offset", record.Int64, spec.Column{Aliases: []string{"kafka_offset"}}, "it would be read of the column kafka_offset, which belongs to the log"},
		{"long", record.Int64, spec.Column{Aliases: []string{"int"}}, "the file has it twice, as int and long: an event has one"},
	} {
		schema := record.Schema{{Name: c.column, Kind: c.kind}}
		l := layoutOf(spec.Event{Columns: map[string]spec.Column{c.column: c.rule}})
		data, _, err := blob.ReadAll(t.Context(), mem, in.Segment)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), "a")
		if err != nil {
			t.Fatal(err)
		}
		_, err = source.NewFit(f, schema, l)
		if err == nil {
			_, err = rendered(t, mem, schema, l, in) // what only the values show
		}
		if c.says != "" {
			refused(t, err, c.column, c.says)
		} else if err != nil {
			t.Errorf("%s as %s: %v", c.column, c.kind, err)
		}
	}
	got, err := rendered(t, mem, record.Schema{{Name: "day", Kind: record.Timestamp}, {Name: "int", Kind: record.Timestamp}, {Name: "small", Kind: record.Float64}},
		layoutOf(spec.Event{Columns: map[string]spec.Column{"day": {Zone: "Asia/Tokyo"}, "int": {Unit: spec.Seconds}}}), in)
	wantRows(t, got, err, `0 54000000000 1000000 9.007199254740992e+15 null`)
}

// R5: one decimal, stored in every way and with other scales, is one value: exactly, or refused.
func TestDecimalsOfEveryStorageAndScaleAreOneValue(t *testing.T) {
	type d32 struct {
		kafka
		Price int32 `parquet:"price,decimal(2:9)"`
	}
	type d64 struct {
		kafka
		Price int64 `parquet:"price,decimal(4:18)"`
	}
	type dfl struct {
		kafka
		Price [9]byte `parquet:"price,decimal(1:20)"`
	}
	type plain struct {
		kafka
		Price int64 `parquet:"price"`
	}
	mem := memblob.New()
	inputs := []plan.Input{
		exported(t, mem, "int32", d32{at(0), 2340}), exported(t, mem, "int64", d64{at(1), 234000}), exported(t, mem, "fixed", dfl{at(2), [9]byte{7: 0, 8: 234}}),
	}
	schema := record.Schema{{Name: "price", Kind: record.Int64}}
	rule := func(scale int) source.Layout {
		return layoutOf(spec.Event{Columns: map[string]spec.Column{"price": {Scale: &scale}}})
	}
	got, err := rendered(t, mem, schema, rule(3), inputs...)
	wantRows(t, got, err, `0 23400 null`, `1 23400 null`, `2 23400 null`)
	got, err = rendered(t, mem, schema, rule(1), inputs...)
	wantRows(t, got, err, `0 234 null`, `1 234 null`, `2 234 null`)
	_, err = rendered(t, mem, schema, rule(0), inputs...)
	refused(t, err, "price", "")
	_, err = rendered(t, mem, schema, layoutOf(spec.Event{}), inputs...)
	refused(t, err, "price", "declare the column's scale")
	_, err = rendered(t, mem, schema, rule(2), exported(t, mem, "plain", plain{at(3), 234}))
	refused(t, err, "price", "a scale is declared for it, but it is no decimal")
}

// R4: the same number with the UTC flag on is an instant, and with it off a wall clock's, which is read by a declared zone or not at all.
func TestTheUTCFlagDecidesWhatATimestampIs(t *testing.T) {
	type utc struct {
		kafka
		When int64 `parquet:"when,timestamp(microsecond)"`
	}
	type local struct {
		kafka
		When int64 `parquet:"when,timestamp(microsecond:local)"`
	}
	type int96 struct {
		kafka
		When deprecated.Int96 `parquet:"when"`
	}
	mem := memblob.New()
	day := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	julian := deprecated.Int96{2: uint32(day.Unix()/86400 + 2440588)}
	a, b, c := exported(t, mem, "utc", utc{at(0), day.UnixMicro()}), exported(t, mem, "local", local{at(1), day.UnixMicro()}), exported(t, mem, "int96", int96{at(2), julian})
	schema := record.Schema{{Name: "when", Kind: record.Timestamp}}
	_, err := rendered(t, mem, schema, layoutOf(spec.Event{}), a, b)
	refused(t, err, "when", "declare the column's zone")
	shanghai := spec.Column{Zone: "Asia/Shanghai"}
	got, err := rendered(t, mem, schema, layoutOf(spec.Event{Columns: map[string]spec.Column{"when": shanghai}}), a, b)
	wantRows(t, got, err, fmt.Sprintf("0 %d null", day.UnixMicro()), fmt.Sprintf("1 %d null", day.Add(-8*time.Hour).UnixMicro()))
	_, err = rendered(t, mem, schema, layoutOf(spec.Event{Columns: map[string]spec.Column{"when": shanghai}}), c)
	refused(t, err, "when", "declare int96 for the column")
	got, err = rendered(t, mem, schema, layoutOf(spec.Event{Columns: map[string]spec.Column{"when": {INT96: true}}}), a, c)
	wantRows(t, got, err, fmt.Sprintf("0 %d null", day.UnixMicro()), fmt.Sprintf("2 %d null", day.UnixMicro()))
}

// Typed columns are upcast file by file: where a file has events on both sides of a version that matters, nothing is guessed.
func TestTypedColumnsAreUpcastByTheVersionsOfAFile(t *testing.T) {
	type old struct {
		kafka
		Version int64 `parquet:"version"`
		Cost    int64 `parquet:"cost"`
	}
	type unversioned struct {
		kafka
		Cost int64 `parquet:"cost"`
	}
	type current struct {
		kafka
		Version *int64 `parquet:"version,optional"`
		Price   int64  `parquet:"price"`
		Cost    int64  `parquet:"cost"` // another thing by now
	}
	three := int64(3)
	mem := memblob.New()
	schema := record.Schema{{Name: "price", Kind: record.Int64}, {Name: "currency", Kind: record.String, Nullable: true}}
	l := layoutOf(spec.Event{Upcasts: []spec.Upcast{{
		By: "version", Below: 3, Rename: map[string]string{"cost": "price"}, Multiply: map[string]int64{"price": 10},
		Default: map[string]json.RawMessage{"currency": json.RawMessage(`"GBP"`)},
	}}})
	got, err := rendered(t, mem, schema, l, exported(t, mem, "a", unversioned{at(0), 5}), exported(t, mem, "b", old{at(1), 1, 5}, old{at(2), 2, 6}),
		exported(t, mem, "c", current{at(3), &three, 50, 7}))
	wantRows(t, got, err, `0 50 "GBP" null`, `1 50 "GBP" null`, `2 60 "GBP" null`, `3 50 null null`)
	_, err = rendered(t, mem, schema, l, exported(t, mem, "d", old{at(4), 2, 5}, old{at(5), 3, 6}))
	refused(t, err, "price", "events of the file may be of several versions (column version: 2 to 3)")
	_, err = rendered(t, mem, schema, l, exported(t, mem, "e", current{at(6), nil, 5, 5}))
	refused(t, err, "price", "the file has it twice, as price and cost")
	_, err = rendered(t, mem, schema, l, exported(t, mem, "f", old{at(7), 1, math.MaxInt64}))
	refused(t, err, "cost", "9223372036854775807 is too large to be multiplied by 10")
}

// What was done to events when they were archived is not done to them again.
func TestArchivedEventsAreUpcastOnce(t *testing.T) {
	type row struct {
		kafka
		Price int64 `parquet:"price"`
	}
	scale := 2
	then := payload.Options{
		Columns: map[string]spec.Column{"price": {Scale: &scale}}, Upcasts: []spec.Upcast{{By: "v", Below: 2, Multiply: map[string]int64{"price": 10}}},
	}
	text, err := then.Applied()
	if err != nil {
		t.Fatal(err)
	}
	mem := memblob.New()
	in := noted(t, mem, "a", []parquet.WriterOption{parquet.KeyValueMetadata(payload.AppliedKey, text)}, row{at(0), 500})
	schema := record.Schema{{Name: "cost", Kind: record.Int64}}
	now := func(scale int, upcasts ...spec.Upcast) source.Layout {
		return layoutOf(spec.Event{Columns: map[string]spec.Column{"cost": {Aliases: []string{"price"}, Scale: &scale}}, Upcasts: upcasts})
	}
	same := then.Upcasts[0]
	got, err := rendered(t, mem, schema, now(2, same), in)
	wantRows(t, got, err, "0 500 null")
	got, err = rendered(t, mem, schema, now(2, same, spec.Upcast{Multiply: map[string]int64{"cost": 3}}), in)
	wantRows(t, got, err, "0 1500 null")
	_, err = rendered(t, mem, schema, now(3, same), in)
	refused(t, err, "", "its column price was archived with scale 2, and source.event.columns.cost.scale is 3 now")
	_, err = rendered(t, mem, schema, now(2), in)
	refused(t, err, "", "by a list that source.event.upcast does not begin with now")
	_, err = rendered(t, mem, schema, now(2, same, spec.Upcast{By: "v", Below: 3, Multiply: map[string]int64{"cost": 3}}), in)
	refused(t, err, "v", "the column, which has an event's version, was not archived")
}

func TestBoundsOfAnEventsColumns(t *testing.T) {
	type row struct {
		kafka
		Millis int64  `parquet:"ms"`
		Maybe  *int64 `parquet:"maybe,optional"`
	}
	mem := memblob.New()
	five := int64(5)
	in := exported(t, mem, "a", row{at(0), 1000, nil}, row{at(1), 3000, &five}, row{at(2), 2000, nil})
	data, _, err := blob.ReadAll(t.Context(), mem, in.Segment)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), "a")
	if err != nil {
		t.Fatal(err)
	}
	schema := record.Schema{{Name: "when", Kind: record.Timestamp}, {Name: "maybe", Kind: record.Int64, Nullable: true}, {Name: "no", Kind: record.Int64, Nullable: true}, {Name: "one", Kind: record.Int64}}
	fit, err := source.NewFit(f, schema, layoutOf(spec.Event{
		Columns: map[string]spec.Column{"when": {Aliases: []string{"ms"}, Unit: spec.Millis}}, Upcasts: []spec.Upcast{{Default: map[string]json.RawMessage{"one": json.RawMessage("1")}}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if lo, hi, ok := fit.Bounds(0, "when"); lo != 1_000_000 || hi != 3_000_000 || !ok {
		t.Errorf("%d to %d, %v", lo, hi, ok)
	}
	for column, want := range map[string]int64{"when": 0, "maybe": 2, "no": 3, "one": 0, "other": -1} {
		if n, ok := fit.Nulls(0, column); ok != (want >= 0) || ok && n != want {
			t.Errorf("%s has %d nulls, %v; want %d", column, n, ok, want)
		}
	}
	if got := fit.Missing(); !slices.Equal(got, []string{"no"}) {
		t.Errorf("missing are %v", got)
	}
	for column, want := range map[string]string{"when": "ms false", "maybe": "maybe true", "no": " false", "one": " false"} {
		if name, ok := fit.Lies(column); fmt.Sprint(name, " ", ok) != want {
			t.Errorf("%s lies in %q, %v", column, name, ok)
		}
	}
}

// encoded is a segment whose events lie in one column.
type encoded struct {
	kafka
	Value []byte `parquet:"value,optional"`
}

func valueLayout(format spec.ValueFormat, e spec.Event, registry *payload.Registry) source.Layout {
	return source.LayoutOf(spec.Source{
		Segments: spec.Segments{Columns: source.CapturedColumns, Value: &spec.Value{Column: "value", Format: format}}, Event: e,
	}, registry)
}

func TestValuesThatCannotBeDecodedAreDeadLetters(t *testing.T) {
	mem := memblob.New()
	var rows []encoded
	for o, value := range []string{`{"n":1}`, ``, `{"n":"x"}`, "-", `{"n":4}`, `[]`, `{"n":6}`} {
		r := encoded{at(int64(o)), []byte(value)}
		if value == "-" {
			r.Value = nil
		}
		rows = append(rows, r)
	}
	in := exported(t, mem, "a", rows...)
	schema := record.Schema{{Name: "n", Kind: record.Int64}}
	l := valueLayout(spec.JSON, spec.Event{}, nil)
	want := []string{
		"0 1 null", `1 null "the value is no JSON: unexpected end of JSON input"`, `2 null "n: it is \"x\", expected an integer of 64 bits"`,
		`3 null "the record has no value (a tombstone)"`, `4 4 null`, `5 null "the value is an array, expected an object"`, `6 6 null`,
	}
	got, err := rendered(t, mem, schema, l, in)
	wantRows(t, got, err, want...)
	in.Keep, in.Rows = plan.Ranges{{First: 1, Next: 3}, {First: 4, Next: 6}}, 4
	got, err = rendered(t, mem, schema, l, in)
	wantRows(t, got, err, want[1], want[2], want[4], want[5])

	l.Value.Column = "kafka_offset"
	_, err = rendered(t, mem, schema, l, in)
	refused(t, err, "kafka_offset", "it holds int64 where encoded events are read")
	l.Value.Column = "payload"
	_, err = rendered(t, mem, schema, l, in)
	refused(t, err, "payload", "the file has no such column")
}

// A registry that does not answer ends the read, and says where.
func TestARegistryThatFailsEndsTheRead(t *testing.T) {
	mem := memblob.New()
	in := exported(t, mem, "a", encoded{at(7), []byte{0, 0, 0, 0, 9, 2}})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer s.Close()
	registry, err := payload.NewRegistry(s.URL, mem)
	if err != nil {
		t.Fatal(err)
	}
	_, err = rendered(t, mem, record.Schema{{Name: "n", Kind: record.Int64}}, valueLayout(spec.Avro, spec.Event{}, registry), in)
	if err == nil || !strings.Contains(err.Error(), "a, offset 7: resolve schema 9 at "+s.URL) {
		t.Error(err)
	}
}

// The same events, exported as typed columns, as JSON and as Avro, in every generation of their schema, captured or not: the same rows.
func TestEveryWayToStoreEventsGivesTheSameRows(t *testing.T) {
	type gen1 struct {
		kafka
		Name  string  `parquet:"name"`
		Price int32   `parquet:"unit_price,decimal(2:9)"`
		When  int64   `parquet:"when,timestamp(microsecond:local)"`
		Rate  float32 `parquet:"rate"`
	}
	type gen2 struct {
		kafka
		Rate     *float64 `parquet:"rate,optional"`
		Currency string   `parquet:"currency"`
		When     int64    `parquet:"when,timestamp(microsecond)"`
		Price    int64    `parquet:"price,decimal(3:18)"`
		ID       string   `parquet:"id"`
	}
	const avro1 = `{"type":"record","name":"E","fields":[{"name":"rate","type":"float"},{"name":"name","type":"string"},` +
		`{"name":"unit_price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},{"name":"when","type":{"type":"long","logicalType":"local-timestamp-micros"}}]}`
	const avro2 = `{"type":"record","name":"E","fields":[{"name":"id","type":"string"},{"name":"currency","type":"string"},{"name":"when","type":{"type":"long","logicalType":"timestamp-micros"}},` +
		`{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":18,"scale":3}},{"name":"rate","type":["null","double"]}]}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := map[string]string{"/schemas/ids/1": avro1, "/schemas/ids/2": avro2}[r.URL.Path]
		if err := json.NewEncoder(w).Encode(map[string]string{"schema": text}); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	scale := 3
	event := spec.Event{
		Columns: map[string]spec.Column{"price": {Aliases: []string{"unit_price"}, Scale: &scale}, "when": {Zone: "Asia/Tokyo"}},
		Upcasts: []spec.Upcast{{Rename: map[string]string{"name": "id"}, Default: map[string]json.RawMessage{"currency": json.RawMessage(`"GBP"`)}}},
	}
	schema := record.Schema{
		{Name: "id", Kind: record.String}, {Name: "when", Kind: record.Timestamp}, {Name: "price", Kind: record.Int64}, {Name: "rate", Kind: record.Float64, Nullable: true}, {Name: "currency", Kind: record.String},
	}
	avros := map[uint32]*avro.Schema{1: avro.MustParse(avro1), 2: avro.MustParse(avro2)}
	framed := func(id uint32, fields map[string]any) []byte {
		b, err := avros[id].AppendEncode(binary.BigEndian.AppendUint32([]byte{0}, id), fields)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	bytesOf := func(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		mem := memblob.New()
		var typed, jsons, avros []plan.Input
		var want []string
		next := int64(0)
		for segment := range 1 + rng.IntN(5) {
			var one []gen1
			var two []gen2
			var js, av []encoded
			old := rng.IntN(2) == 0
			for range 1 + rng.IntN(400) {
				k := at(next)
				id, price, when := fmt.Sprintf("e%d-é", next), rng.Int64N(1_000_000)-500_000, rng.Int64N(1e15)
				rate := float64(rng.IntN(64)) / 16
				if old {
					one = append(one, gen1{k, id, int32(price), when, float32(rate)})
					wall := time.UnixMicro(when).UTC().Format("2006-01-02T15:04:05.999999")
					js = append(js, encoded{k, fmt.Appendf(nil, `{"unit_price":%d.%02de0,"name":%q,"when":%q,"rate":%v}`, price/100, max(price%100, -(price%100)), id, wall, rate)})
					if price < 0 && price > -100 {
						js[len(js)-1].Value = bytes.Replace(js[len(js)-1].Value, []byte(`"unit_price":`), []byte(`"unit_price":-`), 1)
					}
					av = append(av, encoded{k, framed(1, map[string]any{"rate": float32(rate), "name": id, "unit_price": bytesOf(price), "when": when})})
					want = append(want, fmt.Sprintf("%d %q %d %d %v %q null", next, id, when-9*3600*1_000_000, price*10, rate, "GBP"))
				} else {
					p, text, rateText := &rate, fmt.Sprint(rate), any(rate)
					if rng.IntN(3) == 0 {
						p, text, rateText = nil, "null", nil
					}
					two = append(two, gen2{k, p, "EUR", when, price, id})
					js = append(js, encoded{k, fmt.Appendf(nil, `{"id":%q,"price":%de-3,"currency":"EUR","when":%q,"rate":%s}`, id, price, time.UnixMicro(when).UTC().Format(time.RFC3339Nano), text)})
					av = append(av, encoded{k, framed(2, map[string]any{"id": id, "price": bytesOf(price), "currency": "EUR", "when": when, "rate": rateText})})
					want = append(want, fmt.Sprintf("%d %q %d %d %s %q null", next, id, when, price, text, "EUR"))
				}
				next += 1 + int64(rng.IntN(2))
			}
			key := fmt.Sprint(segment)
			if old {
				typed = append(typed, exported(t, mem, "typed/"+key, one...))
			} else {
				typed = append(typed, exported(t, mem, "typed/"+key, two...))
			}
			jsons, avros = append(jsons, exported(t, mem, "json/"+key, js...)), append(avros, exported(t, mem, "avro/"+key, av...))
		}
		registry, err := payload.NewRegistry(s.URL, mem)
		if err != nil {
			t.Fatal(err)
		}
		for how, try := range map[string]func() ([]string, error){
			"typed": func() ([]string, error) { return rendered(t, mem, schema, layoutOf(event), typed...) },
			"JSON": func() ([]string, error) {
				return rendered(t, mem, schema, valueLayout(spec.JSON, event, nil), jsons...)
			},
			"Avro": func() ([]string, error) {
				return rendered(t, mem, schema, valueLayout(spec.Avro, event, registry), avros...)
			},
		} {
			got, err := try()
			if err != nil || !reflect.DeepEqual(got, want) {
				for i := range want {
					if i >= len(got) || got[i] != want[i] {
						t.Fatalf("seed %d, %s: %v: row %d is\n%s, want\n%s", seed, how, err, i, slices.Concat(got, []string{"missing"})[min(i, len(got))], want[i])
					}
				}
				t.Fatalf("seed %d, %s: %v, %d rows, want %d", seed, how, err, len(got), len(want))
			}
		}
	}
}
