package tieredsrc_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/blob/memblob"
	"hindcast/internal/source/logbatch/batchtest"
	"hindcast/internal/source/tieredsrc"
	"hindcast/internal/source/tieredsrc/tieredtest"
	"hindcast/internal/testenv"
)

// history builds a log batch by batch. Values are v<offset>.
type history struct {
	batches [][]byte
	next    int64
	fate    map[int64]bool // of the offsets of records in decided transactions: committed
	open    map[int64][]int64
	all     []int64 // offsets of records
	epoch   int32
}

func (h *history) write(producer int64, n int) {
	b := batchtest.Batch{First: h.next, Producer: producer, Epoch: h.epoch}
	for range n {
		b.Values = append(b.Values, fmt.Sprint("v", h.next))
		if producer > 0 {
			h.open[producer] = append(h.open[producer], h.next)
		}
		h.all = append(h.all, h.next)
		h.next++
	}
	h.batches = append(h.batches, b.Encode())
}

func (h *history) end(producer int64, commit bool) {
	h.batches = append(h.batches, batchtest.Marker(h.next, producer, h.epoch, commit))
	h.next++
	for _, o := range h.open[producer] {
		h.fate[o] = commit
	}
	delete(h.open, producer)
}

// want is what a reader of committed records gets of a range.
func (h *history) want(from, to int64) string {
	var out []string
	for _, o := range h.all {
		if committed, ok := h.fate[o]; o >= from && o < to && (!ok || committed) {
			out = append(out, fmt.Sprintf("%d:v%d", o, o))
		}
	}
	return strings.Join(out, " ")
}

func newHistory() *history { return &history{fate: map[int64]bool{}, open: map[int64][]int64{}} }

// TestAbortedTransactionsAcrossSegmentsAreDropped has markers as the last record (R23), and transactions that are open at the end (R24).
func TestAbortedTransactionsAcrossSegmentsAreDropped(t *testing.T) {
	h := newHistory()
	h.write(1, 2) // 0
	h.write(2, 2) // 2
	h.write(0, 1) // 4
	h.write(1, 1) // 5, in the second segment
	h.write(3, 1) // 6
	h.end(3, true)
	h.end(1, false) // 8, in the third
	h.write(1, 1)   // 9, of producer 1's next
	h.write(2, 1)   // 10
	h.end(2, true)  // 11
	h.end(1, true)  // 12, the last segment is this marker alone
	h.end(9, false) // 13, of a transaction without a record here
	for _, layout := range []tieredsrc.Layout{tieredsrc.Aiven, tieredsrc.Local} {
		store := memblob.New()
		var w writer = aiven(store)
		opts := options()
		if layout == tieredsrc.Local {
			w, opts = tieredtest.Local{Store: store, Topic: topic, TopicID: topicID}, tieredsrc.Options{Topic: topic, Layout: layout}
		}
		segments := cut(t, h.batches, 5, 8, 10, 12)
		for n, want := range []string{
			"[] gap 0-5: the transaction of producer 0 ",
			"[] gap 0-8: the transaction of producer 0 ",
			"[0-2] gap 2-10: the transaction of producer 1 that began at offset 2 ",
			"[0-9] gap 9-12: the transaction of producer 0 that began at offset 9 ",
			"[0-14]",
		} {
			put(t, w, 0, segments[n])
			l := list(t, store, opts)
			p := l.Find(0)
			if got := describe(p); !strings.HasPrefix(got, want) {
				t.Errorf("%s, %d segments: %q, want %q", layout, n+1, got, want)
			}
			to := p.Handover(0)
			for from := range to + 1 {
				expect(t, l, 0, from, to, h.want(from, to))
				expect(t, l, 0, 0, from, h.want(0, from))
			}
			if next := segments[n].Next; to < next {
				refused(t, l, 0, 0, next, "is not ended by any segment up to offset")
			}
		}
	}
}

// TestAGapLeavesTransactionsUndecided has the marker of a transaction in a segment that is missing.
func TestAGapLeavesTransactionsUndecided(t *testing.T) {
	h := newHistory()
	h.write(0, 2)
	h.write(1, 2) // 2
	h.write(0, 1) // 4
	h.write(0, 2) // 5: the second segment
	h.end(1, false)
	h.write(0, 3)  // 8: the third
	h.write(1, 1)  // 11
	h.end(1, true) // 12
	segments := cut(t, h.batches, 5, 8)
	store := memblob.New()
	put(t, aiven(store), 0, segments[0], segments[2])
	l := list(t, store, options())
	if got := describe(l.Find(0)); !strings.HasPrefix(got, "[0-2 8-13] gap 2-5: the transaction of producer 0 that began at offset 2") || !strings.HasSuffix(got, "gap 5-8: no segment has them") {
		t.Error(got)
	}
	expect(t, l, 0, 0, 2, h.want(0, 2))
	expect(t, l, 0, 8, 13, h.want(8, 13))
}

// TestATransactionIndexThatLiesIsAnError has markers that say otherwise.
func TestATransactionIndexThatLiesIsAnError(t *testing.T) {
	h := newHistory()
	h.write(1, 2)
	h.end(1, false)
	h.write(2, 2)
	h.end(2, true)
	for name, test := range map[string]struct {
		change func(s *tieredtest.Segment)
		want   string
	}{
		"an aborted one is missing": {func(s *tieredtest.Segment) { s.Txns = nil }, "was aborted at 2, and the transaction index does not have it"},
		"a committed one is listed": {func(s *tieredtest.Segment) { s.Txns[17], s.Txns[25], s.Txns[33] = 3, 5, 6 }, "transaction index"},
		"a marker out of the range": {func(s *tieredtest.Segment) { s.Txns[25] = 77 }, "a marker at offset 77"},
		"it is cut off":             {func(s *tieredtest.Segment) { s.Txns = s.Txns[:30] }, "it is cut off"},
	} {
		store := memblob.New()
		segment := cut(t, h.batches)[0]
		test.change(&segment)
		put(t, aiven(store), 0, segment)
		l := list(t, store, options())
		if got, err := read(t, l, 0, 0, 6); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, test.want)
		}
		// A range that ends before the marker is read no other way.
		_, err1 := read(t, l, 0, 0, 1)
		_, err2 := read(t, l, 0, 3, 4)
		if err1 == nil && err2 == nil {
			t.Errorf("%s: not found out in part of a transaction", name)
		}
	}
	for name, change := range map[string]func(b []byte) []byte{
		"a snapshot cut off":   func(b []byte) []byte { return b[:len(b)-1] },
		"a flipped byte in it": func(b []byte) []byte { b[20]++; return b },
		"another version":      func(b []byte) []byte { b[1]++; return b },
		"a few bytes of it":    func(b []byte) []byte { return b[:5] },
	} {
		store := memblob.New()
		segment := cut(t, h.batches)[0]
		segment.Snapshot = change(segment.Snapshot)
		put(t, aiven(store), 0, segment)
		if _, err := tieredsrc.List(t.Context(), store, options()); err == nil || !strings.Contains(err.Error(), "producer snapshot") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWithoutASnapshotTheBatchesSayWhatIsOpen has segments without one, and one that is good in part only.
func TestWithoutASnapshotTheBatchesSayWhatIsOpen(t *testing.T) {
	h := newHistory()
	h.write(1, 2)
	h.end(1, false)
	h.write(1, 1)
	h.write(2, 1) // 4
	h.end(1, true)
	h.write(0, 1)
	segments := cut(t, h.batches, 3, 5)
	for without := range 8 { // a bit for each segment
		store := memblob.New()
		for i, s := range segments {
			if without>>i&1 > 0 {
				s.Snapshot = nil
			}
			put(t, aiven(store), 0, s)
		}
		l := list(t, store, options())
		if got := describe(l.Find(0)); !strings.HasPrefix(got, "[0-4] gap 4-7: the transaction of producer 1 that began at offset 4 ") {
			t.Errorf("%d: %s", without, got)
		}
		expect(t, l, 0, 0, 4, h.want(0, 4))
	}
	// The leader of epoch 1 has 0-7, that of epoch 2 was elected with 0-5 and went on from there, and the store has of that what begins at 20.
	lost := newHistory()
	lost.epoch = 1
	lost.write(1, 2)
	lost.end(1, true)
	lost.write(2, 1) // 3
	lost.write(0, 1)
	lost.end(2, true) // 5, lost
	later := newHistory()
	later.epoch, later.next = 2, 20
	later.write(0, 5)
	store := memblob.New()
	put(t, aiven(store), 0, cut(t, lost.batches, 3)...)
	s := cut(t, later.batches)[0]
	s.Epochs = []byte("0\n2\n1 0\n2 5\n")
	put(t, aiven(store), 0, s)
	l := list(t, store, options())
	if got := describe(l.Find(0)); !strings.HasPrefix(got, "[0-3 20-25] gap 3-5: the transaction of producer 1 that began at offset 3 ") {
		t.Error(got)
	}
}

// TestAnyHistoryIsReadAsItWasWritten is a property: of any log, cut and copied in any way, what is read is what was committed.
func TestAnyHistoryIsReadAsItWasWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	rounds, read := 30, int64(0)
	if testenv.Full() {
		rounds = 600
	}
	defer func() {
		if read < int64(rounds)*20 {
			t.Errorf("only %d offsets could be read", read)
		}
	}()
	for round := range rounds {
		h := newHistory()
		for range 40 {
			producer := rng.Int64N(4)
			switch {
			case rng.IntN(10) == 0:
				h.epoch++
			case producer > 0 && rng.IntN(3) == 0:
				h.end(producer, rng.IntN(2) == 0)
			default:
				h.write(producer, 1+rng.IntN(3))
			}
		}
		var bounds []int64 // of batches
		all, err := tieredtest.Split(slices.Concat(h.batches...))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range cut(t, all, offsets(h)...) {
			bounds = append(bounds, s.Base)
		}
		var w writer
		store := memblob.New()
		opts := options()
		if round%2 == 0 {
			a := aiven(store)
			a.Compress, a.ChunkSize = round%4 == 0, 64+rng.IntN(400)
			w = a
		} else {
			w, opts = tieredtest.Local{Store: store, Topic: topic, TopicID: topicID}, tieredsrc.Options{Topic: topic, Layout: tieredsrc.Local}
		}
		for range 1 + rng.IntN(3) { // so many leaders copied it, each cut in its way
			var at []int64
			for _, b := range bounds[1:] {
				if rng.IntN(6) == 0 {
					at = append(at, b)
				}
			}
			segments := cut(t, h.batches, at...)
			put(t, w, 0, segments[:1+rng.IntN(len(segments))]...)
		}
		l := list(t, store, opts)
		p := l.Find(0)
		end := p.Segments[len(p.Segments)-1].Range.Next
		decided := p.Handover(0)
		read += decided
		for o := range end {
			if _, done := h.fate[o]; o < decided && !done && slices.ContainsFunc([]int64{1, 2, 3}, func(p int64) bool { return slices.Contains(h.open[p], o) }) {
				t.Errorf("round %d: offset %d is of an open transaction, and handed over at %d", round, o, decided)
			}
		}
		for range 10 {
			from := rng.Int64N(decided + 1)
			to := from + rng.Int64N(decided-from+1)
			expect(t, l, 0, from, to, h.want(from, to))
			// The same from what is pinned of it.
			pinned := opts
			pinned.Objects = p.Objects(from, to)
			if from < to {
				expect(t, list(t, store, pinned), 0, from, to, h.want(from, to))
			}
		}
	}
}

// offsets are where the batches of a history begin, but the first.
func offsets(h *history) []int64 {
	var out []int64
	for _, b := range h.batches[1:] {
		first := int64(0)
		for _, c := range b[:8] {
			first = first<<8 | int64(c)
		}
		out = append(out, first)
	}
	return out
}
