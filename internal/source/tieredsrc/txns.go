package tieredsrc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sort"

	"hindcast/internal/source/logbatch"
)

// aborted is an entry of a transaction index.
type aborted struct {
	logbatch.Transaction
	stable int64 // the last stable offset after it: all that began before is decided
}

// parseTxns reads a .txnindex: entries of 34 bytes, ascending by their end: version int16 (0), producer id, first offset, offset of the
// marker, last stable offset.
func parseTxns(raw []byte) ([]aborted, error) {
	const size = 34
	if len(raw)%size != 0 {
		return nil, fmt.Errorf("the transaction index has %d bytes, no multiple of %d: it is cut off", len(raw), size)
	}
	out := make([]aborted, 0, len(raw)/size)
	for ; len(raw) > 0; raw = raw[size:] {
		field := func(i int) int64 { return int64(binary.BigEndian.Uint64(raw[2+8*i:])) }
		a := aborted{logbatch.Transaction{ProducerID: field(0), First: field(1), Last: field(2)}, field(3)}
		switch {
		case binary.BigEndian.Uint16(raw) != 0:
			return nil, fmt.Errorf("the transaction index has an entry of version %d: only 0 is read", binary.BigEndian.Uint16(raw))
		case a.ProducerID < 0 || a.First < 0 || a.Last < a.First || a.stable < 0 || a.stable > a.Last+1 || len(out) > 0 && a.Last <= out[len(out)-1].Last:
			return nil, fmt.Errorf("the transaction index has an entry %+v, stable to %d: it is damaged", a.Transaction, a.stable)
		}
		out = append(out, a)
	}
	return out, nil
}

// parseSnapshot reads a snapshot of a log's producers (ProducerSnapshot version 1) and returns where the transactions began
// that are open, by producer:
//
//	version int16 (1), crc uint32 (CRC-32C of what follows), count int32, entries of 46 bytes: producer id int64, epoch int16, last
//	sequence int32, last offset int64, offset delta int32, timestamp int64, coordinator epoch int32, first offset of the open
//	transaction int64 (-1: none)
func parseSnapshot(raw []byte) (map[int64]int64, error) {
	const head, size, firstAt = 10, 46, 38
	if len(raw) < head {
		return nil, fmt.Errorf("the producer snapshot has %d bytes: it is cut off", len(raw))
	}
	if v := binary.BigEndian.Uint16(raw); v != 1 {
		return nil, fmt.Errorf("the producer snapshot has version %d: only 1 is read", v)
	}
	if sum := crc32.Checksum(raw[6:], crc32.MakeTable(crc32.Castagnoli)); sum != binary.BigEndian.Uint32(raw[2:]) {
		return nil, errors.New("the producer snapshot is damaged: its crc is not that of its contents")
	}
	count := int64(int32(binary.BigEndian.Uint32(raw[6:])))
	raw = raw[head:]
	if count < 0 || int64(len(raw)) != count*size {
		return nil, fmt.Errorf("the producer snapshot has %d bytes for %d producers: it is damaged", len(raw), count)
	}
	open := map[int64]int64{}
	for ; len(raw) > 0; raw = raw[size:] {
		if first := int64(binary.BigEndian.Uint64(raw[firstAt:])); first >= 0 {
			open[int64(binary.BigEndian.Uint64(raw))] = first
		}
	}
	return open, nil
}

// decide finds where what the segments of a run decide ends: before the oldest transaction that is open at its end. Every
// other one that has records before that has its marker in the run, and if it was aborted, an entry in the index of the segment with the marker.
func (l *Log) decide(ctx context.Context, r *run) error {
	// The state at the end is in the last segment's snapshot, if the segment is read to its end. Else the batches
	// after an earlier one say it, or all batches: a transaction that began before the run shows by its records in it.
	open := map[int64]int64{}
	at := len(r.pieces) - 1
	for ; at >= 0; at-- {
		s := r.pieces[at].seg
		if r.pieces[at].next < s.next {
			continue
		}
		raw, err := s.index(ctx, l.store, indexSnapshot)
		if err == nil && len(raw) > 0 {
			open, err = parseSnapshot(raw)
		}
		if err != nil {
			return fmt.Errorf("segment %s: %w", s.stem, err)
		}
		if len(raw) > 0 {
			break
		}
	}
	for _, piece := range r.pieces[at+1:] {
		if err := l.follow(ctx, piece, open); err != nil {
			return err
		}
	}
	r.decided = r.next
	for producer, first := range open {
		if first < r.decided {
			r.decided = first
			r.open = fmt.Sprintf("the transaction of producer %d that began at offset %d is not ended by any segment up to offset %d: the brokers know how it ended",
				producer, first, r.next)
		}
	}
	r.decided = max(r.decided, r.first)
	return nil
}

// follow brings the open transactions up to the end of a piece.
func (l *Log) follow(ctx context.Context, p piece, open map[int64]int64) error {
	in, err := p.seg.seek(ctx, l.store, p.first)
	if err != nil {
		return err
	}
	for {
		h, batch, err := in.batch(ctx)
		switch {
		case errors.Is(err, io.EOF) || err == nil && h.First >= p.next:
			return nil
		case err != nil:
			return err
		case h.Next <= p.first || !h.Transactional():
			continue
		}
		if !h.Control() {
			if _, ok := open[h.ProducerID]; !ok {
				open[h.ProducerID] = h.First
			}
			continue
		}
		records, err := logbatch.Decode(l.Topic, p.seg.partition, h, batch)
		if err != nil {
			return err
		}
		if m, ok, err := logbatch.ReadMarker(h, records); err != nil {
			return err
		} else if ok {
			delete(open, m.ProducerID)
		}
	}
}

// maxAborted is how many aborted transactions are held while a range is read: 24 bytes each, and as much again.
const maxAborted = 4 << 20

// aborted returns the aborted transactions that have records in [from, to), which lies in the decided part of the run.
func (l *Log) aborted(ctx context.Context, r *run, from, to int64) ([]logbatch.Transaction, error) {
	var out []logbatch.Transaction
	at := sort.Search(len(r.pieces), func(i int) bool { return r.pieces[i].next > from })
	for _, p := range r.pieces[at:] {
		raw, err := p.seg.index(ctx, l.store, indexTxns)
		var entries []aborted
		if err == nil {
			entries, err = parseTxns(raw)
		}
		if err != nil {
			return nil, fmt.Errorf("segment %s: %w", p.seg.stem, err)
		}
		for _, e := range entries {
			if e.Last < p.seg.base || e.Last >= p.seg.next {
				return nil, fmt.Errorf("segment %s: its transaction index has a marker at offset %d, and the segment the offsets %d-%d",
					p.seg.stem, e.Last, p.seg.base, p.seg.next)
			}
			if e.Last < p.first || e.Last >= p.next {
				continue // another segment's, or stale
			}
			if e.Last >= from && e.First < to {
				out = append(out, e.Transaction)
			}
			if e.stable >= to {
				return out, nil
			}
		}
		if len(out) > maxAborted {
			return nil, fmt.Errorf("the offsets %d-%d have more than %d aborted transactions: read a shorter range", from, to, maxAborted)
		}
	}
	return out, nil
}
