package tailsrc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/sample"
	"hindcast/internal/source/embedded"
	"hindcast/internal/spec"
	"hindcast/internal/testenv"
)

// TestRetailTail captures the sample's tail and compares every value with the file that it comes from.
func TestRetailTail(t *testing.T) {
	file := filepath.Join(testenv.Root(t), "samples", "retail", sample.TailFile)
	broker, err := embedded.Start(t.Context(), file, sample.Topic)
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	pinned, err := Pin(timeout(t), broker.Addrs(), sample.Topic, PinOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.Tail{
		{Partition: 0, Start: 120304, End: 123322}, {Partition: 1, Start: 141384, End: 143376},
		{Partition: 2, Start: 140631, End: 142394}, {Partition: 3, Start: 133188, End: 135525},
	}
	if !reflect.DeepEqual(pinned.Tails, want) {
		t.Fatalf("pinned %+v, want %+v", pinned.Tails, want)
	}
	var event record.Schema
	for _, f := range sample.Schema()[kafkaColumns:] {
		event = append(event, f)
	}
	store := newStore()
	got := map[string]map[string]any{}
	began := time.Now()
	var segments []plan.Segment
	for _, tail := range pinned.Tails {
		part, err := Capture(timeout(t), CaptureOptions{
			Brokers: broker.Addrs(), Topic: sample.Topic, TopicID: pinned.TopicID, Partition: tail.Partition, From: tail.Start, To: tail.End,
			Schema: event, EventTime: "occurred_at", Value: spec.JSON, Store: store, Prefix: "tail",
		})
		if err != nil {
			t.Fatal(err)
		}
		segments = append(segments, part...)
	}
	t.Logf("captured in %v", time.Since(began))
	for _, s := range segments {
		if s.Offsets != nil || len(s.RowGroups) != 1 || !s.RowGroups[0].Timed {
			t.Errorf("segment %+v, want one dense and timed group", s)
		}
		data, _, err := blob.ReadAll(t.Context(), store, s.Key)
		if err != nil {
			t.Fatal(err)
		}
		readRows(t, data, got)
	}

	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	n := 0
	for lines := bufio.NewScanner(z); lines.Scan(); n++ {
		var line struct {
			Partition, Offset, Timestamp int64
			Value                        map[string]any
		}
		in := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		in.UseNumber()
		if err := in.Decode(&line); err != nil {
			t.Fatal(err)
		}
		row := got[fmt.Sprint(line.Partition, "/", line.Offset)]
		at, err := time.Parse(time.RFC3339, line.Value["occurred_at"].(string))
		if err != nil {
			t.Fatal(err)
		}
		line.Value["occurred_at"] = at.UnixMicro()
		line.Value[TimeColumn] = line.Timestamp * 1000
		line.Value[PartitionColumn], line.Value[OffsetColumn] = line.Partition, line.Offset
		line.Value[ErrorColumn] = nil
		if a, b := fmt.Sprint(row), fmt.Sprint(line.Value); a != b {
			t.Fatalf("partition %d, offset %d: captured %s, want %s", line.Partition, line.Offset, a, b)
		}
	}
	if n != 9110 || len(got) != n {
		t.Errorf("captured %d records of %d, want 9110", len(got), n)
	}
}

// readRows adds the rows of a file to out, by partition and offset.
func readRows(t *testing.T, data []byte, out map[string]map[string]any) {
	t.Helper()
	f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), "segment")
	if err != nil {
		t.Fatal(err)
	}
	in := f.Read(parquetfile.ReadOptions{})
	for {
		b, err := in.Next()
		if err != nil {
			return
		}
		for row := range b.Len {
			v := map[string]any{}
			for i, field := range f.Schema() {
				c := &b.Columns[i]
				switch {
				case c.Nulls.Get(row):
					v[field.Name] = nil
				case field.Kind == record.String:
					v[field.Name] = string(c.Strings.At(row))
				default:
					v[field.Name] = c.Int64s[row]
				}
			}
			out[fmt.Sprint(v[PartitionColumn], "/", v[OffsetColumn])] = v
		}
	}
}
