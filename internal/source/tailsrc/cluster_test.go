package tailsrc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/payload"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source/brokers"
	"hindcast/internal/spec"
)

const (
	topicName = "orders"
	second    = int64(time.Second / time.Microsecond)
)

// start runs brokers with one topic of two partitions.
func start(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(2, topicName)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func producer(t *testing.T, c *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// event is a value: its n, which the tests know it by, and its time.
func event(n int) string {
	return fmt.Sprintf(`{"n":%d,"at":"2024-01-01T00:%02d:%02dZ"}`, n, n/60%60, n%60)
}

// send appends events n to partition 0, a batch of them at a time.
func send(t *testing.T, cl *kgo.Client, n ...int) {
	t.Helper()
	var records []*kgo.Record
	for _, n := range n {
		records = append(records, &kgo.Record{Topic: topicName, Value: []byte(event(n)), Timestamp: time.UnixMilli(int64(n) * 1000)})
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// transact sends events in a transaction, and a marker after them.
func transact(t *testing.T, cl *kgo.Client, commit kgo.TransactionEndTry, n ...int) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	send(t, cl, n...)
	if err := cl.EndTransaction(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
}

func count(from, to int) []int {
	var out []int
	for n := from; n < to; n++ {
		out = append(out, n)
	}
	return out
}

// options capture all of partition 0.
func options(c *kfake.Cluster, store blob.Store, from, to int64) CaptureOptions {
	return CaptureOptions{
		ReadOptions: ReadOptions{
			Brokers: brokers.At(c.ListenAddrs()...), Topic: topicName, TopicID: idText(c.TopicInfo(topicName).TopicID), From: from, To: to, Patience: 300 * time.Millisecond,
		},
		Schema:    record.Schema{{Name: "n", Kind: record.Int64}, {Name: "at", Kind: record.Timestamp}},
		EventTime: "at", Payload: payload.Options{Format: spec.JSON}, Store: store, Prefix: "runs/r1/tail",
	}
}

// read returns what the segments hold, "offset:n" a row, and holds them to what they say of themselves.
func read(t *testing.T, opts CaptureOptions, segments []plan.Segment) string {
	t.Helper()
	var out []string
	next := opts.From
	for _, s := range segments {
		if s.First != next || s.Partition != opts.Partition || !s.Captured {
			t.Errorf("segment %s begins at %d of partition %d, want %d", s.Key, s.First, s.Partition, next)
		}
		next = s.Next
		data, info, err := blob.ReadAll(t.Context(), opts.Store, s.Key)
		if err != nil {
			t.Fatal(err)
		}
		if info.ETag != s.ETag || info.Size != int64(s.Size) {
			t.Errorf("segment %s is %d bytes %s, described as %d bytes %s", s.Key, info.Size, info.ETag, s.Size, s.ETag)
		}
		f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), s.Key)
		if err != nil {
			t.Fatal(err)
		}
		var rows int64
		offsets := plan.Ranges{}
		for g, group := range s.RowGroups {
			in := f.Read(parquetfile.ReadOptions{RowGroups: []int{g}})
			for {
				b, err := in.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				rows += int64(b.Len)
				for row := range b.Len {
					o, at := b.Columns[1].Int64s[row], b.Columns[2].Int64s[row]
					offsets = offsets.Union(plan.Ranges{{First: o, Next: o + 1}})
					if o < group.First || o >= group.Next || at < group.RecordTime.Min || at > group.RecordTime.Max {
						t.Errorf("segment %s: row at offset %d, time %d lies outside of its group %+v", s.Key, o, at, group)
					}
					if b.Columns[5].Nulls.Get(row) {
						n := b.Columns[3].Int64s[row]
						if e := b.Columns[4].Int64s[row]; e < group.EventTime.Min || e > group.EventTime.Max || at != n*second {
							t.Errorf("segment %s, offset %d: event time %d, record time %d", s.Key, o, e, at)
						}
						out = append(out, fmt.Sprintf("%d:%d", o, n))
						continue
					}
					if group.Timed || !b.Columns[3].Nulls.Get(row) || !b.Columns[4].Nulls.Get(row) {
						t.Errorf("segment %s, offset %d has an error, and values or a timed group", s.Key, o)
					}
					out = append(out, fmt.Sprintf("%d:%s", o, b.Columns[5].Strings.At(row)))
				}
			}
		}
		if rows != s.Rows {
			t.Errorf("segment %s has %d rows, described as %d", s.Key, rows, s.Rows)
		}
		if dense := rows == s.Next-s.First; dense != (s.Offsets == nil) || !dense && offsets.String() != s.Offsets.String() {
			t.Errorf("segment %s has offsets %v of %d-%d, described as %v", s.Key, offsets, s.First, s.Next, s.Offsets)
		}
	}
	if next != opts.To {
		t.Errorf("the segments end at offset %d, want %d", next, opts.To)
	}
	return strings.Join(out, " ")
}

// rowsOf is what read returns of events n at offsets from first.
func rowsOf(first int, n ...int) string {
	var out []string
	for i, n := range n {
		out = append(out, fmt.Sprintf("%d:%d", first+i, n))
	}
	return strings.Join(out, " ")
}

func capt(t *testing.T, opts CaptureOptions) []plan.Segment {
	t.Helper()
	segments, err := Capture(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return segments
}

// asked records the kinds of requests that brokers get, and the offsets that are fetched.
type asked struct {
	mu      sync.Mutex
	kinds   map[string]int
	fetched []int64
}

func watch(c *kfake.Cluster) *asked {
	a := &asked{kinds: map[string]int{}}
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.kinds[kmsg.NameForKey(req.Key())]++
		if f, ok := req.(*kmsg.FetchRequest); ok {
			a.fetched = append(a.fetched, f.Topics[0].Partitions[0].FetchOffset)
		}
		return nil, nil, false
	})
	return a
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func newStore() blob.Store { return memblob.New() }
