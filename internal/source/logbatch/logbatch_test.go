package logbatch_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/source/logbatch"
	"hindcast/internal/source/logbatch/batchtest"
	"hindcast/internal/testenv"
)

// decode reads all of raw, drops what aborted says, and returns the values.
func decode(raw []byte, aborted ...logbatch.Transaction) (values string, next int64, err error) {
	a := logbatch.NewAborted(aborted)
	for r := logbatch.NewReader(bytes.NewReader(raw)); ; {
		h, batch, err := r.Next()
		if errors.Is(err, io.EOF) {
			return values, next, nil
		}
		if err != nil {
			return values, next, err
		}
		records, err := logbatch.Decode("t", 3, h, batch)
		if err != nil {
			return values, next, err
		}
		if records, err = a.Committed(h, records); err != nil {
			return values, next, err
		}
		for _, r := range records {
			values += string(r.Value)
		}
		next = h.Next
	}
}

func TestEveryCodecIsRead(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": {}, "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		long := strings.Repeat("abc", 1000)
		raw := batchtest.Batch{First: 7, Values: []string{"v", long}, Keys: []string{"k1", "k2"}, Header: "h", Epoch: 5, Timestamp: 1234, Codec: codec}.Encode()
		h, err := logbatch.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if h.First != 7 || h.Next != 9 || h.Size != len(raw) || h.Epoch != 5 || h.MaxTimestamp != 1234 || h.ProducerID != -1 || h.Records != 2 || h.Control() || h.Transactional() {
			t.Errorf("%s: %+v", name, h)
		}
		if name != "none" && len(raw) > 1000 {
			t.Errorf("%s: not compressed: %d bytes", name, len(raw))
		}
		records, err := logbatch.Decode("t", 3, h, raw)
		if err != nil || len(records) != 2 {
			t.Fatalf("%s: %d records, %v", name, len(records), err)
		}
		r := records[1]
		if string(r.Value) != long || string(r.Key) != "k2" || r.Headers[0].Key != "h" || r.Offset != 8 || r.Partition != 3 || r.Timestamp.UnixMilli() != 1234 || r.LeaderEpoch != 5 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestDamageIsNamed(t *testing.T) {
	good := batchtest.Batch{First: 10, Values: []string{"a", "b"}}.Encode()
	change := func(at int, b ...byte) []byte {
		out := slices.Clone(good)
		copy(out[at:], b)
		return out
	}
	sealed := func(at int, b ...byte) []byte { return batchtest.Seal(change(at, b...)) }
	after := func(b []byte) []byte { return append(slices.Clone(good), b...) }
	inner := func(b ...byte) []byte { return batchtest.Seal(append(slices.Clone(good[:logbatch.HeaderSize]), b...)) }
	for name, test := range map[string]struct {
		raw  []byte
		want string
	}{
		"a few bytes":                                             {good[:5], "is cut off"},
		"cut in the header":                                       {after(good[:60]), "is cut off"},
		"cut in the records":                                      {after(good[:len(good)-1]), "is cut off"},
		"a negative length":                                       {change(8, 0xff), "gives its length as -16777"},
		"a length past the limit":                                 {change(8, 0x7f), "at most 67108864 are read"},
		"a length that is no header's":                            {change(8, 0, 0, 0, 20), "its header alone has 61"},
		"an old format":                                           {change(16, 1), "message format 1"},
		"an old format, short":                                    {change(8, 0, 0, 0, 14, 0, 0, 0, 0, 0), "message format 0"},
		"a flipped byte of the records":                           {change(len(good)-2, 'x'), "damaged: its crc"},
		"a flipped byte of the attributes":                        {change(22, 8), "damaged: its crc"},
		"a negative offset":                                       {change(0, 0x80), "these are no offsets"},
		"a negative count of offsets":                             {sealed(23, 0xff, 0xff, 0xff, 0xff), "these are no offsets"},
		"an offset past all":                                      {change(0, 0x7f, 0xff, 0xff, 0xff, 0xff), "these are no offsets"},
		"records past the header's end":                           {sealed(26, 0), "ends at offset 11 by its header and at 12"},
		"fewer records than said":                                 {sealed(60, 3), "record 2 is cut off"},
		"more records than said":                                  {sealed(60, 1), "follow the last record"},
		"a count past the limit":                                  {sealed(57, 0x7f), "at most 1048576 are read"},
		"a negative count":                                        {sealed(57, 0xff), "at most 1048576 are read"},
		"no record where two are said":                            {inner(), "record 0 is cut off"},
		"a record longer than the batch":                          {inner(100, 0, 0, 0), "record 0 is cut off"},
		"offsets that do not ascend":                              {inner(append([]byte{14, 0, 0, 2, 1, 1, 0, 0}, 14, 0, 0, 2, 1, 1, 0, 0)...), "has"},
		"a gzip stream that is none":                              {sealed(22, 1), "gzip"},
		"a codec that is none":                                    {sealed(22, 7), "codec"},
		"a snappy block that decompresses to more than the limit": {batchtest.Seal(append(slices.Clone(change(22, 2)[:61]), binary.AppendUvarint(nil, 1<<30)...)), "would have more than 134217728 bytes"},
	} {
		if _, _, err := decode(test.raw); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestBombsAreRefused(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{"gzip": kgo.GzipCompression(), "zstd": kgo.ZstdCompression()} {
		if name == "gzip" && !testenv.Full() {
			continue // it takes seconds
		}
		// Both formats may have one stream after the other.
		raw := batchtest.Batch{Values: []string{strings.Repeat("a", 4<<20)}, Codec: codec}.Encode()
		raw = append(raw[:logbatch.HeaderSize:logbatch.HeaderSize], bytes.Repeat(raw[logbatch.HeaderSize:], logbatch.MaxDecompressed/(4<<20))...)
		if _, _, err := decode(batchtest.Seal(raw)); err == nil || !strings.Contains(err.Error(), "would have more than 134217728 bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A record of nothing but the number of its headers: two bytes each, forty in memory.
	headers := append(binary.AppendVarint(nil, 6+2<<20), 0, 0, 0, 1, 1)
	headers = append(binary.AppendVarint(headers, logbatch.MaxRecords+1), make([]byte, 2<<20)...)
	raw := batchtest.Batch{Values: []string{"a"}}.Encode()
	raw = batchtest.Seal(append(raw[:logbatch.HeaderSize], headers...))
	if _, _, err := decode(raw); err == nil || !strings.Contains(err.Error(), "headers") {
		t.Errorf("headers: %v", err)
	}
}

func TestHolesOfCompactionAreNoDamage(t *testing.T) {
	raw := batchtest.Batch{First: 10, Offsets: []int32{1, 4}, More: 3, Values: []string{"a", "b"}}.Encode()
	raw = append(raw, batchtest.Batch{First: 20, More: 5}.Encode()...) // nothing left of it
	if values, next, err := decode(raw); err != nil || values != "ab" || next != 25 {
		t.Errorf("%q to %d, %v", values, next, err)
	}
}

func TestAbortedTransactionsAndMarkersAreDropped(t *testing.T) {
	one := func(first, producer int64, v string) []byte {
		return batchtest.Batch{First: first, Producer: producer, Values: []string{v}}.Encode()
	}
	raw := slices.Concat(one(10, 1, "a"), one(11, 2, "b"), one(12, 1, "c"), batchtest.Marker(13, 1, 0, false), one(14, 1, "d"),
		batchtest.Marker(15, 2, 0, true), one(16, 0, "e"), batchtest.Marker(17, 1, 0, true))
	for name, aborted := range map[string][]logbatch.Transaction{
		// That of producer 0 (1 here) is from before the range, those of 7 are of another producer.
		"ends unknown": {{ProducerID: 0, First: 18, Last: logbatch.Unknown}, {ProducerID: 0, First: 4, Last: logbatch.Unknown}, {ProducerID: 7, First: 0, Last: logbatch.Unknown}},
		"ends known":   {{ProducerID: 0, First: 18, Last: 19}, {ProducerID: 0, First: 4, Last: 13}, {ProducerID: 0, First: 1, Last: 3}, {ProducerID: 7, First: 0, Last: 99}},
	} {
		if values, next, err := decode(raw, aborted...); err != nil || values != "bde" || next != 18 {
			t.Errorf("%s: %q to %d, %v", name, values, next, err)
		}
	}
	bad := batchtest.Marker(13, 1, 0, false)
	bad = batchtest.Seal(append(bad[:logbatch.HeaderSize], 12, 0, 0, 0, 1, 0, 0)) // without a key
	if _, _, err := decode(bad); err == nil || !strings.Contains(err.Error(), "marker at offset 13 cannot be read") {
		t.Errorf("a marker without a key: %v", err)
	}
}

func TestReaderNeedsNoWholeReads(t *testing.T) {
	raw := slices.Concat(batchtest.Batch{Values: []string{"a"}}.Encode(), batchtest.Batch{First: 1, More: 1}.Encode(), batchtest.Batch{First: 2, Values: []string{strings.Repeat("b", 3<<20)}}.Encode())
	n := 0
	for r := logbatch.NewReader(iotest.HalfReader(bytes.NewReader(raw))); ; n++ {
		h, batch, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || logbatch.Verify(h, batch) != nil || h.Size != len(batch) {
			t.Fatal(n, err, h)
		}
	}
	if n != 3 {
		t.Errorf("%d batches", n)
	}
	broken := errors.New("broken")
	if _, _, err := logbatch.NewReader(io.MultiReader(bytes.NewReader(raw[:20]), iotest.ErrReader(broken))).Next(); !errors.Is(err, broken) {
		t.Errorf("a stream's own error: %v", err)
	}
	if _, _, err := logbatch.NewReader(io.MultiReader(bytes.NewReader(raw[:65]), iotest.ErrReader(broken))).Next(); !errors.Is(err, broken) {
		t.Errorf("a stream's own error: %v", err)
	}
}

// FuzzDecode holds that no bytes make a panic, nor records outside of the offsets that their header states.
func FuzzDecode(f *testing.F) {
	for _, codec := range []kgo.CompressionCodec{{}, kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		raw := batchtest.Batch{First: 3, Values: []string{"aaaaaaaaaaaaaaaaaaaaaaa", "b"}, Keys: []string{"k", ""}, Header: "h", Producer: 2, Codec: codec}.Encode()
		f.Add(raw, true)
		f.Add(append(raw, batchtest.Marker(5, 2, 0, false)...), false)
	}
	f.Add(batchtest.Batch{More: 4}.Encode()[:50], true)
	f.Fuzz(func(t *testing.T, raw []byte, seal bool) {
		if seal && len(raw) > logbatch.HeaderSize {
			raw = batchtest.Seal(slices.Clone(raw)) // else no change ever gets past the checksum
		}
		aborted := logbatch.NewAborted([]logbatch.Transaction{{ProducerID: 1, First: 0, Last: logbatch.Unknown}})
		read := 0
		for r := logbatch.NewReader(bytes.NewReader(raw)); ; {
			h, batch, err := r.Next()
			if err != nil {
				if errors.Is(err, io.EOF) && read != len(raw) {
					t.Fatalf("%d of %d bytes are read", read, len(raw))
				}
				return
			}
			read += len(batch)
			records, err := logbatch.Decode("t", 0, h, batch)
			if err != nil {
				return
			}
			for _, r := range records {
				if r.Offset < h.First || r.Offset >= h.Next {
					t.Fatalf("offset %d of a batch with %d-%d", r.Offset, h.First, h.Next)
				}
			}
			if kept, err := aborted.Committed(h, records); err == nil && len(kept) > 0 && h.Control() {
				t.Fatal("a marker is no record")
			}
		}
	})
}

// The library wraps times beyond 2262 around, which is what a producer's microseconds, taken for milliseconds, are.
func TestTimesOfAnyYear(t *testing.T) {
	for _, ms := range []int64{
		0, 1, -1, 1_700_000_000_123, 4_102_444_800_000, 9_223_372_036_854, 9_223_372_036_855, 253_402_300_799_999, 1_700_000_000_123_456,
		math.MaxInt64 / 1000, math.MinInt64 / 1000, -62_135_596_800_000,
	} {
		raw := batchtest.Batch{First: 7, Values: []string{"a", "b"}, Timestamp: ms}.Encode()
		h, err := logbatch.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		records, err := logbatch.Decode("t", 0, h, raw)
		if err != nil {
			t.Errorf("%d: %v", ms, err)
			continue
		}
		for _, r := range records {
			if r.Timestamp.UnixMilli() != ms || r.Timestamp.UnixMicro() != ms*1000 {
				t.Errorf("%d is read as %d", ms, r.Timestamp.UnixMilli())
			}
		}
	}
	for _, ms := range []int64{math.MaxInt64/1000 + 1, 1 << 56, -1 << 56} {
		raw := batchtest.Batch{First: 7, Values: []string{"a"}, Timestamp: ms}.Encode()
		h, err := logbatch.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := logbatch.Decode("t", 0, h, raw); err == nil || !strings.Contains(err.Error(), "offset 7 has the record time") {
			t.Errorf("%d: %v", ms, err)
		}
	}
}
