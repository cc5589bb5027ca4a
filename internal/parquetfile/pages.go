package parquetfile

import (
	"errors"

	"hindcast/internal/parquetfile/column"
	"hindcast/internal/parquetfile/footer"
)

// Stretch is rows of a row group that follow one another: from From on, up to but without To.
type Stretch struct{ From, To int64 }

// Rows is how many they are.
func (s Stretch) Rows() int64 { return max(0, s.To-s.From) }

// Within is what both stretches have.
func (s Stretch) Within(o Stretch) Stretch {
	s.From = max(s.From, o.From)
	s.To = max(s.From, min(s.To, o.To))
	return s
}

// Cut says what is read of a row group. Of a column that has a page index only the pages are read that the rows lie in. Pages that are read and are not as their
// index says are an error.
type Cut struct {
	// Rows are those that there will be batches of.
	Rows Stretch
	// Late, within Rows, are those that the columns not among First are read of. Elsewhere they are null, and it is an error if a batch is wanted.
	Late Stretch
	// By is the column whose page index has decided; the values that are read of it are held against the bounds of its pages.
	By string
	// Without are columns that nothing is read of: they are null.
	Without []string
}

// maxIndex is how long a page index may be; longer ones are not used.
const maxIndex = 16 << 20

// Between returns a stretch of a row group outside which, as the page index says, no row has in a column a value in [from, to), or a null. It is not ok where
// there is no index of it or that cannot be trusted: the file's writer must be known to write bounds right, as for [File.Bounds], and the index must fit the
// footer and itself. The error is one of reading.
func (f *File) Between(group int, name string, from, to int64) (s Stretch, ok bool, err error) {
	c, err := f.column(name)
	if err != nil {
		return Stretch{}, false, err
	}
	pages, bounds, ok, err := f.pageBounds(group, c)
	if err != nil {
		return Stretch{}, false, f.wrap(group, name, err)
	}
	if !ok {
		return Stretch{}, false, nil
	}
	for i, p := range pages {
		if b := bounds[i]; b.nulls == 0 && (b.Hi < from || b.Lo >= to) {
			continue
		}
		if s.To == 0 {
			s.From = p.First
		}
		s.To = p.end
	}
	return s, true, nil
}

// pageBound is what an index says of a page's values.
type pageBound struct {
	column.Page
	nulls int64
}

// pages lists the data pages of a chunk, which lie one behind the other. It is not ok where the index is missing or contradicts the footer or itself: readers
// must not need one.
func (f *File) pages(group int, c *field) (pages []located, ok bool, err error) {
	g := &f.footer.Groups[group]
	m := &g.Chunks[c.leaf]
	if !f.trusted || m.Slack > 0 || !f.holds(m.IndexOffset, m.IndexLength) {
		return nil, false, nil
	}
	pages, err = (&Lent{f, group}).locate(m, g.Rows)
	if err != nil {
		return nil, false, storage(err)
	}
	for i := 1; i < len(pages); i++ {
		if pages[i-1].Offset+int64(pages[i-1].Size) != pages[i].Offset {
			return nil, false, nil
		}
	}
	return pages, true, nil
}

// pageBounds lists the data pages of a chunk of integers or times, and their bounds.
func (f *File) pageBounds(group int, c *field) (pages []located, bounds []pageBound, ok bool, err error) {
	m := &f.footer.Groups[group].Chunks[c.leaf]
	lo, hi, ok := f.bounds(c, m)
	// What clocks show in a zone is not in the order of time.
	if !ok || c.Zone != nil || c.maybe || !f.holds(m.BoundsOffset, m.BoundsLength) {
		return nil, nil, false, nil
	}
	if pages, ok, err = f.pages(group, c); err != nil || !ok {
		return nil, nil, false, err
	}
	b := make([]byte, m.BoundsLength)
	if err := column.ReadAt(f.r, b, m.BoundsOffset); err != nil {
		return nil, nil, false, err
	}
	index, err := footer.ParseColumnIndex(b)
	n := len(pages)
	fits := len(index.Empty) == n && len(index.Min) == n && len(index.Max) == n && (len(index.Nulls) == n || len(index.Nulls) == 0 && c.Level == 0)
	if err != nil || !fits {
		return nil, nil, false, nil //nolint:nilerr // what is damaged is not used
	}
	for i, p := range pages {
		b := pageBound{Page: column.Page{Values: p.end - p.First, Bounded: !index.Empty[i]}}
		if len(index.Nulls) > 0 {
			b.nulls = index.Nulls[i]
		}
		if b.nulls < 0 || b.nulls > b.Values || c.Level == 0 && b.nulls > 0 || index.Empty[i] != (b.nulls == b.Values) {
			return nil, nil, false, nil
		}
		if b.Bounded {
			if b.Lo, b.Hi, ok = c.span(index.Min[i], index.Max[i]); !ok || b.Lo < lo || b.Hi > hi {
				return nil, nil, false, nil
			}
		}
		bounds = append(bounds, b)
	}
	return pages, bounds, true, nil
}

// holds reports whether a part of the footer's metadata may lie at a place in the file.
func (f *File) holds(offset int64, length int32) bool {
	return offset >= 4 && length > 0 && length <= maxIndex && offset <= f.end-int64(length)
}

// storage returns err if it is one of reading, and nil where the file's contents are to blame.
func storage(err error) error {
	if e, ok := errors.AsType[*column.ReadError](err); ok {
		return e
	}
	return nil
}

// extent is what is read of a chunk.
type extent struct {
	chunk  *footer.Chunk // its values are those of the pages that are read
	ranges []Range       // the dictionary, if pages behind it are not read, and the pages; none: nothing is read
	skip   int64         // rows of the pages before the first that is wanted
	part   bool          // not all of the chunk's rows are read
	pages  []column.Page // that are read; nil where they are not known
}

// whole is the extent of a chunk that is read whole.
func whole(m *footer.Chunk) extent {
	return extent{chunk: m, ranges: []Range{{m.Start(), m.Length()}}}
}

// extent finds what is read of a column of a row group for a stretch of its rows.
func (f *File) extent(group int, c *field, s Stretch, by bool) (extent, error) {
	g := &f.footer.Groups[group]
	m := &g.Chunks[c.leaf]
	if s.Rows() == 0 {
		return extent{chunk: m}, nil
	}
	e := whole(m)
	e.skip, e.part = s.From, s != Stretch{0, g.Rows}
	pages, ok, err := f.pages(group, c)
	if err != nil || !ok {
		return e, err
	}
	expected := make([]column.Page, len(pages))
	for i, p := range pages {
		expected[i].Values = p.end - p.First
	}
	if by {
		_, bounds, _, err := f.pageBounds(group, c)
		if err != nil {
			return e, err
		}
		for i := range bounds {
			expected[i] = bounds[i].Page
		}
	}
	from, to := 0, len(pages)
	for pages[from].end <= s.From {
		from++
	}
	for pages[to-1].First >= s.To {
		to--
	}
	e.pages = expected[from:to]
	if from == 0 && to == len(pages) {
		return e, nil
	}
	part := *m
	part.Values = pages[to-1].end - pages[from].First
	e.chunk, e.skip = &part, s.From-pages[from].First
	dictionary := Range{m.Start(), pages[0].Offset - m.Start()}
	data := Range{pages[from].Offset, pages[to-1].Offset + int64(pages[to-1].Size) - pages[from].Offset}
	e.ranges = []Range{dictionary, data}
	if dictionary.Length == 0 {
		e.ranges = e.ranges[1:]
	}
	part.DictOffset, part.DataOffset, part.Compressed = 0, e.ranges[0].Offset, e.ranges[0].Length
	return e, nil
}
