//go:build full

package cli

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"hindcast/internal/job"
)

// A Redpanda topic's Iceberg table, whose columns lie in structures, comes to the bytes that flat exports come to.
func TestRedpandasTablesComeToTheSameBytes(t *testing.T) {
	t.Parallel()
	whole := threeDays(t)
	ws := filepath.Join(t.TempDir(), "ws")
	threeRun(t, whole.twoTables(), ws, "--promote").ok(t)
	want := fileSums(t, []job.Job{whole.twoTables()}, ws, "seen", "sums")

	type row struct {
		Redpanda struct {
			Partition int32  `parquet:"partition"`
			Offset    int64  `parquet:"offset"`
			Timestamp int64  `parquet:"timestamp,timestamp(microsecond)"`
			Key       []byte `parquet:"key,optional"`
		} `parquet:"redpanda"`
		ID   string `parquet:"id"`
		At   int64  `parquet:"at,timestamp(microsecond)"`
		Sale *struct {
			Shop   string `parquet:"shop"`
			Amount int64  `parquet:"amount"`
		} `parquet:"sale,optional"`
	}
	l := newSmallLog(t)
	for p := range int32(2) {
		for first := 0; first < 3*threeSegment; first += threeSegment {
			var rows []row
			for _, r := range threeVisits(p, first, first+threeSegment) {
				var out row
				out.Redpanda.Partition, out.Redpanda.Offset, out.Redpanda.Timestamp = r.Partition, r.Offset, r.recordTime(t).UnixMicro()
				out.ID, out.At = r.ID, instant(t, r.At).UnixMicro()
				out.Sale = &struct {
					Shop   string `parquet:"shop"`
					Amount int64  `parquet:"amount"`
				}{r.Shop, r.Amount}
				rows = append(rows, out)
			}
			var buf bytes.Buffer
			if err := parquet.Write(&buf, rows, parquet.CreatedBy("Redpanda", "v25.3.1", "0"), parquet.MaxRowsPerRowGroup(4)); err != nil {
				t.Fatal(err)
			}
			l.put(filepath.Join(l.dir, "data", "redpanda.timestamp_hour=2024-05-01-00", fmt.Sprintf("%d-%d.parquet", p, first)), buf.Bytes())
		}
	}
	l.put(filepath.Join(l.dir, "metadata", "v1.metadata.json"), []byte("{}"))
	j := l.job(smallJob{
		Event: "columns: { shop: { aliases: [sale.shop] }, amount: { aliases: [sale.amount] } }", Tables: map[string]string{"seen": "day UTC", "sums": "day UTC"},
	})
	j = changedJob(t, j, map[string]string{"naming: kafka-connect": "naming: redpanda"}, nil)
	ws = filepath.Join(t.TempDir(), "ws")
	hindcastWith(t, []job.Job{j}, "source", "inspect", "visits", "--workspace", ws).ok(t).has(t, "exact     0-36")
	hindcastWith(t, []job.Job{j}, "plan", "visits", "--from", threeFrom, "--to", threeTo, "--workspace", ws).ok(t)
	threeRun(t, j, ws, "--promote", "--lap-rows", "7").ok(t)
	if got := fileSums(t, []job.Job{j}, ws, "seen", "sums"); !maps.Equal(got, want) {
		t.Errorf("other bytes: %v\nwant %v\n%v", got, want, tableRows(t, []job.Job{j}, ws, "seen"))
	}
}
