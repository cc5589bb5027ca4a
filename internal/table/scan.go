package table

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"hindcast/internal/blob"
	"hindcast/internal/parquetfile"
	"hindcast/internal/record"
	"hindcast/internal/scratch"
)

const (
	// maxMemory is how much of the files of a partition that are read at once is held in memory: a file that is larger than its share goes through scratch.
	maxMemory = 16 << 20
	// mergeRows is how many rows a merge of files gives at a time.
	mergeRows = 4096
)

// Scan reads a table's rows, ordered by partition, then by key, and passes them on in batches of the columns of [Schema.Columns].
// Every file is held against the manifest: its checksum before a row of it is passed on, its rows, columns, order and partition
// while it is read. What fn returns ends the scan. A batch is valid during the call.
func (s *Snapshot) Scan(ctx context.Context, name string, fn func(*record.Batch) error) error {
	t, err := s.Table(name)
	if err != nil {
		return err
	}
	for _, p := range t.Order() {
		if err := s.scan(ctx, t, p, ScanOptions{}, fn); err != nil {
			return fmt.Errorf("read table %s, %s: %w", name, p, err)
		}
	}
	return nil
}

// ScanOptions are for [Snapshot.ScanPartition] and [ScanFiles]. The zero value works.
type ScanOptions struct {
	// Found, where set, is told of each file whose bytes are the manifest's, and which ETag the object has that they were read from.
	Found func(path string, tag blob.ETag)
}

// ScanPartition is Scan for one partition. One that the table does not have has no rows.
func (s *Snapshot) ScanPartition(ctx context.Context, name, partition string, opts ScanOptions, fn func(*record.Batch) error) error {
	t, err := s.Table(name)
	if err != nil {
		return err
	}
	if err := s.scan(ctx, t, partition, opts, fn); err != nil {
		return fmt.Errorf("read table %s, %s: %w", name, partition, err)
	}
	return nil
}

func (s *Snapshot) scan(ctx context.Context, t Table, partition string, opts ScanOptions, fn func(*record.Batch) error) error {
	return ScanFiles(ctx, s.store, t.Schema, partition, t.Partitions[partition].Files, opts, fn)
}

// ScanFiles passes the rows of files of a partition on, as [Snapshot.Scan] does: ordered by key, rows of one key in the order of the files.
func ScanFiles(ctx context.Context, store blob.Store, s Schema, partition string, files []File, opts ScanOptions, fn func(*record.Batch) error) error {
	var m merge
	defer func() {
		for _, r := range m {
			r.close()
		}
	}()
	chains := s.chains(files)
	for _, files := range chains {
		r, err := openFiles(ctx, store, s, partition, files, maxMemory/int64(len(chains)), opts)
		if err != nil {
			return err
		}
		m = append(m, r)
	}
	if len(m) == 1 {
		for {
			b, err := m[0].next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil {
				err = cmpErr(ctx.Err(), fn(b))
			}
			if err != nil {
				return err
			}
		}
	}
	return m.run(ctx, s, fn)
}

// chains divides files into as few as possible that can be read one after the other, since no key of one comes after one of the next. Their order stays.
func (s Schema) chains(files []File) (out [][]File) {
	for i, f := range files {
		if i > 0 && s.follows(files[i-1], f) {
			out[len(out)-1] = append(out[len(out)-1], f)
		} else {
			out = append(out, []File{f})
		}
	}
	return out
}

// follows reports whether f is known to begin at or after the last key of before.
func (s Schema) follows(before, f File) bool {
	if s.Keys > 0 && (before.MaxKey == nil || f.MinKey == nil) {
		return false
	}
	for i, column := range s.Rows[:s.Keys] {
		order, err := compareText(column.Kind, before.MaxKey[i], f.MinKey[i])
		if err != nil || order != 0 {
			return err == nil && order < 0
		}
	}
	return true
}

// fileReader reads files, one after the other, and holds each against its entry.
type fileReader struct {
	file   File
	left   []File
	open   func(File) error
	rows   *parquetfile.Reader
	read   int64
	schema Schema
	label  string
	value  int64 // of the partition's column, where that is a number
	keys   sorter
	close  func()

	// Of a merge: the current row. Order tells files apart whose keys are equal.
	batch *record.Batch
	row   int
	order int
}

func openFiles(ctx context.Context, store blob.Store, s Schema, partition string, files []File, memory int64, opts ScanOptions) (*fileReader, error) {
	r := &fileReader{schema: s, left: files, close: func() {}}
	var err error
	if r.label, err = s.Label(partition); err != nil {
		return nil, err
	}
	columns := s.Columns()
	skip := len(columns) - len(s.Rows)
	r.keys = sorter{from: skip, to: skip + s.Keys, schema: columns}
	if s.Scheme.ByTime() {
		if r.value, err = s.Scheme.Value(r.label); err != nil {
			return nil, err
		}
	}
	r.open = func(f File) error {
		data, tag, done, err := download(ctx, store, f, memory)
		if err != nil {
			return err
		}
		r.close = done
		if opts.Found != nil {
			opts.Found(f.Path, tag)
		}
		file, err := parquetfile.Open(data, int64(f.Bytes), f.Path)
		if err == nil && !file.Schema().Equal(columns) {
			err = fmt.Errorf("it has the columns %v, the table has %v", file.Schema(), columns)
		}
		if err == nil {
			r.file, r.read, r.rows = f, 0, file.Read(parquetfile.ReadOptions{})
		}
		return err
	}
	if err := r.follow(); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// follow goes on to the next file.
func (r *fileReader) follow() error {
	r.close()
	r.close = func() {}
	f := r.left[0]
	r.left = r.left[1:]
	if err := r.open(f); err != nil {
		return fmt.Errorf("file %s: %w", f.Path, err)
	}
	return nil
}

// download proves that a file is the one that was written, and gives it: as it lies, if it lies on this machine, else fetched, up to so many bytes into memory.
// The ETag is that of the object that was read. Done releases it.
func download(ctx context.Context, store blob.Store, f File, memory int64) (_ io.ReaderAt, _ blob.ETag, done func(), err error) {
	o, err := store.Get(ctx, f.Path, blob.GetOptions{})
	if err != nil {
		return nil, "", nil, err
	}
	done = func() { o.Body.Close() }
	sum := sha256.New()
	var data io.ReaderAt
	at, here := o.Body.(io.ReaderAt)
	switch {
	case o.Size != int64(f.Bytes):
		err = fmt.Errorf("it has %d bytes, the manifest says %d: it was replaced or damaged", o.Size, f.Bytes)
	case here:
		_, err = io.Copy(sum, o.Body)
		data = at
	case o.Size <= memory:
		var buf bytes.Buffer
		buf.Grow(int(o.Size))
		_, err = io.Copy(io.MultiWriter(&buf, sum), o.Body)
		data = bytes.NewReader(buf.Bytes())
	default:
		var tmp *scratch.File
		if tmp, err = scratch.New(""); err == nil {
			_, err = io.Copy(io.MultiWriter(tmp, sum), o.Body)
			data, done = tmp, func() { o.Body.Close(); _ = tmp.Close() }
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != f.SHA256 {
		err = fmt.Errorf("its SHA-256 is %s, the manifest says %s: it was replaced or damaged", got, f.SHA256)
	}
	if err != nil {
		done()
		return nil, "", nil, err
	}
	return data, o.ETag, done, nil
}

// next gives the next rows, or io.EOF once all that the manifest counts were there.
func (r *fileReader) next() (*record.Batch, error) {
	b, err := r.rows.Next()
	switch {
	case errors.Is(err, io.EOF) && r.read != r.file.Rows:
		return nil, fmt.Errorf("file %s has %d rows, the manifest says %d", r.file.Path, r.read, r.file.Rows)
	case errors.Is(err, io.EOF) && len(r.left) > 0:
		if err := r.follow(); err != nil {
			return nil, err
		}
		return r.next()
	case err != nil:
		return nil, err
	}
	r.read += int64(b.Len)
	if err := cmpErr(r.keys.check(b), r.inPartition(b)); err != nil {
		return nil, fmt.Errorf("file %s: %w", r.file.Path, err)
	}
	return b, nil
}

// inPartition checks the partition's column.
func (r *fileReader) inPartition(b *record.Batch) error {
	if !r.schema.Scheme.ByTime() {
		return nil
	}
	c := &b.Columns[0]
	for i := range b.Len {
		if c.Nulls.Get(i) || c.Kind == record.String && string(c.Strings.At(i)) != r.label || c.Kind != record.String && c.Int64s[i] != r.value {
			return fmt.Errorf("it has a row of %s in the partition %s", Text(c, i), r.label)
		}
	}
	return nil
}

// advance goes to the next row; the batch is nil after the last.
func (r *fileReader) advance() error {
	if r.row++; r.batch != nil && r.row < r.batch.Len {
		return nil
	}
	r.row = 0
	var err error
	if r.batch, err = r.next(); errors.Is(err, io.EOF) {
		r.batch, err = nil, nil
	}
	return err
}

// merge is a heap of files by their current keys.
type merge []*fileReader

func (m merge) run(ctx context.Context, s Schema, fn func(*record.Batch) error) error {
	var live merge
	for i, r := range m {
		r.order = i
		if err := r.advance(); err != nil {
			return err
		}
		if r.batch != nil {
			live = append(live, r)
		}
	}
	heap.Init(&live)
	out := newBatch(s.Columns())
	flush := func() error {
		if out.Len == 0 {
			return ctx.Err()
		}
		err := cmpErr(ctx.Err(), fn(out))
		out = newBatch(s.Columns())
		return err
	}
	for len(live) > 0 {
		r := live[0]
		appendRow(out, r.batch, r.row)
		if err := r.advance(); err != nil {
			return err
		}
		if r.batch == nil {
			heap.Pop(&live)
		} else {
			heap.Fix(&live, 0)
		}
		if out.Len == mergeRows {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func (m merge) Len() int { return len(m) }

func (m merge) Less(i, j int) bool {
	a, b := m[i], m[j]
	if d := compareRows(a.batch, a.row, b.batch, b.row, a.keys.from, a.keys.to); d != 0 {
		return d < 0
	}
	return a.order < b.order
}

func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }

// Push implements heap.Interface.
func (m *merge) Push(x any) { *m = append(*m, x.(*fileReader)) }

// Pop implements heap.Interface.
func (m *merge) Pop() any {
	old := *m
	last := old[len(old)-1]
	*m = old[:len(old)-1]
	return last
}
