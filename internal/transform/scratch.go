package transform

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	"hindcast/internal/record"
	"hindcast/internal/scratch"
)

// scratchFile is a file of batches, each behind its length. It is written to its end, then read.
type scratchFile struct {
	f    *scratch.File
	w    *bufio.Writer
	size int64
	buf  []byte
}

func newScratchFile(dir string) (*scratchFile, error) {
	f, err := scratch.New(dir)
	if err != nil {
		return nil, err
	}
	return &scratchFile{f: f, w: bufio.NewWriterSize(f, 64<<10)}, nil
}

// write appends rows of a batch, or all where rows is nil, behind head, which the reader gets back.
func (s *scratchFile) write(head []byte, b *record.Batch, rows []int32) error {
	if rows == nil {
		for i := range b.Len {
			rows = append(rows, int32(i)) //nolint:gosec // a batch is small
		}
	}
	s.buf = binary.AppendUvarint(s.buf[:0], uint64(len(head)))
	s.buf = append(s.buf, head...)
	s.buf = appendRows(s.buf, b, rows)
	var size [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(size[:], uint64(len(s.buf)))
	s.size += int64(n + len(s.buf))
	if _, err := s.w.Write(size[:n]); err != nil {
		return fmt.Errorf("write a scratch file: %w", err)
	}
	if _, err := s.w.Write(s.buf); err != nil {
		return fmt.Errorf("write a scratch file: %w", err)
	}
	return nil
}

// read returns a reader of what was written from one size to another.
func (s *scratchFile) read(from, to int64) (*scratchReader, error) {
	if err := s.w.Flush(); err != nil {
		return nil, fmt.Errorf("write a scratch file: %w", err)
	}
	return &scratchReader{r: bufio.NewReaderSize(io.NewSectionReader(s.f, from, to-from), 64<<10)}, nil
}

// each gives what was written from a place on to do, batch by batch, and where each ends.
func (s *scratchFile) each(ctx context.Context, from int64, do func(head []byte, b *record.Batch, end int64) error) error {
	in, err := s.read(from, s.size)
	if err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		head, b, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(head, b, from+in.taken)
		}
		if err != nil {
			return err
		}
	}
}

// copyTo copies all that was written.
func (s *scratchFile) copyTo(dst io.Writer) error {
	if err := s.w.Flush(); err != nil {
		return fmt.Errorf("write a scratch file: %w", err)
	}
	if _, err := io.Copy(dst, io.NewSectionReader(s.f, 0, s.size)); err != nil {
		return fmt.Errorf("copy a scratch file: %w", err)
	}
	return nil
}

// remove closes and deletes the file, if there is one.
func (s *scratchFile) remove() error {
	if s == nil {
		return nil
	}
	return s.f.Close()
}

// scratchParts is the number of files that rows which have to wait are divided among, by four bits of a hash; those of a file that have to wait again, by the next bits.
const scratchParts = 16

func partOf(hash uint64, level int) int { return int(hash >> max(60-4*level, 0) % scratchParts) }

// divide writes rows of a batch to the files of their parts, which are made when they are needed.
func (e *engine) divide(files []*scratchFile, head []byte, b *record.Batch, rows *[scratchParts][]int32) (err error) {
	for p, rows := range rows {
		if len(rows) == 0 {
			continue
		}
		if files[p] == nil {
			if files[p], err = newScratchFile(e.c.Scratch); err != nil {
				return err
			}
		}
		if err := files[p].write(head, b, rows); err != nil {
			return err
		}
	}
	return nil
}

type scratchReader struct {
	r     *bufio.Reader
	taken int64 // of what there is to read
	buf   []byte
	batch record.Batch
}

// next returns the next batch, valid until the one after it, or io.EOF.
func (s *scratchReader) next() (head []byte, b *record.Batch, err error) {
	n, err := binary.ReadUvarint(s.r)
	if errors.Is(err, io.EOF) {
		return nil, nil, io.EOF
	}
	if err == nil {
		s.buf = slices.Grow(s.buf[:0], int(n))[:n]
		_, err = io.ReadFull(s.r, s.buf)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read a scratch file: %w", err)
	}
	s.taken += int64(uvarintSize(n)) + int64(n)
	size, k := binary.Uvarint(s.buf)
	head = s.buf[k : k+int(size)]
	readRows(s.buf[k+int(size):], &s.batch)
	return head, &s.batch, nil
}

// uvarintSize is how many bytes v takes.
func uvarintSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// appendRows writes rows of a batch: their number, offsets and record times, where it has them, and columns.
func appendRows(dst []byte, b *record.Batch, rows []int32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(rows)))
	dst = append(dst, boolByte(b.Offsets != nil), boolByte(b.RecordTimes != nil))
	dst = binary.AppendUvarint(dst, uint64(len(b.Columns)))
	for _, of := range [][]int64{b.Offsets, b.RecordTimes} {
		if of != nil {
			dst = appendInts(dst, of, rows)
		}
	}
	for i := range b.Columns {
		c := &b.Columns[i]
		dst = append(dst, byte(c.Kind), boolByte(c.Nulls != nil))
		if c.Nulls != nil {
			nulls := record.NewBitmap(len(rows))
			for n, row := range rows {
				if c.Nulls.Get(int(row)) {
					nulls.Set(n)
				}
			}
			for _, w := range nulls {
				dst = binary.LittleEndian.AppendUint64(dst, w)
			}
		}
		switch c.Kind {
		case record.String:
			for _, row := range rows {
				var v []byte
				if !c.Nulls.Get(int(row)) {
					v = c.Strings.At(int(row))
				}
				dst = append(binary.AppendUvarint(dst, uint64(len(v))), v...)
			}
		case record.Float64:
			for _, row := range rows {
				dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(c.Float64s[row]))
			}
		default:
			dst = appendInts(dst, c.Int64s, rows)
		}
	}
	return dst
}

func appendInts(dst []byte, v []int64, rows []int32) []byte {
	for _, row := range rows {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v[row]))
	}
	return dst
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// readRows fills b with what appendRows wrote.
func readRows(src []byte, b *record.Batch) {
	uvarint := func() int {
		v, n := binary.Uvarint(src)
		src = src[n:]
		return int(v)
	}
	word := func() uint64 {
		v := binary.LittleEndian.Uint64(src)
		src = src[8:]
		return v
	}
	ints := func(dst []int64) []int64 {
		for range b.Len {
			dst = append(dst, int64(word()))
		}
		return dst
	}
	b.Len = uvarint()
	offsets, times := src[0] == 1, src[1] == 1
	src = src[2:]
	columns := uvarint()
	if b.Offsets = b.Offsets[:0]; offsets {
		b.Offsets = ints(b.Offsets)
	}
	if !times {
		b.RecordTimes = nil
	} else {
		b.RecordTimes = ints(b.RecordTimes[:0])
	}
	b.Columns = slices.Grow(b.Columns[:0], columns)[:columns]
	for i := range b.Columns {
		c := &b.Columns[i]
		c.Kind = record.Kind(src[0])
		nulls := src[1] == 1
		src = src[2:]
		if !nulls {
			c.Nulls = nil
		} else {
			c.Nulls = c.Nulls[:0]
			for range (b.Len + 63) / 64 {
				c.Nulls = append(c.Nulls, word())
			}
		}
		switch c.Kind {
		case record.String:
			c.Strings.Offsets, c.Strings.Data = append(c.Strings.Offsets[:0], 0), c.Strings.Data[:0]
			for range b.Len {
				n := uvarint()
				c.Strings.Append(src[:n])
				src = src[n:]
			}
		case record.Float64:
			c.Float64s = c.Float64s[:0]
			for range b.Len {
				c.Float64s = append(c.Float64s, math.Float64frombits(word()))
			}
		default:
			c.Int64s = ints(c.Int64s[:0])
		}
	}
}

// sortedRun is the rows that a runner drained, in a scratch file: slot by slot, each in key order.
type sortedRun struct {
	*scratchFile
	ends []int64 // where the first slot begins, and where each ends
}

// cursor is at a row of a slot of a run.
type cursor struct {
	run int // its number, which decides between rows of one key: those of an earlier run came first
	in  *scratchReader
	b   *record.Batch
	row int
}

// next moves on; ok is false at the slot's end.
func (c *cursor) next() (ok bool, err error) {
	if c.row++; c.b != nil && c.row < c.b.Len {
		return true, nil
	}
	c.row = 0
	if _, c.b, err = c.in.next(); errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

func (c *cursor) compare(o *cursor, keys int) int {
	for k := range keys {
		x, y := &c.b.Columns[k], &o.b.Columns[k]
		var order int
		if x.Kind == record.String {
			order = bytes.Compare(x.Strings.At(c.row), y.Strings.At(o.row))
		} else {
			order = cmp.Compare(x.Int64s[c.row], y.Int64s[o.row])
		}
		if order != 0 {
			return order
		}
	}
	return cmp.Compare(c.run, o.run)
}

// mergedRows is the number of rows of a batch that comes of a merge: that of a transform's own batches.
const mergedRows = 4096

// merge yields the rows of a slot of all runs, in key order; those of one key in the order of the runs.
func merge(runs []sortedRun, slot, keys int, yield func(*record.Batch) error) error {
	var heap []*cursor
	for n, run := range runs {
		if run.ends[slot] == run.ends[slot+1] {
			continue
		}
		in, err := run.read(run.ends[slot], run.ends[slot+1])
		if err != nil {
			return err
		}
		c := &cursor{run: n, in: in}
		if _, err := c.next(); err != nil {
			return err
		}
		heap = append(heap, c)
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		sink(heap, i, keys)
	}
	out := &record.Batch{}
	for len(heap) > 0 {
		c := heap[0]
		appendRow(out, c.b, c.row)
		ok, err := c.next()
		if err != nil {
			return err
		}
		if !ok {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		sink(heap, 0, keys)
		if out.Len == mergedRows || len(heap) == 0 {
			if err := yield(out); err != nil {
				return err
			}
			empty(out)
		}
	}
	return nil
}

// sink restores the order of a heap whose element i may be too small a place for it.
func sink(heap []*cursor, i, keys int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if heap[child].compare(heap[least], keys) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

// appendRow adds a row of b to out.
func appendRow(out, b *record.Batch, row int) {
	for len(out.Columns) < len(b.Columns) {
		out.Columns = append(out.Columns, record.Column{Kind: b.Columns[len(out.Columns)].Kind})
	}
	for i := range b.Columns {
		out.Columns[i].Append(out.Len, &b.Columns[i], row)
	}
	out.Len++
}

func empty(b *record.Batch) {
	for i := range b.Columns {
		c := &b.Columns[i]
		c.Nulls, c.Int64s, c.Float64s = nil, c.Int64s[:0], c.Float64s[:0]
		c.Strings.Offsets, c.Strings.Data = c.Strings.Offsets[:0], c.Strings.Data[:0]
	}
	b.Len = 0
}
