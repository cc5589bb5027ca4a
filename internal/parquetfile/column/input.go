package column

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"hindcast/internal/parquetfile/footer"
)

// input yields the bytes of a column chunk in order, from memory or in windows.
type input struct {
	r        io.ReaderAt
	off, end int64  // what is not yet in buf
	buf      []byte // at least Padding bytes of capacity lie behind
	pos      int
	noCRC    bool // tests want to see what lies behind checksums
}

// peek returns the next n bytes, fewer at the chunk's end. They are valid until the next call.
func (in *input) peek(n int) ([]byte, error) {
	have := len(in.buf) - in.pos
	if have < n && in.off < in.end {
		more := min(max(int64(n-have), Window), in.end-in.off)
		buf := in.buf[:0]
		if cap(buf) < have+int(more)+Padding {
			buf = make([]byte, 0, have+int(more)+Padding)
		}
		buf = append(buf, in.buf[in.pos:]...)[:have+int(more)]
		in.buf, in.pos = buf, 0
		if err := ReadAt(in.r, buf[have:], in.off); err != nil {
			return nil, err
		}
		in.off += more
		have = len(buf)
	}
	return in.buf[in.pos : in.pos+min(n, have)], nil
}

func (in *input) done() bool { return in.left() == 0 }

// left is the number of bytes that are not yet read.
func (in *input) left() int64 { return int64(len(in.buf)-in.pos) + in.end - in.off }

// page reads the next page's header and body, and holds the body against its checksum.
func (in *input) page() (h footer.PageHeader, body []byte, err error) {
	for n := 64 << 10; ; n *= 8 {
		b, err := in.peek(n)
		if err != nil {
			return h, nil, err
		}
		var size int
		h, size, err = footer.ParsePage(b)
		if err == nil {
			in.pos += size
			break
		}
		if !errors.Is(err, footer.ErrShort) || len(b) < n || n > maxPageHeader {
			return h, nil, fmt.Errorf("page header: %w", err)
		}
	}
	if h.Compressed > maxPage || h.Uncompressed > maxPage {
		return h, nil, fmt.Errorf("a page of %d bytes (%d compressed) is larger than the %d that are read", h.Uncompressed, h.Compressed, maxPage)
	}
	if body, err = in.peek(int(h.Compressed)); err != nil {
		return h, nil, err
	}
	if len(body) < int(h.Compressed) {
		return h, nil, fmt.Errorf("a page of %d bytes is cut off at the column chunk's end", h.Compressed)
	}
	in.pos += len(body)
	if h.HasCRC && !in.noCRC && crc32.ChecksumIEEE(body) != h.CRC {
		return h, nil, errors.New("a page does not match its checksum (CRC)")
	}
	return h, body, nil
}

// ReadAt fills b from offset off of r. An error is a *ReadError.
func ReadAt(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return &ReadError{fmt.Errorf("read %d bytes at %d: %w", len(b), off, err)}
}

// lender is what an [io.ReaderAt] may be, too: it lends what it has read already, as [hindcast/internal/blob.AheadReader] does.
type lender interface {
	Lend(off, length int64) ([]byte, error)
	Return()
}

// Borrow returns length bytes from off on of what r has read already, with [Padding] behind them; nil where it has them not. They are to be given back. An error is
// a *ReadError.
func Borrow(r io.ReaderAt, off, length int64) ([]byte, error) {
	l, ok := r.(lender)
	if !ok {
		return nil, nil
	}
	b, err := l.Lend(off, length)
	if err != nil {
		return nil, &ReadError{fmt.Errorf("read %d bytes at %d: %w", length, off, err)}
	}
	if cap(b) < len(b)+Padding {
		return nil, nil
	}
	return b, nil
}

// GiveBack gives back all that was borrowed of r.
func GiveBack(r io.ReaderAt) {
	if l, ok := r.(lender); ok {
		l.Return()
	}
}

// ReadError is a failure of storage: the file's contents are not to blame.
type ReadError struct{ error }

func (e *ReadError) Unwrap() error { return e.error }
