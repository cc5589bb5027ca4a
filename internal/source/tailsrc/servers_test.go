//go:build servers

package tailsrc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/payload"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source/brokers"
	"hindcast/internal/source/logbatch/batchtest"
	"hindcast/internal/spec"
	"hindcast/internal/testenv/kafkaenv"
)

// live is a topic of a real cluster.
type live struct {
	k    *kafkaenv.Cluster
	name string
	cl   *kgo.Client // a producer without transactions
}

func newLive(t *testing.T, k *kafkaenv.Cluster, copies int16, config map[string]string) *live {
	t.Helper()
	l := &live{k: k, name: strings.NewReplacer("/", ".", " ", "-").Replace(t.Name()), cl: k.Client(t)}
	l.create(t, copies, nil, config)
	return l
}

// newLiveAt has replicas on these nodes, of which the first leads.
func newLiveAt(t *testing.T, k *kafkaenv.Cluster, nodes []int32, config map[string]string) *live {
	t.Helper()
	l := &live{k: k, name: strings.NewReplacer("/", ".", " ", "-").Replace(t.Name()), cl: k.Client(t)}
	l.create(t, -1, nodes, config)
	return l
}

// create makes the topic, of one partition.
func (l *live) create(t *testing.T, copies int16, nodes []int32, config map[string]string) {
	t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = l.name, 1, copies
	if nodes != nil {
		topic.NumPartitions = -1
		at := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		at.Replicas = nodes
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, at)
	}
	for k, v := range config {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, &v
		topic.Configs = append(topic.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 20_000
	req.Topics = append(req.Topics, topic)
	// Just after a topic of that name was deleted, or before its brokers are known to live, this takes a moment.
	kafkaenv.Wait(t, "topic "+l.name, func() bool {
		resp, err := req.RequestWith(t.Context(), l.cl)
		if err != nil {
			t.Fatal(err)
		}
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) && !errors.Is(err, kerr.InvalidReplicationFactor) {
			t.Fatalf("create topic %s: %v %v", l.name, err, resp.Topics[0].ErrorMessage)
		}
		return err == nil
	})
	kafkaenv.Wait(t, "leaders of "+l.name, func() bool {
		d, err := describe(t.Context(), l.cl, l.name)
		return err == nil && len(d.leaders) == 1 && !slices.Contains(d.leaders, -1)
	})
}

func (l *live) remove(t *testing.T) {
	t.Helper()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &l.name
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 20_000
	req.Topics, req.TopicNames = append(req.Topics, topic), append(req.TopicNames, l.name)
	resp, err := req.RequestWith(t.Context(), l.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("delete topic %s: %v", l.name, err)
	}
}

// deleteRecords removes what lies before an offset of partition 0.
func (l *live) deleteRecords(t *testing.T, before int64) {
	t.Helper()
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = before
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic, topic.Partitions = l.name, append(topic.Partitions, p)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 20_000
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), l.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("delete records of %s: %v", l.name, err)
	}
}

// padded is event(n) with a member that nobody reads, so that a few of them fill an answer of the brokers.
func padded(n, pad int) string {
	return strings.TrimSuffix(event(n), "}") + `,"pad":"` + strings.Repeat("x", pad) + `"}`
}

// send appends events n to partition 0, each with its number as its record time in seconds, as read expects.
func (l *live) send(t *testing.T, cl *kgo.Client, pad int, n ...int) {
	t.Helper()
	var records []*kgo.Record
	for _, n := range n {
		records = append(records, &kgo.Record{Topic: l.name, Key: fmt.Appendf(nil, "%d", n), Value: []byte(padded(n, pad)), Timestamp: time.UnixMilli(int64(n) * 1000)})
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func (l *live) transact(t *testing.T, cl *kgo.Client, commit kgo.TransactionEndTry, n ...int) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	l.send(t, cl, 0, n...)
	if err := cl.EndTransaction(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
}

func (l *live) pin(t *testing.T) Pinned {
	t.Helper()
	pinned, err := Pin(bounded(t), brokers.At(l.k.Addrs()...), l.name, PinOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pinned
}

// options capture what was pinned of partition 0.
func (l *live) options(pinned Pinned) CaptureOptions {
	return CaptureOptions{
		ReadOptions: ReadOptions{
			Brokers: brokers.At(l.k.Addrs()...), Topic: l.name, TopicID: pinned.TopicID, From: pinned.Tails[0].Start, To: pinned.Tails[0].End,
			Pinned: &pinned.Tails[0], Partitions: len(pinned.Tails), Patience: 20 * time.Second,
		},
		Schema:    record.Schema{{Name: "n", Kind: record.Int64}, {Name: "at", Kind: record.Timestamp}},
		EventTime: "at", Payload: payload.Options{Format: spec.JSON}, Store: newStore(), Prefix: "captured", SegmentRows: 100,
	}
}

// bounded is a context with a time limit that no test comes near, even where nodes take half a minute to start.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// captureIn is Capture with a time limit, which is also on how long a refusal takes.
func captureIn(t *testing.T, opts CaptureOptions) ([]plan.Segment, error) {
	t.Helper()
	return Capture(bounded(t), opts)
}

// onFirstSegment runs do once a first segment is written.
func onFirstSegment(opts *CaptureOptions, do func()) {
	done := false
	opts.Store = blob.Hook(opts.Store, func(op blob.Op) error {
		if op.Done && !done && strings.HasSuffix(op.Key, ".parquet") {
			done = true
			do()
		}
		return nil
	})
}

// whole captures what was pinned and compares the rows, "offset:n", with want.
func (l *live) whole(t *testing.T, opts CaptureOptions, want string) {
	t.Helper()
	segments, err := captureIn(t, opts)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, opts, segments); got != want {
		t.Errorf("captured %.2000s\nwant %.2000s", got, want)
	}
}

func TestServerOneNode(t *testing.T) {
	k := kafkaenv.Start(t, kafkaenv.Options{Properties: map[string]string{
		"log.cleaner.backoff.ms": "100", "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
	}})
	for _, test := range []struct {
		name string
		run  func(t *testing.T, k *kafkaenv.Cluster)
	}{
		{"transactions", liveTransactions},
		{"a transaction that hangs", liveHanging},
		{"compacted", liveCompacted},
		{"records deleted while they are read", liveDeleted},
		{"topic recreated while it is read", liveRecreated},
		{"topic deleted while it is read", liveTopicDeleted},
		{"log append time", liveAppendTime},
		{"out of order and future times", liveTimes},
		{"partition added", livePartitionAdded},
		{"every codec", liveCodecs},
		{"broker killed and restarted", liveRestart},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, k) })
	}
}

// Aborted transactions, interleaved ones, an open one, and a marker as the last record.
func liveTransactions(t *testing.T, k *kafkaenv.Cluster) {
	l := newLive(t, k, 1, nil)
	a, b := k.Client(t, kgo.TransactionalID(l.name+"-a")), k.Client(t, kgo.TransactionalID(l.name+"-b"))
	l.transact(t, a, kgo.TryCommit, 0, 1, 2) // offsets 0-3, the marker at 3
	l.transact(t, a, kgo.TryAbort, 10, 11)   // 4-6
	if err := errors.Join(a.BeginTransaction(), b.BeginTransaction()); err != nil {
		t.Fatal(err)
	}
	l.send(t, a, 0, 20)                                                                                                            // 7
	l.send(t, b, 0, 30)                                                                                                            // 8
	l.send(t, a, 0, 21)                                                                                                            // 9
	if err := errors.Join(a.EndTransaction(t.Context(), kgo.TryAbort), b.EndTransaction(t.Context(), kgo.TryCommit)); err != nil { // 10, 11
		t.Fatal(err)
	}
	l.transact(t, b, kgo.TryAbort, 40) // 12-13
	pinned := l.pin(t)
	if tail := pinned.Tails[0]; tail.Start != 0 || tail.End != 14 {
		t.Fatalf("pinned %+v, want offsets 0-14", tail)
	}
	opts := l.options(pinned)
	l.whole(t, opts, "0:0 1:1 2:2 8:30")
	for _, r := range []struct {
		plan.Range
		want string
	}{{plan.Range{First: 12, Next: 14}, ""}, {plan.Range{First: 13, Next: 14}, ""}, {plan.Range{First: 5, Next: 9}, "8:30"}, {plan.Range{First: 3, Next: 4}, ""}} {
		opts := opts
		opts.From, opts.To, opts.Store = r.First, r.Next, newStore()
		l.whole(t, opts, r.want)
	}

	if err := a.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	l.send(t, a, 0, 50) // 14
	l.send(t, l.cl, 0, 60)
	began := time.Now()
	_, err := Pin(timeout(t), brokers.At(k.Addrs()...), l.name, PinOptions{Patience: 500 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "partition 0: a transaction at offset 14") || !strings.Contains(err.Error(), "since offset 14") {
		t.Errorf("with a transaction open: %v", err)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v to give up", d)
	}
	// What was pinned before is read although it is open.
	opts.Store = newStore()
	l.whole(t, opts, "0:0 1:1 2:2 8:30")
	if err := a.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	l.whole(t, l.options(l.pin(t)), "0:0 1:1 2:2 8:30 14:50 15:60")
}

// A producer that dies in the middle of a transaction: the broker ends it after its time, and pinning waits for that.
func liveHanging(t *testing.T, k *kafkaenv.Cluster) {
	l := newLive(t, k, 1, nil)
	l.send(t, l.cl, 0, 1)
	dying, err := kgo.NewClient(kgo.SeedBrokers(k.Addrs()...), kgo.TransactionalID(l.name), kgo.TransactionTimeout(2*time.Second), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	if err := dying.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	l.send(t, dying, 0, 2)
	dying.Close()
	l.send(t, l.cl, 0, 3)
	if _, err := Pin(timeout(t), brokers.At(k.Addrs()...), l.name, PinOptions{Patience: 100 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "a transaction at offset 1") {
		t.Errorf("with a transaction open: %v", err)
	}
	pinned := l.pin(t)
	if tail := pinned.Tails[0]; tail.End < 3 {
		t.Fatalf("pinned %+v, want the end at 3 or, if the marker was there, 4", tail)
	}
	opts := l.options(pinned)
	l.whole(t, opts, "0:1 2:3")
}

// Keys at the end of the range are removed after it was pinned: there is no record at its last offsets, and none to wait for.
func liveCompacted(t *testing.T, k *kafkaenv.Cluster) {
	l := newLive(t, k, 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "0", "delete.retention.ms": "0",
	})
	send := func(key string, n int) {
		t.Helper()
		r := &kgo.Record{Topic: l.name, Key: []byte(key), Value: []byte(event(n)), Timestamp: time.UnixMilli(int64(n) * 1000)}
		if err := l.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 10 {
		send(fmt.Sprint(n), n)
	}
	pinned := l.pin(t)
	if tail := pinned.Tails[0]; tail.Start != 0 || tail.End != 10 {
		t.Fatalf("pinned %+v, want offsets 0-10", tail)
	}
	for _, n := range []int{0, 1, 4, 8, 9} { // so the first, some in the middle, and the last are no longer
		send(fmt.Sprint(n), 100+n)
	}
	opts := l.options(pinned)
	var got string
	n := 200
	kafkaenv.Wait(t, "the log cleaner", func() bool {
		time.Sleep(110 * time.Millisecond)
		send("more", n) // rolls the segment, which the cleaner leaves alone while it is written to
		n++
		opts.Store = newStore()
		segments, err := captureIn(t, opts)
		if err != nil {
			t.Fatal(err)
		}
		got = read(t, opts, segments)
		return !strings.Contains(got, " 9:9")
	})
	if want := "2:2 3:3 5:5 6:6 7:7"; got != want {
		t.Errorf("captured %s, want %s", got, want)
	}
	// A range of removed records alone.
	opts.From, opts.Store = 8, newStore()
	l.whole(t, opts, "")
}

// filled is a topic whose first thousand records take several answers of the brokers.
func filled(t *testing.T, k *kafkaenv.Cluster, copies int16) *live {
	t.Helper()
	l := newLive(t, k, copies, nil)
	l.send(t, k.Client(t, kgo.ProducerBatchCompression(kgo.NoCompression())), 4000, count(0, 1000)...)
	return l
}

func liveDeleted(t *testing.T, k *kafkaenv.Cluster) {
	l := filled(t, k, 1)
	opts := l.options(l.pin(t))
	onFirstSegment(&opts, func() { l.deleteRecords(t, 900) })
	_, err := captureIn(t, opts)
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "-900 were deleted before they could be read, the log now starts at 900") {
		t.Errorf("captured with %v, want ErrChanged and the offsets", err)
	}
	// The next plan sees what is left.
	pinned := l.pin(t)
	if tail := pinned.Tails[0]; tail.Start != 900 || tail.End != 1000 {
		t.Errorf("pinned %+v, want 900-1000", tail)
	}
	l.deleteRecords(t, -1) // all
	pinned = l.pin(t)
	if tail := pinned.Tails[0]; tail.Start != 1000 || tail.End != 1000 {
		t.Errorf("pinned %+v, want 1000-1000", tail)
	}
}

func liveRecreated(t *testing.T, k *kafkaenv.Cluster) {
	l := filled(t, k, 1)
	opts := l.options(l.pin(t))
	onFirstSegment(&opts, func() {
		l.remove(t)
		l.create(t, 1, nil, nil)
		l.send(t, l.k.Client(t, kgo.ProducerBatchCompression(kgo.NoCompression())), 4000, count(5000, 6000)...)
	})
	began := time.Now()
	_, err := captureIn(t, opts)
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "was deleted and created again") {
		t.Errorf("captured with %v, want ErrChanged", err)
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("it took %v to see it", d)
	}
}

func liveTopicDeleted(t *testing.T, k *kafkaenv.Cluster) {
	l := filled(t, k, 1)
	opts := l.options(l.pin(t))
	onFirstSegment(&opts, func() { l.remove(t) })
	_, err := captureIn(t, opts)
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "it was deleted") {
		t.Errorf("captured with %v, want ErrChanged", err)
	}
}

// rows returns offset, record time and n of each row.
func liveRows(t *testing.T, opts CaptureOptions) (out []struct{ offset, at, n int64 }) {
	t.Helper()
	segments, err := captureIn(t, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range segments {
		data, _, err := blob.ReadAll(t.Context(), opts.Store, s.Key)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parquetfile.Open(bytes.NewReader(data), int64(len(data)), s.Key)
		if err != nil {
			t.Fatal(err)
		}
		in := f.Read(parquetfile.ReadOptions{})
		for {
			b, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for row := range b.Len {
				at := b.Columns[2].Int64s[row]
				for _, g := range s.RowGroups {
					if o := b.Columns[1].Int64s[row]; o >= g.First && o < g.Next && (at < g.RecordTime.Min || at > g.RecordTime.Max) {
						t.Errorf("offset %d, time %d lies outside of its group %+v", o, at, g)
					}
				}
				out = append(out, struct{ offset, at, n int64 }{b.Columns[1].Int64s[row], at, b.Columns[3].Int64s[row]})
			}
		}
	}
	return out
}

// The broker's clock is the record time, not the producer's.
func liveAppendTime(t *testing.T, k *kafkaenv.Cluster) {
	l := newLive(t, k, 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	before := time.Now().Truncate(time.Millisecond)
	l.send(t, l.cl, 0, count(0, 50)...)
	time.Sleep(5 * time.Millisecond)
	between := time.Now()
	l.send(t, l.cl, 0, count(50, 100)...)
	rows := liveRows(t, l.options(l.pin(t)))
	if len(rows) != 100 {
		t.Fatalf("captured %d rows, want 100", len(rows))
	}
	for i, r := range rows {
		at := time.UnixMicro(r.at)
		if r.offset != int64(i) || r.n != int64(i) || at.Before(before) || at.After(time.Now()) || i >= 50 && at.Before(between.Truncate(time.Millisecond)) {
			t.Errorf("row %d: %+v at %v, appended after %v", i, r, at, before)
		}
	}
}

// sendRaw appends a batch to partition 0.
func (l *live) sendRaw(t *testing.T, batch []byte) {
	t.Helper()
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	d, err := describe(t.Context(), l.cl, l.name)
	if err != nil {
		t.Fatal(err)
	}
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID, topic.Partitions = l.name, d.id, append(topic.Partitions, p)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 20_000
	req.Topics = append(req.Topics, topic)
	resp, err := l.cl.Broker(int(d.leaders[0])).Request(t.Context(), req)
	if err == nil {
		err = kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Record times may run backwards, lie ahead, and be a producer's microseconds that it took for milliseconds.
func liveTimes(t *testing.T, k *kafkaenv.Cluster) {
	l := newLive(t, k, 1, map[string]string{
		"message.timestamp.after.max.ms": fmt.Sprint(int64(1) << 60), "message.timestamp.before.max.ms": fmt.Sprint(int64(1) << 60), "retention.ms": "-1",
	})
	millis := []int64{1_700_000_000_000, 1_600_000_000_000, 4_102_444_800_000, 0, 1_700_000_000_001, 253_402_300_799_000, 1_700_000_000_000_000, 1}
	// The client library would wrap the far ones around: they are sent as they are.
	for n, at := range millis {
		l.sendRaw(t, batchtest.Batch{Values: []string{event(n)}, Timestamp: at}.Encode())
	}
	opts := l.options(l.pin(t))
	opts.SegmentRows, opts.RowGroupRows = 4, 2
	rows := liveRows(t, opts)
	if len(rows) != len(millis) {
		t.Fatalf("captured %d rows, want %d", len(rows), len(millis))
	}
	for i, r := range rows {
		if r.offset != int64(i) || r.n != int64(i) || r.at != millis[i]*1000 {
			t.Errorf("row %d: %+v, want time %d", i, r, millis[i]*1000)
		}
	}
}

func liveCodecs(t *testing.T, k *kafkaenv.Cluster) {
	l := newLive(t, k, 1, nil)
	n := 0
	for _, c := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		l.send(t, k.Client(t, kgo.ProducerBatchCompression(c)), 200, count(n, n+50)...)
		n += 50
	}
	l.whole(t, l.options(l.pin(t)), rowsOf(0, count(0, n)...))
}

// A broker that crashes in the middle and comes back is an outage, no more.
func liveRestart(t *testing.T, k *kafkaenv.Cluster) {
	l := filled(t, k, 1)
	opts := l.options(l.pin(t))
	opts.Patience = time.Minute
	back := make(chan struct{})
	t.Cleanup(func() { <-back })
	onFirstSegment(&opts, func() {
		k.Kill(1)
		go func() {
			defer close(back)
			time.Sleep(time.Second)
			k.Restart(t, 1)
		}()
	})
	l.whole(t, opts, rowsOf(0, count(0, 1000)...))
}

// A partition that is added while a run reads holds records that the plan knows nothing of, and moves keys from one partition to another.
func livePartitionAdded(t *testing.T, k *kafkaenv.Cluster) {
	l := filled(t, k, 1)
	opts := l.options(l.pin(t))
	onFirstSegment(&opts, func() {
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = l.name, 2
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis = 20_000
		req.Topics = append(req.Topics, topic)
		resp, err := req.RequestWith(t.Context(), l.cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if _, err := captureIn(t, opts); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "has 2 partitions and had 1: partition 1 was added") {
		t.Errorf("captured with %v, want ErrChanged and the partition", err)
	}
	// The next plan knows it.
	if pinned := l.pin(t); len(pinned.Tails) != 2 || pinned.Tails[1].End != 0 {
		t.Errorf("pinned %+v", pinned.Tails)
	}
}
