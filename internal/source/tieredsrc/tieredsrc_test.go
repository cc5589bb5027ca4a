package tieredsrc_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/source/logbatch/batchtest"
	"hindcast/internal/source/tieredsrc"
	"hindcast/internal/source/tieredsrc/tieredtest"
)

const topic = "or-ders.v1"

var (
	topicID = tieredtest.ID("topic")
	rsaKey  = sync.OnceValue(func() *rsa.PrivateKey {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		return k
	})
)

// plain gives batches of n records each, of the offsets [first, next), with the values v<offset>.
func plain(epoch int32, first, next int64, n int64) [][]byte {
	var out [][]byte
	for ; first < next; first += n {
		b := batchtest.Batch{First: first, Epoch: epoch, Timestamp: 1000 + first}
		for o := first; o < min(first+n, next); o++ {
			b.Values = append(b.Values, fmt.Sprint("v", o))
		}
		out = append(out, b.Encode())
	}
	return out
}

// values is what read gives of plain.
func values(first, next int64) string {
	var out []string
	for ; first < next; first++ {
		out = append(out, fmt.Sprintf("%d:v%d", first, first))
	}
	return strings.Join(out, " ")
}

func cut(t *testing.T, batches [][]byte, at ...int64) []tieredtest.Segment {
	t.Helper()
	out, err := tieredtest.Cut(batches, at...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func aiven(s blob.Store) tieredtest.Aiven {
	return tieredtest.Aiven{Store: s, Prefix: "some/prefix-", Topic: topic, TopicID: topicID}
}

type writer interface {
	Put(ctx context.Context, partition int32, id string, s tieredtest.Segment) error
}

func put(t *testing.T, w writer, partition int32, segments ...tieredtest.Segment) {
	t.Helper()
	for _, s := range segments {
		if err := w.Put(t.Context(), partition, tieredtest.ID(fmt.Sprint(s.Base, s.Next, len(s.Log), string(s.Epochs))), s); err != nil {
			t.Fatal(err)
		}
	}
}

func options() tieredsrc.Options {
	return tieredsrc.Options{
		Topic: topic, Layout: tieredsrc.Aiven, Prefixes: []string{"some/prefix-"}, Keys: map[string]*rsa.PrivateKey{"k1": rsaKey()},
	}
}

func list(t *testing.T, s blob.Store, opts tieredsrc.Options) *tieredsrc.Log {
	t.Helper()
	l, err := tieredsrc.List(t.Context(), s, opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// read returns the records of a range as "offset:value", and holds the reader to its promises.
func read(t *testing.T, l *tieredsrc.Log, partition int32, from, to int64) (string, error) {
	t.Helper()
	r, err := l.Read(t.Context(), partition, from, to)
	if err != nil {
		return "", err
	}
	var out []string
	last := from - 1
	for {
		records, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			if r.Covered() != to {
				t.Errorf("%d-%d is covered to %d", from, to, r.Covered())
			}
			return strings.Join(out, " "), nil
		}
		if err != nil {
			return strings.Join(out, " "), err
		}
		if len(records) == 0 {
			t.Fatal("no records and no end")
		}
		for _, rec := range records {
			if rec.Offset <= last || rec.Offset >= to || rec.Offset >= r.Covered() || rec.Topic != topic || rec.Partition != partition {
				t.Errorf("offset %d of partition %d after %d in %d-%d, covered to %d", rec.Offset, rec.Partition, last, from, to, r.Covered())
			}
			last = rec.Offset
			out = append(out, fmt.Sprintf("%d:%s", rec.Offset, rec.Value))
		}
	}
}

func expect(t *testing.T, l *tieredsrc.Log, partition int32, from, to int64, want string) {
	t.Helper()
	if got, err := read(t, l, partition, from, to); err != nil || got != want {
		t.Errorf("%d-%d: %q, %v, want %q", from, to, got, err, want)
	}
}

func refused(t *testing.T, l *tieredsrc.Log, partition int32, from, to int64, want string) {
	t.Helper()
	if got, err := read(t, l, partition, from, to); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%d-%d: %q, %v, want an error with %q", from, to, got, err, want)
	}
}

// describe is what a partition has, in short.
func describe(p *tieredsrc.Partition) string {
	out := fmt.Sprint(p.Ranges)
	for _, g := range p.Gaps {
		out += fmt.Sprintf(" gap %v: %s", g.Range, g.Why)
	}
	return out
}

func TestEveryLayoutCompressionAndEncryptionIsRead(t *testing.T) {
	batches := plain(0, 5, 400, 3)
	segments := cut(t, batches, 101, 290)
	for name, change := range map[string]func(*tieredtest.Aiven){
		"plain":                     func(*tieredtest.Aiven) {},
		"compressed":                func(w *tieredtest.Aiven) { w.Compress = true },
		"encrypted":                 func(w *tieredtest.Aiven) { w.Key, w.KeyID = &rsaKey().PublicKey, "k1" },
		"compressed and encrypted":  func(w *tieredtest.Aiven) { w.Compress, w.Key, w.KeyID = true, &rsaKey().PublicKey, "k1" },
		"one chunk":                 func(w *tieredtest.Aiven) { w.ChunkSize = 1 << 20 },
		"one chunk, compressed":     func(w *tieredtest.Aiven) { w.ChunkSize, w.Compress = 1<<20, true },
		"chunks of a byte":          func(w *tieredtest.Aiven) { w.ChunkSize = 1 },
		"a chunk of the whole file": func(w *tieredtest.Aiven) { w.ChunkSize = len(segments[0].Log) },
	} {
		store := memblob.New()
		w := aiven(store)
		change(&w)
		put(t, w, 3, segments...)
		l := list(t, store, options())
		p := l.Find(3)
		if got := describe(p); got != "[5-400]" || len(p.Segments) != 3 || l.TopicID != topicID || p.Handover(5) != 400 || p.Handover(399) != 400 || p.Handover(400) != 400 || p.Handover(0) != 0 {
			t.Errorf("%s: %s, %+v", name, got, p)
		}
		s := p.Segments[1]
		if s.Range != (tieredsrc.Range{First: 101, Next: 290}) || s.Whole != s.Range || s.MaxTimestamp != 1287 || s.Size != int64(len(segments[1].Log)) {
			t.Errorf("%s: %+v", name, s)
		}
		expect(t, l, 3, 5, 400, values(5, 400))
		expect(t, l, 3, 99, 103, values(99, 103))
		expect(t, l, 3, 200, 201, values(200, 201))
		expect(t, l, 3, 200, 200, "")
		refused(t, l, 3, 4, 10, "the offsets 4-5 are not there: the segments begin at offset 5")
		refused(t, l, 3, 390, 401, "the segments end before offset 400")
		refused(t, l, 2, 390, 401, "no segment has that partition")
		refused(t, l, 3, 5, 4, "no range")
	}
	store := memblob.New()
	put(t, tieredtest.Local{Store: store, Topic: topic, TopicID: topicID}, 3, segments...)
	l := list(t, store, tieredsrc.Options{Topic: topic, Layout: tieredsrc.Local})
	if got := describe(l.Find(3)); got != "[5-400]" || l.Find(3).Segments[0].MaxTimestamp != -1 {
		t.Errorf("local: %s", got)
	}
	expect(t, l, 3, 5, 400, values(5, 400))
	expect(t, l, 3, 99, 103, values(99, 103))
}

func TestHolesOfCompactionAreJumped(t *testing.T) {
	batches := [][]byte{
		batchtest.Batch{First: 10, Offsets: []int32{1, 4}, More: 3, Values: []string{"a", "b"}}.Encode(), // 10-18
		batchtest.Batch{First: 30, Values: []string{"c"}}.Encode(),
		batchtest.Batch{First: 50, Values: []string{"d"}}.Encode(),
	}
	store := memblob.New()
	segments := cut(t, batches, 20, 40)
	segments[2].Next = 60
	put(t, aiven(store), 0, segments...)
	l := list(t, store, options())
	if got := describe(l.Find(0)); got != "[10-60]" {
		t.Error(got)
	}
	expect(t, l, 0, 10, 60, "11:a 14:b 30:c 50:d")
	expect(t, l, 0, 15, 50, "30:c")
	expect(t, l, 0, 31, 50, "")
}

// TestOverlapsAndDuplicatesAreReadOnce has what changes of the leader leave behind (R17).
func TestOverlapsAndDuplicatesAreReadOnce(t *testing.T) {
	batches := plain(2, 0, 300, 5)
	parts := func(from, to int64) [][]byte { return batches[from/5 : to/5] }
	store := memblob.New()
	w := aiven(store)
	whole := cut(t, parts(0, 300), 100, 200)
	put(t, w, 0, whole...)
	// The same again under another id, one that reaches farther, one across two, and one that lies within another.
	if err := w.Put(t.Context(), 0, tieredtest.ID("again"), whole[0]); err != nil {
		t.Fatal(err)
	}
	put(t, w, 0, cut(t, parts(0, 200))...)
	put(t, w, 0, cut(t, parts(90, 250))...)
	put(t, w, 0, cut(t, parts(110, 150))...)
	l := list(t, store, options())
	p := l.Find(0)
	if got := describe(p); got != "[0-300]" || len(p.Stale) > 0 {
		t.Error(got, p.Stale)
	}
	expect(t, l, 0, 0, 300, values(0, 300))
	for from := int64(0); from < 300; from += 37 {
		expect(t, l, 0, from, 300, values(from, 300))
	}
	// One of another log, with other records or other batches.
	for name, other := range map[string][][]byte{
		"other records": slices.Concat(parts(90, 195), [][]byte{batchtest.Batch{First: 195, Epoch: 2, Values: []string{"x", "y", "z", "u", "w"}}.Encode()}, parts(200, 300)),
		"other batches": slices.Concat(parts(90, 190), plain(2, 190, 310, 6)),
	} {
		store := memblob.New()
		put(t, aiven(store), 0, cut(t, parts(0, 200))...)
		segment := cut(t, other)[0]
		segment.Epochs = []byte("0\n1\n2 0\n")
		put(t, aiven(store), 0, segment)
		l := list(t, store, options())
		expect(t, l, 0, 0, 200, values(0, 200))
		if got, err := read(t, l, 0, 0, 300); err == nil || !strings.Contains(err.Error(), "not of one log") || got != values(0, 200) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecordsOfALeaderThatLostAreDropped(t *testing.T) {
	// The leader of epoch 3 had 0-200; that of epoch 5 was elected with 0-150 and went on.
	common := plain(3, 0, 150, 5)
	lost := slices.Concat(common, plain(3, 150, 200, 5))
	won := slices.Concat(common, plain(5, 150, 300, 5))
	for i := range won[30:] {
		won[30+i] = batchtest.Batch{First: 150 + 5*int64(i), Epoch: 5, Values: strings.Fields("w w w w w")}.Encode()
	}
	want := values(0, 150)
	for o := 150; o < 300; o++ {
		want += fmt.Sprintf(" %d:w", o)
	}
	for _, layout := range []tieredsrc.Layout{tieredsrc.Aiven, tieredsrc.Local} {
		store := memblob.New()
		var w writer = aiven(store)
		opts := options()
		if layout == tieredsrc.Local {
			w, opts = tieredtest.Local{Store: store, Topic: topic, TopicID: topicID}, tieredsrc.Options{Topic: topic, Layout: layout}
		}
		put(t, w, 0, cut(t, lost, 100)...)
		put(t, w, 0, cut(t, won, 120, 250)[1:]...)
		l := list(t, store, opts)
		p := l.Find(0)
		if got := describe(p); got != "[0-300]" || len(p.Stale) != 1 || fmt.Sprint(p.Epochs) != "[{3 0} {5 150}]" {
			t.Error(got, p.Stale, p.Epochs)
		}
		expect(t, l, 0, 0, 300, want)
		expect(t, l, 0, 145, 155, want[strings.Index(want, "145:"):strings.Index(want, " 155:")])

		// Without the segment that has 150 on, what the other has there is not taken for it.
		store = memblob.New()
		w = aiven(store)
		if layout == tieredsrc.Local {
			w = tieredtest.Local{Store: store, Topic: topic, TopicID: topicID}
		}
		put(t, w, 0, cut(t, lost, 100)...)
		put(t, w, 0, cut(t, won, 120, 250)[2])
		l = list(t, store, opts)
		if got := describe(l.Find(0)); !strings.HasPrefix(got, "[0-150 250-300] gap 150-250: only ") || !strings.Contains(got, "unclean") {
			t.Error(got)
		}
		refused(t, l, 0, 140, 155, "the offsets 150-155 are not there: only ")
		expect(t, l, 0, 140, 150, values(140, 150))
	}
}

func TestABatchOfAnotherEpochThanTheIndexSaysIsAnError(t *testing.T) {
	segments := cut(t, slices.Concat(plain(3, 0, 100, 5), plain(4, 100, 200, 5)), 100)
	segments[0].LeaderEpochs = map[int32]int64{4: 0}
	segments[1].Epochs = []byte("0\n1\n4 0\n")
	store := memblob.New()
	put(t, aiven(store), 0, segments...)
	refused(t, list(t, store, options()), 0, 0, 10, "the leader epoch 3 at offset 0, and the log 4")
}

func TestWhatADeletionLeftIsNotTheLog(t *testing.T) {
	batches := plain(1, 0, 300, 5)
	segments := cut(t, batches, 100, 200)
	segments[2].Epochs = []byte("0\n1\n1 130\n") // records up to 130 were deleted before it was copied
	store := memblob.New()
	put(t, aiven(store), 0, segments...)
	l := list(t, store, options())
	if got := describe(l.Find(0)); got != "[130-300]" || len(l.Find(0).Stale) > 0 {
		t.Error(got, l.Find(0).Stale)
	}
	expect(t, l, 0, 130, 300, values(130, 300))
	expect(t, l, 0, 133, 135, values(133, 135))
	refused(t, l, 0, 120, 300, "the offsets 120-130 are not there: the segments begin at offset 130")
}

func TestAMissingSegmentIsAGapThatIsNamed(t *testing.T) {
	segments := cut(t, plain(0, 0, 300, 5), 100, 200)
	for _, local := range []bool{false, true} {
		store := memblob.New()
		var w writer = aiven(store)
		opts := options()
		if local {
			w, opts = tieredtest.Local{Store: store, Topic: topic, TopicID: topicID}, tieredsrc.Options{Topic: topic, Layout: tieredsrc.Local}
		}
		put(t, w, 0, segments[0], segments[2])
		l := list(t, store, opts)
		if got := describe(l.Find(0)); got != "[0-100 200-300] gap 100-200: no segment has them" {
			t.Error(got)
		}
		if p := l.Find(0); p.Handover(50) != 100 || p.Handover(150) != 150 || p.Handover(250) != 300 {
			t.Error("handover")
		}
		expect(t, l, 0, 0, 100, values(0, 100))
		expect(t, l, 0, 250, 300, values(250, 300))
		refused(t, l, 0, 0, 300, "the offsets 100-200 are not there: no segment has them")
		refused(t, l, 0, 120, 130, "the offsets 120-130 are not there: no segment has them")
	}
}

// TestAManifestWithoutItsLogIsNotAnEmptySegment has a deletion seen halfway: it may be over when the store is listed again.
func TestAManifestWithoutItsLogIsNotAnEmptySegment(t *testing.T) {
	segments := cut(t, plain(0, 0, 300, 5), 100, 200)
	for _, part := range []string{".log", ".indexes"} {
		store := memblob.New()
		w := aiven(store)
		put(t, w, 0, segments...)
		stem := func(i int) string {
			s := segments[i]
			return w.Stem(0, tieredtest.ID(fmt.Sprint(s.Base, s.Next, len(s.Log), string(s.Epochs))), s.Base)
		}
		if err := store.Delete(t.Context(), stem(1)+part); err != nil {
			t.Fatal(err)
		}
		listings := &counted{Store: store}
		l := list(t, listings, options())
		if got := describe(l.Find(0)); !strings.HasPrefix(got, "[0-100 200-300] gap 100-200: ") || !strings.Contains(got, "is there, but not "+stem(1)+part) {
			t.Error(got)
		}
		if listings.lists != 4 { // each of a page, and the empty one after it
			t.Errorf("%d listings", listings.lists)
		}
		refused(t, l, 0, 90, 110, "is there, but not")
		// Another segment has the offsets: then it does not matter.
		put(t, w, 0, cut(t, plain(0, 0, 250, 5)[10:])...)
		if got := describe(list(t, store, options()).Find(0)); got != "[0-300]" {
			t.Error(got)
		}
		// The newest one says what the log is.
		if err := store.Delete(t.Context(), stem(2)+part); err != nil {
			t.Fatal(err)
		}
		if _, err := tieredsrc.List(t.Context(), store, options()); !errors.Is(err, tieredsrc.ErrChanged) || !strings.Contains(err.Error(), stem(2)+part) {
			t.Error(err)
		}
	}
	// It is over when the store is listed again.
	store := memblob.New()
	w := aiven(store)
	put(t, w, 0, segments...)
	stem := w.Stem(0, tieredtest.ID(fmt.Sprint(int64(0), int64(100), len(segments[0].Log), string(segments[0].Epochs))), 0)
	if err := store.Delete(t.Context(), stem+".log"); err != nil {
		t.Fatal(err)
	}
	l := list(t, &counted{Store: store, then: func(n int) {
		if n == 2 {
			_ = store.Delete(t.Context(), stem+".rsm-manifest")
		}
	}}, options())
	if got := describe(l.Find(0)); got != "[100-300]" || l.Ignored != 1 {
		t.Error(got, l.Ignored)
	}
	// A copy that is not over has no manifest yet.
	if err := store.Delete(t.Context(), w.Stem(0, tieredtest.ID(fmt.Sprint(int64(200), int64(300), len(segments[2].Log), string(segments[2].Epochs))), 200)+".rsm-manifest"); err != nil {
		t.Fatal(err)
	}
	if got := describe(list(t, store, options()).Find(0)); got != "[100-200]" {
		t.Error(got)
	}
}

// counted counts listings and reads, and calls then after each listing.
type counted struct {
	blob.Store
	mu          sync.Mutex
	lists, gets int
	bytes       int64
	then        func(lists int)
}

func (c *counted) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	page, err := c.Store.List(ctx, prefix, after, limit)
	c.lists++
	if c.then != nil {
		c.then(c.lists)
	}
	return page, err
}

func (c *counted) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	c.mu.Lock()
	c.gets++
	c.bytes += opts.Length
	c.mu.Unlock()
	return c.Store.Get(ctx, key, opts)
}

// TestSeveralTopicsOfOneName has a topic that was deleted and created again (R28).
func TestSeveralTopicsOfOneName(t *testing.T) {
	store := memblob.New()
	put(t, aiven(store), 0, cut(t, plain(0, 0, 10, 5))...)
	other := aiven(store)
	other.TopicID = tieredtest.ID("recreated")
	put(t, other, 0, cut(t, plain(0, 0, 20, 5))...)
	longer := aiven(store)
	longer.Topic += "-" + topicID // a topic whose name begins like this one's folder
	put(t, longer, 0, cut(t, plain(0, 0, 30, 5))...)
	opts := options()
	if _, err := tieredsrc.List(t.Context(), store, opts); err == nil || !strings.Contains(err.Error(), topicID) || !strings.Contains(err.Error(), other.TopicID) {
		t.Error(err)
	}
	for id, want := range map[string]string{topicID: "[0-10]", other.TopicID: "[0-20]"} {
		opts.TopicID = id
		if got := describe(list(t, store, opts).Find(0)); got != want {
			t.Errorf("%s: %s", id, got)
		}
	}
	opts.TopicID = tieredtest.ID("never")
	if _, err := tieredsrc.List(t.Context(), store, opts); err == nil || !strings.Contains(err.Error(), "only "+min(topicID, other.TopicID)) {
		t.Error(err)
	}
	opts.TopicID = "x"
	if _, err := tieredsrc.List(t.Context(), store, opts); err == nil || !strings.Contains(err.Error(), "22 characters") {
		t.Error(err)
	}
	opts = options()
	opts.Topic = "or"
	if _, err := tieredsrc.List(t.Context(), store, opts); err == nil || !strings.Contains(err.Error(), "no segment of the topic") {
		t.Error(err)
	}
	opts.Topic = longer.Topic
	if got := describe(list(t, store, opts).Find(0)); got != "[0-30]" {
		t.Error(got)
	}
}

func TestAPrefixThatWasChanged(t *testing.T) {
	store := memblob.New()
	segments := cut(t, plain(0, 0, 300, 5), 100, 200)
	old := aiven(store)
	old.Prefix = "old prefix+ü/"
	put(t, old, 0, segments[:2]...)
	put(t, aiven(store), 0, segments[1:]...)
	opts := options()
	l := list(t, store, opts)
	if got := describe(l.Find(0)); got != "[100-300]" {
		t.Error(got)
	}
	refused(t, l, 0, 0, 300, "was the key prefix another one before?")
	opts.Prefixes = append(opts.Prefixes, old.Prefix)
	l = list(t, store, opts)
	if got := describe(l.Find(0)); got != "[0-300]" {
		t.Error(got)
	}
	expect(t, l, 0, 0, 300, values(0, 300))
	opts.Prefixes = []string{"some/prefix"}
	if _, err := tieredsrc.List(t.Context(), store, opts); err == nil || !strings.Contains(err.Error(), "key.prefix") {
		t.Error(err)
	}
}

func TestStrayObjects(t *testing.T) {
	store := memblob.New()
	put(t, aiven(store), 0, cut(t, plain(0, 0, 10, 5))...)
	dir := "some/prefix-" + topic + "-" + topicID + "/0/"
	for _, key := range []string{dir + ".hidden", dir + "_SUCCESS", dir + "00000000000000000000-" + tieredtest.ID("x") + ".log", "some/prefix-" + topic + "-other/x", "some/prefix-" + topic + "x"} {
		if _, err := blob.PutBytes(t.Context(), store, key, []byte("x"), blob.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	if l := list(t, store, options()); l.Ignored != 3 || describe(l.Find(0)) != "[0-10]" {
		t.Error(l.Ignored, describe(l.Find(0)))
	}
	if _, err := blob.PutBytes(t.Context(), store, dir+"0001.log", []byte("x"), blob.Condition{}); err != nil {
		t.Fatal(err)
	}
	if _, err := tieredsrc.List(t.Context(), store, options()); err == nil || !strings.Contains(err.Error(), dir+"0001.log") {
		t.Error(err)
	}
}

func TestPartitionsAreListedAlone(t *testing.T) {
	for _, layout := range []tieredsrc.Layout{tieredsrc.Aiven, tieredsrc.Local} {
		store := &counted{Store: memblob.New()}
		var w writer = aiven(store)
		opts := options()
		if layout == tieredsrc.Local {
			w, opts = tieredtest.Local{Store: store, Topic: topic, TopicID: topicID}, tieredsrc.Options{Topic: topic, Layout: layout}
		}
		for p := range int32(12) {
			put(t, w, p, cut(t, plain(0, 0, 10*int64(p)+10, 5))...)
		}
		if l := list(t, store, opts); len(l.Partitions) != 12 || l.Partitions[11].Partition != 11 || describe(l.Find(3)) != "[0-40]" {
			t.Error(len(l.Partitions))
		}
		store.gets = 0
		opts.TopicID, opts.Partitions = topicID, []int32{1}
		l := list(t, store, opts)
		if len(l.Partitions) != 1 || describe(l.Find(1)) != "[0-20]" || store.gets > 4 {
			t.Error(len(l.Partitions), store.gets)
		}
		expect(t, l, 1, 0, 20, values(0, 20))
		opts.Partitions = []int32{1, 11, 77}
		if l := list(t, store, opts); len(l.Partitions) != 2 || describe(l.Find(11)) != "[0-120]" {
			t.Error(len(l.Partitions))
		}
	}
}

func TestWhatCannotBeListedIsRefused(t *testing.T) {
	for want, opts := range map[string]tieredsrc.Options{
		"no topic's name":         {Layout: tieredsrc.Aiven},
		"this is no topic's name": {Topic: "a/b", Layout: tieredsrc.Local},
		`layout "s3" is not read`: {Topic: "a", Layout: "s3"},
		"no segment of the topic": {Topic: "a", Layout: tieredsrc.Local},
	} {
		if _, err := tieredsrc.List(t.Context(), memblob.New(), opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", opts, err, want)
		}
	}
}

// TestACopyUnderWayIsNotASegmentYet has LocalTieredStorage write one, whose snapshot comes last.
func TestACopyUnderWayIsNotASegmentYet(t *testing.T) {
	segments := cut(t, plain(0, 0, 30, 5), 20)
	store := memblob.New()
	w := tieredtest.Local{Store: store, Topic: topic, TopicID: topicID}
	put(t, w, 0, segments...)
	for _, key := range keys(t, store) {
		if strings.Contains(key, "/00000000000000000020-") && strings.HasSuffix(key, ".snapshot") {
			if err := store.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	l := list(t, store, tieredsrc.Options{Topic: topic, Layout: tieredsrc.Local})
	if got := describe(l.Find(0)); got != "[0-20]" || l.Ignored != 4 {
		t.Error(got, l.Ignored)
	}
}
