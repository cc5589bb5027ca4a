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
	// First are columns, among Columns, by which Wanted, unless it is nil, decides about a batch: it is given one that has values only of these. If it
	// says false, the others are null in the batch, whatever the file has, and pages that have no other rows are not decompressed.
	First  []string
	Wanted func(*record.Batch) bool
}

const (
	defaultBatchRows = 4096
	// Row groups whose needed bytes pass preload are read in windows by column; below it, neighbours nearer than nearby are read as one:
	// what lies between takes less time than a request.
	preload = 32 << 20
	nearby  = 256 << 10
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
	wanted    func(*record.Batch) bool
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
	late  bool          // it is not decoded before its rows are wanted
	none  record.Column // of nulls, as many as were needed
}

// Read starts to read rows. Options that do not fit the file are reported by the first Next.
func (f *File) Read(opts ReadOptions) *Reader {
	r := &Reader{f: f, groups: opts.RowGroups, batchRows: opts.BatchRows, wanted: opts.Wanted}
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
		late := opts.Wanted != nil && !slices.Contains(opts.First, name)
		r.columns = append(r.columns, reading{field: c, Reader: column.NewReader(c.Shape, &r.codecs, &r.budget), late: late})
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

// Place says where the first row of the batch lies that Next returned last: in which row group, and which of its rows it is.
func (r *Reader) Place() (group int, row int64) {
	return r.group, r.f.footer.Groups[r.group].Rows - r.left - int64(r.batch.Len)
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
	if err := r.fill(n, false); err != nil || r.wanted == nil {
		return err
	}
	if r.wanted(&r.batch) {
		return r.fill(n, true)
	}
	return r.skip(n)
}

// fill decodes the next n rows of the columns that come late, or of the others.
func (r *Reader) fill(n int, late bool) error {
	return r.each(late, func(c *reading, out *record.Column) error { return c.Fill(n, out) })
}

// skip passes over the next n rows of the columns that come late.
func (r *Reader) skip(n int) error {
	return r.each(true, func(c *reading, out *record.Column) error {
		c.Skip(n)
		if len(c.none.Nulls)*64 < n {
			c.none = record.Nulls(c.field.Kind, n)
		}
		*out = c.none
		return nil
	})
}

// each does something with the columns that come late, or with the others, and finishes them at the end of a row group.
func (r *Reader) each(late bool, do func(*reading, *record.Column) error) error {
	for i := range r.columns {
		c := &r.columns[i]
		if c.late != late {
			continue
		}
		err := guard(func() error {
			if err := do(c, &r.batch.Columns[i]); err != nil {
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
	for i := range r.columns {
		c := &r.columns[i]
		c.chunk = &g.Chunks[c.field.leaf]
	}
	column.GiveBack(r.f.r) // the row group before is done
	total := r.needed(g)
	if total <= preload {
		if err := r.preload(g); err != nil {
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

// needed is how many bytes of a row group are read.
func (r *Reader) needed(g *footer.Group) (total int64) {
	for i := range r.columns {
		total += g.Chunks[r.columns[i].field.leaf].Length()
	}
	return total
}

// Range is a run of a file's bytes.
type Range struct{ Offset, Length int64 }

func (r Range) end() int64 { return r.Offset + r.Length }

// Ranges returns what the reader reads of a row group, in the order in which it needs it.
func (r *Reader) Ranges(group int) []Range {
	if group < 0 || group >= len(r.f.footer.Groups) || r.f.footer.Groups[group].Rows == 0 {
		return nil
	}
	g := &r.f.footer.Groups[group]
	if r.needed(g) <= preload {
		return r.spans(g)
	}
	type share struct {
		Range
		at float64 // of the column that lies before it
	}
	var shares []share
	for i := range r.columns {
		c := &g.Chunks[r.columns[i].field.leaf]
		for at := int64(0); at < c.Length(); at += column.Window {
			shares = append(shares, share{Range{c.Start() + at, min(column.Window, c.Length()-at)}, float64(at) / float64(c.Length())})
		}
	}
	slices.SortStableFunc(shares, func(a, b share) int { return cmp.Compare(a.at, b.at) })
	out := make([]Range, len(shares))
	for i := range shares {
		out[i] = shares[i].Range
	}
	return out
}

// spans are the reads that take in all needed chunks of a row group.
func (r *Reader) spans(g *footer.Group) []Range {
	var spans []Range
	for i := range r.columns {
		c := &g.Chunks[r.columns[i].field.leaf]
		spans = append(spans, Range{c.Start(), c.Length()})
	}
	slices.SortFunc(spans, func(a, b Range) int { return cmp.Compare(a.Offset, b.Offset) })
	n := 0
	for _, s := range spans {
		if n > 0 && s.Offset <= spans[n-1].end()+nearby {
			spans[n-1].Length = max(spans[n-1].end(), s.end()) - spans[n-1].Offset
			continue
		}
		spans[n] = s
		n++
	}
	return spans[:n]
}

// preload reads all needed chunks of a row group, those near each other at once.
func (r *Reader) preload(g *footer.Group) error {
	spans := r.spans(g)
	bufs := make([][]byte, len(spans))
	size := 0
	for i, s := range spans {
		var err error
		if bufs[i], err = column.Borrow(r.f.r, s.Offset, s.Length); err != nil {
			return err
		}
		if bufs[i] == nil {
			size += int(s.Length) + column.Padding
		}
	}
	if cap(r.mem) < size {
		r.mem = make([]byte, size+size/4)
	}
	mem := r.mem
	for n, s := range spans {
		buf := bufs[n]
		if buf == nil {
			buf = mem[:s.Length]
			if err := column.ReadAt(r.f.r, buf, s.Offset); err != nil {
				return err
			}
			mem = mem[len(buf)+column.Padding:]
		}
		for i := range r.columns {
			c := &r.columns[i]
			at := c.chunk.Start() - s.Offset
			if at < 0 || at >= s.Length {
				continue
			}
			if err := c.Start(c.chunk, buf[at:at+c.chunk.Length()]); err != nil {
				return err
			}
		}
	}
	return nil
}
