package cli

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/twmb/avro"

	"hindcast/internal/job"
	"hindcast/internal/parquetfile"
	"hindcast/internal/record"
)

// encoded writes records of one partition as a segment that has each event encoded in one column, which is null where there is no value.
func (l *smallLog) encoded(encode func(r rec) []byte, recs ...rec) {
	l.t.Helper()
	schema := append(visitSchema()[:3:3], record.Field{Name: "value", Kind: record.String, Nullable: true})
	b := record.Batch{Len: len(recs), Columns: make([]record.Column, len(schema))}
	for i, f := range schema {
		b.Columns[i].Kind = f.Kind
	}
	b.Columns[3].Nulls = record.NewBitmap(len(recs))
	for row, r := range recs {
		for i, v := range []int64{int64(r.Partition), r.Offset, r.recordTime(l.t).UnixMicro()} {
			b.Columns[i].Int64s = append(b.Columns[i].Int64s, v)
		}
		value := encode(r)
		if value == nil {
			b.Columns[3].Nulls.Set(row)
		}
		b.Columns[3].Strings.Append(value)
	}
	var buf bytes.Buffer
	w, err := parquetfile.NewWriter(&buf, schema, parquetfile.WriterOptions{RowGroupRows: 4, Millis: []string{"kafka_timestamp"}, Binary: []string{"value"}})
	if err == nil {
		err = w.Write(&b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.put(l.segmentFile(recs[0].Partition, recs[0].Offset), buf.Bytes())
}

const (
	visitV1 = `{"type":"record","name":"Visit","fields":[{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"id","type":"string"},{"name":"sum","type":"int"}]}`
	visitV2 = `{"type":"record","name":"Visit","fields":[{"name":"id","type":"string"},{"name":"shop","type":["null","string"]},{"name":"amount","type":"long"},{"name":"at","type":"string"}]}`
)

// visitRules are what an event in either schema, or in JSON of both versions, needs.
const visitRules = `columns: {amount: {aliases: [sum]}, at: {unit: ms}}, upcast: [{by: v, below: 2, default: {shop: x}}]`

// avroVisit is a record's value, by one schema at even offsets and by the other at odd ones.
func avroVisit(t *testing.T, r rec) []byte {
	t.Helper()
	id, schema, fields := uint32(1), visitV1, map[string]any{"id": r.ID, "at": instant(t, r.At), "sum": int32(r.Amount)}
	if r.Offset%2 == 1 {
		id, schema, fields = 2, visitV2, map[string]any{"id": r.ID, "at": r.At, "amount": r.Amount, "shop": r.Shop}
	}
	b, err := avro.MustParse(schema).AppendEncode(binary.BigEndian.AppendUint32([]byte{0}, id), fields)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// visitRegistry has the two schemas, for whoever knows the password. It returns its URL, as a job.yaml writes it, and counts the questions.
func visitRegistry(t *testing.T) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		user, password, _ := r.BasicAuth()
		text, ok := map[string]string{"/schemas/ids/1": visitV1, "/schemas/ids/2": visitV2}[r.URL.Path]
		if !ok || user != "me" || password != "se/cr@t :" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if err := json.NewEncoder(w).Encode(map[string]string{"schema": text}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(registry.Close)
	t.Setenv("REGISTRY_USER", "me")
	t.Setenv("REGISTRY_PASSWORD", "se/cr@t :")
	return "http://$REGISTRY_USER:$REGISTRY_PASSWORD@" + strings.TrimPrefix(registry.URL, "http://"), asked
}

// The same events, exported as typed columns, as JSON and as Avro of two schemas, make the same tables; what a schema id stood for is kept with the run.
func TestEventsInAValueColumnMakeTheSameTables(t *testing.T) {
	asJSON := func(r rec) []byte {
		if r.Offset%2 == 0 { // an older version of the event
			return jsonOf(t, map[string]any{"id": r.ID, "at": instant(t, r.At).UnixMilli(), "sum": r.Amount})
		}
		return jsonOf(t, map[string]any{"v": 2, "id": r.ID, "at": r.At, "amount": r.Amount, "shop": r.Shop})
	}
	asAvro := func(r rec) []byte { return avroVisit(t, r) }
	asPlainAvro := func(r rec) []byte {
		b, err := avro.MustParse(visitV2).Encode(map[string]any{"id": r.ID, "at": r.At, "amount": r.Amount, "shop": r.Shop})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	registry, asked := visitRegistry(t)
	tables := map[string]string{"events": "day UTC", "sums": "day UTC"}
	window := []string{"--from", "2024-05-02", "--to", "2024-05-04", "--promote", "--shard-rows", "4"}
	var want, wantSums [][]string
	for _, how := range []string{"typed", "json", "json-tail", "avro", "avro-plain"} {
		l := newSmallLog(t)
		recs := visits(t, 0, 3*time.Hour, 30) // to 05-04T15:00
		exported := recs
		if how == "json-tail" {
			exported = recs[:17]
		}
		for part := range slices.Chunk(exported, 7) {
			switch how {
			case "typed":
				l.segment(part...)
			case "avro":
				l.encoded(asAvro, part...)
			case "avro-plain":
				l.encoded(asPlainAvro, part...)
			default:
				l.encoded(asJSON, part...)
			}
		}
		if how == "json-tail" {
			l.tail(recs[17:]...)
		}
		j := l.job(smallJob{Event: visitRules, Tables: tables})
		if how == "typed" {
			j = l.job(smallJob{Tables: tables})
		} else {
			more := map[string]string{
				"json": "value: { column: value }", "json-tail": "value: { column: value, format: json }",
				"avro-plain": "value: { column: value, format: avro }, schema: visit.avsc",
				"avro":       fmt.Sprintf("value: { column: value, format: avro }, registry: %q", registry),
			}[how]
			j = changedJob(t, j, map[string]string{"naming: kafka-connect": "naming: kafka-connect, " + more}, nil)
		}
		if how == "avro-plain" {
			text, err := fs.ReadFile(j.Files(), "job.yaml")
			if err != nil {
				t.Fatal(err)
			}
			without := job.New(fstest.MapFS{"job.yaml": {Data: text}, "job.go": {Data: []byte("package visits")}}, j.Outputs())
			r := hindcastWith(t, []job.Job{without}, "plan", "visits", "--workspace", t.TempDir()).exits(t, 2)
			contains(t, how, r.err, "source.segments.schema: the file is not among the job's: write it, and name it in the go:embed line")
			j = job.New(fstest.MapFS{"job.yaml": {Data: text}, "job.go": {Data: []byte("package visits")}, "visit.avsc": {Data: []byte(visitV2)}}, j.Outputs())
		}
		list, ws := []job.Job{j}, filepath.Join(t.TempDir(), "ws")
		hindcastWith(t, list, append([]string{"run", "visits", "--workspace", ws}, window...)...).ok(t)
		rows, sums := tableRows(t, list, ws, "events"), tableRows(t, list, ws, "sums")
		if how == "typed" {
			want, wantSums = rows, sums
			if len(want) != 17 {
				t.Fatalf("%d rows", len(want))
			}
			continue
		}
		if !reflect.DeepEqual(rows, want) || !reflect.DeepEqual(sums, wantSums) {
			t.Errorf("%s gave\n%v\n%v, want\n%v\n%v", how, rows, sums, want, wantSums)
		}
		if how != "avro" {
			continue
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("the registry was asked %d times for two schemas", n)
		}
		kept, err := filepath.Glob(filepath.Join(ws, "runs", "*", "schemas", "*.json"))
		if err != nil || len(kept) != 2 {
			t.Fatalf("kept are %v, %v", kept, err)
		}
		data, err := os.ReadFile(kept[1])
		if err != nil || !strings.Contains(string(data), `"id": 2`) || strings.Contains(string(data), "se/cr") {
			t.Errorf("kept is %s, %v", data, err)
		}
	}
}

// What a value column holds and cannot be read is counted and told, as of the tail.
func TestUnreadableValuesOfSegmentsAreDeadLetters(t *testing.T) {
	l := newSmallLog(t)
	recs := visits(t, 0, 3*time.Hour, 8)
	l.encoded(func(r rec) []byte {
		switch r.Offset {
		case 2:
			return nil
		case 5:
			return []byte(`{"id":"x","at":"2024-05-01"`)
		case 6:
			return jsonOf(t, map[string]any{"id": r.ID, "at": "yesterday", "amount": 1, "shop": "x"})
		}
		return jsonOf(t, map[string]any{"id": r.ID, "at": r.At, "amount": r.Amount, "shop": r.Shop})
	}, recs...)
	words := map[string]string{"naming: kafka-connect": "naming: kafka-connect, value: { column: value }"}
	list := []job.Job{changedJob(t, l.job(smallJob{Tables: map[string]string{"events": "day UTC"}}), words, nil)}
	ws := filepath.Join(t.TempDir(), "ws")
	args := []string{"run", "visits", "--from", "2024-05-01", "--to", "2024-05-02", "--promote", "--workspace", ws}
	r := hindcastWith(t, list, args...).exits(t, 4)
	contains(t, "dead letters", r.out+r.err, "3 events were unreadable", "partition 0, offset 2: record cannot be read: the record has no value (a tombstone)",
		"partition 0, offset 5: record cannot be read: the value is no JSON: unexpected end of JSON input", `partition 0, offset 6: record cannot be read: at: it is "yesterday", expected an RFC 3339 time with its zone`)
	accepted := []job.Job{changedJob(t, list[0], map[string]string{"dataset: visits\n": "dataset: visits\nchecks: { dead-letters: 3 }\n"}, nil)}
	hindcastWith(t, accepted, args...).ok(t)
	if got := ids(t, accepted, ws); got != "p0-00 p0-01 p0-03 p0-04 p0-07" {
		t.Errorf("the day has %s", got)
	}
}

// A column that some segments lack is refused when the run is planned, with file and column, unless the job can do without; so is a type that does not fit.
func TestSegmentsThatDoNotFitAreRefusedByThePlan(t *testing.T) {
	l := newSmallLog(t)
	recs := visits(t, 0, 6*time.Hour, 8)
	l.segment(recs[:4]...)
	l.encoded(func(r rec) []byte { return []byte(r.ID) }, recs[4:]...)
	tables := map[string]string{"events": "day UTC"}
	list := []job.Job{l.job(smallJob{Tables: tables})}
	ws := filepath.Join(t.TempDir(), "ws")
	r := hindcastWith(t, list, "plan", "visits", "--from", "2024-05-01", "--to", "2024-05-02", "--workspace", ws).exits(t, 3)
	contains(t, "a missing column", r.err, "visits+0+0000000004.zstd.parquet", `column "at"`, "which the job reads; it has kafka_partition, kafka_offset, kafka_timestamp, value")
	list = []job.Job{l.job(smallJob{Event: "columns: { amuont: { aliases: [sum] } }", Tables: tables})}
	r = hindcastWith(t, list, "plan", "visits", "--from", "2024-05-01", "--to", "2024-05-02", "--workspace", ws).exits(t, 2)
	contains(t, "a misspelt rule", r.err, "source.event.columns.amuont: the job reads no such column; it reads at, id, shop and amount")
}
