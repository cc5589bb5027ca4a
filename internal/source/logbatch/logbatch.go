// Package logbatch decodes Kafka's record batches (message format 2, that of Kafka 0.11 and later), as brokers send them
// and as segment files hold them, and drops what a reader of committed records must not see. franz-go decodes the
// records; what it passes over in silence given several batches, or damaged ones, is an error here.
//
// No byte is trusted before it is checked: a batch is refused if it is larger than [MaxBytes], has more than [MaxRecords]
// records or headers, or would decompress to more than [MaxDecompressed], so that decoding one takes less than 700 MB at worst.
package logbatch

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The limits of a batch. Kafka's default limit is 1 MiB (max.message.bytes), compressed.
const (
	MaxBytes        = 64 << 20
	MaxDecompressed = 128 << 20
	MaxRecords      = 1 << 20
)

// HeaderSize is how many bytes a batch has before its records.
const HeaderSize = 61

// Where the header's fields lie, all big-endian.
const (
	lengthAt        = 8 // of what follows the prefix
	prefixSize      = 12
	epochAt         = 12
	magicAt         = 16
	crcAt           = 17 // CRC-32C, over everything from attributes on
	attributesAt    = 21
	lastDeltaAt     = 23
	maxTimestampAt  = 35
	producerAt      = 43
	producerEpochAt = 51
	countAt         = 57
)

// ErrCut means that the bytes end inside a batch. A broker cuts an answer so, anywhere but in its first batch; a file must not.
var ErrCut = errors.New("the batch is cut off")

// Header is what a batch says of itself.
type Header struct {
	First, Next   int64 // its offsets, half-open, those of records that compaction removed among them
	Size          int   // in bytes, with the header
	Epoch         int32 // of the leader that took it in
	CRC           uint32
	Attributes    int16
	MaxTimestamp  int64 // milliseconds
	ProducerID    int64 // -1: none
	ProducerEpoch int16
	Records       int32
}

// Control reports that the batch has no records for readers but a marker, the end of a transaction.
func (h Header) Control() bool { return h.Attributes&0x20 != 0 }

// Transactional reports that the batch is part of a transaction, or ends one.
func (h Header) Transactional() bool { return h.Attributes&0x10 != 0 }

// Parse reads the header that raw begins with. If raw ends before the batch does, that is [ErrCut].
// The header is not checked against the checksum: [Decode] and [Verify] do that.
func Parse(raw []byte) (Header, error) {
	if len(raw) < prefixSize {
		return Header{}, ErrCut
	}
	length := int64(int32(binary.BigEndian.Uint32(raw[lengthAt:])))
	size := prefixSize + length
	switch {
	case size <= magicAt:
		return Header{}, fmt.Errorf("the batch is cut off or damaged: it gives its length as %d bytes", length)
	case size > MaxBytes:
		return Header{}, fmt.Errorf("the batch has %d bytes: at most %d are read", size, MaxBytes)
	case len(raw) > magicAt && raw[magicAt] != 2:
		return Header{}, fmt.Errorf("the batch has message format %d: only that of Kafka 0.11 and later (2) is read", raw[magicAt])
	case size < HeaderSize:
		return Header{}, fmt.Errorf("the batch has %d bytes: its header alone has %d", size, HeaderSize)
	case int64(len(raw)) < size:
		return Header{}, ErrCut
	}
	return parse(raw, int(size))
}

func parse(raw []byte, size int) (Header, error) {
	first := int64(binary.BigEndian.Uint64(raw))
	lastDelta := int64(int32(binary.BigEndian.Uint32(raw[lastDeltaAt:])))
	h := Header{
		First:         first,
		Next:          first + lastDelta + 1,
		Size:          size,
		Epoch:         int32(binary.BigEndian.Uint32(raw[epochAt:])),
		CRC:           binary.BigEndian.Uint32(raw[crcAt:]),
		Attributes:    int16(binary.BigEndian.Uint16(raw[attributesAt:])),
		MaxTimestamp:  int64(binary.BigEndian.Uint64(raw[maxTimestampAt:])),
		ProducerID:    int64(binary.BigEndian.Uint64(raw[producerAt:])),
		ProducerEpoch: int16(binary.BigEndian.Uint16(raw[producerEpochAt:])),
		Records:       int32(binary.BigEndian.Uint32(raw[countAt:])),
	}
	switch {
	case first < 0 || first > math.MaxInt64-math.MaxInt32-1 || lastDelta < 0:
		return Header{}, fmt.Errorf("the batch begins at offset %d and has %d more: these are no offsets", first, lastDelta)
	case h.Records < 0 || h.Records > MaxRecords:
		return Header{}, fmt.Errorf("the batch at offset %d has %d records: at most %d are read", first, h.Records, MaxRecords)
	}
	return h, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Verify holds batch, which [Parse] gave h for, against its checksum.
func Verify(h Header, batch []byte) error {
	if sum := crc32.Checksum(batch[attributesAt:], castagnoli); sum != h.CRC {
		return fmt.Errorf("the batch at offset %d is damaged: its crc is %08x, its contents have %08x", h.First, h.CRC, sum)
	}
	return nil
}

// Decode returns all records of batch, which [Parse] gave h for, markers among them, ascending by offset. They may refer to batch's
// bytes, which must not change after.
func Decode(topic string, partition int32, h Header, batch []byte) ([]*kgo.Record, error) {
	if err := Verify(h, batch); err != nil {
		return nil, err
	}
	d := decompressor{records: h.Records}
	if h.Attributes&7 == 0 {
		if err := checkRecords(batch[HeaderSize:], h.Records); err != nil {
			return nil, fmt.Errorf("the batch at offset %d: %w", h.First, err)
		}
	}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: h.First, IsolationLevel: kgo.ReadUncommitted(), Topic: topic, Partition: partition, DisableCRCValidation: true,
	}, &kmsg.FetchResponseTopicPartition{Partition: partition, RecordBatches: batch}, d, nil)
	switch {
	case got.Err != nil:
		return nil, fmt.Errorf("the batch at offset %d: %w", h.First, got.Err)
	case next != h.Next:
		return nil, fmt.Errorf("the batch at offset %d ends at offset %d by its header and at %d by its records", h.First, h.Next, next)
	case len(got.Records) != int(h.Records):
		return nil, fmt.Errorf("the batch at offset %d has %d records by its header, but %d", h.First, h.Records, len(got.Records))
	}
	last := h.First - 1
	for _, r := range got.Records {
		if r.Offset <= last {
			return nil, fmt.Errorf("the batch at offset %d has offset %d after %d", h.First, r.Offset, last)
		}
		last = r.Offset
		ms := millis(r.Timestamp)
		if ms > maxMillis || ms < -maxMillis {
			return nil, fmt.Errorf("offset %d has the record time %d: in milliseconds, these are more than 290000 years", r.Offset, ms)
		}
		r.Timestamp = time.UnixMilli(ms)
	}
	return got.Records, nil
}

// maxMillis is how far from 1970 a record's time may be: what has a count of microseconds.
const maxMillis = math.MaxInt64 / 1000

// millis returns what a record's time is in the log. The library makes nanoseconds of it without looking whether they fit: beyond the year 2262, as with a
// producer that took microseconds for milliseconds, they wrap around. They are a product of 64 and an odd number modulo 2^64,
// so that all but the upper six bits, which are the sign's, can be told.
func millis(wrapped time.Time) int64 {
	const inverse = 0x10fb65668c26139 // of 1e6/64 modulo 2^58
	return int64(uint64(wrapped.UnixNano())>>6*inverse<<6) >> 6
}

// decompressor is the library's, bounded, and looks at what comes out before the library makes records of it.
type decompressor struct{ records int32 }

func (d decompressor) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	inner, err := bounded()
	if err != nil {
		return nil, err
	}
	out, err := inner.Decompress(src, codec)
	switch {
	case errors.Is(err, kgo.ErrMaxDecompress): // what the library says of it is about consumers
		return nil, fmt.Errorf("it would have more than %d bytes", MaxDecompressed)
	case err != nil:
		return nil, err
	}
	return out, checkRecords(out, d.records)
}

// bounded returns a client's decompressor: the one that the library gives out by itself has a limit of 2 GiB. The client connects to nothing.
var bounded = sync.OnceValues(func() (kgo.Decompressor, error) {
	cl, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(MaxDecompressed))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	d, ok := cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if !ok {
		return nil, errors.New("the Kafka library has no decompressor")
	}
	return d, nil
})

// checkRecords holds that raw is so many records and nothing else, with no more headers than MaxRecords: a header
// takes two bytes here, and forty when it is decoded.
func checkRecords(raw []byte, count int32) error {
	headers := int64(0)
	for n := range count {
		length, used := binary.Varint(raw)
		if used <= 0 || length < 1 || length > int64(len(raw)-used) {
			return fmt.Errorf("record %d is cut off", n)
		}
		r := raw[used+1 : used+int(length)] // past the attributes
		raw = raw[used+int(length):]
		skip := func(bytes bool) {
			v, used := binary.Varint(r)
			if !bytes {
				v = 0
			}
			if used <= 0 || v > int64(len(r)-used) {
				r = nil
				return
			}
			r = r[used+int(max(v, 0)):]
		}
		skip(false) // timestamp
		skip(false) // offset
		skip(true)  // key
		skip(true)  // value
		more, used := binary.Varint(r)
		if used <= 0 || more < 0 {
			return fmt.Errorf("record %d is cut off", n)
		}
		if headers += more; headers > MaxRecords {
			return fmt.Errorf("the records have more than %d headers", MaxRecords)
		}
	}
	if len(raw) > 0 {
		return fmt.Errorf("%d bytes follow the last record", len(raw))
	}
	return nil
}

// Marker is the end of a transaction.
type Marker struct {
	Offset     int64
	ProducerID int64
	Abort      bool
}

// ReadMarker reads the marker that a control batch consists of. Control batches of other kinds, which the log of no topic of
// users has, are no marker, and no error.
func ReadMarker(h Header, records []*kgo.Record) (m Marker, ok bool, err error) {
	if !h.Control() || len(records) == 0 {
		return Marker{}, false, nil
	}
	r := records[0]
	var key kmsg.ControlRecordKey
	if err := key.ReadFrom(r.Key); err != nil {
		return Marker{}, false, fmt.Errorf("the marker at offset %d cannot be read: %w", r.Offset, err)
	}
	m = Marker{Offset: r.Offset, ProducerID: h.ProducerID, Abort: key.Type == kmsg.ControlRecordKeyTypeAbort}
	return m, m.Abort || key.Type == kmsg.ControlRecordKeyTypeCommit, nil
}

// Transaction is one that was aborted.
type Transaction struct {
	ProducerID  int64
	First, Last int64 // the offset of its first record and of its marker
}

// Unknown is the Last of a transaction whose end a broker did not say: it ends with the next marker.
const Unknown = math.MaxInt64

// Aborted are the aborted transactions of a range of a log. It is made for one pass over the range's batches, ascending.
type Aborted struct {
	byProducer map[int64][]Transaction // ascending, ended ones removed
}

// NewAborted takes the transactions in any order.
func NewAborted(list []Transaction) *Aborted {
	a := &Aborted{byProducer: map[int64][]Transaction{}}
	for _, t := range list {
		a.byProducer[t.ProducerID] = append(a.byProducer[t.ProducerID], t)
	}
	for _, ts := range a.byProducer {
		slices.SortFunc(ts, func(a, b Transaction) int { return cmp.Compare(a.First, b.First) })
	}
	return a
}

// Committed returns those records of the next batch that readers are to see: none of a marker, nor of an aborted transaction.
func (a *Aborted) Committed(h Header, records []*kgo.Record) ([]*kgo.Record, error) {
	ts, some := a.byProducer[h.ProducerID]
	for len(ts) > 0 && ts[0].Last < h.First {
		ts = ts[1:]
	}
	inside := len(ts) > 0 && ts[0].First <= h.First
	switch {
	case h.Control():
		m, ok, err := ReadMarker(h, records)
		if err != nil {
			return nil, err
		}
		// A marker ends its producer's transaction; if that was aborted, the next one may not be.
		if ok && m.Abort && inside {
			ts = ts[1:]
		}
		records = nil
	case h.Transactional() && inside:
		records = nil
	}
	if some {
		a.byProducer[h.ProducerID] = ts
	}
	return records, nil
}

// Reader reads batches from a stream.
type Reader struct {
	in   io.Reader
	head [HeaderSize]byte
}

// NewReader reads from in, which begins with a batch.
func NewReader(in io.Reader) *Reader { return &Reader{in: in} }

// Next returns the next batch, in memory of its own, or io.EOF where the stream ends after the last. [ErrCut] means that it ends
// within a batch. After an error there is no use in going on.
func (r *Reader) Next() (Header, []byte, error) {
	n, err := io.ReadFull(r.in, r.head[:])
	if n == 0 || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Header{}, nil, err // io.EOF among them
	}
	h, perr := Parse(r.head[:n])
	switch {
	case perr == nil: // a batch without records
		return h, slices.Clone(r.head[:]), nil
	case !errors.Is(perr, ErrCut):
		return Header{}, nil, perr
	case err != nil:
		return Header{}, nil, ErrCut
	}
	size := prefixSize + int(int32(binary.BigEndian.Uint32(r.head[lengthAt:]))) // which Parse has looked at
	if h, err = parse(r.head[:], size); err != nil {
		return Header{}, nil, err
	}
	// What the header says is taken on trust piece by piece only: a file may be shorter.
	batch := append(make([]byte, 0, min(size, readStep)), r.head[:]...)
	for len(batch) < size {
		n := min(size-len(batch), max(readStep, len(batch)))
		at := len(batch)
		batch = slices.Grow(batch, n)[:at+n]
		if _, err := io.ReadFull(r.in, batch[at:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = ErrCut
			}
			return Header{}, nil, err
		}
	}
	return h, batch, nil
}

// readStep is how much of a batch is allocated before any of it was read.
const readStep = 1 << 20
