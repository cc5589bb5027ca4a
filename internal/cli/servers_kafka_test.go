//go:build servers

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"hindcast/internal/job"
	"hindcast/internal/testenv"
	"hindcast/internal/testenv/kafkaenv"
	revenue "hindcast/jobs/daily-country-revenue"
)

// retailOnKafka fills a topic of real Kafka with the samples' tail, at its offsets: what comes before is deleted.
func retailOnKafka(t *testing.T, k *kafkaenv.Cluster, topic string) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(testenv.Root(t), "samples/retail/tail.jsonl.zst"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	raw, err := z.DecodeAll(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	tail := map[int32][]*kgo.Record{}
	for line := range bytes.Lines(raw) {
		var r struct {
			Partition int32
			Offset    int64
			Timestamp int64
			Key       string
			Value     json.RawMessage
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		tail[r.Partition] = append(tail[r.Partition], &kgo.Record{
			Topic: topic, Partition: r.Partition, Offset: r.Offset, Key: []byte(r.Key), Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp),
		})
	}

	cl := k.Client(t, kgo.MaxBufferedRecords(100_000), kgo.ProducerLinger(5*time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	create := kmsg.NewPtrCreateTopicsRequest()
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = topic, int32(len(tail)), 1
	create.TimeoutMillis, create.Topics = 20_000, append(create.Topics, ct)
	created, err := create.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(created.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	produce := func(r *kgo.Record) {
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	for p, records := range tail {
		for range records[0].Offset {
			produce(&kgo.Record{Topic: topic, Partition: p, Value: []byte("gone")})
		}
		for _, r := range records {
			produce(&kgo.Record{Topic: r.Topic, Partition: p, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp})
		}
	}
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	remove := kmsg.NewPtrDeleteRecordsRequest()
	dt := kmsg.NewDeleteRecordsRequestTopic()
	dt.Topic = topic
	for p, records := range tail {
		dp := kmsg.NewDeleteRecordsRequestTopicPartition()
		dp.Partition, dp.Offset = p, records[0].Offset
		dt.Partitions = append(dt.Partitions, dp)
	}
	remove.TimeoutMillis, remove.Topics = 20_000, append(remove.Topics, dt)
	removed, err := remove.RequestWith(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range removed.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
}

// The three weeks, with the tail on real Kafka that is reached by TLS and a password: the same to the byte, the password is
// nowhere, and what the brokers were asked changes nothing there.
func TestServerCorrectionWithTheTailOnKafka(t *testing.T) {
	k := kafkaenv.Start(t, kafkaenv.Options{Secure: true, LogRequests: true})
	retailOnKafka(t, k, "retail.invoice-lines")
	yaml, err := fs.ReadFile(revenue.Files, "job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(
		`brokers: "embedded:samples/retail/tail.jsonl.zst", value: json`,
		`brokers: $KAFKA, value: json, tls: { ca: $KAFKA_CA }, sasl: { mechanism: scram-sha-512, username: $KAFKA_USER, password: $KAFKA_PASSWORD }`,
		", sums: samples/retail/SHA256SUMS", "",
	).Replace(string(yaml))
	t.Setenv("KAFKA", strings.Join(k.SecureAddrs(kafkaenv.SASLTLS), ","))
	t.Setenv("KAFKA_CA", k.Secure().CA)
	t.Setenv("KAFKA_USER", kafkaenv.User)
	t.Setenv("KAFKA_PASSWORD", kafkaenv.Password)
	canaries, err := fs.ReadFile(revenue.Files, "canaries.csv")
	if err != nil {
		t.Fatal(err)
	}
	list := []job.Job{job.New(fstest.MapFS{
		"job.yaml": {Data: []byte(text)}, "canaries.csv": {Data: canaries}, "job.go": {Data: []byte("package kafka")},
	}, job.Outputs{demoTable: revenue.Transform()})}

	ws := filepath.Join(t.TempDir(), "ws")
	run := hindcastWith(t, list, "run", demoJob, "--from", demoFrom, "--to", demoTo, "--promote", "--json", "--workspace", ws).ok(t)
	same(t, hindcastWith(t, list, "table", "cat", demoTable, "--workspace", ws).ok(t).out, golden(t, "daily_2011-11-01_2011-11-22_corrected.csv"))

	said := run.out + run.err
	t.Setenv("KAFKA_PASSWORD", "a-guessed-secret")
	refused := hindcastWith(t, list, "run", demoJob, "--from", demoFrom, "--to", demoTo, "--workspace", ws)
	refused.exits(t, exitRefused).has(t, "they do not accept the user reader by SCRAM-SHA-512")
	said += refused.out + refused.err
	for _, secret := range []string{kafkaenv.Password, "a-guessed-secret"} {
		if strings.Contains(said, secret) {
			t.Errorf("the password %q is said", secret)
		}
		err := filepath.WalkDir(ws, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("the password %q is stored in %s", secret, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	kinds := map[string]int{}
	for line := range strings.Lines(k.Log(t, 1)) {
		if !strings.Contains(line, `"clientId":"hindcast"`) {
			continue
		}
		if _, rest, ok := strings.Cut(line, `"requestApiKeyName":"`); ok {
			kind, _, _ := strings.Cut(rest, `"`)
			kinds[kind]++
		}
	}
	questions := []string{
		"API_VERSIONS", "METADATA", "LIST_OFFSETS", "FETCH", "OFFSET_FOR_LEADER_EPOCH",
		"DESCRIBE_CONFIGS", "DESCRIBE_LOG_DIRS", "DESCRIBE_PRODUCERS", "DESCRIBE_TRANSACTIONS", "DESCRIBE_CLUSTER",
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if !slices.Contains(questions, kind) {
			t.Errorf("the brokers were asked %d times for %s", kinds[kind], kind)
		}
	}
	if kinds["FETCH"] == 0 {
		t.Errorf("the brokers were asked for %v, by their log", kinds)
	}
	t.Logf("the brokers were asked for %v", kinds)
}
