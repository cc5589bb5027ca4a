package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/preflight"
	"hindcast/internal/step"
)

// brokered is a small log whose tail real clients read: four records are exported, six are on the brokers.
type brokered struct {
	*smallLog
	cluster *kfake.Cluster
	recs    []rec
}

func newBrokered(t *testing.T, config map[string]string) *brokered {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.CreateTopic(smallTopic, 1, config); err != nil {
		t.Fatal(err)
	}
	b := &brokered{newSmallLog(t), c, inOrder(
		0, 0, rec{ID: "a", At: "2024-05-01T10:00:00Z"}, rec{ID: "b", At: "2024-05-01T11:00:00Z"}, rec{ID: "c", At: "2024-05-02T10:00:00Z"},
		rec{ID: "d", At: "2024-05-02T11:00:00Z"}, rec{ID: "e", At: "2024-05-03T10:00:00Z"}, rec{ID: "f", At: "2024-05-03T11:00:00Z"})}
	b.segment(b.recs[:4]...)
	b.produce(b.recs...)
	return b
}

func (b *brokered) produce(recs ...rec) {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	for _, r := range recs {
		value := jsonOf(b.t, map[string]any{"id": r.ID, "at": r.At, "shop": r.Shop, "amount": r.Amount})
		if err := cl.ProduceSync(b.t.Context(), &kgo.Record{Topic: smallTopic, Partition: r.Partition, Value: value, Timestamp: r.recordTime(b.t)}).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// job reads the segments and the brokers.
func (b *brokered) job() job.Job {
	b.t.Helper()
	b.put(b.tailFile(), nil)
	b.hasTail = true
	j := b.smallLog.job(smallJob{Tables: map[string]string{"seen": "day UTC"}})
	return changedJob(b.t, j, map[string]string{"embedded:" + b.tailFile(): b.cluster.ListenAddrs()[0]}, nil)
}

func (b *brokered) do(list []job.Job, verb string, args ...string) result {
	b.t.Helper()
	args = append([]string{verb, "visits", "--from", "2024-05-01", "--to", "2024-05-04", "--workspace", filepath.Join(b.dir, "ws")}, args...)
	return hindcastWith(b.t, list, args...)
}

func TestPreflightOfALogThatIsWell(t *testing.T) {
	b := newBrokered(t, map[string]string{"retention.ms": "-1"})
	list := []job.Job{b.job()}
	if out := b.do(list, "plan").ok(t).out; !strings.Contains(out, "preflight 7 of 7 ok\n") || strings.Contains(out, "WARN") {
		t.Errorf("the plan says\n%s", out)
	}
	if out := b.do(list, "run").ok(t).out; strings.Contains(out, "preflight") {
		t.Errorf("a run of which all is well says\n%s", out)
	}
	b.do(list, "plan", "--accept", "compacted").exits(t, exitRefused).has(t, "accepted by --accept compacted, but there is nothing to accept")
	b.do(list, "plan", "--accept", "compaction").exits(t, exitUsage).has(t, `"compaction" is no finding of the preflight: they are compacted, deleted, retention`)
}

// A compacted topic is refused until a person accepts it by name; that is shown wherever the run is.
func TestPreflightRefusesACompactedTopicUntilItIsAccepted(t *testing.T) {
	b := newBrokered(t, map[string]string{"cleanup.policy": "compact"})
	list := []job.Job{b.job()}
	refused := b.do(list, "plan").exits(t, exitRefused)
	for _, want := range []string{"preflight 6 of 7 ok", "REFUSED  compacted    topic visits is compacted (cleanup.policy=compact)", "do: use segments"} {
		if !strings.Contains(refused.out, want) {
			t.Errorf("the plan says\n%s\nwithout %q", refused.out, want)
		}
	}
	refused.has(t, "preflight: the log cannot be taken for the truth:\n  compacted: topic visits is compacted", "as a flag of a new run: --accept compacted")
	var doc struct {
		Exit int
		Data step.Summary
	}
	if err := json.Unmarshal([]byte(b.do(list, "plan", "--json").exits(t, exitRefused).out), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Exit != exitRefused || len(doc.Data.Preflight) != 7 || doc.Data.Preflight[0].State != preflight.Refuse {
		t.Errorf("--json says %+v", doc)
	}
	b.do(list, "run").exits(t, exitRefused).has(t, "compacted: topic visits is compacted")

	const accepted = "accepted compacted    topic visits is compacted"
	if out := b.do(list, "plan", "--accept", "compacted").ok(t).out; !strings.Contains(out, accepted) || strings.Contains(out, "do: use segments") {
		t.Errorf("the plan says\n%s", out)
	}
	run := b.do(list, "run", "--accept", "compacted", "--json").ok(t).status(t)
	if f := run.Preflight[0]; !f.Accepted || f.Rule != preflight.Compacted {
		t.Errorf("the run says %+v", f)
	}
	out := hindcastWith(t, list, "status", run.Run, "--workspace", filepath.Join(b.dir, "ws")).ok(t).out
	if !strings.Contains(out, accepted) {
		t.Errorf("status says\n%s", out)
	}
}

// Retention that has passed what is to be read is said before anything is begun, with what to do.
func TestPreflightHoldsRetentionAgainstWhatIsRead(t *testing.T) {
	b := newBrokered(t, nil) // which is Kafka's own default, of seven days
	b.do([]job.Job{b.job()}, "plan").exits(t, exitRefused).has(t,
		"retention: retention.ms=604800000 (7d) has passed what is to be read: partition 0, offset 4, may be deleted at any moment", "keep the log longer", "--accept retention")
}

// What brokers do not let us ask is not known; that is said, and never ok.
func TestPreflightSaysWhatIsNotKnown(t *testing.T) {
	b := newBrokered(t, map[string]string{"retention.ms": "-1"})
	list := []job.Job{b.job()}
	h := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	want := "preflight 4 of 7 ok; not known: compacted, retention, clock (the brokers do not allow to ask: TOPIC_AUTHORIZATION_FAILED"
	if out := b.do(list, "plan").ok(t).out; !strings.Contains(out, want) {
		t.Errorf("the plan says\n%s\nwithout %q", out, want)
	}
	if out := b.do(list, "run", "--accept", "clock").ok(t).out; !strings.Contains(out, "not known: compacted, retention, clock (accepted) (the brokers") {
		t.Errorf("the run says\n%s", out)
	}
	h.Remove()

	b.hasTail = false
	exports := []job.Job{b.smallLog.job(smallJob{Tables: map[string]string{"seen": "day UTC"}})}
	want = "preflight 3 of 7 ok; not known: compacted, uncommitted, clock, partitions (the job has no tail, so no broker was asked)\n"
	if out := b.do(exports, "plan").ok(t).out; !strings.Contains(out, want) {
		t.Errorf("without a tail the plan says\n%s\nwithout %q", out, want)
	}
}

// Exports that were made with read_uncommitted have records that no one else sees: the brokers still know which.
func TestPreflightFindsAbortedRecordsAmongTheExports(t *testing.T) {
	b := newBrokered(t, map[string]string{"retention.ms": "-1"})
	never := rec{ID: "never", At: "2024-05-03T12:00:00Z", Offset: 6}
	b.abort(never)                                      // the marker is offset 7
	b.produce(rec{ID: "g", At: "2024-05-03T13:00:00Z"}) // offset 8
	b.segment(append(slices.Clone(b.recs[4:]), never)...)
	list := []job.Job{b.job()}
	b.do(list, "plan").exits(t, exitRefused).has(t, "preflight 6 of 7 ok\n",
		"uncommitted: the exports hold records of aborted transactions: partition 0 has offset 6, with which an aborted transaction begins",
		"consumer.override.isolation.level=read_committed", "--accept uncommitted")
	b.do(list, "run", "--accept", "uncommitted").ok(t).has(t, "accepted uncommitted")
}

// A hole in a compacted log refuses the plan by itself; why it is there is said beside it.
func TestAGapInACompactedLogIsToldWithItsCause(t *testing.T) {
	b := newBrokered(t, map[string]string{"cleanup.policy": "compact"})
	if err := b.cluster.DeleteRecords(smallTopic, 0, 5); err != nil {
		t.Fatal(err)
	}
	r := b.do([]job.Job{b.job()}, "plan").exits(t, exitRefused)
	r.has(t, "the brokers begin at 5", "--accept-gap 0:4-5", "compacted: topic visits is compacted")
	b.do([]job.Job{b.job()}, "plan", "--accept-gap", "0:4-5", "--accept", "compacted").ok(t)
}

// abort appends records, and a marker, in a transaction that is given up.
func (b *brokered) abort(recs ...rec) {
	b.t.Helper()
	b.begin(recs...)(kgo.TryAbort)
}

// begin sends records in a transaction, which is open until it is told how to end.
func (b *brokered) begin(recs ...rec) (end func(kgo.TransactionEndTry)) {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("tx"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	err = cl.BeginTransaction()
	for _, r := range recs {
		value := jsonOf(b.t, map[string]any{"id": r.ID, "at": r.At, "shop": r.Shop, "amount": r.Amount})
		err = errors.Join(err, cl.ProduceSync(b.t.Context(), &kgo.Record{Topic: smallTopic, Partition: r.Partition, Value: value, Timestamp: r.recordTime(b.t)}).FirstErr())
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return func(how kgo.TransactionEndTry) {
		b.t.Helper()
		if err := cl.EndTransaction(b.t.Context(), how); err != nil {
			b.t.Error(err)
		}
	}
}

// A transaction that is open is told of soon, and waited for: what it decides belongs to the log. When it has ended, the plan has its records.
func TestAnOpenTransactionIsToldOfWhileItIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBrokered(t, map[string]string{"retention.ms": "-1"})
	list := []job.Job{b.job()}
	end := b.begin(rec{ID: "g", At: "2024-05-03T12:00:00Z"})
	var out, errs bytes.Buffer
	heard := &onWrite{w: &errs, do: func(text string) {
		if strings.HasPrefix(text, "waiting  for the transaction that is open at offset 6 of topic visits, partition 0 (producer ") {
			end(kgo.TryCommit)
		}
	}}
	ws := filepath.Join(b.dir, "ws")
	args := []string{"run", "visits", "--from", "2024-05-01", "--to", "2024-05-04", "--promote", "--workspace", ws}
	if code := run(t.Context(), args, IO{Out: &out, Err: heard}, local.Options{Jobs: list}); code != 0 {
		t.Fatalf("exit code %d:\n%s%s", code, out.String(), errs.String())
	}
	if rows := tableRows(t, list, ws, "seen"); len(rows) != 8 || rows[7][column(t, rows, "id")] != "g" {
		t.Errorf("the table has %q; on stderr:\n%s", rows, errs.String())
	}
}

// onWrite shows what is written before it passes on.
type onWrite struct {
	w  io.Writer
	do func(string)
}

func (o *onWrite) Write(b []byte) (int, error) {
	o.do(string(b))
	return o.w.Write(b)
}
