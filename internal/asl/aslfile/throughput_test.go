package aslfile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"hindcast/internal/asl"
	"hindcast/internal/testenv"
)

// shards is the shape of a backfill: a manifest of shards, a worker, a loop until done.
const shards = `{
  "StartAt": "Backfill",
  "States": {"Backfill": {"Type": "Map", "Label": "Backfill", "MaxConcurrency": 64, "End": true,
    "ItemReader": {"Resource": "arn:aws:states:::s3:getObject", "ReaderConfig": {"InputType": "JSONL"}, "Parameters": {"Bucket": "b", "Key": "k"}},
    "ItemBatcher": {"MaxItemsPerBatch": 1, "BatchInput": {"run": "r-1"}},
    "ResultWriter": {"Resource": "arn:aws:states:::s3:putObject", "Parameters": {"Bucket": "b", "Prefix": "results"},
      "WriterConfig": {"Transformation": "COMPACT", "OutputType": "JSONL"}},
    "ItemProcessor": {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, "StartAt": "Work", "States": {
      "Work": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 910,
        "Parameters": {"FunctionName": "shard", "Payload.$": "$"}, "ResultSelector": {"done.$": "$.Payload.done"}, "Next": "Done?"},
      "Done?": {"Type": "Choice", "Choices": [{"Variable": "$.done", "BooleanEquals": true, "Next": "Ok"}], "Default": "Work"},
      "Ok": {"Type": "Succeed"}}}}}
}`

type manifest struct {
	shards  int
	written atomic.Int64
}

func (m *manifest) Get(context.Context, string, string) (io.ReadCloser, error) {
	var b bytes.Buffer
	for i := range m.shards {
		fmt.Fprintf(&b, "{\"shard\":\"s-%05d\"}\n", i)
	}
	return io.NopCloser(&b), nil
}

func (m *manifest) List(context.Context, string, string) iter.Seq2[asl.Object, error] {
	return func(func(asl.Object, error) bool) {}
}

func (m *manifest) Put(_ context.Context, _, _ string, body []byte) error {
	m.written.Add(int64(len(body)))
	return nil
}

// counted counts the writes of histories: each is an fsync.
type counted struct {
	*Histories
	writes atomic.Int64
}

func (c *counted) Open(ctx context.Context, name asl.HistoryName) (asl.History, error) {
	h, err := c.Histories.Open(ctx, name)
	return &countedHistory{h, c}, err
}

type countedHistory struct {
	asl.History
	owner *counted
}

func (h *countedHistory) Append(ctx context.Context, events []asl.Event) error {
	h.owner.writes.Add(1)
	return h.History.Append(ctx, events)
}

// TestManyShards runs a Map Run of a no-op worker on files: fast, small on disk and flat in memory.
func TestManyShards(t *testing.T) {
	n := 1000
	if testenv.Full() {
		n = 10_000
	}
	m, err := asl.Parse([]byte(shards), nil)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	dir := t.TempDir()
	var calls atomic.Int64
	histories := &counted{Histories: &Histories{Dir: dir}}
	e := &asl.Engine{
		Histories: histories,
		Objects:   &manifest{shards: n},
		Tasks: asl.TaskFunc(func(context.Context, asl.TaskRequest) (json.RawMessage, error) {
			calls.Add(1)
			return json.RawMessage(`{"done":true}`), nil
		}),
	}
	start, busy := time.Now(), processTime()
	var result asl.Result
	peak := testenv.Peak(func() { result, err = e.Start(t.Context(), m, "run", nil) })
	took, used := time.Since(start), processTime()-busy
	if err != nil || result.Status != asl.Succeeded {
		t.Fatalf("%+v %v", result, err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if calls.Load() != int64(n) {
		t.Errorf("%d calls for %d shards", calls.Load(), n)
	}
	size := int64(0)
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info os.FileInfo
			if info, err = d.Info(); err == nil {
				size += info.Size()
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	writes := int(histories.writes.Load())
	t.Logf("%d shards in %v: %.0f/s, %v of processor time and %.3f fsyncs a shard, %d bytes of history a shard, at most %d MiB of memory, %+d KiB of heap after",
		n, took.Round(time.Millisecond), float64(n)/took.Seconds(), used/time.Duration(n), float64(writes)/float64(n), size/int64(n),
		peak>>20, (int64(after.HeapAlloc)-int64(before.HeapAlloc))/1024)
	// How long it takes depends on what else the machine does. What it costs does not: 1,000 a second are to leave half a core.
	if testenv.Full() && used/time.Duration(n) > 500*time.Microsecond { // the race detector multiplies it
		t.Errorf("a shard takes %v of processor time", used/time.Duration(n))
	}
	if peak > 64<<20 {
		t.Errorf("%d bytes of memory in use", peak)
	}
	if writes > n/4 {
		t.Errorf("%d writes for %d shards: they are not grouped", writes, n)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("%d bytes of heap are left", grown)
	}
	if size/int64(n) >= 1024 {
		t.Errorf("%d bytes of history for a shard", size/int64(n))
	}
}
