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
	"hindcast/internal/unit"
)

// WriteOptions are for [WriteFile]. The zero value works.
type WriteOptions struct {
	// Scratch is the folder in which files are built that the store cannot take from where they will lie; "" is the system's.
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
) ([]File, error) {
	f, err := NewFiles(store, path, s, label, opts)
	if err != nil {
		return nil, err
	}
	defer f.Discard()
	for b, err := range rows {
		if err != nil {
			return nil, f.wrap(err)
		}
		if err := f.Write(ctx, b); err != nil {
			return nil, err
		}
	}
	return f.Close(ctx)
}

// Files are as many files of a partition as it takes to keep each near a target size. It is not safe for concurrent use; after an error there is only Discard.
type Files struct {
	store  blob.Store
	path   func(n int) string
	schema Schema
	label  string
	opts   WriteOptions
	keys   sorter // across all files
	w      *fileWriter
	done   []File
}

// NewFiles begins to write rows of s.Rows; see [WriteFiles].
func NewFiles(store blob.Store, path func(n int) string, s Schema, label string, opts WriteOptions) (*Files, error) {
	f := &Files{store: store, path: path, schema: s, label: label, opts: opts, keys: sorter{to: s.Keys, schema: s.Rows}}
	if err := cmpErr(s.Validate(), s.checkLabel(label)); err != nil {
		return nil, f.wrap(err)
	}
	f.w = newFileWriter(s, label, opts)
	return f, nil
}

func (f *Files) wrap(err error) error {
	if err != nil {
		err = fmt.Errorf("write %s: %w", f.path(len(f.done)), err)
	}
	return err
}

// Write takes more rows. They are in the store when their file has its size, or after Close.
func (f *Files) Write(ctx context.Context, b *record.Batch) error { return f.wrap(f.write(ctx, b)) }

func (f *Files) write(ctx context.Context, b *record.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.Len == 0 {
		return nil
	}
	if err := cmpErr(checkBatch(b, f.schema.Rows), f.keys.check(b)); err != nil {
		return fmt.Errorf("%w: %w", ErrRows, err)
	}
	for at := 0; at < b.Len; {
		var err error
		if f.w.out == nil {
			if err := f.w.start(f.store, f.path(len(f.done))); err != nil {
				return err
			}
		}
		if at, err = f.w.write(b, at); err != nil {
			return err
		}
		if at < b.Len {
			if err := f.end(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// end puts the current file into the store.
func (f *Files) end(ctx context.Context) error {
	file, err := f.w.finish(ctx, f.store, f.path(len(f.done)))
	if err == nil {
		f.done = append(f.done, file)
		f.w.discard()
		f.w = newFileWriter(f.schema, f.label, f.opts)
	}
	return err
}

// Close ends the last file, and returns all of them, which are in the store.
func (f *Files) Close(ctx context.Context) ([]File, error) {
	if f.w.rows > 0 {
		if err := f.end(ctx); err != nil {
			return nil, f.wrap(err)
		}
	}
	return f.done, nil
}

// Break ends writing early: it returns the files that are in the store, and the rows that came after theirs. Those can be had until Discard.
func (f *Files) Break() ([]File, iter.Seq2[*record.Batch, error]) {
	return f.done, func(yield func(*record.Batch, error) bool) {
		if err := f.rest(func(b *record.Batch) bool { return yield(b, nil) }); err != nil {
			yield(nil, fmt.Errorf("read what is written of %s: %w", f.path(len(f.done)), err))
		}
	}
}

// rest reads the current file back.
func (f *Files) rest(yield func(*record.Batch) bool) error {
	if f.w.rows == 0 {
		return nil
	}
	size, err := f.w.close()
	if err != nil {
		return err
	}
	file, err := parquetfile.Open(f.w.file, size, "scratch")
	if err != nil {
		return err
	}
	columns := make([]string, len(f.schema.Rows))
	for i, c := range f.schema.Rows {
		columns[i] = c.Name
	}
	for r := file.Read(parquetfile.ReadOptions{Columns: columns}); ; {
		b, err := r.Next()
		if errors.Is(err, io.EOF) || err == nil && !yield(b) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Discard gives up what is not in the store, and the scratch that it takes.
func (f *Files) Discard() { f.w.discard() }

// fileWriter builds a file.
type fileWriter struct {
	schema  Schema
	label   string
	value   int64 // of the partition's column, where that is a number
	scratch string
	target  int64
	rows    int64
	bounds  [2][]string // the keys of the first and the last row
	// The partition's column, of as many rows as were needed.
	column     record.Column
	columnRows int

	file blob.Draft
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
	if w.rows == 0 {
		w.bounds[0] = keyText(b, from, 0, w.schema.Keys)
	}
	all := b
	if f, ok := w.schema.Scheme.Field(); ok {
		if w.columnRows < b.Len {
			w.column, w.columnRows = constant(f.Kind, w.value, w.label, b.Len), b.Len
		}
		all = &record.Batch{Len: b.Len, Columns: append([]record.Column{w.column}, b.Columns...)}
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

// start begins the file that is to be stored under a name.
func (w *fileWriter) start(store blob.Store, path string) (err error) {
	if w.schema.Scheme.ByTime() {
		if w.value, err = w.schema.Scheme.Value(w.label); err != nil {
			return err
		}
	}
	if w.file, err = blob.NewDraft(store, path, w.scratch); err != nil {
		return err
	}
	w.buf = bufio.NewWriterSize(io.MultiWriter(w.file, w.sum), 64<<10)
	w.out, err = parquetfile.NewWriter(w.buf, w.schema.Columns(), parquetfile.WriterOptions{})
	return err
}

func (w *fileWriter) finish(ctx context.Context, store blob.Store, path string) (File, error) {
	size, err := w.close()
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

// close makes the file whole, and returns its size.
func (w *fileWriter) close() (size int64, err error) {
	if err := w.out.Close(); err != nil {
		return 0, err
	}
	if err := w.buf.Flush(); err != nil {
		return 0, err
	}
	return w.file.Seek(0, io.SeekCurrent)
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
