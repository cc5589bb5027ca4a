//go:build servers

package tailsrc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/blob"
	"hindcast/internal/blob/fileblob"
	"hindcast/internal/plan"
	"hindcast/internal/source/tieredsrc"
	"hindcast/internal/testenv/kafkaenv"
)

// TestServerTieredStore has Kafka move its segments to a store, and captures from there what is there and from the brokers what is not: the rows are
// those of a consumer from offset 0, and the brokers are asked for no offset that the store has.
func TestServerTieredStore(t *testing.T) {
	dir := t.TempDir()
	k := kafkaenv.Start(t, kafkaenv.Options{LogRequests: true, Properties: map[string]string{
		"remote.log.storage.system.enable":                                 "true",
		"remote.log.storage.manager.class.name":                            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
		"rsm.config.dir":                                                   dir,
		"remote.log.metadata.manager.listener.name":                        "PLAINTEXT",
		"remote.log.manager.task.interval.ms":                              "300",
		"rlmm.config.remote.log.metadata.topic.replication.factor":         "1",
		"rlmm.config.remote.log.metadata.topic.num.partitions":             "1",
		"rlmm.config.remote.log.metadata.initialization.retry.interval.ms": "300",
		"log.initial.task.delay.ms":                                        "300",
		"log.retention.check.interval.ms":                                  "300",
	}})
	// A segment is full when its index has three entries, one a batch.
	l := newLive(t, k, 1, map[string]string{
		"remote.storage.enable": "true", "segment.index.bytes": "36", "index.interval.bytes": "1", "local.retention.bytes": "1",
	})
	a, b := k.Client(t, kgo.TransactionalID("a")), k.Client(t, kgo.TransactionalID("b"))
	n := 0
	send := func(cl *kgo.Client, batches int) {
		t.Helper()
		for range batches {
			l.send(t, cl, 10, count(n, n+3)...)
			n += 3
		}
	}
	for i := range 5 {
		if err := errors.Join(a.BeginTransaction(), b.BeginTransaction()); err != nil {
			t.Fatal(err)
		}
		send(a, 2)
		send(l.cl, 1)
		send(b, 3)
		if err := a.EndTransaction(t.Context(), kgo.TransactionEndTry(i%2 == 0)); err != nil {
			t.Fatal(err)
		}
		send(b, 1)
		if err := b.EndTransaction(t.Context(), kgo.TransactionEndTry(i%3 == 0)); err != nil {
			t.Fatal(err)
		}
		send(l.cl, 2)
	}
	send(l.cl, 12) // so that the last transaction's end comes to lie in the store
	l.pin(t)       // waits for the last marker, which comes after the answer to who ends a transaction
	end := l.pin(t).Tails[0].End
	kafkaenv.Wait(t, "the segments to be in the store alone", func() bool { return l.localStart(t) > end-30 })

	pinned := l.pin(t)
	tail := pinned.Tails[0]
	if tail.Start != 0 || tail.End != end {
		t.Fatalf("pinned %+v, want offsets 0-%d", tail, end)
	}
	store, err := fileblob.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	prefix := ""
	for info, err := range blob.All(t.Context(), store, "") {
		if err != nil {
			t.Fatal(err)
		}
		if folder, _, ok := strings.Cut(info.Key, "/"); ok && !strings.HasPrefix(folder, l.name) {
			prefix = folder + "/" // Kafka puts all into a folder of the store's
		}
	}
	stored, err := tieredsrc.List(t.Context(), store, tieredsrc.Options{Topic: l.name, TopicID: pinned.TopicID, Layout: tieredsrc.Local, Prefixes: []string{prefix}})
	if err != nil {
		t.Fatal(err)
	}
	handover := stored.Find(0).Handover(0)
	// The brokers forget only what the store has, so that they serve none of it from there either.
	if held := stored.Find(0).Segments; handover != held[len(held)-1].Range.Next || handover >= end || handover < l.localStart(t) {
		t.Fatalf("the store has offsets 0-%d of %d, the brokers' own begin at %d", handover, end, l.localStart(t))
	}
	t.Logf("the store has offsets 0-%d of %d in %d segments, the brokers' own begin at %d", handover, end, len(stored.Find(0).Segments), l.localStart(t))

	opts := l.options(pinned)
	opts.SegmentRows = 20
	fromStore, fromBrokers := opts, opts
	fromStore.To, fromBrokers.From = handover, handover
	fromStore.Read = func(ctx context.Context, from int64) (Records, error) { return stored.Read(ctx, 0, from, handover) }
	segments := map[bool][]plan.Segment{}
	for brokered, opts := range map[bool]CaptureOptions{false: fromStore, true: fromBrokers} {
		if segments[brokered], err = captureIn(t, opts); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, fromStore, segments[false]) + " " + read(t, fromBrokers, segments[true])
	if want := l.consume(t, end); got != want {
		t.Errorf("captured %s\nwant %s", got, want)
	}

	ours, reference := fetched(t, k.Log(t, 1), "hindcast"), fetched(t, k.Log(t, 1), "reference")
	if len(ours) == 0 || slices.Min(ours) < handover || slices.Max(ours) >= end {
		t.Errorf("the brokers were asked for the offsets %v, want some of %d-%d", ours, handover, end)
	}
	if len(reference) == 0 || slices.Min(reference) != 0 {
		t.Errorf("the consumer asked for the offsets %v: they do not begin at 0, so that the brokers' log shows nothing", reference)
	}
	t.Logf("%d requests for records, from offset %d; the consumer made %d", len(ours), slices.Min(ours), len(reference))

	// Without the store the brokers get the same from it: slowly, and none of it is lost.
	opts.Store = newStore()
	l.whole(t, opts, got)
}

// localStart is the first offset that lies on the broker's own disk.
func (l *live) localStart(t *testing.T) int64 {
	t.Helper()
	const atLocalStart = -4 // KIP-405
	tails, err := list(t.Context(), l.cl, l.name, 1, atLocalStart, false)
	if err != nil {
		t.Fatal(err)
	}
	return tails[0].End
}

// consume returns what a consumer that reads committed records gets from offset 0 on, "offset:n" a record.
func (l *live) consume(t *testing.T, to int64) string {
	t.Helper()
	cl := l.k.Client(t, kgo.ClientID("reference"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.name: {0: kgo.NewOffset().At(0)}}))
	ctx := bounded(t)
	var out []string
	for next := int64(0); next < to; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("consume at %d of %d: %v", next, to, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if next = r.Offset + 1; !r.Attrs.IsControl() {
				out = append(out, fmt.Sprintf("%d:%s", r.Offset, r.Key))
			}
		})
	}
	return strings.Join(out, " ")
}

// fetched returns the offsets that a client has asked a broker for, by the broker's log.
func fetched(t *testing.T, log, client string) []int64 {
	t.Helper()
	var out []int64
	for line := range strings.Lines(log) {
		_, request, ok := strings.Cut(line, "Completed request:")
		if !ok {
			continue
		}
		var r struct {
			RequestHeader struct {
				ClientID          string `json:"clientId"`
				RequestAPIKeyName string `json:"requestApiKeyName"`
			} `json:"requestHeader"`
			Request struct {
				Topics []struct {
					Partitions []struct {
						FetchOffset int64 `json:"fetchOffset"`
					} `json:"partitions"`
				} `json:"topics"`
			} `json:"request"`
		}
		// Requests of other kinds have other topics.
		if !strings.Contains(request, `"requestApiKeyName":"FETCH"`) {
			continue
		}
		if err := json.Unmarshal([]byte(request), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if r.RequestHeader.ClientID != client {
			continue
		}
		for _, topic := range r.Request.Topics {
			for _, p := range topic.Partitions {
				out = append(out, p.FetchOffset)
			}
		}
	}
	return out
}
