package tieredsrc_test

import (
	"errors"
	"io"
	"slices"
	"testing"

	"hindcast/internal/blob"
	"hindcast/internal/blob/memblob"
	"hindcast/internal/source/logbatch/batchtest"
	"hindcast/internal/source/tieredsrc"
	"hindcast/internal/source/tieredsrc/tieredtest"
)

// readAll lists and reads what a store has, and holds that it gives no offset twice and none that it does not have.
func readAll(t *testing.T, store blob.Store, opts tieredsrc.Options) {
	l, err := tieredsrc.List(t.Context(), store, opts)
	if err != nil {
		return
	}
	for _, p := range l.Partitions {
		for _, rg := range p.Ranges {
			r, err := l.Read(t.Context(), p.Partition, rg.First, rg.Next)
			if err != nil {
				continue
			}
			last := rg.First - 1
			for {
				records, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) && r.Covered() != rg.Next {
					t.Fatalf("%v is covered to %d", rg, r.Covered())
				}
				if err != nil {
					break
				}
				for _, rec := range records {
					if rec.Offset <= last || rec.Offset >= r.Covered() || r.Covered() > rg.Next {
						t.Fatalf("offset %d after %d, covered to %d of %v", rec.Offset, last, r.Covered(), rg)
					}
					last = rec.Offset
				}
			}
		}
	}
}

func store(t *testing.T, objects map[string][]byte) blob.Store {
	s := memblob.New()
	for key, body := range objects {
		if _, err := blob.PutBytes(t.Context(), s, key, body, blob.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func seeds(f *testing.F) []tieredtest.Segment {
	h := newHistory()
	h.write(1, 3)
	h.write(0, 2)
	h.end(1, false)
	h.write(2, 2)
	h.end(2, true)
	out, err := tieredtest.Cut(append(h.batches, batchtest.Batch{First: h.next, Epoch: 1, Values: []string{"a"}}.Encode()))
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// FuzzAiven reads three objects that are made of anything. Where reseal is set the first batch's checksum is made right.
func FuzzAiven(f *testing.F) {
	for _, s := range seeds(f) {
		for _, w := range []tieredtest.Aiven{{}, {Compress: true, ChunkSize: 100}, {Key: &rsaKey().PublicKey, KeyID: "k1"}} {
			w.Topic, w.TopicID = topic, topicID
			log, indexes, manifest, err := w.Objects(0, tieredtest.ID("x"), s)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(log, indexes, manifest, false)
			f.Add(log, indexes, manifest, true)
		}
	}
	opts := options()
	opts.Prefixes = nil
	stem := tieredtest.Aiven{Topic: topic, TopicID: topicID}.Stem(0, tieredtest.ID("x"), 0)
	f.Fuzz(func(t *testing.T, log, indexes, manifest []byte, reseal bool) {
		readAll(t, store(t, map[string][]byte{stem + ".log": sealed(log, reseal), stem + ".indexes": indexes, stem + ".rsm-manifest": manifest}), opts)
	})
}

// FuzzLocal does the same with the files of LocalTieredStorage.
func FuzzLocal(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s.Log, s.Epochs, s.Snapshot, s.Txns, true)
		f.Add(s.Log, s.Epochs, s.Snapshot, s.Txns, false)
	}
	stem := tieredtest.Local{Topic: topic, TopicID: topicID}.Stem(0, tieredtest.ID("x"), 0)
	f.Fuzz(func(t *testing.T, log, epochs, snapshot, txns []byte, reseal bool) {
		readAll(t, store(t, map[string][]byte{
			stem + ".log": sealed(log, reseal), stem + ".leader_epoch_checkpoint": epochs, stem + ".snapshot": snapshot, stem + ".txnindex": txns,
		}), tieredsrc.Options{Topic: topic, Layout: tieredsrc.Local})
	})
}

func sealed(log []byte, reseal bool) []byte {
	if batches, err := tieredtest.Split(log); err == nil && reseal && len(batches) > 0 {
		log = slices.Clone(log)
		batchtest.Seal(log[:len(batches[0])])
	}
	return log
}
