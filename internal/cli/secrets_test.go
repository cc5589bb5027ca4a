package cli

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"hindcast/internal/job"
)

// TestAPasswordIsNowhere runs a job whose brokers want a password: it comes from the environment, and is
// neither said nor stored.
func TestAPasswordIsNowhere(t *testing.T) {
	const user, password = "reader", "right-secret"
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", user, password))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.CreateTopic(smallTopic, 1, map[string]string{"retention.ms": "-1"}); err != nil {
		t.Fatal(err)
	}
	l := newSmallLog(t)
	recs := inOrder(0, 0, rec{ID: "a", At: "2024-05-01T10:00:00Z"}, rec{ID: "b", At: "2024-05-01T11:00:00Z"}, rec{ID: "c", At: "2024-05-02T10:00:00Z"})
	l.segment(recs[:1]...)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, r := range recs {
		value := jsonOf(t, map[string]any{"id": r.ID, "at": r.At, "shop": r.Shop, "amount": r.Amount})
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: smallTopic, Value: value, Timestamp: r.recordTime(t)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	l.put(l.tailFile(), nil)
	l.hasTail = true
	list := []job.Job{changedJob(t, l.job(smallJob{Tables: map[string]string{"seen": "day UTC"}}), map[string]string{
		`"embedded:` + l.tailFile() + `", value: json`: `$KAFKA, value: json, sasl: { mechanism: scram-sha-256, username: $KAFKA_USER, password: "${KAFKA_PASSWORD}" }`,
	}, nil)}
	t.Setenv("KAFKA", c.ListenAddrs()[0])
	t.Setenv("KAFKA_USER", user)
	ws := filepath.Join(l.dir, "ws")
	do := func(verb string, args ...string) result {
		return hindcastWith(t, list, append([]string{verb, "visits", "--from", "2024-05-01", "--to", "2024-05-04", "--workspace", ws}, args...)...)
	}

	do("plan").exits(t, exitError).has(t, "source.tail.sasl: password: the environment has no KAFKA_PASSWORD: set it")
	t.Setenv("KAFKA_PASSWORD", password)
	said := do("plan").ok(t)
	run := do("run", "--promote", "--json").ok(t)
	if rows := tableRows(t, list, ws, "seen"); len(rows) != 1+len(recs) {
		t.Errorf("the table has the rows %v", rows)
	}
	for _, r := range []result{said, run} {
		if strings.Contains(r.out+r.err, password) {
			t.Errorf("the password is said:\n%s%s", r.out, r.err)
		}
	}
	err = filepath.WalkDir(ws, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(password)) {
			t.Errorf("the password is stored in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
