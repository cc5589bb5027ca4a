package tailsrc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"hindcast/internal/payload"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/sample"
	"hindcast/internal/source"
	"hindcast/internal/source/brokers"
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
	pinned, err := Pin(timeout(t), brokers.At(broker.Addrs()...), sample.Topic, PinOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.Tail{
		{Partition: 0, Start: 120304, End: 123322},
		{Partition: 1, Start: 141384, End: 143376},
		{Partition: 2, Start: 140631, End: 142394},
		{Partition: 3, Start: 133188, End: 135525},
	}
	if !reflect.DeepEqual(pinned.Tails, want) {
		t.Fatalf("pinned %+v, want %+v", pinned.Tails, want)
	}
	event := sample.Schema()[kafkaColumns:]
	store := newStore()
	got := map[string]map[string]any{}
	began := time.Now()
	var segments []plan.Segment
	for _, tail := range pinned.Tails {
		part, err := Capture(timeout(t), CaptureOptions{
			ReadOptions: ReadOptions{
				Brokers: brokers.At(broker.Addrs()...), Topic: sample.Topic, TopicID: pinned.TopicID, Partition: tail.Partition, From: tail.Start, To: tail.End,
			},
			Schema: event, EventTime: "occurred_at", Payload: payload.Options{Format: spec.JSON}, Store: store, Prefix: "tail",
		})
		if err != nil {
			t.Fatal(err)
		}
		segments = append(segments, part...)
	}
	t.Logf("captured in %v", time.Since(began))
	var inputs []plan.Input
	for _, s := range segments {
		if s.Offsets != nil || len(s.RowGroups) != 1 || !s.RowGroups[0].Timed {
			t.Errorf("segment %+v, want one dense and timed group", s)
		}
		inputs = append(inputs, plan.Input{
			Partition: s.Partition, Segment: s.Key, ETag: s.ETag, Size: s.Size, Captured: true, RowGroups: []int{0}, Rows: s.Rows,
		})
	}
	in, err := source.Open(t.Context(), source.Stores{Captured: store}, inputs, event, source.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for {
		p, b, err := in.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		readRows(event, p, b, got)
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
		line.Value["timestamp"], line.Value[source.ErrorColumn] = line.Timestamp*1000, nil
		if a, b := fmt.Sprint(row), fmt.Sprint(line.Value); a != b {
			t.Fatalf("partition %d, offset %d: captured %s, want %s", line.Partition, line.Offset, a, b)
		}
	}
	if n != 9110 || len(got) != n {
		t.Errorf("captured %d records of %d, want 9110", len(got), n)
	}
}

// readRows adds a batch's rows to out, by partition and offset.
func readRows(event record.Schema, partition int32, b *record.Batch, out map[string]map[string]any) {
	for row := range b.Len {
		v := map[string]any{"timestamp": b.RecordTimes[row]}
		for i, c := range b.Columns {
			name := source.ErrorColumn
			if i < len(event) {
				name = event[i].Name
			}
			switch {
			case c.Nulls.Get(row):
				v[name] = nil
			case c.Kind == record.String:
				v[name] = string(c.Strings.At(row))
			default:
				v[name] = c.Int64s[row]
			}
		}
		out[fmt.Sprint(partition, "/", b.Offsets[row])] = v
	}
}
