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
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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

// offsets of the partitions: at -2 the log starts, at -1 the ends.
func offsets(t *testing.T, cl *kgo.Client, at int64) map[int32]int64 {
	t.Helper()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for p := range int32(4) {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, at
		rt.Partitions = append(rt.Partitions, rp)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	out := map[int32]int64{}
	for _, rt := range resp.Topics {
		for _, p := range rt.Partitions {
			out[p.Partition] = p.Offset
		}
	}
	return out
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
	starts, ends := offsets(t, cl, -2), offsets(t, cl, -1)
	for p, want := range map[int32][2]int64{0: {120304, 123322}, 1: {141384, 143376}, 2: {140631, 142394}, 3: {133188, 135525}} {
		if s, e := starts[p], ends[p]; s != want[0] || e != want[1] {
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
	ids := map[[16]byte]int{}
	for _, file := range []string{write(t, line), write(t, line), write(t, line, strings.Replace(line, "7", "8", 1))} {
		b, err := Start(t.Context(), file, topic)
		if err != nil {
			t.Fatal(err)
		}
		req := kmsg.NewPtrMetadataRequest()
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = new(topic)
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(t.Context(), client(t, b))
		if err != nil || len(resp.Topics) != 1 {
			t.Fatal(resp, err)
		}
		ids[resp.Topics[0].TopicID]++
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
