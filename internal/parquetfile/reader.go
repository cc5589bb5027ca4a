package parquetfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go/format"

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

const defaultBatchRows = 4096

// Reader yields a file's rows as batches. It is not safe for concurrent use and
// needs no closing. Beside its batch it holds at most 1 GiB of decoded pages and
// dictionaries and the compressed bytes that it is reading.
type Reader struct {
	f         *File
	columns   []columnReader
	groups    []int
	group     int   // the current one, an index into the file's
	left      int64 // rows of it not yet read
	batchRows int
	batch     record.Batch
	codecs    decompressor
	budget    budget
	mem       []byte // of preloaded chunks
	err       error
}

// Read starts to read rows. Options that do not fit the file are reported by the first Next.
func (f *File) Read(opts ReadOptions) *Reader {
	r := &Reader{f: f, groups: opts.RowGroups, batchRows: opts.BatchRows}
	if r.batchRows <= 0 {
		r.batchRows = defaultBatchRows
	}
	if r.groups == nil {
		for i := range f.footer.groups {
			r.groups = append(r.groups, i)
		}
	}
	for _, g := range r.groups {
		if g < 0 || g >= len(f.footer.groups) {
			r.err = &Error{File: f.name, RowGroup: g, Reason: fmt.Sprintf("the file has %d row groups", len(f.footer.groups))}
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
		r.columns = append(r.columns, columnReader{col: c, codecs: &r.codecs, budget: &r.budget})
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
func (f *File) wrap(group int, column string, err error) error {
	var placed *Error
	var storage *readError
	switch {
	case err == io.EOF || errors.As(err, &placed):
		return err
	case errors.As(err, &storage):
		return &Error{File: f.name, RowGroup: group, Column: column, Reason: "its data cannot be read", Err: storage}
	}
	return &Error{File: f.name, RowGroup: group, Column: column, Reason: "its data is damaged or not as its metadata says; export the file again", Err: err}
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
			if err := c.fill(n, &r.batch.Columns[i]); err != nil {
				return err
			}
			if r.left == 0 {
				return c.finish(r.f.trusted)
			}
			return nil
		})
		if err != nil {
			return r.f.wrap(r.group, c.col.field.Name, err)
		}
	}
	return nil
}

// start begins a row group.
func (r *Reader) start() error {
	g := &r.f.footer.groups[r.group]
	r.left = g.rows
	if g.rows == 0 {
		return nil
	}
	total := int64(0)
	for i := range r.columns {
		c := &r.columns[i]
		c.meta = &g.chunks[c.col.leaf]
		c.in.r, c.in.off, c.in.end = r.f.r, c.meta.start(), c.meta.start()+c.meta.compressed
		c.in.pos, c.in.buf = 0, c.in.buf[:0]
		c.unread, c.left, c.absent = g.rows, 0, 0
		if err := c.dropDictionary(); err != nil {
			return err
		}
		c.lo, c.hi, c.bounded = r.f.bounds(c.col, c.meta)
		total += c.meta.compressed
	}
	if total > preload {
		for i := range r.columns {
			if c := &r.columns[i]; !c.window {
				c.in.buf, c.window = nil, true // it was a part of r.mem
			}
		}
		return nil
	}
	return r.preload()
}

// preload reads all needed chunks of a row group, those near each other at once.
func (r *Reader) preload() error {
	order := make([]*columnReader, len(r.columns))
	for i := range r.columns {
		order[i] = &r.columns[i]
	}
	slices.SortFunc(order, func(a, b *columnReader) int { return cmp.Compare(a.in.off, b.in.off) })
	size := 0
	for i := 0; i < len(order); {
		end, n := span(order[i:])
		size += int(end-order[i].in.off) + padding
		i += n
	}
	if cap(r.mem) < size {
		r.mem = make([]byte, size+size/4)
	}
	mem := r.mem
	for i := 0; i < len(order); {
		end, n := span(order[i:])
		start := order[i].in.off
		buf := mem[:end-start]
		if err := readAt(r.f.r, buf, start); err != nil {
			return err
		}
		for _, c := range order[i : i+n] {
			c.in.buf, c.window = buf[c.in.off-start:c.in.end-start], false
			c.in.off = c.in.end
		}
		mem = mem[len(buf)+padding:]
		i += n
	}
	return nil
}

// span returns the end of the read that begins with order[0], and how many chunks it takes in.
func span(order []*columnReader) (end int64, n int) {
	end = order[0].in.end
	for n = 1; n < len(order) && order[n].in.off <= end+nearby; n++ {
		end = max(end, order[n].in.end)
	}
	return end, n
}

// fill decodes the next n rows into out.
func (c *columnReader) fill(n int, out *record.Column) error {
	c.begin(n)
	for at := 0; at < n; {
		if c.left == 0 {
			if err := c.nextPage(); err != nil {
				return err
			}
		}
		k := min(n-at, c.left)
		present := k
		if c.col.field.Nullable {
			var err error
			if present, err = c.levels.levels(c.nullBuf, at, k, c.scratch); err != nil {
				return err
			}
			c.nulls += k - present
			c.absent += int64(k - present)
			c.hasNull = c.hasNull || present < k
		}
		if err := c.take(at, k, present); err != nil {
			return err
		}
		at, c.left = at+k, c.left-k
		if c.left == 0 {
			if err := c.endPage(); err != nil {
				return err
			}
		}
	}
	if c.hasNull {
		c.out.Nulls = c.nullBuf
	}
	*out = c.out
	return nil
}

// begin readies the column for a batch of n rows.
func (c *columnReader) begin(n int) {
	if cap(c.scratch) < n {
		size := (n + 63) &^ 63
		c.scratch = make([]uint32, size)
		c.nullBuf = record.NewBitmap(size)
	}
	clear(c.nullBuf)
	c.hasNull = false
	kind := c.col.field.Kind
	c.out.Kind, c.out.Nulls = kind, nil
	switch kind {
	case record.Float64:
		c.out.Float64s = slices.Grow(c.out.Float64s[:0], n)[:n]
	case record.String:
		c.out.Strings = record.Strings{}
		c.codeBuf = slices.Grow(c.codeBuf[:0], n)
		c.plain.Data = c.plain.Data[:0]
		c.plain.Offsets = append(c.plain.Offsets[:0], 0)
	default:
		c.out.Int64s = slices.Grow(c.out.Int64s[:0], n)[:n]
	}
}

// take decodes k rows of the page from row at of the batch on; present of them are not null.
func (c *columnReader) take(at, k, present int) error {
	switch c.col.field.Kind {
	case record.String:
		return c.takeStrings(at, k, present)
	case record.Float64:
		v := c.out.Float64s[at : at+k]
		if err := c.readFloats(v[:present]); err != nil {
			return err
		}
		spread(v, present, c.nullBuf, at)
	case record.Bool:
		v := c.out.Int64s[at : at+k]
		if err := c.readBools(v[:present]); err != nil {
			return err
		}
		spread(v, present, c.nullBuf, at)
	default:
		v := c.out.Int64s[at : at+k]
		if err := c.readInts(v[:present]); err != nil {
			return err
		}
		spread(v, present, c.nullBuf, at)
	}
	return nil
}

// takeStrings keeps codes while all pages of the batch have them; otherwise the batch has plain strings.
func (c *columnReader) takeStrings(at, k, present int) error {
	coded := c.header.encoding == format.RLEDictionary && at == len(c.codeBuf)
	if coded {
		c.codeBuf = c.codeBuf[:at+k]
		v := c.codeBuf[at:]
		if err := c.readCodes(v[:present]); err != nil {
			return err
		}
		spread(v, present, c.nullBuf, at)
		c.out.Strings = record.Strings{Codes: c.codeBuf, Offsets: c.strings.Offsets, Data: c.strings.Data}
		return nil
	}
	if n := len(c.codeBuf); n > 0 {
		// The dictionary had no room for what follows.
		c.codeBuf = c.codeBuf[:0]
		if err := c.plainOf(n); err != nil {
			return err
		}
	}
	if err := c.readStrings(&c.plain, present); err != nil {
		return err
	}
	if present < k {
		offsets := slices.Grow(c.plain.Offsets, k-present)[:at+1+k]
		for i, j := k, present; i > j; i-- {
			// offsets[at+i] ends row i-1 of these; a null row ends where the one before it does.
			offsets[at+i] = offsets[at+j]
			if !c.nullBuf.Get(at + i - 1) {
				j--
			}
		}
		c.plain.Offsets = offsets
	}
	c.out.Strings = c.plain
	return nil
}

// plainOf turns the n codes at the start of the batch into plain strings.
func (c *columnReader) plainOf(n int) error {
	for row, code := range c.codeBuf[:n] {
		if c.nullBuf.Get(row) {
			c.plain.Offsets = append(c.plain.Offsets, uint32(len(c.plain.Data)))
			continue
		}
		if err := c.lookUp(&c.plain, []uint32{code}); err != nil {
			return err
		}
	}
	return nil
}

// finish holds a chunk against its statistics, and makes sure that it has no more values than its row group has rows.
func (c *columnReader) finish(trusted bool) error {
	if s := &c.meta.stats; trusted && s.counted && c.col.field.Nullable && s.nulls != c.absent {
		return fmt.Errorf("it has %d nulls where its statistics state %d: what they are used for cannot be trusted", c.absent, s.nulls)
	}
	for !c.in.done() {
		h, _, err := c.in.page()
		if err != nil {
			return fmt.Errorf("behind its last value: %w", err)
		}
		if h.described && h.typ != format.DictionaryPage && h.values > 0 {
			return fmt.Errorf("it holds more than the %d values that the footer states", c.meta.values)
		}
	}
	return nil
}
