// Package batchtest encodes record batches for tests, among them ones that no broker in process makes: of any offset, leader epoch
// and transaction, and damaged ones.
package batchtest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Batch is a record batch. Its zero value is one without records at offset 0.
type Batch struct {
	First int64
	// Offsets are those of Values relative to First; nil means 0, 1, 2 and so on.
	Offsets []int32
	// More is how many offsets the batch has past its last record, as where compaction removed the last ones.
	More   int32
	Values []string
	Keys   []string // nil: none have a key
	Header string   // the name of a header of every record; empty: none

	Epoch     int32
	Timestamp int64 // milliseconds, of all records
	// Producer is the id of the transaction's producer, plus one, so that 0 means no transaction.
	Producer int64
	Codec    kgo.CompressionCodec
}

// Encode returns the batch as it lies in a log.
func (b Batch) Encode() []byte {
	out := kmsg.RecordBatch{
		FirstOffset: b.First, Magic: 2, PartitionLeaderEpoch: b.Epoch, LastOffsetDelta: b.More - 1, NumRecords: int32(len(b.Values)),
		FirstTimestamp: b.Timestamp, MaxTimestamp: b.Timestamp, ProducerID: b.Producer - 1, ProducerEpoch: -1, FirstSequence: -1,
	}
	if b.Producer > 0 {
		out.Attributes = 0x10
	}
	for i, v := range b.Values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte(v)}
		if b.Offsets != nil {
			r.OffsetDelta = b.Offsets[i]
		}
		if b.Keys != nil {
			r.Key = []byte(b.Keys[i])
		}
		if b.Header != "" {
			r.Headers = []kmsg.Header{{Key: b.Header, Value: []byte("x")}}
		}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // less the length itself, which as 0 takes one byte
		out.Records = r.AppendTo(out.Records)
		out.LastOffsetDelta = r.OffsetDelta + b.More
	}
	if c, err := kgo.DefaultCompressor(b.Codec); err != nil {
		panic(err)
	} else if c != nil {
		raw, codec := c.Compress(new(bytes.Buffer), out.Records)
		out.Records = bytes.Clone(raw)
		out.Attributes |= int16(codec)
	}
	return Seal(out.AppendTo(nil))
}

// Marker returns the batch that ends a producer's transaction. Producer counts as in [Batch].
func Marker(offset, producer int64, epoch int32, commit bool) []byte {
	key := []byte{0, 0, 0, 0}
	if commit {
		key[3] = 1
	}
	r := kmsg.Record{Key: key, Value: []byte{0, 0, 0, 0, 0, 0}}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	b := kmsg.RecordBatch{
		FirstOffset: offset, Magic: 2, PartitionLeaderEpoch: epoch, NumRecords: 1, Attributes: 0x30, ProducerID: producer - 1, FirstSequence: -1,
		Records: r.AppendTo(nil),
	}
	return Seal(b.AppendTo(nil))
}

// Seal sets the length and the checksum of a batch that was changed, and returns it.
func Seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}
