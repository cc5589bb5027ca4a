package tieredsrc_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/source/logbatch/batchtest"
	"hindcast/internal/source/tieredsrc"
	"hindcast/internal/source/tieredsrc/tieredtest"
	"hindcast/internal/testenv"
)

// keys lists a store's objects.
func keys(t *testing.T, s blob.Store) []string {
	t.Helper()
	var out []string
	for info, err := range blob.All(t.Context(), s, "") {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, info.Key)
	}
	return out
}

func body(t *testing.T, s blob.Store, key string) []byte {
	t.Helper()
	b, _, err := blob.ReadAll(t.Context(), s, key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func replace(t *testing.T, s blob.Store, key string, b []byte) {
	t.Helper()
	if _, err := blob.PutBytes(t.Context(), s, key, b, blob.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// TestNoDamageGivesOtherRecords flips every byte of every object, and cuts each short: what is read is what was written, or an error.
func TestNoDamageGivesOtherRecords(t *testing.T) {
	h := newHistory()
	h.write(1, 3)
	h.write(0, 3)
	h.end(1, false)
	h.write(2, 3)
	h.end(2, true)
	segment := cut(t, h.batches)[0]
	for name, change := range map[string]func(*tieredtest.Aiven){
		"aiven":            func(*tieredtest.Aiven) {},
		"aiven compressed": func(w *tieredtest.Aiven) { w.Compress, w.ChunkSize = true, 200 },
		"aiven encrypted":  func(w *tieredtest.Aiven) { w.Key, w.KeyID, w.ChunkSize = &rsaKey().PublicKey, "k1", 200 },
		"local":            nil,
	} {
		store := memblob.New()
		opts := options()
		if change == nil {
			put(t, tieredtest.Local{Store: store, Topic: topic, TopicID: topicID}, 0, segment)
			opts = tieredsrc.Options{Topic: topic, Layout: tieredsrc.Local}
		} else {
			w := aiven(store)
			change(&w)
			put(t, w, 0, segment)
		}
		harmless, encrypted := 0, strings.Contains(name, "encrypted") || strings.Contains(name, "compressed")
		var starts []int
		for at, batches := 0, h.batches; len(batches) > 0; at, batches = at+len(batches[0]), batches[1:] {
			starts = append(starts, at)
		}
		try := func(key string, b []byte, what string) {
			replace(t, store, key, b)
			l, err := tieredsrc.List(t.Context(), store, opts)
			if err != nil || len(l.Partitions) == 0 {
				return
			}
			end := l.Partitions[0].Handover(0) // a local segment that lost its end is a shorter one, and says so
			if len(l.Partitions) != 1 || end == 0 {
				return
			}
			got, err := read(t, l, l.Partitions[0].Partition, 0, end)
			switch {
			case err != nil: // what was read before it does not count
			case got != h.want(0, end):
				t.Errorf("%s, %s %s: %q to %d", name, key, what, got, end)
			case end > h.next:
				t.Errorf("%s, %s %s: covered to %d", name, key, what, end)
			default:
				harmless++
			}
		}
		for _, key := range keys(t, store) {
			whole := body(t, store, key)
			step := 7
			if testenv.Full() {
				step = 1
			}
			for i := 0; i < len(whole); i += step {
				b := slices.Clone(whole)
				b[i] ^= 1 << (i % 8)
				if strings.HasSuffix(key, ".rsm-manifest") && bytes.Contains(whole[max(0, i-16):i], []byte(`endOffset":`)) {
					continue // the range is said nowhere else: that it is longer than the log is no contradiction, see the holes of compaction
				}
				if strings.HasSuffix(key, ".log") && slices.ContainsFunc(starts, func(at int) bool { return i >= at && i < at+8 }) && !encrypted {
					continue // Kafka's checksum leaves out the offset of a batch
				}
				try(key, b, fmt.Sprint("with byte ", i, " flipped"))
			}
			for n := 0; n < len(whole); n += 3 * step {
				try(key, whole[:n], fmt.Sprint("cut to ", n))
			}
			try(key, append(slices.Clone(whole), 0), "with a byte more")
			replace(t, store, key, whole)
		}
		t.Logf("%s: %d changes do no harm", name, harmless)
	}
}

func TestTheWrongKeyIsNamed(t *testing.T) {
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	store := memblob.New()
	segments := cut(t, plain(0, 0, 300, 5), 100, 200)
	w := aiven(store)
	w.Key, w.KeyID = &rsaKey().PublicKey, "k1"
	put(t, w, 0, segments[0], segments[2])
	w.Key, w.KeyID = &other.PublicKey, "k2"
	put(t, w, 0, segments[1])
	opts := options()
	opts.Keys = map[string]*rsa.PrivateKey{"k1": rsaKey(), "k2": other}
	expect(t, list(t, store, opts), 0, 0, 300, values(0, 300))
	// What needs no key that is missing can be read.
	opts.Keys = map[string]*rsa.PrivateKey{"k1": rsaKey()}
	l := list(t, store, opts)
	expect(t, l, 0, 200, 300, values(200, 300))
	refused(t, l, 0, 0, 300, `encrypted with the key "k2", and given are ["k1"]`)
	opts.Keys = map[string]*rsa.PrivateKey{"k1": rsaKey(), "k2": rsaKey()}
	refused(t, list(t, store, opts), 0, 0, 300, `the private key given for "k2" does not open the segment's data key`)
	opts.Keys = nil
	if _, err := tieredsrc.List(t.Context(), store, opts); err == nil || !strings.Contains(err.Error(), `encrypted with the key "k1"`) {
		t.Error(err)
	}
}

func TestParseKey(t *testing.T) {
	der, err := x509.MarshalPKCS8PrivateKey(rsaKey())
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if k, err := tieredsrc.ParseKey(append(public, text...)); err != nil || !k.Equal(rsaKey()) {
		t.Error(err)
	}
	for _, bad := range [][]byte{nil, []byte("x"), public, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:50]})} {
		if _, err := tieredsrc.ParseKey(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// TestAReplacedObjectIsAnError replaces each object after the listing, and deletes it, as retention does (R27). The manifest is
// read when listing.
func TestAReplacedObjectIsAnError(t *testing.T) {
	for _, layout := range []tieredsrc.Layout{tieredsrc.Aiven, tieredsrc.Local} {
		for _, gone := range []bool{false, true} {
			store := memblob.New()
			var w writer = aiven(store)
			opts := options()
			if layout == tieredsrc.Local {
				w, opts = tieredtest.Local{Store: store, Topic: topic, TopicID: topicID}, tieredsrc.Options{Topic: topic, Layout: layout}
			}
			h := newHistory()
			h.write(1, 2)
			h.end(1, false)
			h.write(0, 2)
			segment := cut(t, h.batches)[0]
			put(t, w, 0, segment)
			l := list(t, store, opts)
			pinned := opts
			pinned.Objects = l.Find(0).Objects(0, 5)
			for _, key := range keys(t, store) {
				if !slices.ContainsFunc([]string{".log", ".indexes", ".txnindex"}, func(end string) bool { return strings.HasSuffix(key, end) }) {
					continue // what is read when listing; and of a log that small no offset index is
				}
				whole := body(t, store, key)
				if gone {
					if err := store.Delete(t.Context(), key); err != nil {
						t.Fatal(err)
					}
				} else {
					replace(t, store, key, append(slices.Clone(whole), whole...))
				}
				if got, err := read(t, l, 0, 0, 5); !errors.Is(err, tieredsrc.ErrChanged) || got != "" {
					t.Errorf("%s: %q, %v", key, got, err)
				}
				if l, err := tieredsrc.List(t.Context(), store, pinned); !errors.Is(err, tieredsrc.ErrChanged) {
					if err != nil {
						t.Fatal(err)
					}
					if got, err := read(t, l, 0, 0, 5); !errors.Is(err, tieredsrc.ErrChanged) || got != "" {
						t.Errorf("%s, pinned: %q, %v", key, got, err)
					}
				}
				replace(t, store, key, whole)
			}
			// What came later does not change what is pinned.
			put(t, w, 0, cut(t, append(h.batches, batchtest.Batch{First: 5, Values: []string{"x"}}.Encode()))...)
			expect(t, list(t, store, pinned), 0, 0, 5, h.want(0, 5))
		}
	}
}

// TestAManifestIsWrittenAnewWhenKeysChange has the plugin's rotation of the keys that wrap data keys.
func TestAManifestIsWrittenAnewWhenKeysChange(t *testing.T) {
	store := memblob.New()
	w := aiven(store)
	put(t, w, 0, cut(t, plain(0, 0, 100, 5))...)
	l := list(t, store, options())
	pinned := options()
	pinned.Objects = l.Find(0).Objects(0, 100)
	for _, key := range keys(t, store) {
		if strings.HasSuffix(key, ".rsm-manifest") {
			replace(t, store, key, append(body(t, store, key), '\n'))
		}
	}
	expect(t, list(t, store, pinned), 0, 0, 100, values(0, 100))
}

func TestManifestsThatAreNoneAreNamed(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"another version":        {`"version":"1"`, `"version":"2"`, `version "2"`},
		"no version":             {`"version":"1"`, `"v":"1"`, `version ""`},
		"no JSON":                {`{"aField`, `{{"aField`, "no JSON"},
		"another segment":        {`"startOffset":0`, `"startOffset":1`, "that of another segment"},
		"another topic":          {`"topic":"or-`, `"topic":"er-`, "that of another segment"},
		"no start":               {`"startOffset"`, `"x"`, "which offsets"},
		"no end":                 {`"endOffset"`, `"x"`, "which offsets"},
		"an end before it":       {`"endOffset":99`, `"endOffset":-2`, "no range"},
		"no epochs":              {`"segmentLeaderEpochs":{"0":0}`, `"segmentLeaderEpochs":{}`, "no segmentLeaderEpochs"},
		"epochs of other places": {`"segmentLeaderEpochs":{"0":0}`, `"segmentLeaderEpochs":{"0":500}`, "no leader epoch is known"},
		"other epochs":           {`"segmentLeaderEpochs":{"0":0}`, `"segmentLeaderEpochs":{"7":0}`, "by its manifest"},
		"no chunk index":         {`"chunkIndex"`, `"x"`, "no chunkIndex"},
		"another chunk index":    {`"type":"fixed"`, `"type":"other"`, `type "other"`},
		"a huge index":           {`"position":0,"size":`, `"position":0,"size":9`, "index"},
		"huge chunks":            {`"originalChunkSize":1000`, `"originalChunkSize":1000000000`, "1000000000"},
		"no chunks":              {`"originalChunkSize":1000`, `"originalChunkSize":0`, "chunks of 0 bytes"},
		"a huge file":            {`"originalFileSize":`, `"originalFileSize":999999999`, "more than Kafka's have"},
		"tiny chunks":            {`"originalChunkSize":1000,"originalFileSize":`, `"originalChunkSize":1,"originalFileSize":50000`, "chunks"},
		"other stored sizes":     {`"transformedChunkSize":1000`, `"transformedChunkSize":1001`, "damaged or cut off"},
		"negative stored sizes":  {`"transformedChunkSize":1000`, `"transformedChunkSize":-1`, "stored chunks of -1"},
		"more than is read":      {`"aFieldOfALaterVersion"`, `"` + strings.Repeat("x", 5<<20) + `"`, "more than 4194304 bytes"},
	} {
		store := memblob.New()
		put(t, aiven(store), 0, cut(t, plain(0, 0, 100, 5))...)
		for _, key := range keys(t, store) {
			if b := body(t, store, key); strings.HasSuffix(key, ".rsm-manifest") {
				if !bytes.Contains(b, []byte(test.old)) {
					t.Fatalf("%s: %s", name, b)
				}
				replace(t, store, key, bytes.Replace(b, []byte(test.old), []byte(test.new), 1))
			}
		}
		l, err := tieredsrc.List(t.Context(), store, options())
		if err == nil {
			_, err = read(t, l, 0, 0, 100)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
