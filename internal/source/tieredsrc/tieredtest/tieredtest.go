// Package tieredtest writes tiered segments for tests: a log of record batches is cut into segments as a broker would
// ([Cut]), and these are put into a store in the layout of Aiven's plugin ([Aiven]) or of Kafka's LocalTieredStorage ([Local]).
//
// No object that the plugin itself wrote was at hand: what is written here follows the format's rules as they stand in the
// plugin's source, with test vectors of its codec for chunk sizes. What LocalTieredStorage writes was held against real Kafka.
package tieredtest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha3"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"

	"hindcast/internal/blob"
	"hindcast/internal/source/logbatch"
)

// ID makes an id, as of a topic or a segment, out of any text.
func ID(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Segment is a segment of a log with all that a broker hands to tiered storage. What a test wants otherwise it changes.
type Segment struct {
	Base, Next   int64 // Next is the base of the segment after it
	MaxTimestamp int64
	Log          []byte
	Offsets      []byte          // offset index
	Times        []byte          // time index
	Snapshot     []byte          // of the producers, at the end
	Epochs       []byte          // leader epoch checkpoint, from the log's start to the end
	Txns         []byte          // transaction index; nil where no transaction was aborted
	LeaderEpochs map[int32]int64 // of the segment
}

// Split takes the batches of a log or of a fetch response apart.
func Split(raw []byte) ([][]byte, error) {
	var out [][]byte
	for len(raw) > 0 {
		h, err := logbatch.Parse(raw)
		if err != nil {
			return nil, err
		}
		out = append(out, raw[:h.Size:h.Size])
		raw = raw[h.Size:]
	}
	return out, nil
}

type transaction struct {
	producer, first int64
}

// Cut cuts a log, given as its batches, at offsets, each of which must be one that a batch begins at, or lie between two: it
// gives one segment more than there are offsets.
// The log starts with the first batch.
func Cut(batches [][]byte, at ...int64) ([]Segment, error) {
	var out []Segment
	var s *Segment
	var epochs []string
	var lastEpoch int32
	var open []transaction // ascending by first
	producers := map[int64]logbatch.Header{}
	end := int64(0)
	finish := func(next int64) {
		s.Next = next
		s.Epochs = fmt.Appendf(nil, "0\n%d\n", len(epochs))
		for _, e := range epochs {
			s.Epochs = append(s.Epochs, e...)
		}
		s.Snapshot = snapshot(producers, open)
		out = append(out, *s)
	}
	for _, raw := range batches {
		h, err := logbatch.Parse(raw)
		if err != nil {
			return nil, err
		}
		next := s == nil
		if len(at) > 0 && s != nil && h.First >= at[0] {
			finish(at[0])
			next, at = true, at[1:]
		}
		if next {
			base := h.First
			if len(out) > 0 {
				base = out[len(out)-1].Next
			}
			s = &Segment{Base: base, MaxTimestamp: -1, LeaderEpochs: map[int32]int64{}}
			if len(epochs) > 0 && (h.Epoch == lastEpoch || h.First > base) {
				s.LeaderEpochs[lastEpoch] = base // which began before
			}
		}
		if len(epochs) == 0 || h.Epoch != lastEpoch {
			epochs, lastEpoch = append(epochs, fmt.Sprintf("%d %d\n", h.Epoch, h.First)), h.Epoch
		}
		if _, ok := s.LeaderEpochs[h.Epoch]; !ok {
			s.LeaderEpochs[h.Epoch] = h.First
		}
		s.Offsets = binary.BigEndian.AppendUint32(s.Offsets, uint32(h.Next-1-s.Base))
		s.Offsets = binary.BigEndian.AppendUint32(s.Offsets, uint32(len(s.Log)))
		s.Times = binary.BigEndian.AppendUint64(s.Times, uint64(h.MaxTimestamp))
		s.Times = binary.BigEndian.AppendUint32(s.Times, uint32(h.Next-1-s.Base))
		s.MaxTimestamp = max(s.MaxTimestamp, h.MaxTimestamp)
		s.Log = append(s.Log, raw...)
		if open, err = s.track(h, raw, open); err != nil {
			return nil, err
		}
		if h.ProducerID >= 0 {
			producers[h.ProducerID] = h
		}
		end = h.Next
	}
	if s != nil {
		finish(end)
	}
	return out, nil
}

// track follows transactions through a batch, and writes the transaction index.
func (s *Segment) track(h logbatch.Header, raw []byte, open []transaction) ([]transaction, error) {
	at := slices.IndexFunc(open, func(t transaction) bool { return t.producer == h.ProducerID })
	switch {
	case !h.Transactional():
	case !h.Control() && at < 0:
		open = append(open, transaction{h.ProducerID, h.First})
	case h.Control() && at >= 0:
		records, err := logbatch.Decode("", 0, h, raw)
		if err != nil {
			return nil, err
		}
		m, _, err := logbatch.ReadMarker(h, records)
		if err != nil {
			return nil, err
		}
		t := open[at]
		open = slices.Delete(open, at, at+1)
		if m.Abort {
			stable := h.First + 1
			if len(open) > 0 {
				stable = open[0].first
			}
			s.Txns = binary.BigEndian.AppendUint16(s.Txns, 0)
			for _, v := range []int64{t.producer, t.first, h.First, stable} {
				s.Txns = binary.BigEndian.AppendUint64(s.Txns, uint64(v))
			}
		}
	}
	return open, nil
}

func snapshot(producers map[int64]logbatch.Header, open []transaction) []byte {
	body := binary.BigEndian.AppendUint32(nil, uint32(len(producers)))
	for _, id := range slices.Sorted(maps.Keys(producers)) {
		h := producers[id]
		first := int64(-1)
		for _, t := range open {
			if t.producer == id {
				first = t.first
			}
		}
		body = binary.BigEndian.AppendUint64(body, uint64(id))
		body = binary.BigEndian.AppendUint16(body, uint16(h.ProducerEpoch))
		body = binary.BigEndian.AppendUint32(body, 0)
		body = binary.BigEndian.AppendUint64(body, uint64(h.Next-1))
		body = binary.BigEndian.AppendUint32(body, 0)
		body = binary.BigEndian.AppendUint64(body, uint64(h.MaxTimestamp))
		body = binary.BigEndian.AppendUint32(body, 0)
		body = binary.BigEndian.AppendUint64(body, uint64(first))
	}
	head := binary.BigEndian.AppendUint16(nil, 1)
	head = binary.BigEndian.AppendUint32(head, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(head, body...)
}

// Aiven writes the layout of Aiven's plugin.
type Aiven struct {
	Store          blob.Store
	Prefix         string // verbatim
	Topic, TopicID string
	Compress       bool
	Key            *rsa.PublicKey // encrypts; nil: not
	KeyID          string
	ChunkSize      int // bytes; 0 means 1,000
}

// Stem returns the key of a segment's objects up to the dot.
func (w Aiven) Stem(partition int32, id string, base int64) string {
	return fmt.Sprintf("%s%s-%s/%d/%020d-%s", w.Prefix, w.Topic, w.TopicID, partition, base, id)
}

// Put writes a segment under its id.
func (w Aiven) Put(ctx context.Context, partition int32, id string, s Segment) error {
	stem := w.Stem(partition, id, s.Base)
	log, indexes, manifest, err := w.Objects(partition, id, s)
	if err != nil {
		return err
	}
	for _, o := range []struct {
		part string
		body []byte
	}{{".log", log}, {".indexes", indexes}, {".rsm-manifest", manifest}} {
		if _, err := blob.PutBytes(ctx, w.Store, stem+o.part, o.body, blob.Condition{}); err != nil {
			return err
		}
	}
	return nil
}

type box map[string]any

// Objects returns the bodies of a segment's three objects.
func (w Aiven) Objects(partition int32, id string, s Segment) (log, indexes, manifest []byte, err error) {
	seal := func(b []byte) []byte { return b }
	m := box{"version": "1", "compression": w.Compress, "aFieldOfALaterVersion": box{"x": 1}}
	if w.Key != nil {
		key, aad := make([]byte, 32), make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		_, _ = rand.Read(aad)
		wrapped, err := rsa.EncryptOAEP(sha3.New512(), rand.Reader, w.Key, key, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		m["encryption"] = box{"dataKey": w.KeyID + ":" + base64.StdEncoding.EncodeToString(wrapped), "aad": aad}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, nil, nil, err
		}
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			return nil, nil, nil, err
		}
		seal = func(b []byte) []byte {
			iv := make([]byte, gcm.NonceSize())
			_, _ = rand.Read(iv)
			return gcm.Seal(iv, iv, b, aad)
		}
	}
	pack := func(b []byte) []byte { return b }
	if w.Compress {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, nil, nil, err
		}
		pack = func(b []byte) []byte { return z.EncodeAll(b, nil) }
	}
	size := cmp.Or(w.ChunkSize, 1000)
	var sizes []int32
	for chunk := range slices.Chunk(s.Log, size) {
		stored := seal(pack(chunk))
		sizes = append(sizes, int32(len(stored)))
		log = append(log, stored...)
	}
	index := box{"originalChunkSize": size, "originalFileSize": len(s.Log)}
	if w.Compress {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, nil, nil, err
		}
		index["type"], index["transformedChunks"] = "variable", z.EncodeAll(Sizes(sizes), nil)
	} else {
		index["type"], index["transformedChunkSize"], index["finalTransformedChunkSize"] = "fixed", 0, 0
		if n := len(sizes); n > 0 {
			index["transformedChunkSize"], index["finalTransformedChunkSize"] = sizes[0], sizes[n-1]
		}
	}
	m["chunkIndex"] = index
	parts := box{"transaction": nil}
	for _, p := range []struct {
		name string
		body []byte
	}{{"offset", s.Offsets}, {"timestamp", s.Times}, {"producerSnapshot", s.Snapshot}, {"leaderEpoch", s.Epochs}, {"transaction", s.Txns}} {
		if p.name == "transaction" && p.body == nil {
			continue
		}
		body := p.body
		if len(body) > 0 {
			body = seal(body)
		}
		parts[p.name] = box{"position": len(indexes), "size": len(body)}
		indexes = append(indexes, body...)
	}
	m["segmentIndexes"] = parts
	m["remoteLogSegmentMetadata"] = box{
		"remoteLogSegmentId": box{
			"topicIdPartition": box{"topicId": w.TopicID, "topicPartition": box{"topic": w.Topic, "partition": partition}}, "id": id,
		},
		"startOffset": s.Base, "endOffset": s.Next - 1, "maxTimestampMs": s.MaxTimestamp, "brokerId": 0, "eventTimestampMs": s.MaxTimestamp,
		"segmentLeaderEpochs": s.LeaderEpochs,
	}
	manifest, err = json.Marshal(m)
	return log, indexes, manifest, err
}

// Sizes encodes the sizes of chunks as the plugin's ChunkSizesBinaryCodec does.
func Sizes(sizes []int32) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(sizes)))
	switch len(sizes) {
	case 0:
		return out
	case 1:
		return binary.BigEndian.AppendUint32(out, uint32(sizes[0]))
	}
	but, last := sizes[:len(sizes)-1], sizes[len(sizes)-1]
	base, width := slices.Min(but), 1
	for d := slices.Max(but) - base; d > 0xff; d >>= 8 {
		width++
	}
	out = append(binary.BigEndian.AppendUint32(out, uint32(base)), byte(width))
	for _, s := range but {
		out = append(out, binary.BigEndian.AppendUint32(nil, uint32(s-base))[4-width:]...)
	}
	return binary.BigEndian.AppendUint32(out, uint32(last))
}

// Local writes the layout of LocalTieredStorage.
type Local struct {
	Store          blob.Store
	Topic, TopicID string
}

// Stem returns the key of a segment's objects up to the dot.
func (w Local) Stem(partition int32, id string, base int64) string {
	return fmt.Sprintf("%s-%d-%s/%020d-%s", w.Topic, partition, w.TopicID, base, id)
}

// Put writes a segment under its id.
func (w Local) Put(ctx context.Context, partition int32, id string, s Segment) error {
	stem := w.Stem(partition, id, s.Base)
	for part, body := range map[string][]byte{
		".log": s.Log, ".index": s.Offsets, ".timeindex": s.Times, ".txnindex": s.Txns, ".leader_epoch_checkpoint": s.Epochs, ".snapshot": s.Snapshot,
	} {
		if part == ".txnindex" && body == nil {
			continue
		}
		if _, err := w.Store.Put(ctx, stem+part, bytes.NewReader(body), blob.Condition{}); err != nil {
			return err
		}
	}
	return nil
}
