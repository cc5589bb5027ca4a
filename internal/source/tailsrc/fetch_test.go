package tailsrc

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// batch encodes records from offset base, of a producer whose transaction they are part of if pid is not negative.
func batch(base, pid int64, values ...string) []byte {
	b := kmsg.RecordBatch{
		FirstOffset: base, Magic: 2, LastOffsetDelta: int32(len(values) - 1), NumRecords: int32(len(values)),
		ProducerID: pid, ProducerEpoch: -1, FirstSequence: -1,
	}
	if pid >= 0 {
		b.Attributes = 0x10
	}
	for i, v := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte(v)}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		b.Records = r.AppendTo(b.Records)
	}
	return seal(b.AppendTo(nil))
}

// marker encodes the end of a producer's transaction.
func marker(offset, pid int64, commit bool) []byte {
	key := []byte{0, 0, 0, 0}
	if commit {
		key[3] = 1
	}
	r := kmsg.Record{Key: key, Value: []byte{0, 0, 0, 0, 0, 0}}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	b := kmsg.RecordBatch{FirstOffset: offset, Magic: 2, NumRecords: 1, Attributes: 0x30, ProducerID: pid, Records: r.AppendTo(nil)}
	return seal(b.AppendTo(nil))
}

func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func join(batches ...[]byte) []byte {
	var out []byte
	for _, b := range batches {
		out = append(out, b...)
	}
	return out
}

func change(b []byte, at int, to byte) []byte {
	b = append([]byte(nil), b...)
	b[at] = to
	return b
}

// TestDecode has answers that real brokers give and the fake one does not, and damaged ones.
func TestDecode(t *testing.T) {
	four, two := batch(10, -1, "a", "b", "c", "d"), batch(14, -1, "e", "f")
	aborted := func(pid, first int64) kmsg.FetchResponseTopicPartitionAbortedTransaction {
		a := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		a.ProducerID, a.FirstOffset = pid, first
		return a
	}
	for name, test := range map[string]struct {
		raw     []byte
		aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
		from    int64
		want    string // the records
		pos     int64
		err     string
	}{
		"whole":                      {raw: join(four, two), from: 10, want: "abcdef", pos: 16},
		"from the middle of a batch": {raw: join(four, two), from: 12, want: "cdef", pos: 16},
		"past the range":             {raw: join(four, two, batch(16, -1, "g", "h", "i", "j", "k", "l")), from: 12, want: "cdefghij", pos: 20},
		"a batch before the range":   {raw: join(four, two), from: 14, want: "ef", pos: 16},
		"a hole between batches":     {raw: join(four, batch(17, -1, "e")), from: 10, want: "abcde", pos: 18},
		"a compacted batch": {raw: func() []byte {
			b := batch(10, -1, "a")
			binary.BigEndian.PutUint32(b[23:], 8) // its last record, at offset 18, is gone
			return seal(b)
		}(), from: 10, want: "a", pos: 19},
		"cut off after a batch":  {raw: join(four, two[:len(two)-1]), from: 10, want: "abcd", pos: 14},
		"cut off in a header":    {raw: join(four, two[:7]), from: 10, want: "abcd", pos: 14},
		"cut off in its first":   {raw: four[:len(four)-1], from: 10, err: "is cut off"},
		"a few bytes":            {raw: four[:5], from: 10, err: "is cut off"},
		"a negative length":      {raw: change(four, 8, 0x80), from: 10, err: "is cut off"},
		"a flipped bit":          {raw: join(two[:0], four, change(two, len(two)-2, 'x')), from: 10, err: "crc"},
		"an old message format":  {raw: change(four, 16, 1), from: 10, err: "message format 1"},
		"more records than said": {raw: seal(change(four, 26, 1)), from: 10, err: "ends at offset"},
		"aborted beside committed": {
			raw: join(batch(10, 1, "a"), batch(11, 2, "b"), batch(12, 1, "c"), marker(13, 1, false), batch(14, 1, "d"), marker(15, 2, true), batch(16, -1, "e"), marker(17, 1, true)),
			// The list of a broker that does not sort it; and one of another producer.
			aborted: []kmsg.FetchResponseTopicPartitionAbortedTransaction{aborted(1, 18), aborted(1, 10), aborted(3, 0)},
			from:    10, want: "bde", pos: 18,
		},
		"aborted from before the range": {
			raw:     join(batch(10, 1, "a"), marker(11, 1, false), batch(12, 1, "b"), marker(13, 1, true)),
			aborted: []kmsg.FetchResponseTopicPartitionAbortedTransaction{aborted(1, 4)},
			from:    10, want: "b", pos: 14,
		},
	} {
		f := fetcher{topic: topicName, pos: test.from, to: 20}
		records, err := f.decode(&kmsg.FetchResponseTopicPartition{RecordBatches: test.raw, AbortedTransactions: test.aborted})
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %q", name, err, test.err)
			}
			continue
		}
		var got string
		for _, r := range records {
			got += string(r.Value)
		}
		if err != nil || got != test.want || f.pos != test.pos {
			t.Errorf("%s: %q to offset %d (%v), want %q to %d", name, got, f.pos, err, test.want, test.pos)
		}
	}
}

// FuzzDecode holds that no answer of a broker makes more of the log than it says, or a panic.
func FuzzDecode(f *testing.F) {
	f.Add(join(batch(10, -1, "a", "b"), batch(12, 1, "c"), marker(13, 1, false)), int64(10))
	f.Add(batch(0, -1, "a")[:40], int64(0))
	f.Fuzz(func(t *testing.T, raw []byte, from int64) {
		if from < 0 || from > 1<<40 {
			return
		}
		in := fetcher{topic: topicName, pos: from, to: from + 1000}
		records, err := in.decode(&kmsg.FetchResponseTopicPartition{RecordBatches: raw})
		if in.pos < from || in.pos > in.to {
			t.Fatalf("from %d the position is %d", from, in.pos)
		}
		last := from - 1
		for _, r := range records {
			if err == nil && (r.Offset <= last || r.Offset >= in.to) {
				t.Fatalf("from %d: offset %d after %d", from, r.Offset, last)
			}
			last = r.Offset
		}
	})
}
