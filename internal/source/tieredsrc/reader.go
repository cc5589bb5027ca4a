package tieredsrc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/twmb/franz-go/pkg/kgo"

	"hindcast/internal/source/logbatch"
)

// Reader reads a range of a partition, in the order of offsets. It may not be used concurrently, and needs no closing.
type Reader struct {
	log     *Log
	p       *Partition
	run     *run
	pos, to int64 // pos may pass to, see Next

	aborted *logbatch.Aborted
	pending map[int64]transaction // those under way that have records in the range, by producer

	in    *batches // of the piece under way
	piece piece
	last  logbatch.Header // of the batch before
}

// transaction is one whose marker was not met yet.
type transaction struct {
	first int64
	kept  bool // by the transaction index it is committed
}

// Read begins to read the committed records of the offsets [from, to) of a partition. The offsets must lie in one of [Partition.Ranges].
// What it returns is the same however often it is read, or it is an error.
func (l *Log) Read(ctx context.Context, partition int32, from, to int64) (*Reader, error) {
	r, err := l.read(ctx, partition, from, to)
	if err != nil {
		return nil, fmt.Errorf("read offsets %d-%d of topic %s, partition %d, from tiered segments: %w", from, to, l.Topic, partition, err)
	}
	return r, nil
}

func (l *Log) read(ctx context.Context, partition int32, from, to int64) (*Reader, error) {
	p := l.Find(partition)
	switch {
	case from < 0 || from > to:
		return nil, errors.New("this is no range of offsets")
	case p == nil:
		return nil, errors.New("no segment has that partition")
	case from == to:
		return &Reader{log: l, p: p, pos: from, to: to}, nil
	}
	i := slices.IndexFunc(p.runs, func(r run) bool { return from >= r.first && to <= r.decided })
	if i < 0 {
		return nil, p.absent(from, to)
	}
	r := &p.runs[i]
	list, err := l.aborted(ctx, r, from, to)
	if err != nil {
		return nil, err
	}
	return &Reader{log: l, p: p, run: r, pos: from, to: to, aborted: logbatch.NewAborted(list), pending: map[int64]transaction{}}, nil
}

// absent names the first offsets of a range that cannot be read.
func (p *Partition) absent(from, to int64) error {
	for _, r := range p.Ranges {
		if from >= r.First && from < r.Next {
			from = r.Next
		}
	}
	for _, g := range p.Gaps {
		if from >= g.First && from < g.Next {
			return fmt.Errorf("the offsets %d-%d are not there: %s", from, min(to, g.Next), g.Why)
		}
	}
	if len(p.Segments) == 0 || from >= p.Segments[len(p.Segments)-1].Range.Next {
		return fmt.Errorf("the segments end before offset %d", from)
	}
	first := p.Segments[0].Range.First
	return fmt.Errorf("the offsets %d-%d are not there: the segments begin at offset %d; was the key prefix another one before?",
		from, min(to, first), first)
}

// Covered returns the offset up to which every record was returned: all that follow have this offset or a greater one.
func (r *Reader) Covered() int64 { return min(r.pos, r.to) }

// Next returns the records of the next batch that has any, or io.EOF where the range ends, with [Reader.Covered] at its end. Before it says
// that, it reads on until it has met the markers of the range's transactions. After another error there is no use in going on, and what was
// returned may be wrong: a transaction index may have said committed where the marker says aborted. [ErrChanged] means that the store
// is not what was listed any more.
func (r *Reader) Next(ctx context.Context) ([]*kgo.Record, error) {
	for r.pos < r.to || len(r.pending) > 0 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		records, err := r.step(ctx)
		if err != nil {
			return nil, fmt.Errorf("read topic %s, partition %d, from tiered segments, at offset %d: %w",
				r.log.Topic, r.p.Partition, r.pos, err)
		}
		if len(records) > 0 {
			return records, nil
		}
	}
	return nil, io.EOF
}

// step goes past one batch, or to the next segment.
func (r *Reader) step(ctx context.Context) ([]*kgo.Record, error) {
	if r.in == nil {
		if r.pos >= r.run.next {
			for producer, t := range r.pending {
				return nil, fmt.Errorf("the transaction of producer %d from offset %d has no marker up to offset %d, though it was decided there",
					producer, t.first, r.run.next)
			}
		}
		at := sort.Search(len(r.run.pieces), func(i int) bool { return r.run.pieces[i].next > r.pos })
		r.piece = r.run.pieces[at]
		target := r.pos
		if r.last.Size > 0 {
			target-- // the batch before is compared
		}
		var err error
		if r.in, err = r.piece.seg.seek(ctx, r.log.store, target); err != nil {
			return nil, err
		}
	}
	h, batch, err := r.in.batch(ctx)
	switch {
	case errors.Is(err, io.EOF) || err == nil && h.First >= r.piece.next:
		r.pos, r.in = r.piece.next, nil
		return nil, nil
	case err != nil:
		return nil, err
	case h.Next <= r.pos:
		// Where segments overlap, the batch before must be the same.
		if h.First < r.last.Next && h.Next > r.last.First && (h.First != r.last.First || h.Next != r.last.Next || h.CRC != r.last.CRC) {
			return nil, r.differ(h)
		}
		return nil, nil
	}
	return r.take(h, batch)
}

func (r *Reader) differ(h logbatch.Header) error {
	return fmt.Errorf("segment %s has other records at the offsets %d-%d than the segment before it, of the same leader epoch: they are not of one log",
		r.piece.seg.stem+partLog, h.First, h.Next)
}

// take decodes the batch at the position.
func (r *Reader) take(h logbatch.Header, batch []byte) ([]*kgo.Record, error) {
	name := r.piece.seg.stem + partLog
	switch want := epochAt(r.p.Epochs, max(h.First, r.p.Epochs[0].First)); {
	case h.Epoch != want:
		return nil, fmt.Errorf("segment %s has the leader epoch %d at offset %d, and the log %d: it is not what its own index says",
			name, h.Epoch, h.First, want)
	case h.Next > r.piece.next:
		return nil, fmt.Errorf("segment %s has a batch with the offsets %d-%d, and the log's leader changed at %d",
			name, h.First, h.Next, r.piece.next)
	case r.last.Size > 0 && h.First < r.last.Next:
		return nil, r.differ(h)
	}
	from := r.pos
	r.pos, r.last = h.Next, h
	if h.First >= r.to && !h.Control() {
		return nil, nil
	}
	records, err := logbatch.Decode(r.log.Topic, r.p.Partition, h, batch)
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", name, err)
	}
	kept, err := r.aborted.Committed(h, records)
	if err == nil {
		err = r.agree(h, records, len(kept) > 0)
	}
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", name, err)
	}
	return slices.DeleteFunc(kept, func(rec *kgo.Record) bool { return rec.Offset < from || rec.Offset >= r.to }), nil
}

// agree holds markers and transaction index against each other.
func (r *Reader) agree(h logbatch.Header, records []*kgo.Record, kept bool) error {
	if !h.Transactional() {
		return nil
	}
	t, ok := r.pending[h.ProducerID]
	if !h.Control() {
		switch {
		case len(records) == 0:
		case !ok:
			r.pending[h.ProducerID] = transaction{first: h.First, kept: kept}
		case t.kept != kept:
			return fmt.Errorf("the transaction index has only a part of the transaction of producer %d from offset %d: it is damaged",
				h.ProducerID, t.first)
		}
		return nil
	}
	m, marker, err := logbatch.ReadMarker(h, records)
	if err != nil || !marker {
		return err
	}
	delete(r.pending, m.ProducerID)
	switch {
	case ok && m.Abort && t.kept:
		return fmt.Errorf("the transaction of producer %d from offset %d was aborted at %d, and the transaction index does not have it",
			m.ProducerID, t.first, m.Offset)
	case ok && !m.Abort && !t.kept:
		return fmt.Errorf("the transaction of producer %d from offset %d was committed at %d, and the transaction index says aborted",
			m.ProducerID, t.first, m.Offset)
	}
	return nil
}
