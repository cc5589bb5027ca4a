//go:build servers

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/blob"
	"hindcast/internal/blob/openblob"
	"hindcast/internal/job"
	"hindcast/internal/source/tieredsrc/tieredtest"
	"hindcast/internal/testenv/kafkaenv"
	"hindcast/internal/testenv/s3env"
)

// Real Kafka moves its segments to a store of its own; a job reads them there, and the brokers serve what the store does not have: the table has what
// a consumer of committed records gets, and no offset of the store is asked of the brokers.
func TestServerJobOverKafkasTieredStorage(t *testing.T) {
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
	cl := k.Client(t)
	adm := kadm.NewClient(cl)
	config := map[string]*string{}
	for name, v := range map[string]string{ // a segment is full when its index has three entries, one a batch
		"remote.storage.enable": "true", "segment.index.bytes": "36", "index.interval.bytes": "1", "local.retention.bytes": "1", "retention.ms": "-1",
	} {
		config[name] = &v
	}
	kafkaenv.Wait(t, "the topic", func() bool {
		_, err := adm.CreateTopic(t.Context(), 1, 1, config, smallTopic)
		return err == nil
	})
	begin := instant(t, "2024-05-02T00:00:00Z")
	n := 0
	var want []string
	send := func(cl *kgo.Client, committed bool, batches int) {
		t.Helper()
		for range batches {
			at := begin.Add(time.Duration(n) * time.Minute)
			r := rec{ID: fmt.Sprintf("e%04d", n), At: at.Format(time.RFC3339), Shop: "x", Amount: 1}
			n++
			if committed {
				want = append(want, r.ID)
			}
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: smallTopic, Value: []byte(value(t, r)), Timestamp: at}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	txn := k.Client(t, kgo.TransactionalID("t"))
	for i := range 12 {
		if err := txn.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		send(txn, i%3 > 0, 3)
		send(cl, true, 2)
		if err := txn.EndTransaction(t.Context(), kgo.TransactionEndTry(i%3 > 0)); err != nil {
			t.Fatal(err)
		}
	}
	send(cl, true, 2)
	var local, end int64
	kafkaenv.Wait(t, "the copies", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		ends, err := adm.ListEndOffsets(ctx, smallTopic)
		locals, err2 := adm.ListLocalLogStartOffsets(ctx, smallTopic)
		if errors.Join(err, err2) != nil {
			return false
		}
		e, _ := ends.Lookup(smallTopic, 0)
		l, _ := locals.Lookup(smallTopic, 0)
		end, local = e.Offset, l.Offset
		return local > end-15
	})
	t.Logf("the log ends at %d, the brokers' own begins at %d", end, local)

	l := newSmallLog(t)
	l.hasTail = true
	t.Setenv("KAFKA", strings.Join(k.Addrs(), ","))
	j := changedJob(t, l.job(smallJob{Tables: map[string]string{"events": "day UTC"}}), map[string]string{
		fmt.Sprintf("parquet: %q, naming: kafka-connect", l.dir): fmt.Sprintf("tiered: %q, layout: local", dir),
		fmt.Sprintf("%q", "embedded:"+l.tailFile()):              "$KAFKA",
	}, nil)
	list := []job.Job{j}
	ws := filepath.Join(t.TempDir(), "ws")
	inspected := hindcastWith(t, list, "source", "inspect", "visits").ok(t)
	contains(t, "inspect", inspected.out, "tiered    0-", "brokers   ")
	run := hindcastWith(t, list, "run", "visits", "--from", "2024-05-02", "--to", "2024-05-03", "--promote", "--json", "--workspace", ws).ok(t)
	if got := ids(t, list, ws); got != strings.Join(want, " ") {
		t.Errorf("the table has %s\nwant %s", got, strings.Join(want, " "))
	}
	tiered, tail := int64(0), int64(0)
	for _, a := range run.status(t).Account {
		switch a.Origin {
		case "tiered":
			tiered += a.Offsets
		case "tail":
			tail += a.Offsets
		}
	}
	// What the brokers have no more the store has, but for a transaction that its last segment begins and does not decide: of six offsets.
	if tiered+tail != end || tiered < end/2 || tiered < local-6 {
		t.Errorf("%d offsets of tiered storage and %d of the brokers, of %d", tiered, tail, end)
	}
	var asked []string
	for line := range strings.Lines(k.Log(t, 1)) {
		if strings.Contains(line, `"clientId":"hindcast"`) && strings.Contains(line, `"requestApiKeyName":"FETCH"`) {
			for i, part := range strings.Split(line, `"fetchOffset":`) {
				if at, _, ok := strings.Cut(part, ","); ok && i > 0 {
					asked = append(asked, at)
				}
			}
		}
	}
	slices.Sort(asked)
	if len(asked) == 0 {
		t.Error("no request for records is in the brokers' log")
	}
	for _, at := range asked {
		var o int64
		if _, err := fmt.Sscan(at, &o); err != nil || o < tiered {
			t.Errorf("the brokers were asked for offset %s, which tiered storage has: it has those before %d", at, tiered)
		}
	}
}

// Tiered segments on a real S3 server, in a prefix beside others of the bucket: the files are those of the same segments in a folder.
func TestServerTieredSegmentsOnS3(t *testing.T) {
	s3env.Start(t)
	store, err := openblob.Open(t.Context(), "s3://bucket")
	if err != nil {
		t.Fatal(err)
	}
	l := newTieredLog(t)
	folder := l.aiven().reads(true)
	l.aivenIn(store, "kafka/prod-") // as the plugin puts a key.prefix: before the topic's name, verbatim
	other := *l
	other.id = tieredtest.ID("another cluster's topic of that name")
	other.aivenIn(store, "kafka/test/")
	list := []job.Job{changedJob(t, folder[0], map[string]string{fmt.Sprintf("tiered: %q", l.store): `tiered: "s3://bucket/kafka/prod-"`}, nil)}

	want, ws := filepath.Join(t.TempDir(), "ws"), filepath.Join(t.TempDir(), "ws")
	hindcastWith(t, folder, with([]string{"run", "visits", "--promote", "--workspace", want}, tieredWindow...)...).ok(t)
	inspected := hindcastWith(t, list, "source", "inspect", "visits").ok(t)
	contains(t, "inspect", inspected.out, "tiered   6 segments", "tiered    0-60  3 segments")
	run := hindcastWith(t, list, with([]string{"run", "visits", "--promote", "--json", "--workspace", ws}, tieredWindow...)...).ok(t)
	if !maps.EqualFunc(parts(t, want), parts(t, ws), bytes.Equal) {
		t.Errorf("the files differ from those of a folder: %s", ids(t, list, ws))
	}
	for _, a := range run.status(t).Account {
		if a.Origin == "tail" && a.Offsets != tieredEnd-storeEnd {
			t.Errorf("%+v", a)
		}
	}

	// An object that is gone is a gap, as it is in a folder.
	for info, err := range blob.All(t.Context(), store, "kafka/prod-"+smallTopic+"-"+l.id+"/1/"+fmt.Sprintf("%020d", 20)) {
		if err == nil {
			err = store.Delete(t.Context(), info.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	contains(t, "a hole", hindcastWith(t, list, with([]string{"plan", "visits", "--workspace", ws}, tieredWindow...)...).exits(t, exitRefused).err,
		"partition 1: no record with the offsets 20-40, between the segments", "1:20-40")
}
