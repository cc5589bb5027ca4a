package tailsrc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/blob"
	"hindcast/internal/plan"
	"hindcast/internal/record"
	"hindcast/internal/source/brokers"
)

func TestCaptureIsBounded(t *testing.T) {
	c := start(t)
	cl := producer(t, c)
	send(t, cl, count(0, 40)...)
	send(t, cl, count(40, 100)...)
	seen := watch(c)
	for _, r := range []plan.Range{{First: 0, Next: 100}, {First: 7, Next: 93}, {First: 39, Next: 41}, {First: 99, Next: 100}, {First: 5, Next: 5}} {
		opts := options(c, newStore(), r.First, r.Next)
		segments := capt(t, opts)
		if got, want := read(t, opts, segments), rowsOf(int(r.First), count(int(r.First), int(r.Next))...); got != want {
			t.Errorf("%v: captured %s, want %s", r, got, want)
		}
	}
	// Production is never touched: no group, no commit, nothing but questions.
	want := []string{"ApiVersions", "Fetch", "Metadata"}
	if got := slices.Sorted(maps.Keys(seen.kinds)); !slices.Equal(got, want) {
		t.Errorf("capturing made the requests %v, want %v", got, want)
	}
}

// TestCaptureCuts proves that where segments end depends on the records alone, and what an attempt that died leaves to the next.
func TestCaptureCuts(t *testing.T) {
	c := start(t)
	cl := producer(t, c)
	for n := 0; n < 100; n += 20 {
		send(t, cl, count(n, n+20)...)
	}
	whole := options(c, newStore(), 0, 100)
	whole.SegmentRows, whole.RowGroupRows = 30, 8
	want := capt(t, whole)
	if len(want) != 4 || len(want[0].RowGroups) != 4 || want[3].Rows != 10 {
		t.Fatalf("cut into %+v", want)
	}
	if got := read(t, whole, want); got != rowsOf(0, count(0, 100)...) {
		t.Errorf("captured %s", got)
	}
	for kill := range 4 {
		for _, done := range []bool{false, true} { // before the put, and after it with its reply lost
			store := newStore()
			opts := whole
			var puts int
			died := errors.New("died")
			opts.Store = blob.Hook(store, func(op blob.Op) error {
				if op.Done != done {
					return nil
				}
				if puts++; puts == kill+1 {
					return died
				}
				return nil
			})
			_, err := Capture(timeout(t), opts)
			if !done && !errors.Is(err, died) {
				t.Fatalf("put %d failed: %v", kill, err)
			}
			if done && err != nil {
				t.Fatalf("the reply to put %d was lost, what lies there is right, but: %v", kill, err)
			}
			opts.Store = store
			seen := watch(c)
			got := capt(t, opts)
			if !equalSegments(got, want) {
				t.Errorf("put %d failed (done: %v), and the next attempt gave\n%+v, want\n%+v", kill, done, got, want)
			}
			same(t, store, whole.Store)
			for _, o := range seen.fetched {
				if o < int64(kill*30) {
					t.Errorf("put %d failed, and the next attempt fetched from offset %d again", kill, o)
				}
			}
		}
	}
}

func equalSegments(a, b []plan.Segment) bool { return reflect.DeepEqual(a, b) }

// same compares the contents of two stores.
func same(t *testing.T, a, b blob.Store) {
	t.Helper()
	contents := func(s blob.Store) map[string][]byte {
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
	if x, y := contents(a), contents(b); !maps.EqualFunc(x, y, bytes.Equal) {
		t.Errorf("the objects differ: %v, %v", slices.Sorted(maps.Keys(x)), slices.Sorted(maps.Keys(y)))
	}
}

// TestCaptureTransactions has what makes readers wait for ever: markers and aborted records at the end, in the middle, alone.
func TestCaptureTransactions(t *testing.T) {
	c := start(t)
	cl := producer(t, c, kgo.TransactionalID("tx"))
	transact(t, cl, kgo.TryCommit, 0, 1, 2) // offsets 0-3, the marker at 3
	transact(t, cl, kgo.TryAbort, 10, 11)   // 4-6
	transact(t, cl, kgo.TryAbort, 12)       // 7-8
	transact(t, cl, kgo.TryCommit, 20, 21)  // 9-11
	transact(t, cl, kgo.TryAbort, 30)       // 12-13
	pinned, err := Pin(timeout(t), brokers.At(c.ListenAddrs()...), topicName, PinOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (plan.Tail{Partition: 0, Start: 0, End: 14}); pinned.Tails[0] != want {
		t.Fatalf("pinned %+v, want %+v", pinned.Tails[0], want)
	}
	for _, test := range []struct {
		from, to int64
		want     string
		rows     []int64 // of the segments, cut at two
	}{
		{0, 14, "0:0 1:1 2:2 9:20 10:21", []int64{2, 2, 1}},
		{0, 4, "0:0 1:1 2:2", []int64{2, 1}}, // a marker is the last record
		{2, 10, "2:2 9:20", []int64{2}},
		{5, 11, "9:20 10:21", []int64{2}}, // from the middle of an aborted one
		{4, 9, "", []int64{0}},            // nothing but what was aborted
		{13, 14, "", []int64{0}},          // nothing but a marker
	} {
		opts := options(c, newStore(), test.from, test.to)
		opts.SegmentRows = 2
		segments := capt(t, opts)
		if got := read(t, opts, segments); got != test.want {
			t.Errorf("%d-%d: captured %q, want %q", test.from, test.to, got, test.want)
		}
		var rows []int64
		for _, s := range segments {
			rows = append(rows, s.Rows)
		}
		if !slices.Equal(rows, test.rows) {
			t.Errorf("%d-%d: segments of %v rows, want %v", test.from, test.to, rows, test.rows)
		}
		if again := capt(t, opts); !equalSegments(again, segments) {
			t.Errorf("%d-%d: captured again, the segments are %+v, were %+v", test.from, test.to, again, segments)
		}
	}
}

func TestPinWaitsForOpenTransactions(t *testing.T) {
	c := start(t)
	send(t, producer(t, c), 0, 1)
	cl := producer(t, c, kgo.TransactionalID("tx"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	send(t, cl, 2)
	send(t, producer(t, c), 3) // decided, but behind what is not
	_, err := Pin(timeout(t), brokers.At(c.ListenAddrs()...), topicName, PinOptions{Patience: 100 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "partition 0: a transaction at offset 2") || !strings.Contains(err.Error(), "since offset 2") ||
		!strings.Contains(err.Error(), "up to its end 4: ") || !strings.Contains(err.Error(), "abort --topic orders --partition 0 --start-offset 2;") {
		t.Errorf("with a transaction open: %v", err)
	}
	var told []string
	pinned, err := Pin(timeout(t), brokers.At(c.ListenAddrs()...), topicName, PinOptions{Waiting: func(what string) {
		if told = append(told, what); len(told) == 1 { // it ends when somebody has heard of it
			if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
				t.Error(err)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^for the transaction that is open at offset 2 of topic orders, partition 0 \(producer .*\): (2m0|1m\d+)s more at most$`)
	if len(told) != 1 || !want.MatchString(told[0]) {
		t.Errorf("told %q", told)
	}
	opts := options(c, newStore(), pinned.Tails[0].Start, pinned.Tails[0].End)
	if got, want := read(t, opts, capt(t, opts)), rowsOf(0, 0, 1, 2, 3); got != want {
		t.Errorf("pinned %+v and captured %s, want %s", pinned.Tails[0], got, want)
	}
}

func TestPin(t *testing.T) {
	c := start(t)
	send(t, producer(t, c), count(0, 10)...)
	if err := c.DeleteRecords(topicName, 0, 4); err != nil {
		t.Fatal(err)
	}
	pinned, err := Pin(timeout(t), brokers.At(c.ListenAddrs()...), topicName, PinOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []plan.Tail{{Partition: 0, Start: 4, End: 10}, {Partition: 1}}
	if !slices.Equal(pinned.Tails, want) || pinned.TopicID != idText(c.TopicInfo(topicName).TopicID) || len(pinned.TopicID) != 22 {
		t.Errorf("pinned %+v, want %+v", pinned, want)
	}
	if _, err := Pin(timeout(t), brokers.At(c.ListenAddrs()...), "ordres", PinOptions{}); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("a topic that does not exist: %v", err)
	}
	if c.TopicInfo("ordres") != nil {
		t.Error("asking for a topic has created it")
	}
	if _, err := Pin(timeout(t), brokers.Access{}, topicName, PinOptions{}); err == nil {
		t.Error("no brokers: pinned")
	}
}

// TestCaptureOfChangedTopic proves that a log that is no longer what was pinned is named, and never a shorter result.
func TestCaptureOfChangedTopic(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(t *testing.T, c *kfake.Cluster)
		want   string
	}{
		{"records deleted", func(t *testing.T, c *kfake.Cluster) {
			if err := c.DeleteRecords(topicName, 0, 15); err != nil {
				t.Fatal(err)
			}
		}, "offsets 10-15 were deleted before they could be read, the log now starts at 15"},
		{"all deleted", func(t *testing.T, c *kfake.Cluster) {
			if err := c.DeleteRecords(topicName, 0, 30); err != nil {
				t.Fatal(err)
			}
		}, "offsets 10-20 were deleted"},
		{"topic deleted", func(t *testing.T, c *kfake.Cluster) {
			if err := c.DeleteTopic(topicName); err != nil {
				t.Fatal(err)
			}
		}, "does not exist"},
		{"topic recreated", func(t *testing.T, c *kfake.Cluster) {
			if err := errors.Join(c.DeleteTopic(topicName), c.CreateTopic(topicName, 2, nil)); err != nil {
				t.Fatal(err)
			}
			send(t, producer(t, c), count(0, 30)...)
		}, "was deleted and created again"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := start(t)
			send(t, producer(t, c), count(0, 30)...)
			opts := options(c, newStore(), 10, 20)
			test.change(t, c)
			_, err := Capture(timeout(t), opts)
			if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("captured with %v, want ErrChanged and %q", err, test.want)
			}
		})
	}
	t.Run("topic recreated with fewer partitions", func(t *testing.T) {
		c := start(t)
		opts := options(c, newStore(), 10, 20)
		opts.Partition, opts.Partitions = 1, 2
		if err := errors.Join(c.DeleteTopic(topicName), c.CreateTopic(topicName, 1, nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := Capture(timeout(t), opts); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "was deleted and created again") {
			t.Errorf("captured with %v, want ErrChanged", err)
		}
	})
	t.Run("partition added", func(t *testing.T) {
		c := start(t)
		send(t, producer(t, c), count(0, 30)...)
		opts := options(c, newStore(), 10, 20)
		opts.Partitions = 2
		capt(t, opts)
		opts.Store = newStore()
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = topicName, 4
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Topics = append(req.Topics, topic)
		if _, err := req.RequestWith(t.Context(), producer(t, c)); err != nil {
			t.Fatal(err)
		}
		_, err := Capture(timeout(t), opts)
		if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "has 4 partitions and had 2: partition 2 was added") {
			t.Errorf("captured with %v, want ErrChanged and the partition", err)
		}
	})
	t.Run("truncated and filled again", func(t *testing.T) {
		c := start(t, kfake.NumBrokers(3))
		cl := producer(t, c)
		send(t, cl, count(0, 10)...)
		pinned, err := Pin(timeout(t), brokers.At(c.ListenAddrs()...), topicName, PinOptions{})
		if err != nil {
			t.Fatal(err)
		}
		opts := options(c, newStore(), 0, 10)
		opts.Pinned = &pinned.Tails[0]
		// A leader that is elected in good order changes nothing.
		if err := c.MoveTopicPartition(topicName, 0, (c.LeaderFor(topicName, 0)+1)%3); err != nil {
			t.Fatal(err)
		}
		send(t, cl, count(10, 30)...)
		if got, want := read(t, opts, capt(t, opts)), rowsOf(0, count(0, 10)...); got != want {
			t.Errorf("captured %s, want %s", got, want)
		}
		// As if the log had had 20 offsets before it moved: ten of them are others now.
		longer := pinned.Tails[0]
		longer.End = 20
		opts.To, opts.Pinned, opts.Store = 20, &longer, newStore()
		_, err = Capture(timeout(t), opts)
		if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "the log was truncated at offset 10, though it had offsets up to 20") {
			t.Errorf("captured with %v, want ErrChanged and the offset", err)
		}
		// Where the brokers do not answer that question, the records show it.
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetForLeaderEpoch}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		_, err = Capture(timeout(t), opts)
		if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "offset 10 was taken in by the leader of epoch") {
			t.Errorf("captured with %v, want ErrChanged and the offset", err)
		}
		longer.Epoch = -1 // brokers that know of no epochs
		opts.Store = newStore()
		if got, want := read(t, opts, capt(t, opts)), rowsOf(0, count(0, 20)...); got != want {
			t.Errorf("captured %s, want %s", got, want)
		}
	})
	t.Run("deleted before the range", func(t *testing.T) {
		c := start(t)
		send(t, producer(t, c), count(0, 30)...)
		if err := c.DeleteRecords(topicName, 0, 10); err != nil {
			t.Fatal(err)
		}
		opts := options(c, newStore(), 10, 20)
		if got, want := read(t, opts, capt(t, opts)), rowsOf(10, count(10, 20)...); got != want {
			t.Errorf("captured %s, want %s", got, want)
		}
	})
	t.Run("truncated", func(t *testing.T) {
		c := start(t)
		send(t, producer(t, c), count(0, 30)...)
		for _, from := range []int64{10, 30, 35} { // with records before the end, at it, past it
			_, err := Capture(timeout(t), options(c, newStore(), from, 40))
			if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "the log ends at offset 30 but had offsets up to 40") {
				t.Errorf("from %d: captured with %v", from, err)
			}
		}
	})
	t.Run("recreated while capturing", func(t *testing.T) {
		c := start(t)
		for n := range 30 {
			send(t, producer(t, c), n)
		}
		opts := options(c, newStore(), 0, 30)
		opts.SegmentRows = 5
		opts.Store = blob.Hook(opts.Store, func(op blob.Op) error {
			if op.Done && strings.HasSuffix(op.Key, "+0000000005.parquet") {
				return errors.Join(c.DeleteTopic(topicName), c.CreateTopic(topicName, 2, nil))
			}
			return nil
		})
		if _, err := Capture(timeout(t), opts); !errors.Is(err, ErrChanged) {
			t.Errorf("captured with %v, want ErrChanged", err)
		}
	})
	t.Run("other records than an attempt before saw", func(t *testing.T) {
		c := start(t)
		send(t, producer(t, c), count(0, 30)...)
		opts := options(c, newStore(), 0, 30)
		key := "runs/r1/tail/partition=0/orders+0+0000000000.parquet"
		// Between the look at what is there and the put, another attempt wrote something else.
		inner := newStore()
		opts.Store = blob.Hook(inner, func(blob.Op) error {
			_, err := blob.PutBytes(t.Context(), inner, key, []byte("other"), blob.Condition{})
			return err
		})
		if _, err := Capture(timeout(t), opts); !errors.Is(err, ErrChanged) {
			t.Errorf("captured with %v, want ErrChanged", err)
		}
	})
}

// TestCaptureOutlastsFailures has brokers that fail for a while, and a leader that moves.
func TestCaptureOutlastsFailures(t *testing.T) {
	c := start(t, kfake.NumBrokers(3))
	cl := producer(t, c)
	for n := range 30 {
		send(t, cl, n)
	}
	for _, e := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicID, kerr.KafkaStorageError} {
		opts := options(c, newStore(), 0, 30)
		opts.Patience = 5 * time.Second
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: e, Count: 2})
		if got, want := read(t, opts, capt(t, opts)), rowsOf(0, count(0, 30)...); got != want {
			t.Errorf("%s: captured %s", e.Message, got)
		}
	}
	opts := options(c, newStore(), 0, 30)
	opts.SegmentRows = 5
	opts.Patience = 5 * time.Second
	moved := 0
	opts.Store = blob.Hook(opts.Store, func(op blob.Op) error {
		if op.Done {
			moved++
			return c.MoveTopicPartition(topicName, 0, (c.LeaderFor(topicName, 0)+1)%3)
		}
		return nil
	})
	if got, want := read(t, opts, capt(t, opts)), rowsOf(0, count(0, 30)...); got != want || moved != 6 {
		t.Errorf("after %d moves: captured %s, want %s", moved, got, want)
	}

	for _, e := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.TopicAuthorizationFailed, kerr.UnknownServerError} {
		h := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: e, Count: -1})
		if _, err := Capture(timeout(t), options(c, newStore(), 0, 30)); !errors.Is(err, e) {
			t.Errorf("%s for ever: %v", e.Message, err)
		}
		h.Remove()
	}
}

func TestCaptureThrottles(t *testing.T) {
	c := start(t)
	cl := producer(t, c)
	for n := 0; n < 40; n += 10 {
		send(t, cl, count(n, n+10)...)
	}
	opts := options(c, newStore(), 0, 40)
	opts.RecordsPerSecond = 40 // a burst of as many goes at once
	began := time.Now()
	capt(t, opts)
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("40 records at 40 a second, with a burst of 40, took %v", d)
	}
	opts.Store, opts.RecordsPerSecond = newStore(), 20
	began = time.Now()
	capt(t, opts)
	if d := time.Since(began); d < 900*time.Millisecond {
		t.Errorf("40 records at 20 a second, with a burst of 20, took %v", d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	opts.Store, opts.RecordsPerSecond = newStore(), 1
	if _, err := Capture(ctx, opts); err == nil {
		t.Error("captured past the context's deadline")
	}
}

// given are records that lie somewhere else than on brokers.
type given struct {
	records [][]*kgo.Record
	covered int64
}

func (g *given) Next(context.Context) ([]*kgo.Record, error) {
	if len(g.records) == 0 {
		return nil, io.EOF
	}
	next := g.records[0]
	g.records = g.records[1:]
	return next, nil
}

func (g *given) Covered() int64 { return g.covered }

// TestCaptureFromElsewhere has a store that holds the offsets, so that no broker is asked: what is written is the same.
func TestCaptureFromElsewhere(t *testing.T) {
	c := start(t)
	cl := producer(t, c, kgo.TransactionalID("tx"))
	transact(t, cl, kgo.TryCommit, count(0, 25)...) // offsets 0-25
	transact(t, cl, kgo.TryAbort, 100)              // 26-27
	transact(t, cl, kgo.TryCommit, count(25, 40)...)
	brokered := options(c, newStore(), 3, 30)
	brokered.SegmentRows = 8
	want := capt(t, brokered)

	var fetched [][]*kgo.Record
	for n := range 40 {
		offset := n
		if n >= 25 {
			offset += 3
		}
		fetched = append(fetched, []*kgo.Record{{
			Topic: topicName, Offset: int64(offset), Value: []byte(event(n)), Timestamp: time.UnixMilli(int64(n) * 1000),
		}})
	}
	elsewhere := options(c, newStore(), 3, 30)
	elsewhere.SegmentRows, elsewhere.Brokers, elsewhere.TopicID = 8, brokers.Access{}, ""
	var asked []int64
	elsewhere.Read = func(_ context.Context, from int64) (Records, error) {
		asked = append(asked, from)
		g := &given{covered: 30}
		for _, r := range fetched {
			if o := r[0].Offset; o >= from && o < 30 {
				g.records = append(g.records, r)
			}
		}
		return g, nil
	}
	if got := capt(t, elsewhere); !equalSegments(got, want) {
		t.Errorf("captured %+v, want %+v", got, want)
	}
	same(t, elsewhere.Store, brokered.Store)
	if got := capt(t, elsewhere); !equalSegments(got, want) || !slices.Equal(asked, []int64{3, 3}) {
		t.Errorf("captured again: %+v, reading from %v", got, asked)
	}
	elsewhere.Store = newStore()
	elsewhere.Read = func(context.Context, int64) (Records, error) { return &given{covered: 29}, nil }
	if _, err := Capture(timeout(t), elsewhere); err == nil || !strings.Contains(err.Error(), "the records end at offset 29, before the range does") {
		t.Errorf("records that end early: %v", err)
	}
	lost := errors.New("lost")
	elsewhere.Read = func(context.Context, int64) (Records, error) { return nil, lost }
	if _, err := Capture(timeout(t), elsewhere); !errors.Is(err, lost) {
		t.Errorf("records that are not there: %v", err)
	}
}

func TestCaptureOfBadValues(t *testing.T) {
	c := start(t)
	cl := producer(t, c)
	for n, v := range [][]byte{
		[]byte(event(0)), nil, []byte(`{"n":1.5,"at":"2024-01-01T00:00:00Z"}`), []byte(event(3)),
		append([]byte{0, 0, 0, 0, 7}, event(4)...), []byte(`{"n":5}`), []byte(`{"n":6,"at":"2024-01-01T00:00:00Z","other":[{"n":"}"}]}`),
	} {
		r := &kgo.Record{Topic: topicName, Value: v, Timestamp: time.UnixMilli(int64(n) * 1000)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	opts := options(c, newStore(), 0, 7)
	opts.RowGroupRows = 3
	segments := capt(t, opts)
	want := "0:0 1:the record has no value (a tombstone) 2:n: it is 1.5, expected an integer of 64 bits 3:3 " +
		"4:the value is no JSON: invalid character '\\x00' looking for beginning of value; it begins as values of a schema registry do, and only plain JSON is read: give the format avro if it is Avro " +
		`5:at: it is missing, expected an RFC 3339 time with its zone, as "2011-11-01T08:26:00Z" 6:6`
	if got := read(t, opts, segments); got != want {
		t.Errorf("captured\n%s, want\n%s", got, want)
	}
	var timed []bool
	for _, g := range segments[0].RowGroups {
		timed = append(timed, g.Timed)
	}
	if !slices.Equal(timed, []bool{false, false, true}) {
		t.Errorf("groups are timed: %v", timed)
	}
}

func TestCaptureRefuses(t *testing.T) {
	c := start(t)
	for name, change := range map[string]func(*CaptureOptions){
		"a format that is not built": func(o *CaptureOptions) { o.Payload.Format = "protobuf" },
		"a range backwards":          func(o *CaptureOptions) { o.From = 5 },
		"an event time of no column": func(o *CaptureOptions) { o.EventTime = "when" },
		"an event time of integers":  func(o *CaptureOptions) { o.EventTime = "n" },
		"a column of Hindcast's own": func(o *CaptureOptions) {
			o.Schema = append(o.Schema[:2:2], record.Field{Name: "kafka_offset", Kind: record.Int64})
		},
		"a column twice":                   func(o *CaptureOptions) { o.Schema = append(o.Schema[:2:2], o.Schema[0]) },
		"a negative rate":                  func(o *CaptureOptions) { o.RecordsPerSecond = -1 },
		"no brokers":                       func(o *CaptureOptions) { o.Brokers = brokers.Access{} },
		"a partition that does not exist":  func(o *CaptureOptions) { o.Partition = 2 },
		"brokers that nobody listens for":  func(o *CaptureOptions) { o.Brokers = brokers.At("127.0.0.1:1") },
		"a topic that is no longer pinned": func(o *CaptureOptions) { o.TopicID = "AAAAAAAAAAAAAAAAAAAAAA" },
	} {
		opts := options(c, newStore(), 0, 1)
		change(&opts)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := Capture(ctx, opts); err == nil {
			t.Errorf("%s: captured", name)
		}
		cancel()
	}
}
