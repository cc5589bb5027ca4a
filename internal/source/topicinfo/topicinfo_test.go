package topicinfo

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/plan"
	"hindcast/internal/preflight"
)

const topic = "orders"

func start(t *testing.T, config map[string]string) (*kfake.Cluster, *kgo.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.CreateTopic(topic, 2, config); err != nil {
		t.Fatal(err)
	}
	return c, client(t, c)
}

func client(t *testing.T, c *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// send appends records to partition 0, with the seconds since 1970 as their times.
func send(t *testing.T, cl *kgo.Client, seconds ...int64) {
	t.Helper()
	for _, s := range seconds {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: time.Unix(s, 0)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func transact(t *testing.T, cl *kgo.Client, end kgo.TransactionEndTry, seconds ...int64) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	send(t, cl, seconds...)
	if err := cl.EndTransaction(t.Context(), end); err != nil {
		t.Fatal(err)
	}
}

func gather(t *testing.T, cl *kgo.Client, search map[int32]plan.Ranges) preflight.Facts {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	f, err := Gather(ctx, cl, topic, 2, Look{Needed: map[int32]int64{0: 1}, Search: search})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestGather(t *testing.T) {
	c, cl := start(t, map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "5000", "retention.bytes": "1000000"})
	send(t, cl, 100, 300, 200, 250) // offsets 0-3
	tx := client(t, c, kgo.TransactionalID("tx"), kgo.TransactionTimeout(30*time.Second))
	transact(t, tx, kgo.TryAbort, 260)  // 4, the marker at 5
	transact(t, tx, kgo.TryCommit, 270) // 6, the marker at 7
	if err := c.DeleteRecords(topic, 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	send(t, tx, 280) // 8, open

	f := gather(t, cl, map[int32]plan.Ranges{0: {{First: 0, Next: 1}, {First: 4, Next: 6}, {First: 7, Next: 20}}})
	if f.NotKnown != nil || !f.Asked {
		t.Fatalf("%+v", f)
	}
	for name, want := range map[string]string{
		"cleanup.policy": "compact,delete", "retention.ms": "5000", "retention.bytes": "1000000", "message.timestamp.type": "CreateTime",
	} {
		if f.Config[name] != want {
			t.Errorf("%s is %q, want %q", name, f.Config[name], want)
		}
	}
	p := f.Partitions[0]
	if p.Start != 1 || p.Stable != 8 || p.Bytes == 0 {
		t.Errorf("start %d, stable %d, %d bytes", p.Start, p.Stable, p.Bytes)
	}
	if want := (preflight.Stamp{Offset: 1, Time: 300_000_000}); p.First == nil || *p.First != want {
		t.Errorf("the first record is %v, want %v", p.First, want)
	}
	// The brokers' own markers count, too, by the brokers' clock.
	if p.Latest == nil || p.Latest.Offset < 5 || time.Since(time.UnixMicro(p.Latest.Time)).Abs() > time.Minute {
		t.Errorf("the newest record is %v", p.Latest)
	}
	if len(p.Open) != 1 || p.Open[0].Since != 8 || p.Open[0].ID != "tx" || p.Open[0].Timeout != 30_000 {
		t.Errorf("open are %+v", p.Open)
	}
	if !slices.Equal(p.Aborted, []int64{4}) || p.Searched.String() != "4-6,7-9" {
		t.Errorf("aborted are %v, of %v", p.Aborted, p.Searched)
	}
	if want := (preflight.Stamp{Offset: 1, Time: 300_000_000}); p.Needed == nil || *p.Needed != want {
		t.Errorf("what is read first is of %v, want %v", p.Needed, want)
	}
	if empty := f.Partitions[1]; !reflect.DeepEqual(empty, preflight.PartitionFacts{}) {
		t.Errorf("the empty partition is %+v", empty)
	}
}

// An aborted transaction that begins in what was exported and ends behind it shows in what the brokers say of the offset behind.
func TestAbortedTransactionsThatReachIntoTheExportsAreSeen(t *testing.T) {
	c, cl := start(t, nil)
	send(t, cl, 1, 2)
	tx := client(t, c, kgo.TransactionalID("tx"))
	transact(t, tx, kgo.TryAbort, 3, 4, 5) // 2-4; exported up to 4
	f := gather(t, cl, map[int32]plan.Ranges{0: {{First: 4, Next: 5}}})
	if p := f.Partitions[0]; !slices.Equal(p.Aborted, []int64{2}) || p.Searched.String() != "4-5" {
		t.Errorf("%+v", p)
	}
}

// What brokers refuse to answer is told by question, and the rest is asked all the same.
func TestWhatIsNotAnsweredIsNotKnown(t *testing.T) {
	c, cl := start(t, map[string]string{"retention.bytes": "1000"})
	send(t, cl, 1)
	for q, key := range map[preflight.Question]kmsg.Key{
		preflight.AskConfig: kmsg.DescribeConfigs, preflight.AskOffsets: kmsg.ListOffsets, preflight.AskProducers: kmsg.DescribeProducers,
		preflight.AskAborted: kmsg.Fetch,
	} {
		h := c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		f := gather(t, cl, map[int32]plan.Ranges{0: {{First: 0, Next: 1}}})
		h.Remove()
		if !strings.Contains(f.NotKnown[q], "do not allow to ask") {
			t.Errorf("%s: not known are %v", q, f.NotKnown)
		}
		if (f.Config == nil) != (q == preflight.AskConfig) {
			t.Errorf("%s: the settings are %v", q, f.Config)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Gather(ctx, cl, topic, 2, Look{}); err == nil {
		t.Error("gathered, though interrupted")
	}
}

// Asking changes nothing: no group, no topic, no commit.
func TestOnlyQuestionsAreAsked(t *testing.T) {
	c, cl := start(t, nil)
	send(t, cl, 1, 2)
	asking := client(t, c)
	var mu sync.Mutex
	kinds := map[string]bool{}
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		kinds[kmsg.NameForKey(req.Key())] = true
		return nil, nil, false
	})
	gather(t, asking, map[int32]plan.Ranges{0: {{First: 1, Next: 3}}})
	mu.Lock()
	defer mu.Unlock()
	for kind := range kinds {
		if !slices.Contains([]string{"ApiVersions", "Metadata", "DescribeConfigs", "ListOffsets", "DescribeProducers", "Fetch"}, kind) {
			t.Errorf("a request %s was made", kind)
		}
	}
}
