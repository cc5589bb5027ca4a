//go:build foreign

package parquetsrc_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"

	"hindcast/internal/blob/memblob"
	"hindcast/internal/source/sourcetest"
	"hindcast/internal/spec"
)

type redpandaRow struct {
	Redpanda struct {
		Partition int32 `parquet:"partition"`
		Offset    int64 `parquet:"offset"`
	} `parquet:"redpanda"`
	ID      string  `parquet:"id"`
	At      int64   `parquet:"at,timestamp(microsecond)"`
	Amount  int64   `parquet:"amount"`
	Country *string `parquet:"country"`
}

// Redpanda's own columns lie in a structure, which is not read.
func TestRedpandasOwnTablesAreRefused(t *testing.T) {
	s := sourceOf(spec.Redpanda)
	s.Segments.Columns = spec.KafkaColumns{Partition: "redpanda.partition", Offset: "redpanda.offset", Time: "redpanda.timestamp"}
	mem := memblob.New()
	var buf bytes.Buffer
	if err := parquet.Write(&buf, []redpandaRow{{ID: "a"}}); err != nil {
		t.Fatal(err)
	}
	sourcetest.Put(t, mem, "data/redpanda.timestamp_hour=2024-11-03-01/0-1-x.parquet", buf.Bytes())
	sourcetest.Put(t, mem, "metadata/v1.metadata.json", []byte("{}"))
	if _, _, err := planned(t, mem, s); err == nil || !strings.Contains(err.Error(), "0-1-x.parquet") || !strings.Contains(err.Error(), "are nested, and only flat columns are read") {
		t.Error(err)
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
