package parquetfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"hindcast/internal/parquetfile/column"
	"hindcast/internal/parquetfile/footer"
	"hindcast/internal/record"
)

// ReadOptions narrow what is read. The zero value reads all that can be read.
type ReadOptions struct {
	// Columns are read in this order; nil means those of [File.Schema].
	Columns []string
	// RowGroups are read in this order; nil means all.
	RowGroups []int
	// BatchRows is the most rows of a batch; 0 means 4,096.
	BatchRows int
}

const (
	defaultBatchRows = 4096
	// Row groups whose needed bytes pass preload are read in windows by column; below it, neighbours nearer than nearby are read as one.
	preload = 32 << 20
	nearby  = 64 << 10
)

// Reader yields a file's rows as batches. It is not safe for concurrent use and
// needs no closing. Beside its batch it holds at most 1 GiB of decoded pages and
// dictionaries and the compressed bytes that it is reading.
type Reader struct {
	f         *File
	columns   []reading
	groups    []int
	group     int   // the current one, an index into the file's
	left      int64 // rows of it not yet read
	batchRows int
	batch     record.Batch
	codecs    column.Codecs
	budget    column.Budget
	mem       []byte // of preloaded chunks
	err       error
}

// reading is a column that is read.
type reading struct {
	*column.Reader
	field *field
	chunk *footer.Chunk // of the current row group
}

// Read starts to read rows. Options that do not fit the file are reported by the first Next.
func (f *File) Read(opts ReadOptions) *Reader {
	r := &Reader{f: f, groups: opts.RowGroups, batchRows: opts.BatchRows}
	if r.batchRows <= 0 {
		r.batchRows = defaultBatchRows
	}
	if r.groups == nil {
		for i := range f.footer.Groups {
			r.groups = append(r.groups, i)
		}
	}
	for _, g := range r.groups {
		if g < 0 || g >= len(f.footer.Groups) {
			r.err = &Error{File: f.name, RowGroup: g, Reason: fmt.Sprintf("the file has %d row groups", len(f.footer.Groups))}
		}
	}
	names := opts.Columns
	if names == nil {
		for _, c := range f.Schema() {
			names = append(names, c.Name)
		}
	}
	for _, name := range names {
		c, err := f.column(name)
		if err != nil {
			r.err = cmp.Or(r.err, err)
			continue
		}
		r.columns = append(r.columns, reading{field: c, Reader: column.NewReader(c.Shape, &r.codecs, &r.budget)})
	}
	r.batch.Columns = make([]record.Column, len(r.columns))
	return r
}

// Next returns the next rows, all of one row group, or io.EOF. Errors are
// [Error] values; after one there are no more batches. Batches are never empty.
// Strings of a column have codes where the file has them; the dictionary's memory is the same for all
// batches of a row group, and of that group only.
func (r *Reader) Next() (*record.Batch, error) {
	if r.err == nil {
		if err := guard(r.next); err != nil {
			r.err = r.f.wrap(r.group, "", err)
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return &r.batch, nil
}

// wrap places an error, unless it is io.EOF or has its place.
func (f *File) wrap(group int, name string, err error) error {
	var placed *Error
	var storage *column.ReadError
	switch {
	case errors.Is(err, io.EOF) || errors.As(err, &placed):
		return err
	case errors.As(err, &storage):
		return &Error{File: f.name, RowGroup: group, Column: name, Reason: "its data cannot be read", Err: storage}
	}
	return &Error{File: f.name, RowGroup: group, Column: name, Reason: "its data is damaged or not as its metadata says; export the file again", Err: err}
}

func (r *Reader) next() error {
	for r.left == 0 {
		if len(r.groups) == 0 {
			return io.EOF
		}
		r.group, r.groups = r.groups[0], r.groups[1:]
		if err := r.start(); err != nil {
			return err
		}
	}
	n := int(min(r.left, int64(r.batchRows)))
	r.left -= int64(n)
	r.batch.Len = n
	for i := range r.columns {
		c := &r.columns[i]
		err := guard(func() error {
			if err := c.Fill(n, &r.batch.Columns[i]); err != nil {
				return err
			}
			if r.left == 0 {
				return c.Finish()
			}
			return nil
		})
		if err != nil {
			return r.f.wrap(r.group, c.field.name, err)
		}
	}
	return nil
}

// start begins a row group.
func (r *Reader) start() error {
	g := &r.f.footer.Groups[r.group]
	r.left = g.Rows
	if g.Rows == 0 {
		return nil
	}
	total := int64(0)
	for i := range r.columns {
		c := &r.columns[i]
		c.chunk = &g.Chunks[c.field.leaf]
		total += c.chunk.Length()
	}
	if total <= preload {
		if err := r.preload(); err != nil {
			return err
		}
	}
	for i := range r.columns {
		c := &r.columns[i]
		if total > preload {
			if err := c.StartAt(c.chunk, r.f.r); err != nil {
				return err
			}
		}
		if lo, hi, ok := r.f.bounds(c.field, c.chunk); ok {
			c.Expect(lo, hi)
		}
		if n, ok := r.f.nulls(c.field, c.chunk); ok {
			c.ExpectNulls(n)
		}
	}
	return nil
}

// preload reads all needed chunks of a row group, those near each other at once.
func (r *Reader) preload() error {
	order := make([]*reading, len(r.columns))
	for i := range r.columns {
		order[i] = &r.columns[i]
	}
	slices.SortFunc(order, func(a, b *reading) int { return cmp.Compare(a.chunk.Start(), b.chunk.Start()) })
	size := 0
	for i := 0; i < len(order); {
		end, n := span(order[i:])
		size += int(end-order[i].chunk.Start()) + column.Padding
		i += n
	}
	if cap(r.mem) < size {
		r.mem = make([]byte, size+size/4)
	}
	mem := r.mem
	for i := 0; i < len(order); {
		end, n := span(order[i:])
		start := order[i].chunk.Start()
		buf := mem[:end-start]
		if err := column.ReadAt(r.f.r, buf, start); err != nil {
			return err
		}
		for _, c := range order[i : i+n] {
			at := c.chunk.Start() - start
			if err := c.Start(c.chunk, buf[at:at+c.chunk.Length()]); err != nil {
				return err
			}
		}
		mem = mem[len(buf)+column.Padding:]
		i += n
	}
	return nil
}

// span returns the end of the read that begins with order[0], and how many chunks it takes in.
func span(order []*reading) (end int64, n int) {
	for n < len(order) && (n == 0 || order[n].chunk.Start() <= end+nearby) {
		end = max(end, order[n].chunk.Start()+order[n].chunk.Length())
		n++
	}
	return end, n
}
