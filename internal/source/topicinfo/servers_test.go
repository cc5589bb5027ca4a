//go:build servers

package topicinfo

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/plan"
	"hindcast/internal/preflight"
	"hindcast/internal/testenv/kafkaenv"
)

// TestServerAnswers asks real Kafka what the fake is asked elsewhere: settings, times, sizes, transactions that are open and that were aborted.
func TestServerAnswers(t *testing.T) {
	k := kafkaenv.Start(t, kafkaenv.Options{})
	cl := k.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 20_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 2, 1
	for name, value := range map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "1000000000", "message.timestamp.after.max.ms": "9223372036854775807"} {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		rt.Configs = append(rt.Configs, c)
	}
	create.Topics = append(create.Topics, rt)
	kafkaenv.Wait(t, "topic "+topic, func() bool {
		resp, err := create.RequestWith(t.Context(), cl)
		return err == nil && (resp.Topics[0].ErrorCode == 0 || resp.Topics[0].ErrorCode == kerr.TopicAlreadyExists.Code)
	})
	keyed := func(cl *kgo.Client, seconds ...int64) {
		t.Helper()
		for _, s := range seconds {
			r := &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v"), Timestamp: time.Unix(s, 0)}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	ended := func(cl *kgo.Client, end kgo.TransactionEndTry, seconds ...int64) {
		t.Helper()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		keyed(cl, seconds...)
		if err := cl.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	keyed(cl, 100, 300, 200, 4_000_000_000) // offsets 0-3, the last of 2096
	tx := k.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("tx"), kgo.TransactionTimeout(time.Minute))
	ended(tx, kgo.TryAbort, 260, 261) // 4, 5, the marker at 6
	ended(tx, kgo.TryCommit, 270)     // 7, the marker at 8
	remove := kmsg.NewPtrDeleteRecordsRequest()
	remove.TimeoutMillis = 20_000
	dt := kmsg.NewDeleteRecordsRequestTopic()
	dp := kmsg.NewDeleteRecordsRequestTopicPartition()
	dt.Topic, dp.Partition, dp.Offset = topic, 0, 1
	dt.Partitions = append(dt.Partitions, dp)
	remove.Topics = append(remove.Topics, dt)
	if _, err := remove.RequestWith(t.Context(), cl); err != nil {
		t.Fatal(err)
	}
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	keyed(tx, 280) // 9, open

	var f preflight.Facts
	kafkaenv.Wait(t, "the markers", func() bool {
		f = gather(t, cl, map[int32]plan.Ranges{0: {{First: 0, Next: 1}, {First: 5, Next: 7}, {First: 8, Next: 20}}})
		return f.Partitions[0].Stable == 9
	})
	if f.NotKnown != nil {
		t.Errorf("not known: %v", f.NotKnown)
	}
	for name, want := range map[string]string{
		"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "1000000000", "message.timestamp.type": "CreateTime",
		"remote.storage.enable": "false", "local.retention.ms": "-2", "local.retention.bytes": "-2",
	} {
		if f.Config[name] != want {
			t.Errorf("%s is %q, want %q", name, f.Config[name], want)
		}
	}
	p := f.Partitions[0]
	if p.Start != 1 || p.Bytes == 0 {
		t.Errorf("start %d, %d bytes", p.Start, p.Bytes)
	}
	if want := (preflight.Stamp{Offset: 1, Time: 300_000_000}); p.First == nil || *p.First != want {
		t.Errorf("the first record is %v, want %v", p.First, want)
	}
	if want := (preflight.Stamp{Offset: 3, Time: 4_000_000_000_000_000}); p.Latest == nil || *p.Latest != want {
		t.Errorf("the newest record is %v, want %v", p.Latest, want)
	}
	if len(p.Open) != 1 || p.Open[0].Since != 9 || p.Open[0].ID != "tx" || p.Open[0].Timeout != 60_000 {
		t.Errorf("open are %+v", p.Open)
	}
	if !slices.Equal(p.Aborted, []int64{4}) || p.Searched.String() != "5-7,8-10" {
		t.Errorf("aborted are %v, of %v", p.Aborted, p.Searched)
	}
	if want := (preflight.Stamp{Offset: 1, Time: 300_000_000}); p.Needed == nil || *p.Needed != want {
		t.Errorf("what is read first is of %v, want %v", p.Needed, want)
	}
	if empty := f.Partitions[1]; empty.First != nil || empty.Latest != nil || empty.Stable != 0 {
		t.Errorf("the empty partition is %+v", empty)
	}
}
