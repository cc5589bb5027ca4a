package tieredsrc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/blob/memblob"
	"hindcast/internal/source/tieredsrc/tieredtest"
)

// TestWhatABrokerHasIsReadAsAConsumerDoes holds what is read of a broker's own batches against what its consumer of committed records gets.
func TestWhatABrokerHasIsReadAsAConsumerDoes(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close) // after the clients
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(topic))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	n := 0
	produce := func(cl *kgo.Client, records int) {
		for range records {
			n++
			r := kgo.StringRecord(fmt.Sprint("v", n, strings.Repeat(" long", n%50)))
			if n%3 == 0 {
				r.Headers = []kgo.RecordHeader{{Key: "n", Value: []byte(fmt.Sprint(n))}}
			}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var txns []*kgo.Client
	for i := range 3 {
		cl := client(kgo.TransactionalID(fmt.Sprint("t", i)))
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		txns = append(txns, cl)
	}
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		cl := client(kgo.ProducerBatchCompression(codec))
		produce(cl, 5)
		for j, txn := range txns {
			produce(txn, 1+j)
			if (i+j)%2 == 0 {
				if err := txn.EndTransaction(t.Context(), kgo.TransactionEndTry((i/2+j)%2 == 0)); err != nil {
					t.Fatal(err)
				}
				if err := txn.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for j, txn := range txns {
		if err := txn.EndTransaction(t.Context(), kgo.TransactionEndTry(j > 0)); err != nil {
			t.Fatal(err)
		}
	}
	produce(client(), 1)
	end := cluster.PartitionInfo(topic, 0).HighWatermark

	// All that is in the log, as it is there.
	raw := client()
	var batches [][]byte
	for at := int64(0); at < end; {
		req := kmsg.NewPtrFetchRequest()
		req.MinBytes, req.MaxBytes, req.SessionEpoch = 1, 1<<20, -1
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.TopicID = topic, cluster.TopicInfo(topic).TopicID
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.FetchOffset, rp.PartitionMaxBytes = at, 1<<20
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, err := raw.Broker(0).Request(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tieredtest.Split(resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches)
		if err != nil || len(got) == 0 {
			t.Fatal(len(got), err)
		}
		batches = append(batches, got...)
		at = ends(t, got[len(got)-1:])[0]
	}

	consumer := client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var want []string
	for last := int64(-1); last < end-1; {
		fetches := consumer.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			want = append(want, fmt.Sprintf("%d:%s", r.Offset, r.Value))
			last = r.Offset
		})
	}

	all := ends(t, batches)
	store := memblob.New()
	w := aiven(store)
	w.Compress = true
	segments := cut(t, batches, all[5], all[20], all[21], all[40])
	for i, s := range segments {
		put(t, w, 0, s)
		l := list(t, store, options())
		to := l.Find(0).Handover(0)
		got, err := read(t, l, 0, 0, to)
		if err != nil {
			t.Fatal(err)
		}
		if have := strings.Join(want, " "); !strings.HasPrefix(have+" ", got+" ") && got != "" {
			t.Errorf("%d segments, to %d: %q, want the beginning of %q", i+1, to, got, have)
		}
		if i == len(segments)-1 && (to != end || got != strings.Join(want, " ")) {
			t.Errorf("to %d of %d: %q, want %q", to, end, got, want)
		}
	}
	if len(want) < 40 || int64(len(want)) > end-20 {
		t.Errorf("%d records of %d offsets: nothing was aborted", len(want), end)
	}
}

// ends are the offsets after each batch.
func ends(t *testing.T, batches [][]byte) []int64 {
	t.Helper()
	var out []int64
	for _, b := range batches {
		s := cut(t, [][]byte{b})
		out = append(out, s[0].Next)
	}
	return out
}
