package tieredsrc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/blob/memblob"
	"hindcast/internal/source/logbatch/batchtest"
	"hindcast/internal/source/tieredsrc"
	"hindcast/internal/source/tieredsrc/tieredtest"
	"hindcast/internal/testenv"
)

// large is a log of 8 MB in 800 batches of 10 records.
func large() [][]byte {
	out := make([][]byte, 0, 800)
	for i := range int64(800) {
		b := batchtest.Batch{First: 10 * i}
		for j := range int64(10) {
			b.Values = append(b.Values, fmt.Sprintf("v%d %s", 10*i+j, bytes.Repeat([]byte{byte(i), byte(j)}, 500)))
		}
		out = append(out, b.Encode())
	}
	return out
}

// count reads a range and returns how many records it has.
func count(t testing.TB, l *tieredsrc.Log, from, to int64) (n int64) {
	t.Helper()
	r, err := l.Read(t.Context(), 0, from, to)
	if err != nil {
		t.Fatal(err)
	}
	for {
		records, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			if rec.Offset != from+n || !strings.HasPrefix(string(rec.Value), fmt.Sprintf("v%d ", rec.Offset)) {
				t.Fatalf("offset %d has %.10q, want offset %d", rec.Offset, rec.Value, from+n)
			}
			n++
		}
	}
}

// TestAFewRecordsOfALargeSegmentAreReadByAFewBytes holds that the offset index leads to them, and that it is a hint only.
func TestAFewRecordsOfALargeSegmentAreReadByAFewBytes(t *testing.T) {
	batches := large()
	for name, test := range map[string]struct {
		change func(s *tieredtest.Segment)
		most   int64 // bytes
	}{
		"by the index":             {func(*tieredtest.Segment) {}, 5 << 20},
		"without one":              {func(s *tieredtest.Segment) { s.Offsets = nil }, 9 << 20},
		"one of another file":      {func(s *tieredtest.Segment) { s.Offsets[3]++; s.Offsets = append(s.Offsets[:8], s.Offsets...) }, 9 << 20},
		"positions past the end":   {func(s *tieredtest.Segment) { everyPosition(s, func(p uint32) uint32 { return p + 1<<30 }) }, 9 << 20},
		"positions within batches": {func(s *tieredtest.Segment) { everyPosition(s, func(p uint32) uint32 { return p + 1 }) }, 15 << 20},
		"positions of later batches": {func(s *tieredtest.Segment) {
			everyPosition(s, func(p uint32) uint32 { return min(p+uint32(len(batches[0])*3), uint32(len(s.Log)-len(batches[799]))) })
		}, 15 << 20},
	} {
		segment := cut(t, batches)[0]
		test.change(&segment)
		writers := []writer{
			tieredtest.Local{Topic: topic, TopicID: topicID},
			tieredtest.Aiven{Topic: topic, TopicID: topicID, ChunkSize: 1 << 20},
			tieredtest.Aiven{Topic: topic, TopicID: topicID, ChunkSize: 1 << 20, Compress: true, Key: &rsaKey().PublicKey, KeyID: "k1"},
		}
		if name != "by the index" && !testenv.Full() {
			writers = writers[1:2]
		}
		for _, w := range writers {
			store := &counted{Store: memblob.New()}
			opts := options()
			opts.Prefixes = nil
			switch v := w.(type) {
			case tieredtest.Local:
				v.Store, opts.Layout = store, tieredsrc.Local
				w = v
			case tieredtest.Aiven:
				v.Store = store
				w = v
			}
			put(t, w, 0, segment)
			l := list(t, store, opts)
			store.bytes, store.gets = 0, 0
			if n := count(t, l, 6003, 6005); n != 2 {
				t.Errorf("%s: %d records", name, n)
			}
			if store.bytes > test.most {
				t.Errorf("%s, %T: %d bytes in %d requests", name, w, store.bytes, store.gets)
			}
			store.bytes, store.gets = 0, 0
			if n := count(t, l, 0, 8000); n != 8000 || store.gets > 4 || store.bytes > int64(len(segment.Log))*11/10 {
				t.Errorf("%s, %T: %d records by %d bytes in %d requests", name, w, n, store.bytes, store.gets)
			}
		}
	}
}

func everyPosition(s *tieredtest.Segment, f func(uint32) uint32) {
	for i := 4; i < len(s.Offsets); i += 8 {
		p := uint32(s.Offsets[i])<<24 | uint32(s.Offsets[i+1])<<16 | uint32(s.Offsets[i+2])<<8 | uint32(s.Offsets[i+3])
		p = f(p)
		s.Offsets = slices.Replace(s.Offsets, i, i+4, byte(p>>24), byte(p>>16), byte(p>>8), byte(p))
	}
}

// TestAThousandSegmentsAreListedByOneRequestEach has more objects than a page of a listing.
func TestAThousandSegmentsAreListedByOneRequestEach(t *testing.T) {
	store := &counted{Store: memblob.New()}
	w := aiven(store)
	batches := plain(0, 0, 1001, 1)
	var at []int64
	for o := int64(1); o < 1001; o++ {
		at = append(at, o)
	}
	put(t, w, 0, cut(t, batches, at...)...)
	l := list(t, store, options())
	if got := describe(l.Find(0)); got != "[0-1001]" || len(l.Find(0).Segments) != 1001 {
		t.Error(got)
	}
	// A manifest each, and the epochs and the producers of the last.
	if store.gets != 1001+2 || store.lists != 5 {
		t.Errorf("%d requests, %d listings", store.gets, store.lists)
	}
	expect(t, l, 0, 490, 520, values(490, 520))
}

func BenchmarkRead(b *testing.B) {
	segments, err := tieredtest.Cut(large())
	if err != nil {
		b.Fatal(err)
	}
	for name, w := range map[string]tieredtest.Aiven{
		"plain": {}, "compressed and encrypted": {Compress: true, Key: &rsaKey().PublicKey, KeyID: "k1"},
	} {
		b.Run(name, func(b *testing.B) {
			w.Store, w.Topic, w.TopicID, w.ChunkSize = memblob.New(), topic, topicID, 4<<20
			if err := w.Put(b.Context(), 0, tieredtest.ID("x"), segments[0]); err != nil {
				b.Fatal(err)
			}
			opts := options()
			opts.Prefixes = nil
			l, err := tieredsrc.List(b.Context(), w.Store, opts)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(segments[0].Log)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := l.Read(b.Context(), 0, 0, 8000)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = r.Next(b.Context())
				}
				if !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
			}
		})
	}
}
