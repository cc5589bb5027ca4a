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
	"math"
	"slices"
	"unicode/utf8"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/record"
	"hindcast/internal/scratch"
	"hindcast/internal/unit"
)

// WriteOptions are for [WriteFile]. The zero value works.
type WriteOptions struct {
	// Scratch is the folder in which files are built; "" is the system's.
	Scratch string
	// Target is the size at which [WriteFiles] begins the next file; 0 means that there is one.
	Target unit.Bytes
}

// ErrRows means that rows are not such that they can be a partition's: their columns, their order, a null.
var ErrRows = errors.New("the rows do not fit the table")

// maxBound is the most bytes of a key that a manifest keeps as a bound.
const maxBound = 256

// WriteFiles writes the files of the partition with a label: rows of s.Rows, sorted by key, behind the partition's column, in as many files as it takes to keep
// each near opts.Target, the rows of one after those of the one before. Path names them by their numbers, from 0. The same rows give the same files and bytes;
// writing them again under the same paths succeeds, other rows there are [ErrOther], and rows that cannot be such a partition's [ErrRows]. Without rows nothing
// is written. Memory is bounded by a row group. After an error, files that are whole may lie there.
func WriteFiles(
	ctx context.Context, store blob.Store, path func(n int) string, s Schema, label string, rows iter.Seq2[*record.Batch, error], opts WriteOptions,
) (files []File, err error) {
	defer func() {
		if err != nil {
			files, err = nil, fmt.Errorf("write %s: %w", path(len(files)), err)
		}
	}()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := s.checkLabel(label); err != nil {
		return nil, err
	}
	keys := sorter{to: s.Keys, schema: s.Rows} // across all files
	w := newFileWriter(s, label, opts)
	defer func() { w.discard() }()
	end := func() error {
		f, err := w.finish(ctx, store, path(len(files)))
		if err == nil {
			files = append(files, f)
			w.discard()
			w = newFileWriter(s, label, opts)
		}
		return err
	}
	for b, err := range rows {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return files, err
		}
		if b.Len == 0 {
			continue
		}
		if err := cmpErr(checkBatch(b, s.Rows), keys.check(b)); err != nil {
			return files, fmt.Errorf("%w: %w", ErrRows, err)
		}
		for at := 0; at < b.Len; {
			if at, err = w.write(b, at); err != nil {
				return files, err
			}
			if at < b.Len {
				if err := end(); err != nil {
					return files, err
				}
			}
		}
	}
	if w.rows > 0 {
		return files, end()
	}
	return files, nil
}

// fileWriter builds a file in the scratch folder.
type fileWriter struct {
	schema  Schema
	label   string
	value   int64 // of the partition's column, where that is a number
	scratch string
	target  int64
	rows    int64
	bounds  [2][]string // the keys of the first and the last row

	file *scratch.File
	buf  *bufio.Writer
	sum  hash.Hash
	out  *parquetfile.Writer
}

func newFileWriter(s Schema, label string, opts WriteOptions) *fileWriter {
	w := &fileWriter{schema: s, label: label, scratch: opts.Scratch, target: int64(opts.Target), sum: sha256.New()}
	if w.target == 0 {
		w.target = math.MaxInt64
	}
	return w
}

// write takes rows from one on, until the file has its size, and returns which is next.
func (w *fileWriter) write(b *record.Batch, from int) (next int, err error) {
	if w.out == nil {
		if err := w.start(); err != nil {
			return from, err
		}
		w.bounds[0] = keyText(b, from, 0, w.schema.Keys)
	}
	all := b
	if f, ok := w.schema.Scheme.Field(); ok {
		all = &record.Batch{Len: b.Len, Columns: append([]record.Column{constant(f.Kind, w.value, w.label, b.Len)}, b.Columns...)}
		if l := b.Lent; l != nil {
			all.Lent = &record.Lent{From: l.From, Names: append([]string{""}, l.Names...), Rows: l.Rows}
		}
	}
	if next, err = w.out.Fill(all, from, w.target); err == nil && next > from {
		w.rows += int64(next - from)
		w.bounds[1] = keyText(b, next-1, 0, w.schema.Keys)
	}
	return next, err
}

func (w *fileWriter) start() (err error) {
	if w.schema.Scheme.ByTime() {
		if w.value, err = w.schema.Scheme.Value(w.label); err != nil {
			return err
		}
	}
	if w.file, err = scratch.New(w.scratch); err != nil {
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
		if !slices.ContainsFunc(slices.Concat(w.bounds[:]...), func(s string) bool { return len(s) > maxBound || !utf8.ValidString(s) }) {
			f.MinKey, f.MaxKey = w.bounds[0], w.bounds[1]
		}
	}
	return f, PutOnce(ctx, store, path, w.file, f.SHA256)
}

func (w *fileWriter) discard() {
	if w.file != nil {
		_ = w.file.Close() // it is of no use any more
		w.file = nil
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
