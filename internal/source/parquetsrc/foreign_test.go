//go:build full

package parquetsrc_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"

	"hindcast/internal/blob/memblob"
	"hindcast/internal/plan"
	"hindcast/internal/source"
	"hindcast/internal/source/sourcetest"
	"hindcast/internal/spec"
)

// redpandaRow is a row of a Redpanda topic's Iceberg table, with the event's columns beside those of the log. Its timestamps are Iceberg's
// timestamptz, and in redpandaOld timestamp, as before Redpanda 25.3.
type (
	redpandaRow[Log any] struct {
		Redpanda Log      `parquet:"redpanda"`
		ID       string   `parquet:"id"`
		At       *int64   `parquet:"at,optional,timestamp(microsecond)"`
		Order    *payment `parquet:"order,optional"`
	}
	payment struct {
		Amount  int64   `parquet:"amount"`
		Country *string `parquet:"country,optional"`
	}
	redpandaHeader struct {
		Key   *string `parquet:"key,optional"`
		Value []byte  `parquet:"value,optional"`
	}
	redpandaNow struct {
		Partition     int32            `parquet:"partition"`
		Offset        int64            `parquet:"offset"`
		Timestamp     int64            `parquet:"timestamp,timestamp(microsecond)"`
		Headers       []redpandaHeader `parquet:"headers,list"`
		Key           []byte           `parquet:"key,optional"`
		TimestampType *int32           `parquet:"timestamp_type,optional"`
	}
	redpandaOld struct {
		Partition int32  `parquet:"partition"`
		Offset    int64  `parquet:"offset"`
		Timestamp int64  `parquet:"timestamp,timestamp(microsecond:local)"`
		Key       []byte `parquet:"key,optional"`
	}
)

// redpandaFile writes rows as Redpanda does: pages of version 2, zstd.
func redpandaFile[Log any](t *testing.T, log func(sourcetest.Row) Log, rows []sourcetest.Row) []byte {
	t.Helper()
	var out []redpandaRow[Log]
	for _, r := range rows {
		out = append(out, redpandaRow[Log]{log(r), r.ID, r.At, &payment{r.Amount, r.Country}})
	}
	var buf bytes.Buffer
	if err := parquet.Write(&buf, out, parquet.DataPageVersion(2), parquet.Compression(&parquet.Zstd), parquet.CreatedBy("Redpanda", "v25.3.1", "0"), parquet.MaxRowsPerRowGroup(7)); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Redpanda's own columns lie in a structure, and the event's may, too.
func TestRedpandasOwnTables(t *testing.T) {
	now := func(r sourcetest.Row) redpandaNow {
		key := "h"
		return redpandaNow{Partition: r.Partition, Offset: r.Offset, Timestamp: r.Time, Headers: make([]redpandaHeader, r.Offset%3, 3), Key: []byte(key)}
	}
	old := func(r sourcetest.Row) redpandaOld {
		return redpandaOld{Partition: r.Partition, Offset: r.Offset, Timestamp: r.Time}
	}
	s := sourceOf(spec.Redpanda)
	s.Segments.Columns = spec.KafkaColumns{Partition: "redpanda.partition", Offset: "redpanda.offset", Time: "redpanda.timestamp"}
	s.Event.Columns = map[string]spec.Column{"amount": {Aliases: []string{"order.amount"}}, "country": {Aliases: []string{"order.country"}}}
	mem := memblob.New()
	sourcetest.Put(t, mem, "data/redpanda.timestamp_hour=1970-01-01-00/0-1-x.parquet", redpandaFile(t, old, sourcetest.Events(0, dense(0, 30))))
	// One partition's rows go to the files of two hours, by times that are in no order.
	even, odd := sourcetest.Events(0, nil), sourcetest.Events(0, nil)
	for _, r := range sourcetest.Events(0, dense(30, 60)) {
		if r.Offset%3 == 0 {
			odd = append(odd, r)
		} else {
			even = append(even, r)
		}
	}
	sourcetest.Put(t, mem, "data/redpanda.timestamp_hour=1970-01-01-00/0-2-x.parquet", redpandaFile(t, now, even))
	sourcetest.Put(t, mem, "data/redpanda.timestamp_hour=1970-01-01-01/0-2-y.parquet", redpandaFile(t, now, odd))
	sourcetest.Put(t, mem, "data/redpanda.timestamp_hour=1970-01-01-00/1-1-x.parquet", redpandaFile(t, now, sourcetest.Events(1, dense(0, 20))))
	sourcetest.Put(t, mem, "metadata/v1.metadata.json", []byte("{}"))
	listing, p, err := planned(t, mem, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, seg := range listing.Segments {
		if seg.Quality != plan.Exact || seg.RowGroups[0].RecordTime == nil {
			t.Errorf("%s: quality %v, record times %v", seg.Key, seg.Quality, seg.RowGroups[0].RecordTime)
		}
	}
	if listing.Listed.Scanned != 2 { // those with holes
		t.Errorf("%+v", listing.Listed)
	}
	shards, _, err := plan.Shards(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []sourcetest.Row
	for _, sh := range shards {
		r, err := source.Open(t.Context(), source.Stores{Segments: mem}, sh.Inputs, sourcetest.Schema(), source.LayoutOf(s, nil))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, sourcetest.Drain(t, r)...)
	}
	sourcetest.Equal(t, got, append(sourcetest.Events(0, dense(0, 60)), sourcetest.Events(1, dense(0, 20))...))

	// Lists in the structure are refused where they are asked for, and the structure itself.
	for column, says := range map[string]string{"redpanda.headers": "redpanda.headers\": it is nested (a list", "redpanda": "name a column in it, as redpanda.partition"} {
		s.Segments.Columns.Time = column
		if _, _, err := planned(t, mem, s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", column, err)
		}
	}
}

type sparkRow struct {
	Partition int32            `parquet:"partition"`
	Offset    int64            `parquet:"offset"`
	Timestamp deprecated.Int96 `parquet:"timestamp"`
	ID        string           `parquet:"id"`
	At        int64            `parquet:"at,timestamp(microsecond)"`
	Amount    int64            `parquet:"amount"`
	Country   *string          `parquet:"country"`
}

// Spark writes timestamps as INT96 unless it is told not to, which says nothing of a zone: the record time is refused as well, and can be done without.
func TestSparksOldTimestampsAreRefusedAsRecordTimes(t *testing.T) {
	var rows []sparkRow
	for o := range int64(20) {
		rows = append(rows, sparkRow{Offset: o, ID: fmt.Sprintf("p0-%d", o), At: o * 1_000_000})
	}
	var buf bytes.Buffer
	if err := parquet.Write(&buf, rows); err != nil {
		t.Fatal(err)
	}
	o := newSparkOut(t, "file:/out/")
	o.batch("0", o.file(part("", 0), buf.Bytes()))
	s := sparkSource()
	s.Segments.Columns = spec.KafkaColumns{Partition: "partition", Offset: "offset", Time: "timestamp"}
	_, _, err := planned(t, o.mem, s)
	for _, want := range []string{part("", 0), `column "timestamp"`, "INT96", "do without record times"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	s.Segments.Columns.Time = "none"
	_, p, err := planned(t, o.mem, s)
	if err != nil {
		t.Fatal(err)
	}
	sameRows(t, rowsOf(t, o.mem, s, p), log(20))
}
