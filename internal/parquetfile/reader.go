package parquetfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"hindcast/internal/parquetfile/column"
	"hindcast/internal/record"
	"hindcast/internal/spare"
)

// ReadOptions narrow what is read. The zero value reads all that can be read.
type ReadOptions struct {
	// Columns are read in this order; nil means those of [File.Schema].
	Columns []string
	// RowGroups are read in this order; nil means all.
	RowGroups []int
	// BatchRows is the most rows of a batch; 0 means 4,096.
	BatchRows int
	// First are columns, among Columns, by the first of which Wanted, unless it is nil, decides about a batch: it is given one that has values only of these. If it
	// says false, the others are null in the batch, whatever the file has: these values are not looked at, and pages that have no others are not decompressed. It is
	// asked more than once about the same rows.
	First  []string
	Wanted func(*record.Batch) bool
	// Cuts are row groups that are not read whole.
	Cuts map[int]Cut
}

const (
	defaultBatchRows = 4096
	// Row groups whose needed bytes pass preload are read in windows by column; below it, neighbours nearer than nearby are read as one:
	// what lies between takes less time than a request.
	preload = 32 << 20
	nearby  = 256 << 10
)

// Reader yields a file's rows as batches. It is not safe for concurrent use and
// needs no closing, but see [Reader.Release]. Beside its batch it holds at most 1 GiB of decoded pages and
// dictionaries and the compressed bytes that it is reading.
type Reader struct {
	f         *File
	columns   []reading
	groups    []int
	group     int   // the current one, an index into the file's
	at, end   int64 // its rows that are not yet read
	late      Stretch
	cuts      map[int]*cutting
	batchRows int
	preload   int64 // the most bytes of a row group that are read at once
	batch     record.Batch
	wanted    func(*record.Batch) bool
	by        int // the column that it decides by, -1: none
	codecs    column.Codecs
	budget    column.Budget
	mem       []byte // of preloaded chunks
	err       error
}

// reading is a column that is read.
type reading struct {
	*column.Reader
	field *field
	late  bool          // it is not decoded before its rows are wanted
	out   bool          // nothing is read of it in this row group
	none  record.Column // of nulls, as many as were needed
}

// cutting is how a row group is read of which there is a [Cut].
type cutting struct {
	Cut
	extents []extent // by column
}

// Read starts to read rows. Options that do not fit the file are reported by the first Next.
func (f *File) Read(opts ReadOptions) *Reader {
	r := &Reader{f: f, groups: opts.RowGroups, batchRows: opts.BatchRows, preload: preload, wanted: opts.Wanted, by: -1}
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
		if opts.Wanted != nil && len(opts.First) > 0 && name == opts.First[0] {
			r.by = len(r.columns)
		}
		r.columns = append(r.columns, reading{field: c, Reader: column.NewReader(c.Shape, &r.codecs, &r.budget), late: late})
	}
	r.batch.Columns = make([]record.Column, len(r.columns))
	if r.err == nil {
		r.err = guard(func() error { return r.cut(opts.Cuts) })
	}
	return r
}

// cut finds what is read of row groups that are not read whole.
func (r *Reader) cut(cuts map[int]Cut) error {
	r.cuts = map[int]*cutting{}
	for _, g := range r.groups {
		of, ok := cuts[g]
		if !ok {
			continue
		}
		all := Stretch{0, r.f.footer.Groups[g].Rows}
		of.Rows = of.Rows.Within(all)
		of.Late = of.Late.Within(of.Rows)
		c := &cutting{Cut: of, extents: make([]extent, len(r.columns))}
		for i := range r.columns {
			col, s := &r.columns[i], of.Rows
			if col.late {
				s = of.Late
			}
			if slices.Contains(of.Without, col.field.name) {
				s = Stretch{}
			}
			var err error
			if c.extents[i], err = r.f.extent(g, col.field, s, col.field.name == of.By); err != nil {
				return r.f.wrap(g, col.field.name, err)
			}
		}
		r.cuts[g] = c
	}
	return nil
}

// extents are what is read of a row group, by column.
func (r *Reader) extents(group int) []extent {
	if c := r.cuts[group]; c != nil {
		return c.extents
	}
	g := &r.f.footer.Groups[group]
	out := make([]extent, len(r.columns))
	for i := range r.columns {
		out[i] = whole(&g.Chunks[r.columns[i].field.leaf])
	}
	return out
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

// Release gives memory to others, as the end of the rows does. The reader must not be used any more, nor its last batch.
func (r *Reader) Release() {
	if r.err == nil {
		r.release()
		r.err = errReleased
	}
}

var errReleased = errors.New("the reader was released")

func (r *Reader) release() {
	for i := range r.columns {
		r.columns[i].Release()
	}
	spare.Put(r.mem)
	r.mem = nil
}

// Place says where the first row of the batch lies that Next returned last: in which row group, and which of its rows it is.
func (r *Reader) Place() (group int, row int64) {
	return r.group, r.at - int64(r.batch.Len)
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
	for r.at == r.end {
		if len(r.groups) == 0 {
			r.release()
			return io.EOF
		}
		r.group, r.groups = r.groups[0], r.groups[1:]
		if err := r.start(); err != nil {
			return err
		}
	}
	n := min(r.end-r.at, int64(r.batchRows))
	// A batch is of rows that columns are read late of, or of none.
	late := r.at >= r.late.From && r.at < r.late.To
	switch {
	case late:
		n = min(n, r.late.To-r.at)
	case r.at < r.late.From:
		n = min(n, r.late.From-r.at)
	}
	r.at += n
	r.batch.Len = int(n)
	if err := r.fill(int(n), false); err != nil || r.wanted == nil {
		return err
	}
	switch wanted := r.wanted(&r.batch); {
	case wanted && !late:
		return &Error{
			File: r.f.name, RowGroup: r.group, Column: r.cuts[r.group].By,
			Reason: fmt.Sprintf("its page index says that rows %d to %d have no value that is wanted, but one has: the index cannot be trusted; export the file again, or run with --no-prune",
				r.at-n, r.at-1),
		}
	case wanted:
		return r.fill(int(n), true)
	}
	return r.skip(int(n), late)
}

// fill decodes the next n rows of the columns that come late, or of the others.
func (r *Reader) fill(n int, late bool) error {
	return r.each(late, func(c *reading, out *record.Column) error {
		if c.out {
			*out = c.nulls(n)
			return nil
		}
		return c.Fill(n, out)
	})
}

// skip leaves out the next n rows of the columns that come late. There says that these are read of them.
func (r *Reader) skip(n int, there bool) error {
	return r.each(true, func(c *reading, out *record.Column) error {
		if there {
			c.Skip(n)
		}
		*out = c.nulls(n)
		return nil
	})
}

// nulls are at least n.
func (c *reading) nulls(n int) record.Column {
	if len(c.none.Nulls)*64 < n {
		c.none = record.Nulls(c.field.Kind, (n+63)&^63) // as many as the bitmap has
	}
	return c.none
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
			if r.at == r.end {
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
	r.at, r.end = 0, r.f.footer.Groups[r.group].Rows
	r.late = Stretch{0, r.end}
	if c := r.cuts[r.group]; c != nil {
		r.at, r.end, r.late = c.Rows.From, c.Rows.To, c.Late
	}
	if r.at == r.end {
		return nil
	}
	column.GiveBack(r.f.r) // the row group before is done
	extents := r.extents(r.group)
	total := needed(extents)
	if total <= r.preload {
		if err := r.load(extents); err != nil {
			return err
		}
	}
	for i := range r.columns {
		c, e := &r.columns[i], &extents[i]
		if c.out = len(e.ranges) == 0; c.out {
			c.Part()
			continue
		}
		if total > r.preload {
			if err := c.StartAt(e.chunk, r.f.r); err != nil {
				return err
			}
			if len(e.ranges) > 1 {
				c.ThenAt(e.ranges[1].Offset, e.ranges[1].Length)
			}
		}
		if lo, hi, ok := r.f.bounds(c.field, e.chunk); ok {
			c.Expect(lo, hi)
		}
		if e.pages != nil {
			c.ExpectPages(e.pages)
		}
		if e.part {
			c.Skip(int(e.skip))
			c.Part()
		} else if n, ok := r.f.nulls(c.field, e.chunk); ok {
			c.ExpectNulls(n)
		}
	}
	return r.survey(extents)
}

// survey finds, where one page has all of the values by which it is decided what is wanted, after which row of the group nothing is: of columns that come late,
// pages may be as large.
func (r *Reader) survey(extents []extent) error {
	if r.by < 0 || r.late != (Stretch{0, r.f.footer.Groups[r.group].Rows}) || extents[r.by].part || r.columns[r.by].out {
		return nil
	}
	by := &r.columns[r.by]
	rows, until := int64(0), int64(0)
	err := guard(func() error {
		_, err := by.Peek(r.batchRows, func(values *record.Column, n int) {
			r.batch.Len, r.batch.Columns[r.by] = n, *values
			if rows += int64(n); r.wanted(&r.batch) {
				until = rows
			}
		})
		return err
	})
	if err != nil {
		return r.f.wrap(r.group, by.field.name, err)
	}
	for i := range r.columns {
		if c := &r.columns[i]; c.late && !c.out && !extents[i].part {
			c.Until(until)
		}
	}
	return nil
}

// needed is how many bytes are read.
func needed(extents []extent) (total int64) {
	for i := range extents {
		for _, s := range extents[i].ranges {
			total += s.Length
		}
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
	extents := r.extents(group)
	total := needed(extents)
	if total <= r.preload {
		return spans(extents)
	}
	type share struct {
		Range
		at float64 // of the column that lies before it
	}
	var shares []share
	for i := range extents {
		before, of := int64(0), float64(needed(extents[i:i+1]))
		for _, s := range extents[i].ranges {
			for at := int64(0); at < s.Length; at += column.Window {
				shares = append(shares, share{Range{s.Offset + at, min(column.Window, s.Length-at)}, float64(before+at) / of})
			}
			before += s.Length
		}
	}
	slices.SortStableFunc(shares, func(a, b share) int { return cmp.Compare(a.at, b.at) })
	out := make([]Range, len(shares))
	for i := range shares {
		out[i] = shares[i].Range
	}
	return out
}

// spans are the reads that take in all that is needed.
func spans(extents []extent) []Range {
	var spans []Range
	for i := range extents {
		spans = append(spans, extents[i].ranges...)
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

// load reads all that is needed of a row group, what is near each other at once.
func (r *Reader) load(extents []extent) error {
	spans := spans(extents)
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
		spare.Put(r.mem)
		r.mem = spare.Get(size)
	}
	mem := r.mem[:cap(r.mem)]
	in := func(part Range) []byte {
		for n, s := range spans {
			if at := part.Offset - s.Offset; at >= 0 && at < s.Length {
				return bufs[n][at : at+part.Length]
			}
		}
		return nil
	}
	for n, s := range spans {
		buf := bufs[n]
		if buf == nil {
			buf = mem[:s.Length]
			if err := column.ReadAt(r.f.r, buf, s.Offset); err != nil {
				return err
			}
			mem = mem[len(buf)+column.Padding:]
			bufs[n] = buf
		}
	}
	for i := range r.columns {
		c, e := &r.columns[i], &extents[i]
		if len(e.ranges) == 0 {
			continue
		}
		if err := c.Start(e.chunk, in(e.ranges[0])); err != nil {
			return err
		}
		if len(e.ranges) > 1 {
			c.Then(in(e.ranges[1]))
		}
	}
	return nil
}
