//go:build servers

package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/blob"
	"hindcast/internal/job"
	"hindcast/internal/local"
	"hindcast/internal/testenv/kafkaenv"
)

// What happens to logs of real Kafka, at the command line.
func TestServerLogs(t *testing.T) {
	k := kafkaenv.Start(t, kafkaenv.Options{Nodes: 3, Properties: map[string]string{"log.cleaner.backoff.ms": "100"}})
	t.Run("archived in several calls", func(t *testing.T) { archivedOverCalls(t, k) })
	t.Run("truncated under a run by an unclean election", func(t *testing.T) { truncatedUnderARun(t, k) })
}

// liveLog is a topic of one partition, of events whose ids are all different. They happen now: markers bear the time of now, too, and a segment
// is not rolled while times go backwards.
type liveLog struct {
	t     *testing.T
	k     *kafkaenv.Cluster
	cl    *kgo.Client // a producer without transactions
	topic string
	n     int
}

// newLiveLog has replicas on these nodes, of which the first leads.
func newLiveLog(t *testing.T, k *kafkaenv.Cluster, topic string, nodes []int32, config map[string]string) *liveLog {
	t.Helper()
	l := &liveLog{t: t, k: k, cl: k.Client(t), topic: topic}
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, -1, -1
	at := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	at.Replicas = nodes
	rt.ReplicaAssignment = append(rt.ReplicaAssignment, at)
	for name, v := range config {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &v
		rt.Configs = append(rt.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 20_000, append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), l.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	kafkaenv.Wait(t, "the leader of "+topic, func() bool { return l.partition().Leader == nodes[0] })
	return l
}

func (l *liveLog) partition() kmsg.MetadataResponseTopicPartition {
	l.t.Helper()
	req, rt := kmsg.NewPtrMetadataRequest(), kmsg.NewMetadataRequestTopic()
	rt.Topic = &l.topic
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(l.t.Context(), l.cl)
	if err != nil || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return kmsg.NewMetadataResponseTopicPartition()
	}
	return resp.Topics[0].Partitions[0]
}

// send appends an event for each key, and returns their ids.
func (l *liveLog) send(cl *kgo.Client, keys ...string) (sent []string) {
	l.t.Helper()
	for _, key := range keys {
		r := rec{ID: fmt.Sprintf("e%03d", l.n), At: time.Now().UTC().Format(time.RFC3339Nano), Shop: key, Amount: 1}
		l.n++
		sent = append(sent, r.ID)
		if err := cl.ProduceSync(l.t.Context(), &kgo.Record{Topic: l.topic, Key: []byte(key), Value: []byte(value(l.t, r))}).FirstErr(); err != nil {
			l.t.Fatal(err)
		}
	}
	return sent
}

func (l *liveLog) transact(cl *kgo.Client, how kgo.TransactionEndTry, keys ...string) {
	l.t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		l.t.Fatal(err)
	}
	l.send(cl, keys...)
	if err := cl.EndTransaction(l.t.Context(), how); err != nil {
		l.t.Fatal(err)
	}
}

// consumed are the ids of what a consumer that reads committed records gets from offset 0 to the end of now, which is a record of its own.
func (l *liveLog) consumed() (got []string) {
	l.t.Helper()
	cl := l.k.Client(l.t, kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: {0: kgo.NewOffset().At(0)}}))
	defer cl.Close()
	end := l.send(l.cl, fmt.Sprint("end ", l.n))[0]
	for {
		fetches := cl.PollFetches(l.t.Context())
		if err := fetches.Err(); err != nil {
			l.t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			_, id, _ := strings.Cut(string(r.Value), `"id":"`)
			id, _, _ = strings.Cut(id, `"`)
			if got = append(got, id); id == end {
				return got
			}
		}
	}
}

// segmentsBelow has the contents of an archive's segments. What a call that was killed has asked the store with may lie beside them.
func segmentsBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".parquet" {
			return err
		}
		b, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A compacted topic with aborted transactions is archived in two calls, records coming in between, of which the second is killed
// twice: the archive is what undisturbed calls leave, and a job over it, without brokers, has what a consumer from offset 0 gets.
func archivedOverCalls(t *testing.T, k *kafkaenv.Cluster) {
	l := newLiveLog(t, k, "archived", []int32{1}, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "0", "delete.retention.ms": "0",
	})
	tx := k.Client(t, kgo.TransactionalID("archived"))
	// compacted waits for the cleaner, which leaves the segment alone that is written to. No two records behind have one key.
	compacted := func(gone string) {
		t.Helper()
		kafkaenv.Wait(t, "the log cleaner", func() bool {
			time.Sleep(110 * time.Millisecond)
			l.send(l.cl, fmt.Sprint("more ", l.n))
			return !slices.Contains(l.consumed(), gone)
		})
	}
	first := l.send(l.cl, "k0", "k1", "k2", "k3")
	l.transact(tx, kgo.TryAbort, "k0", "a1", "a2")
	l.transact(tx, kgo.TryCommit, "c1", "k1") // e001 goes
	l.send(l.cl, "k2")                        // e002 goes
	compacted(first[2])

	dir := t.TempDir()
	call := func(to string) []string {
		return []string{"archive", l.topic, "--brokers", strings.Join(k.Addrs(), ","), "--to", to, "--records-per-segment", "3", "--workspace", filepath.Join(dir, "ws")}
	}
	to, undisturbed := filepath.Join(dir, "archive"), filepath.Join(dir, "undisturbed")
	hindcast(t, call(to)...).ok(t)
	if err := os.CopyFS(undisturbed, os.DirFS(to)); err != nil {
		t.Fatal(err)
	}

	second := l.send(l.cl, "n0", "n1", "n2")
	l.transact(tx, kgo.TryAbort, "n3", "n4")
	l.send(l.cl, "n1", "n5") // the first of them goes
	compacted(second[1])
	l.transact(tx, kgo.TryAbort, "n6") // so that a marker is the last record
	want := l.consumed()
	l.transact(tx, kgo.TryAbort, "n7")

	for _, side := range []int{5, 4} { // of a durable effect: the first two of a call ask the store for its conditions
		if !crashesAt(t, side, call(to)...) {
			t.Errorf("the call had ended before effect %d", side)
		}
	}
	r := reported(t, hindcast(t, append(call(to), "--json")...).ok(t))
	hindcast(t, call(undisturbed)...).ok(t)
	if want, got := segmentsBelow(t, undisturbed), segmentsBelow(t, to); !maps.Equal(want, got) || len(got) < 5 {
		t.Errorf("there are the segments %v\nwant %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	if last := r.Partitions[0]; last.First != 0 || last.Records == 0 || last.Records >= int64(len(want)) {
		t.Errorf("the last call reports %+v, of %d records", last, len(want))
	}
	if again := reported(t, hindcast(t, append(call(to), "--json")...).ok(t)); again.Segments != 0 {
		t.Errorf("without new records it reports %+v", again)
	}

	small := &smallLog{t: t, dir: to}
	j := changedJob(t, small.job(smallJob{Tables: map[string]string{"events": "bucket id 2"}}), map[string]string{
		"topic: " + smallTopic: "topic: " + l.topic, "naming: kafka-connect": "naming: kafka-connect, value: { column: value, format: json }",
	}, nil)
	list, ws := []job.Job{j}, filepath.Join(dir, "ws")
	hindcastWith(t, list, "run", "visits", "--promote", "--workspace", ws).ok(t)
	got := strings.Fields(ids(t, list, ws))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the table has %v\nwant %v", got, want)
	}
	if slices.Contains(want, first[2]) || slices.Contains(want, second[1]) || len(want) < 10 {
		t.Errorf("the consumer has %v", want)
	}
}

// While a run reads, a replica is elected that lacks most of the log, and takes in others under the same offsets. The run is refused, whoever resumes
// it; a new one has the log that is there now.
func truncatedUnderARun(t *testing.T, k *kafkaenv.Cluster) {
	l := newLiveLog(t, k, "truncated", []int32{1, 2}, map[string]string{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
	keys := func(n int) []string { return slices.Repeat([]string{"x"}, n) }
	kept := l.send(l.cl, keys(5)...)
	k.Kill(2)
	kafkaenv.Wait(t, "the follower to fall out", func() bool { return slices.Equal(l.partition().ISR, []int32{1}) })
	lost := l.send(l.cl, keys(5)...)

	small := newSmallLog(t)
	small.put(small.tailFile(), nil)
	small.hasTail = true
	j := changedJob(t, small.job(smallJob{Tables: map[string]string{"events": "bucket id 2"}}), map[string]string{
		"topic: " + smallTopic: "topic: " + l.topic, fmt.Sprintf("%q", "embedded:"+small.tailFile()): "$KAFKA",
	}, nil)
	t.Setenv("KAFKA", strings.Join(k.Addrs(), ","))
	list, ws := []job.Job{j}, filepath.Join(t.TempDir(), "ws")
	args := []string{"run", "visits", "--promote", "--workspace", ws}
	done := false
	opts := local.Options{Jobs: list, Wrap: func(s blob.Store) blob.Store {
		return blob.Hook(s, func(op blob.Op) error {
			if op.Done && !done && strings.HasSuffix(op.Key, "/plan.json") {
				done = true
				k.Kill(1)
				k.Restart(t, 2)
				kafkaenv.Wait(t, "the unclean election", func() bool { return l.partition().Leader == 2 })
				l.send(k.Client(t), keys(10)...) // offsets 5-15
			}
			return nil
		})
	}}
	r := hindcastUnder(t, opts, args...).exits(t, exitRefused).has(t, "the log was truncated at offset 5, though it had offsets up to 10", "start a new run")
	hindcastWith(t, list, "resume", runOf(t, r), "--workspace", ws).exits(t, exitRefused).has(t, "the log was truncated at offset 5")
	hindcastWith(t, list, "table", "cat", "events", "--workspace", ws).exits(t, exitError)

	hindcastWith(t, list, args...).ok(t)
	got := strings.Fields(ids(t, list, ws))
	slices.Sort(got)
	if want := l.n - len(lost); len(got) != want || !slices.Equal(got[:5], kept) || slices.ContainsFunc(got, func(id string) bool { return slices.Contains(lost, id) }) {
		t.Errorf("the table has %v, want all of %d but %v", got, l.n, lost)
	}
}
