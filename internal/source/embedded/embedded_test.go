package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/testenv"
)

const topic = "retail.invoice-lines"

func client(t *testing.T, b *Broker) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestSampleTail reads the retail tail as any consumer would: log starts, ends, and every record as the file has it.
func TestSampleTail(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	file := filepath.Join(testenv.Root(t), "samples", "retail", "tail.jsonl.zst")
	start := time.Now()
	b, err := Start(ctx, file, topic)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	t.Logf("started in %v", time.Since(start))
	cl := client(t, b)
	starts, err := kadm.NewClient(cl).ListStartOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[int32][2]int64{0: {120304, 123322}, 1: {141384, 143376}, 2: {140631, 142394}, 3: {133188, 135525}} {
		if s, e := starts[topic][p].Offset, ends[topic][p].Offset; s != want[0] || e != want[1] {
			t.Errorf("partition %d holds offsets %d-%d, want %d-%d", p, s, e, want[0], want[1])
		}
	}

	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	want := map[string]string{} // by partition/offset
	for lines := bufio.NewScanner(z); lines.Scan(); {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		want[fmt.Sprintf("%d/%d", *e.Partition, *e.Offset)] = fmt.Sprintf("%d %s %s", *e.Timestamp, *e.Key, e.Value)
	}
	if len(want) != 9110 {
		t.Fatalf("the file has %d records, want 9110", len(want))
	}
	for n := 0; n < len(want); {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d records: %v", n, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n++
			if got := fmt.Sprintf("%d %s %s", r.Timestamp.UnixMilli(), r.Key, r.Value); got != want[fmt.Sprintf("%d/%d", r.Partition, r.Offset)] {
				t.Fatalf("partition %d, offset %d holds %s", r.Partition, r.Offset, got)
			}
		})
	}
}

func write(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tail.jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestRestart proves that another process would find the same topic, that other contents are another one, and that nothing stays behind.
func TestRestart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	line := `{"partition":0,"offset":7,"timestamp":5,"key":null,"value":null}`
	ids := map[kadm.TopicID]int{}
	for _, file := range []string{write(t, line), write(t, line), write(t, line, strings.Replace(line, "7", "8", 1))} {
		b, err := Start(t.Context(), file, topic)
		if err != nil {
			t.Fatal(err)
		}
		topics, err := kadm.NewClient(client(t, b)).ListTopics(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		ids[topics[topic].ID]++
		for range 2 {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(ids) != 2 {
		t.Errorf("two equal files and another one gave the topic ids %v", ids)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRefuses(t *testing.T) {
	const fine = `{"partition":0,"offset":3,"timestamp":5,"value":{}}`
	for name, lines := range map[string][]string{
		"no records":             nil,
		"not JSON":               {"offset 3"},
		"an unknown member":      {`{"partition":0,"offset":3,"timestamp":5,"headers":[]}`},
		"no offset":              {`{"partition":0,"timestamp":5}`},
		"a negative partition":   {`{"partition":-1,"offset":3,"timestamp":5}`},
		"a gap":                  {fine, `{"partition":0,"offset":5,"timestamp":5}`},
		"an offset twice":        {fine, fine},
		"a partition left out":   {fine, `{"partition":2,"offset":3,"timestamp":5}`},
		"a partition far beyond": {`{"partition":2000000000,"offset":3,"timestamp":5}`},
	} {
		file := write(t, lines...)
		if lines == nil {
			if err := os.Truncate(file, 0); err != nil {
				t.Fatal(err)
			}
		}
		if b, err := Start(t.Context(), file, topic); err == nil {
			b.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Start(t.Context(), filepath.Join(t.TempDir(), "none.zst"), topic); err == nil {
		t.Error("a file that does not exist was accepted")
	}
}

func BenchmarkStart(b *testing.B) {
	file := filepath.Join(testenv.Root(b), "samples", "retail", "tail.jsonl.zst")
	for b.Loop() {
		broker, err := Start(b.Context(), file, topic)
		if err != nil {
			b.Fatal(err)
		}
		if err := broker.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
