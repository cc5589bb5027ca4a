package tieredsrc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"hindcast/internal/blob"
	"hindcast/internal/source/logbatch"
)

// plainFile reads an object as it is.
type plainFile struct {
	store blob.Store
	info  blob.Info
}

func (f *plainFile) read(ctx context.Context, pos int64) ([]byte, error) {
	if pos >= f.info.Size {
		return nil, io.EOF
	}
	return get(ctx, f.store, f.info, pos, min(window, f.info.Size-pos))
}

// window is how much is asked of a store at once.
const window = 4 << 20

// file is a segment's log as the broker had it.
type file interface {
	// read returns some of the bytes from pos on, at least one, or io.EOF. The next call may overwrite them.
	read(ctx context.Context, pos int64) ([]byte, error)
}

// chunkFile undoes what the plugin did to a log.
type chunkFile struct {
	store blob.Store
	info  blob.Info
	m     *manifest
	chunks

	stored   []byte // a window of the object
	storedAt int64
	chunk    []byte // a chunk as the broker had it
	number   int64  // which
}

func (f *chunkFile) read(ctx context.Context, pos int64) ([]byte, error) {
	if pos >= f.file {
		return nil, io.EOF
	}
	if n := pos / f.original; f.chunk == nil || n != f.number {
		if err := f.load(ctx, n); err != nil {
			return nil, fmt.Errorf("chunk %d of %s: %w", n, f.info.Key, err)
		}
	}
	return f.chunk[pos-f.number*f.original:], nil
}

func (f *chunkFile) load(ctx context.Context, n int64) error {
	from, to := f.at[n], f.at[n+1]
	if from < f.storedAt || to > f.storedAt+int64(len(f.stored)) {
		end := to
		for i := n + 2; i < int64(len(f.at)) && f.at[i]-from <= window; i++ {
			end = f.at[i]
		}
		f.stored, f.chunk = nil, nil
		var err error
		if f.stored, err = get(ctx, f.store, f.info, from, end-from); err != nil {
			return err
		}
		f.storedAt = from
	}
	want := int(min(f.original, f.file-n*f.original))
	raw, err := f.stored[from-f.storedAt:to-f.storedAt], error(nil)
	if f.m.Encryption != nil {
		if raw, err = f.m.key.open(raw); err != nil {
			return err
		}
	}
	if f.m.Compression {
		if raw, err = inflate(raw, want); err != nil {
			return err
		}
	}
	if len(raw) != want {
		return fmt.Errorf("it has %d bytes, %d are expected", len(raw), want)
	}
	f.chunk, f.number = raw, n
	return nil
}

func (s *segment) open(store blob.Store) (file, error) {
	info := s.parts[partLog]
	if s.layout == Local {
		return &plainFile{store: store, info: info}, nil
	}
	c, err := s.manifest.ChunkIndex.index(info.Size)
	if err != nil {
		return nil, err
	}
	return &chunkFile{store: store, info: info, m: s.manifest, chunks: c}, nil
}

// The indexes of a segment; those that it lacks are empty.
const (
	indexOffsets  = "offset"
	indexEpochs   = "leaderEpoch"
	indexSnapshot = "producerSnapshot"
	indexTxns     = "transaction"
)

func (s *segment) index(ctx context.Context, store blob.Store, which string) ([]byte, error) {
	if s.layout == Aiven {
		return s.aivenPart(ctx, store, which)
	}
	info, ok := s.parts[map[string]string{indexOffsets: partOffsets, indexEpochs: partEpochs, indexSnapshot: partSnapshot, indexTxns: partTxns}[which]]
	if !ok {
		return nil, nil
	}
	return whole(ctx, store, info, maxPart)
}

// batches reads a segment's log from a batch on.
type batches struct {
	s     *segment
	f     file
	ctx   context.Context //nolint:containedctx // that of the call under way, for Read
	pos   int64           // in the file
	buf   []byte
	in    *logbatch.Reader
	next  int64 // the next batch's offset is this or greater
	ahead *ahead
	err   error // of the file
}

type ahead struct {
	h     logbatch.Header
	batch []byte
}

// from begins at a position of the file.
func (s *segment) from(f file, pos int64) *batches {
	b := &batches{s: s, f: f, pos: pos, next: s.base}
	b.in = logbatch.NewReader(b)
	return b
}

// Read makes a stream of the file.
func (b *batches) Read(p []byte) (int, error) {
	if len(b.buf) == 0 {
		if b.buf, b.err = b.f.read(b.ctx, b.pos); b.err != nil {
			return 0, b.err
		}
	}
	n := copy(p, b.buf)
	b.buf = b.buf[n:]
	b.pos += int64(n)
	return n, nil
}

// batch returns the next batch, its checksum verified, or io.EOF.
func (b *batches) batch(ctx context.Context) (logbatch.Header, []byte, error) {
	if a := b.ahead; a != nil {
		b.ahead = nil
		return a.h, a.batch, nil
	}
	b.ctx = ctx
	h, raw, err := b.in.Next()
	b.ctx = nil
	switch {
	case errors.Is(err, io.EOF):
		return h, nil, io.EOF
	case err != nil:
		return h, nil, fmt.Errorf("segment %s, past offset %d: %w", b.s.stem+partLog, b.next, err)
	case h.First < b.next:
		return h, nil, fmt.Errorf("segment %s has a batch at offset %d where %d or more is expected: it is damaged",
			b.s.stem+partLog, h.First, b.next)
	case b.s.next > b.s.base && h.Next > b.s.next:
		return h, nil, fmt.Errorf("segment %s has a batch with the offsets %d-%d, and should end at %d: it is damaged",
			b.s.stem+partLog, h.First, h.Next, b.s.next)
	}
	if err := logbatch.Verify(h, raw); err != nil {
		return h, nil, fmt.Errorf("segment %s: %w", b.s.stem+partLog, err)
	}
	b.next = h.Next
	return h, raw, nil
}

// seek begins with a batch at target or before, from where all batches are read. The offset index says which may be near; it is a hint,
// and held against what lies there.
func (s *segment) seek(ctx context.Context, store blob.Store, target int64) (*batches, error) {
	f, err := s.open(store)
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", s.stem, err)
	}
	if target > s.base && s.size > seekFrom {
		index, err := s.index(ctx, store, indexOffsets)
		if err != nil {
			return nil, fmt.Errorf("segment %s: %w", s.stem, err)
		}
		if pos := position(index, target-s.base); pos > 0 && pos < s.size {
			b := s.from(f, pos)
			h, raw, err := b.batch(ctx)
			switch {
			case err == nil && h.First <= target:
				b.ahead = &ahead{h, raw}
				return b, nil
			case b.err != nil && !errors.Is(b.err, io.EOF):
				return nil, err
			}
			// The index is wrong, or the log is: what is asked for may lie before the damage.
		}
	}
	return s.from(f, 0), nil
}

// seekFrom is the size of a log in bytes from which on its offset index is asked for.
const seekFrom = 256 << 10

// position returns where in a log's file a batch begins that has the offset base+rel or a lower one, by its offset index: entries of 8
// bytes, ascending, each an offset less base and a position, big-endian. The offset is that of the last record of the batch there.
func position(index []byte, rel int64) int64 {
	pos, last := int64(0), int64(-1)
	for ; len(index) >= 8; index = index[8:] {
		off := int64(binary.BigEndian.Uint32(index))
		if off > rel || off <= last {
			break
		}
		pos, last = int64(binary.BigEndian.Uint32(index[4:])), off
	}
	return pos
}
