//go:build servers

package tieredsrc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/blob/fileblob"
	"hindcast/internal/source/tieredsrc"
	"hindcast/internal/testenv/kafkaenv"
)

// TestServerTieredSegmentsAndTheRestAreWhatAConsumerGets has real Kafka copy its segments by LocalTieredStorage and forget them.
func TestServerTieredSegmentsAndTheRestAreWhatAConsumerGets(t *testing.T) {
	dir := t.TempDir()
	k := kafkaenv.Start(t, kafkaenv.Options{Nodes: 2, Properties: map[string]string{
		"remote.log.storage.system.enable":                                 "true",
		"remote.log.storage.manager.class.name":                            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
		"remote.log.metadata.manager.listener.name":                        "PLAINTEXT",
		"remote.log.manager.task.interval.ms":                              "300",
		"rsm.config.dir":                                                   dir,
		"rlmm.config.remote.log.metadata.topic.replication.factor":         "1",
		"rlmm.config.remote.log.metadata.topic.num.partitions":             "1",
		"rlmm.config.remote.log.metadata.initialization.retry.interval.ms": "300",
		"log.initial.task.delay.ms":                                        "300",
		"log.retention.check.interval.ms":                                  "300",
	}})
	cl := k.Client(t)
	adm := kadm.NewClient(cl)
	value := func(s string) *string { return &s }
	// A segment ends when its index is full: after three batches.
	config := map[string]*string{
		"remote.storage.enable": value("true"), "segment.index.bytes": value("36"), "index.interval.bytes": value("1"), "local.retention.bytes": value("1"),
		"retention.ms": value("-1"), "unclean.leader.election.enable": value("false"),
	}
	kafkaenv.Wait(t, "the topic", func() bool {
		resp, err := adm.CreateTopic(t.Context(), 1, 2, config, topic)
		if err != nil && !strings.Contains(err.Error(), "REPLICATION") && !strings.Contains(err.Error(), "EXISTS") {
			t.Fatal(err, resp.ErrMessage)
		}
		return err == nil
	})
	n := 0
	send := func(cl *kgo.Client, records int) {
		for range records {
			n++
			r := &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "v%d%s", n, strings.Repeat(" and more", n%40)), Timestamp: time.UnixMilli(int64(n))}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin := func(cl *kgo.Client) {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	end := func(cl *kgo.Client, commit bool) {
		if err := cl.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)); err != nil {
			t.Fatal(err)
		}
	}
	a, b := k.Client(t, kgo.TransactionalID("a")), k.Client(t, kgo.TransactionalID("b"), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	lead(t, adm, 1)
	send(cl, 4)
	for i := range 4 {
		begin(a)
		begin(b)
		send(a, 2)
		send(cl, 2)
		send(b, 3)
		end(a, i%2 == 0)
		send(b, 1)
		if i == 1 {
			lead(t, adm, 2) // and goes on in other segments
			send(cl, 3)
		}
		send(cl, 1)
		end(b, i%2 == 1)
	}
	send(cl, 2)
	begin(a)
	begin(b)
	send(a, 2)
	send(cl, 8)
	end(a, false) // with its records in one segment, and its marker in another
	send(b, 1)
	send(cl, 2)
	end(b, true)

	// Until all but the last segment, which is written to, is in the store, and there only.
	var local, last kadm.ListedOffset
	kafkaenv.Wait(t, "the copies", func() bool {
		ends, err := adm.ListEndOffsets(t.Context(), topic)
		locals, err2 := adm.ListLocalLogStartOffsets(t.Context(), topic)
		if err := errors.Join(err, err2); err != nil {
			return false
		}
		last, _ = ends.Lookup(topic, 0)
		local, _ = locals.Lookup(topic, 0)
		return local.Offset > last.Offset-15
	})
	t.Logf("the log ends at %d, the brokers' own at %d", last.Offset, local.Offset)

	store, err := fileblob.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := keys(t, store)
	prefix := names[0][:strings.Index(names[0], topic)]
	t.Logf("%d objects, such as %s", len(names), names[0])
	l := list(t, store, tieredsrc.Options{Topic: topic, Layout: tieredsrc.Local, Prefixes: []string{prefix}})
	p := l.Find(0)
	handover := p.Handover(0)
	t.Logf("%d segments: %s, epochs %v, stale %v", len(p.Segments), describe(p), p.Epochs, p.Stale)
	if len(p.Segments) < 10 || handover < last.Offset-30 || handover > local.Offset || len(p.Epochs) < 2 {
		t.Errorf("%d segments, up to %d of %d, epochs %v", len(p.Segments), handover, last.Offset, p.Epochs)
	}
	got, err := read(t, l, 0, 0, handover)
	if err != nil {
		t.Fatal(err)
	}
	rest := consume(t, k, handover, last.Offset)
	if got != "" && rest != "" {
		got += " "
	}
	if want := consume(t, k, 0, last.Offset); got+rest != want {
		t.Errorf("the segments give %q and the brokers %q, want %q", got, rest, want)
	}
}

// lead makes a node the leader.
func lead(t *testing.T, adm *kadm.Client, id int32) {
	t.Helper()
	var move kadm.AlterPartitionAssignmentsReq
	move.Assign(topic, 0, []int32{id, 3 - id})
	if _, err := adm.AlterPartitionAssignments(t.Context(), move); err != nil {
		t.Fatal(err)
	}
	kafkaenv.Wait(t, "another leader", func() bool {
		_, err := adm.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, kadm.TopicsSet{topic: {0: {}}})
		topics, err2 := adm.ListTopics(t.Context(), topic)
		return errors.Join(err, err2) == nil && topics[topic].Partitions[0].Leader == id
	})
}

// consume returns the committed records of a range as "offset:value".
func consume(t *testing.T, k *kafkaenv.Cluster, from, to int64) string {
	t.Helper()
	cl := k.Client(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out []string
	for next := from; next < to; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("consume at %d of %d: %v", next, to, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				out = append(out, fmt.Sprintf("%d:%s", r.Offset, r.Value))
			}
		})
	}
	return strings.Join(out, " ")
}
