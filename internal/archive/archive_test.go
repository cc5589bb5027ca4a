package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
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
	"hindcast/internal/source/parquetsrc"
	"hindcast/internal/source/tailsrc"
	"hindcast/internal/spec"
)

const topic = "orders"

func start(t *testing.T) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, topic))
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

// send appends n records to a partition, a batch for each few. Their values are their numbers.
func send(t *testing.T, cl *kgo.Client, partition int32, from, to int) {
	t.Helper()
	for n := from; n < to; {
		var batch []*kgo.Record
		for ; n < to && len(batch) < 4; n++ {
			batch = append(batch, &kgo.Record{Topic: topic, Partition: partition, Key: fmt.Append(nil, "k", n%3), Value: fmt.Append(nil, n), Timestamp: time.UnixMilli(int64(n) * 1000)})
		}
		if err := cl.ProduceSync(t.Context(), batch...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func transact(t *testing.T, cl *kgo.Client, end kgo.TransactionEndTry, from, to int) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	send(t, cl, 0, from, to)
	if err := cl.EndTransaction(t.Context(), end); err != nil {
		t.Fatal(err)
	}
}

// options archive all that the brokers have by now, ten records a segment.
func options(t *testing.T, c *kfake.Cluster, store blob.Store) Options {
	t.Helper()
	at := brokers.At(c.ListenAddrs()...)
	pinned, err := tailsrc.Pin(t.Context(), at, topic, tailsrc.PinOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Topic: topic, TopicID: pinned.TopicID, Tails: pinned.Tails, Store: store, RecordsPerSegment: 10,
		Open: func(ctx context.Context, log plan.Tail, from, to int64) (Reader, error) {
			return tailsrc.Read(ctx, tailsrc.ReadOptions{
				Brokers: at, Topic: topic, TopicID: pinned.TopicID, Partition: log.Partition, From: from, To: to,
				Pinned: &log, Partitions: len(pinned.Tails), Patience: time.Second,
			})
		},
	}
}

func run(t *testing.T, opts Options) Report {
	t.Helper()
	r, err := Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// describe tells what a store holds, a line a segment: its name, what was copied into it, and its records as offset:value.
func describe(t *testing.T, store blob.Store) string {
	t.Helper()
	var out []string
	for info, err := range blob.All(t.Context(), store, "") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := blob.ReadAll(t.Context(), store, info.Key)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), info.Key)
		if err != nil {
			t.Fatal(err)
		}
		copied, _ := f.KeyValue(parquetsrc.RangeKey)
		line := strings.TrimPrefix(info.Key, "topics/"+topic+"/partition=") + " " + copied + ":"
		in := f.Read(parquetfile.ReadOptions{Columns: []string{"kafka_offset", "value"}})
		for {
			b, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for row := range b.Len {
				line += fmt.Sprintf(" %d:%s", b.Columns[0].Int64s[row], b.Columns[1].Strings.At(row))
			}
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func numbers(from, to int) string {
	s := ""
	for n := from; n < to; n++ {
		s += fmt.Sprintf(" %d:%d", n, n)
	}
	return s
}

func TestACallGoesOnWhereTheLastOneEnded(t *testing.T) {
	c, store := start(t), memblob.New()
	cl := producer(t, c)
	send(t, cl, 0, 0, 25)
	first := run(t, options(t, c, store))
	if first.Segments != 3 || first.Records != 25 || first.Partitions[0].Next != 25 || first.Partitions[1].Next != 0 {
		t.Errorf("%+v", first)
	}
	if again := run(t, options(t, c, store)); again.Segments != 0 || again.Partitions[0].From != 25 {
		t.Errorf("with nothing new: %+v", again)
	}
	before := contents(t, store)
	send(t, cl, 0, 25, 40)
	send(t, cl, 1, 0, 3)
	second := run(t, options(t, c, store))
	if second.Segments != 3 || second.Records != 18 || second.Partitions[0].From != 25 || second.Partitions[0].First != 0 {
		t.Errorf("%+v", second)
	}
	want := "0/orders+0+0000000000.parquet 0-10:" + numbers(0, 10) +
		"\n0/orders+0+0000000010.parquet 10-20:" + numbers(10, 20) +
		"\n0/orders+0+0000000020.parquet 20-25:" + numbers(20, 25) +
		"\n0/orders+0+0000000025.parquet 25-35:" + numbers(25, 35) +
		"\n0/orders+0+0000000035.parquet 35-40:" + numbers(35, 40) +
		"\n1/orders+1+0000000000.parquet 0-3:" + numbers(0, 3)
	if got := describe(t, store); got != want {
		t.Errorf("the archive is\n%s\nwant\n%s", got, want)
	}
	after := contents(t, store)
	for key, data := range before {
		if !bytes.Equal(after[key], data) {
			t.Errorf("segment %s was written again", key)
		}
	}
}

func contents(t *testing.T, s blob.Store) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for info, err := range blob.All(t.Context(), s, "") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := blob.ReadAll(t.Context(), s, info.Key)
		if err != nil {
			t.Fatal(err)
		}
		out[info.Key] = data
	}
	return out
}

// A partition that was added between two calls is archived from its beginning.
func TestAPartitionThatWasAdded(t *testing.T) {
	c, store := start(t), memblob.New()
	send(t, producer(t, c), 0, 0, 5)
	run(t, options(t, c, store))
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, 3
	req.Topics = append(req.Topics, rt)
	if _, err := req.RequestWith(t.Context(), producer(t, c)); err != nil {
		t.Fatal(err)
	}
	send(t, producer(t, c), 2, 0, 2)
	if r := run(t, options(t, c, store)); len(r.Partitions) != 3 || r.Records != 2 || r.Partitions[2].Next != 2 {
		t.Errorf("%+v", r)
	}
}

// Markers and aborted records are offsets without a record, which the segments vouch for: at the beginning, in the middle, at the end, and alone.
func TestOffsetsWithoutARecordAreVouchedFor(t *testing.T) {
	c, store := start(t), memblob.New()
	tx := producer(t, c, kgo.TransactionalID("tx"))
	transact(t, tx, kgo.TryAbort, 0, 3)  // offsets 0-2, the marker at 3
	transact(t, tx, kgo.TryCommit, 4, 7) // 4-6, 7
	run(t, options(t, c, store))
	transact(t, tx, kgo.TryAbort, 8, 9) // 8, 9
	run(t, options(t, c, store))
	transact(t, tx, kgo.TryAbort, 10, 11)  // 10, 11
	transact(t, tx, kgo.TryCommit, 12, 24) // 12-23, 24
	transact(t, tx, kgo.TryAbort, 25, 27)  // 25, 26, 27
	run(t, options(t, c, store))
	want := "0/orders+0+0000000004.parquet 0-8: 4:4 5:5 6:6" +
		"\n0/orders+0+0000000008.parquet 8-10:" +
		"\n0/orders+0+0000000012.parquet 10-22:" + numbers(12, 22) +
		"\n0/orders+0+0000000022.parquet 22-28: 22:22 23:23"
	if got := describe(t, store); got != want {
		t.Errorf("the archive is\n%s\nwant\n%s", got, want)
	}
}

// Keys, values and headers are kept as they are: null, empty and any bytes are three things.
func TestRecordsAreKeptAsTheyAre(t *testing.T) {
	c, store := start(t), memblob.New()
	for _, r := range []*kgo.Record{
		{Key: []byte("k"), Value: []byte("v")},
		{Key: nil, Value: []byte{}},
		{Key: []byte{}, Value: nil}, // a tombstone
		{Key: []byte{0xff, 0}, Value: []byte{0xfe}, Headers: []kgo.RecordHeader{{Key: "a", Value: []byte{1, 0xff}}, {Key: "a", Value: nil}, {Key: "\xff", Value: []byte{}}}},
	} {
		r.Topic, r.Timestamp = topic, time.UnixMilli(1234)
		if err := producer(t, c).ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	run(t, options(t, c, store))
	data, _, err := blob.ReadAll(t.Context(), store, "topics/orders/partition=0/orders+0+0000000000.parquet")
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), "f")
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.Read(parquetfile.ReadOptions{Columns: []string{"kafka_timestamp", "key", "value", "headers"}}).Next()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for row := range b.Len {
		line := fmt.Sprint(b.Columns[0].Int64s[row])
		for _, c := range b.Columns[1:] {
			if c.Nulls.Get(row) {
				line += " null"
			} else {
				line += fmt.Sprintf(" %q", c.Strings.At(row))
			}
		}
		got = append(got, line)
	}
	want := []string{
		`1234000 "k" "v" null`, `1234000 null "" null`, `1234000 "" null null`,
		`1234000 "\xff\x00" "\xfe" "[{\"key\":\"a\",\"value\":\"Af8=\"},{\"key\":\"a\",\"value\":null},{\"key_base64\":\"/w==\",\"value\":\"\"}]"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Killed before any put, or after it with the reply lost, the next call writes what is missing, and nothing again.
func TestACallThatDiedIsGoneOnWith(t *testing.T) {
	c := start(t)
	cl := producer(t, c)
	send(t, cl, 0, 0, 25)
	send(t, cl, 1, 0, 12)
	whole := memblob.New()
	run(t, options(t, c, whole))
	want := contents(t, whole)
	segmentPut := func(op blob.Op) bool { return op.Verb == blob.VerbPut && strings.HasSuffix(op.Key, ".parquet") }
	for kill := range len(want) {
		for _, done := range []bool{false, true} {
			store := memblob.New()
			opts := options(t, c, store)
			died, puts := errors.New("died"), 0
			opts.Store = blob.Hook(store, func(op blob.Op) error {
				if op.Done == done && segmentPut(op) {
					if puts++; puts == kill+1 {
						return died
					}
				}
				return nil
			})
			report, err := Run(t.Context(), opts)
			switch {
			case !done && (!errors.Is(err, died) || report.Segments != kill):
				t.Errorf("put %d failed: %v, %+v", kill, err, report)
			case done && err != nil:
				t.Errorf("the reply to put %d was lost, what lies there is right, but: %v", kill, err)
			}
			written := slices.Collect(maps.Keys(contents(t, store)))
			opts = options(t, c, store)
			opts.Store = blob.Hook(store, func(op blob.Op) error {
				if segmentPut(op) && slices.Contains(written, op.Key) {
					t.Errorf("put %d failed (done: %v), and the next call wrote %s again", kill, done, op.Key)
				}
				return nil
			})
			run(t, opts)
			if got := contents(t, store); !maps.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("put %d failed (done: %v), and the next call left\n%s", kill, done, describe(t, store))
			}
		}
	}
}

// Of two calls at once each segment is one's; whoever comes second with another loses, and the archive is whole.
func TestTwoCallsAtOnce(t *testing.T) {
	c, store := start(t), memblob.New()
	cl := producer(t, c)
	send(t, cl, 0, 0, 25)
	early := options(t, c, store)
	send(t, cl, 0, 25, 38)
	late := options(t, c, store)
	var once sync.Once
	early.Store = blob.Hook(store, func(op blob.Op) error {
		if !op.Done && strings.HasSuffix(op.Key, "+0000000020.parquet") {
			once.Do(func() { run(t, late) })
		}
		return nil
	})
	_, err := Run(t.Context(), early)
	if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "+0000000020.parquet was written meanwhile") {
		t.Errorf("the second call ended with %v", err)
	}
	if got := run(t, options(t, c, store)); got.Segments != 0 || got.Partitions[0].Next != 38 {
		t.Errorf("the next call wrote %+v", got)
	}
	if got, want := describe(t, store), "0/orders+0+0000000020.parquet 20-30:"; !strings.Contains(got, want) {
		t.Errorf("the archive is\n%s\nwithout %s", got, want)
	}
}

func TestWhatCannotBeContinuedIsRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(t *testing.T, c *kfake.Cluster, store blob.Store, opts *Options)
		says   []string
	}{
		{"the topic was recreated", func(t *testing.T, c *kfake.Cluster, _ blob.Store, _ *Options) {
			if err := errors.Join(c.DeleteTopic(topic), c.CreateTopic(topic, 2, nil)); err != nil {
				t.Fatal(err)
			}
			send(t, producer(t, c), 0, 0, 40)
		}, []string{"orders+0+0000000000.parquet was copied of a topic orders with the id", "deleted and created again", "another location"}},
		{"records were deleted before they were archived", func(t *testing.T, c *kfake.Cluster, _ blob.Store, _ *Options) {
			send(t, producer(t, c), 0, 25, 40)
			if err := c.DeleteRecords(topic, 0, 30); err != nil {
				t.Fatal(err)
			}
		}, []string{"partition 0: the archive ends at offset 25 (topics/orders/partition=0/orders+0+0000000020.parquet), but the log now starts at 30", "offsets 25-30 were deleted"}},
		{"a segment was lost", func(t *testing.T, _ *kfake.Cluster, store blob.Store, _ *Options) {
			if err := store.Delete(t.Context(), "topics/orders/partition=0/orders+0+0000000010.parquet"); err != nil {
				t.Fatal(err)
			}
		}, []string{"no segment of partition 0, offsets 10-20, between", "restore it"}},
		{"a segment was renamed", func(t *testing.T, _ *kfake.Cluster, store blob.Store, _ *Options) {
			move(t, store, "topics/orders/partition=0/orders+0+0000000020.parquet", "topics/orders/partition=1/orders+1+0000000020.parquet")
		}, []string{"orders+1+0000000020.parquet"}},
		{"another file lies there", func(t *testing.T, _ *kfake.Cluster, store blob.Store, _ *Options) {
			put(t, store, "topics/orders/partition=0/readme.txt", []byte("hello, this is no segment"))
		}, []string{"readme.txt", "not Parquet"}},
		{"a segment was cut off", func(t *testing.T, _ *kfake.Cluster, store blob.Store, _ *Options) {
			key := "topics/orders/partition=0/orders+0+0000000020.parquet"
			put(t, store, key, contents(t, store)[key][:100])
		}, []string{"orders+0+0000000020.parquet", "restore it"}},
		{
			"the columns are others", func(_ *testing.T, _ *kfake.Cluster, _ blob.Store, opts *Options) { opts.Columns = fewer{} },
			[]string{"has the columns", "call as before"},
		},
		{
			"it is to begin elsewhere", func(_ *testing.T, _ *kfake.Cluster, _ blob.Store, opts *Options) { opts.From = map[int32]int64{0: 12} },
			[]string{"partition 0: it is to begin at offset 12, but the archive has the offsets 0-25 already"},
		},
		{
			"it is to begin where there is nothing", func(_ *testing.T, _ *kfake.Cluster, _ blob.Store, opts *Options) { opts.From = map[int32]int64{1: 12} },
			[]string{"partition 1: it is to begin at offset 12, but the log has the offsets 0-0"},
		},
		{
			"the log was truncated", func(_ *testing.T, _ *kfake.Cluster, _ blob.Store, opts *Options) { opts.Tails[0].End = 24 },
			[]string{"the archive goes to offset 25", "but the log ends at 24: it was truncated"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, store := start(t), memblob.New()
			send(t, producer(t, c), 0, 0, 25)
			run(t, options(t, c, store))
			opts := options(t, c, store)
			test.change(t, c, store, &opts)
			fresh := options(t, c, store)
			if opts.Columns == nil && opts.From == nil && opts.Tails[0].End != 24 {
				opts = fresh
			}
			before := contents(t, store)
			_, err := Run(t.Context(), opts)
			if !errors.Is(err, ErrRefused) {
				t.Fatalf("it ended with %v", err)
			}
			for _, want := range test.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
			if !maps.EqualFunc(contents(t, store), before, bytes.Equal) {
				t.Error("something was written")
			}
		})
	}
}

// fewer are other columns than those of [Raw].
type fewer struct{ raw }

func (fewer) Schema() record.Schema { return kafkaSchema() }

func move(t *testing.T, s blob.Store, from, to string) {
	t.Helper()
	put(t, s, to, contents(t, s)[from])
	if err := s.Delete(t.Context(), from); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, s blob.Store, key string, data []byte) {
	t.Helper()
	if _, err := blob.PutBytes(t.Context(), s, key, data, blob.Condition{}); err != nil {
		t.Fatal(err)
	}
}

func TestAnArchiveMayBeginLater(t *testing.T) {
	c, store := start(t), memblob.New()
	send(t, producer(t, c), 0, 0, 12)
	opts := options(t, c, store)
	opts.From = map[int32]int64{0: 7}
	run(t, opts)
	if got, want := describe(t, store), "0/orders+0+0000000007.parquet 7-12:"+numbers(7, 12); got != want {
		t.Errorf("the archive is\n%s\nwant\n%s", got, want)
	}
}

// The topic is recreated while it is copied: what was written is of the old one, and the next call says so.
func TestTheTopicIsRecreatedMeanwhile(t *testing.T) {
	c, store := start(t), memblob.New()
	send(t, producer(t, c), 0, 0, 4000)
	opts := options(t, c, store)
	opts.RecordsPerSegment = 1000
	opts.Store = blob.Hook(store, func(op blob.Op) error {
		if op.Done && strings.HasSuffix(op.Key, "+0000000000.parquet") {
			return errors.Join(c.DeleteTopic(topic), c.CreateTopic(topic, 2, nil))
		}
		return nil
	})
	if _, err := Run(t.Context(), opts); !errors.Is(err, tailsrc.ErrChanged) {
		t.Errorf("it ended with %v", err)
	}
}

func TestThrottle(t *testing.T) {
	c := start(t)
	send(t, producer(t, c), 0, 0, 40)
	opts := options(t, c, memblob.New())
	opts.RecordsPerSecond = 20 // a burst of as many goes at once
	began := time.Now()
	var last Progress
	opts.Watch = func(p Progress) { last = p }
	run(t, opts)
	if d := time.Since(began); d < 900*time.Millisecond {
		t.Errorf("40 records at 20 a second took %v", d)
	}
	if want := (Progress{Partition: 0, Offsets: 40, Done: 40, Records: 40}); last != want {
		t.Errorf("the last that was told is %+v, want %+v", last, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	opts.Store, opts.RecordsPerSecond = memblob.New(), 1
	if _, err := Run(ctx, opts); err == nil {
		t.Error("archived past the context's deadline")
	}
}

// A leader that lacked the last records was elected, and the log has others by now under their numbers.
func TestALogThatWasTruncatedAndFilledAgainIsRefused(t *testing.T) {
	c, store := start(t), memblob.New()
	send(t, producer(t, c), 0, 0, 25)
	run(t, options(t, c, store))
	send(t, producer(t, c), 0, 25, 40)
	opts := options(t, c, store)
	c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := req.(*kmsg.OffsetForLeaderEpochRequest)
		resp := r.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		rt.Topic, rp.Partition, rp.EndOffset = topic, r.Topics[0].Partitions[0].Partition, 20
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	_, err := Run(t.Context(), opts)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no longer the one that was archived to offset 25") || !strings.Contains(err.Error(), "truncated at offset 20") {
		t.Errorf("it ended with %v", err)
	}
}

// With a job's columns values are decoded; one that cannot be is not made up.
func TestDecodedColumns(t *testing.T) {
	c, store := start(t), memblob.New()
	produce := func(value string) {
		if err := producer(t, c).ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value), Timestamp: time.UnixMilli(5)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce(`{"id":"a","n":3,"more":true}`)
	produce(`{"n":4}`)
	columns, err := Decoded(record.Schema{{Name: "id", Kind: record.String, Nullable: true}, {Name: "n", Kind: record.Int64}}, payload.Options{Format: spec.JSON})
	if err != nil {
		t.Fatal(err)
	}
	opts := options(t, c, store)
	opts.Columns = columns
	run(t, opts)
	data := contents(t, store)["topics/orders/partition=0/orders+0+0000000000.parquet"]
	f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), "f")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(f.Columns(), " "), "kafka_partition kafka_offset kafka_timestamp id n"; got != want {
		t.Errorf("the columns are %s, want %s", got, want)
	}
	b, err := f.Read(parquetfile.ReadOptions{Columns: []string{"id", "n"}}).Next()
	if err != nil {
		t.Fatal(err)
	}
	if b.Len != 2 || string(b.Columns[0].Strings.At(0)) != "a" || !b.Columns[0].Nulls.Get(1) || b.Columns[1].Int64s[0] != 3 || b.Columns[1].Int64s[1] != 4 {
		t.Errorf("read %+v", b)
	}
	produce(`{"id":"c","n":"4"}`)
	opts = options(t, c, store)
	opts.Columns = columns
	if _, err := Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "offset 2: the value cannot be read: n: it is") || !strings.Contains(err.Error(), "without --job") {
		t.Errorf("it ended with %v", err)
	}
}
