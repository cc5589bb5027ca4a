// Package wire is the binary form of checkpoints: unframed values in a fixed order. Whoever stores them adds
// what tells a damaged one: decoding never panics or allocates more than the input warrants, but it proves nothing.
package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// ErrShort means that the input ends too early or does not hold what is asked for.
var ErrShort = errors.New("checkpoint is cut short or damaged")

// Writer appends values to a buffer that Flush passes on. Its zero value is ready.
type Writer struct{ buf []byte }

// Uint writes an unsigned integer.
func (w *Writer) Uint(v uint64) { w.buf = binary.AppendUvarint(w.buf, v) }

// Int writes a signed integer.
func (w *Writer) Int(v int64) { w.buf = binary.AppendVarint(w.buf, v) }

// Fixed writes an unsigned integer in eight bytes: for hashes.
func (w *Writer) Fixed(v uint64) { w.buf = binary.LittleEndian.AppendUint64(w.buf, v) }

// Float writes a float by its bits.
func (w *Writer) Float(v float64) { w.Fixed(math.Float64bits(v)) }

// Bool writes a truth value.
func (w *Writer) Bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	w.buf = append(w.buf, b)
}

// Bytes writes a length and bytes.
func (w *Writer) Bytes(b []byte) {
	w.Uint(uint64(len(b)))
	w.buf = append(w.buf, b...)
}

// String writes a length and a string's bytes.
func (w *Writer) String(s string) {
	w.Uint(uint64(len(s)))
	w.buf = append(w.buf, s...)
}

// Take empties the buffer and returns what it held, which is valid until something is written.
func (w *Writer) Take() []byte {
	b := w.buf
	w.buf = w.buf[:0]
	return b
}

// FlushFull does what Flush does once the buffer has 64 KiB.
func (w *Writer) FlushFull(dst io.Writer) error {
	if len(w.buf) < 1<<16 {
		return nil
	}
	return w.Flush(dst)
}

// Flush writes the buffer to dst and empties it.
func (w *Writer) Flush(dst io.Writer) error {
	_, err := dst.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// Reader takes values from b. After an error it returns zero values; Err tells.
type Reader struct {
	b   []byte
	err error
}

// NewReader reads b.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// ReadAll reads r to its end.
func ReadAll(r io.Reader) (*Reader, error) {
	b, err := io.ReadAll(r)
	return NewReader(b), err
}

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// End returns the first error, or ErrShort if input is left.
func (r *Reader) End() error {
	if r.err == nil && len(r.b) > 0 {
		return ErrShort
	}
	return r.err
}

func (r *Reader) fail() {
	r.err = ErrShort
	r.b = nil
}

// Uint reads what [Writer.Uint] wrote.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Int reads what [Writer.Int] wrote.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Fixed reads what [Writer.Fixed] wrote.
func (r *Reader) Fixed() uint64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// Float reads what [Writer.Float] wrote.
func (r *Reader) Float() float64 { return math.Float64frombits(r.Fixed()) }

// Bool reads what [Writer.Bool] wrote.
func (r *Reader) Bool() bool {
	if len(r.b) == 0 || r.b[0] > 1 {
		r.fail()
		return false
	}
	v := r.b[0] == 1
	r.b = r.b[1:]
	return v
}

// Len reads a count of things that take at least one byte each.
func (r *Reader) Len() int {
	n := r.Uint()
	if n > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return int(n)
}

// Bytes reads what [Writer.Bytes] wrote. The result is part of the input.
func (r *Reader) Bytes() []byte {
	n := r.Len()
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// String reads what [Writer.String] wrote.
func (r *Reader) String() string { return string(r.Bytes()) }
