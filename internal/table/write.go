package table

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"
	"slices"
	"unicode/utf8"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/record"
	"hindcast/internal/unit"
)

// WriteOptions are for [WriteFile]. The zero value works.
type WriteOptions struct {
	// Scratch is the folder in which the file is built; "" is the system's.
	Scratch string
}

// ErrRows means that rows are not such that they can be a partition's: their columns, their order, a null.
var ErrRows = errors.New("the rows do not fit the table")

// maxBound is the most bytes of a key that a manifest keeps as a bound.
const maxBound = 256

// WriteFile writes one file of the partition with a label: rows of s.Rows, sorted
// by key, behind the partition's column. The same rows give the same bytes; writing them again under the same path succeeds, other rows
// there are ErrOther, and rows that cannot be such a partition's ErrRows. Without rows nothing is written, and the File has none. Memory is bounded by a row group.
func WriteFile(
	ctx context.Context, store blob.Store, path string, s Schema, label string, rows iter.Seq2[*record.Batch, error], opts WriteOptions,
) (_ File, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err := s.Validate(); err != nil {
		return File{}, err
	}
	if err := s.checkLabel(label); err != nil {
		return File{}, err
	}
	w := &fileWriter{schema: s, label: label, scratch: opts.Scratch, keys: sorter{to: s.Keys, schema: s.Rows}, sum: sha256.New()}
	defer w.discard()
	for b, err := range rows {
		if err == nil {
			err = cmpErr(ctx.Err(), w.write(b))
		}
		if err != nil {
			return File{}, err
		}
	}
	if w.rows == 0 {
		return File{Path: path}, nil
	}
	return w.finish(ctx, store, path)
}

// fileWriter builds a file in the scratch folder.
type fileWriter struct {
	schema  Schema
	label   string
	value   int64 // of the partition's column, where that is a number
	scratch string
	keys    sorter
	rows    int64
	min     []string

	file *os.File
	buf  *bufio.Writer
	sum  hash.Hash
	out  *parquetfile.Writer
}

func (w *fileWriter) write(b *record.Batch) error {
	if b.Len == 0 {
		return nil
	}
	if err := cmpErr(checkBatch(b, w.schema.Rows), w.keys.check(b)); err != nil {
		return fmt.Errorf("%w: %w", ErrRows, err)
	}
	if w.out == nil {
		if err := w.start(); err != nil {
			return err
		}
		w.min = keyText(b, 0, 0, w.schema.Keys)
	}
	w.rows += int64(b.Len)
	if f, ok := w.schema.Scheme.Field(); ok {
		b = &record.Batch{Len: b.Len, Columns: append([]record.Column{constant(f.Kind, w.value, w.label, b.Len)}, b.Columns...)}
	}
	return w.out.Write(b)
}

func (w *fileWriter) start() (err error) {
	if w.schema.Scheme.ByTime() {
		if w.value, err = w.schema.Scheme.Value(w.label); err != nil {
			return err
		}
	}
	if w.file, err = os.CreateTemp(w.scratch, "hindcast-*.parquet"); err != nil {
		return err
	}
	w.buf = bufio.NewWriterSize(io.MultiWriter(w.file, w.sum), 64<<10)
	w.out, err = parquetfile.NewWriter(w.buf, w.schema.Columns(), parquetfile.WriterOptions{})
	return err
}

func (w *fileWriter) finish(ctx context.Context, store blob.Store, path string) (File, error) {
	if err := w.out.Close(); err != nil {
		return File{}, err
	}
	if err := w.buf.Flush(); err != nil {
		return File{}, err
	}
	size, err := w.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return File{}, err
	}
	f := File{Path: path, Rows: w.rows, Bytes: unit.Bytes(size), SHA256: hex.EncodeToString(w.sum.Sum(nil))}
	if w.schema.Keys > 0 {
		last := keyText(w.keys.last, 0, 0, w.schema.Keys)
		if !slices.ContainsFunc(slices.Concat(w.min, last), func(s string) bool { return len(s) > maxBound || !utf8.ValidString(s) }) {
			f.MinKey, f.MaxKey = w.min, last
		}
	}
	return f, PutOnce(ctx, store, path, w.file, f.SHA256)
}

func (w *fileWriter) discard() {
	if w.file != nil {
		_ = errors.Join(w.file.Close(), os.Remove(w.file.Name())) // what is left in scratch is the system's to sweep
	}
}

// constant is a column of n times one value, a number or a text.
func constant(kind record.Kind, number int64, text string, n int) record.Column {
	c := record.Column{Kind: kind}
	if kind == record.String {
		c.Strings.Append([]byte(text))
		c.Strings.Codes = make([]uint32, n)
	} else {
		c.Int64s = slices.Repeat([]int64{number}, n)
	}
	return c
}
