package parquetfile

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/parquetfile/column"
	"hindcast/internal/parquetfile/footer"
	"hindcast/internal/record"
	"hindcast/internal/spare"
)

// Lent is a row group whose columns a [Writer] takes into another file without decoding what it need not; see [record.Lent]. It may be used concurrently
// as its file may.
type Lent struct {
	file  *File
	group int
}

// Lend lends a row group of the file.
func (f *File) Lend(group int) (*Lent, error) {
	if group < 0 || group >= len(f.footer.Groups) {
		return nil, &Error{File: f.name, RowGroup: group, Reason: fmt.Sprintf("the file has %d row groups", len(f.footer.Groups))}
	}
	return &Lent{f, group}, nil
}

// CanLend reports whether a column can be lent as one of another file: it must be stored as a [Writer] stores it, and by one.
func (f *File) CanLend(name string, as record.Field) bool {
	c, err := f.column(name)
	if err != nil || !strings.HasPrefix(f.footer.CreatedBy, "hindcast ") || c.within || c.Kind != as.Kind || c.Conv != column.AsIs || c.Zone != nil || (c.Level > 0) != as.Nullable {
		return false
	}
	if c.Type != newChunkWriter(as, Plain, false, &bench{}).typ || c.Type == format.Int64 && as.Kind == record.Timestamp && (c.logical.ID != footer.Timestamp || c.logical.Unit != 2 || !c.logical.UTC) {
		return false
	}
	for i := range f.footer.Groups {
		g := &f.footer.Groups[i]
		if m := &g.Chunks[c.leaf]; g.Rows > 0 && (m.Codec != format.Zstd || m.Slack > 0 || m.IndexOffset <= 0 || m.IndexLength <= 0 || m.IndexOffset > f.end-int64(m.IndexLength)) {
			return false
		}
	}
	return true
}

// lentPage is a data page that has rows that are wanted.
type lentPage struct {
	header footer.PageHeader
	bytes  []byte  // all of it
	head   int     // bytes of the header
	first  int64   // row of the group
	rows   []int64 // of the group, those to be decoded; nil: the page is copied
}

// headerRoom is about how many bytes the header of a page takes.
const headerRoom = 64

// lentChunk is what is needed of a chunk.
type lentChunk struct {
	meta       footer.Chunk
	dictionary []byte // the page, with its header
	dictHeader footer.PageHeader
	dictHead   int
	codes      bool // are enough of strings: those of the dictionary are copied
	pages      []lentPage
	read       [][]byte // what the dictionary and the pages are parts of
}

// release gives the memory of pages to others.
func (c *lentChunk) release() {
	for _, b := range c.read {
		spare.Put(b)
	}
	*c = lentChunk{}
}

// chunk reads the pages that rows of a column lie in; those all of whose rows are wanted may be copied. Rows ascend.
func (l *Lent) chunk(name string, rows []int64, copied bool) (*field, *lentChunk, error) {
	c, err := l.file.column(name)
	if err != nil {
		return nil, nil, err
	}
	g := &l.file.footer.Groups[l.group]
	if n := len(rows); n > 0 && (rows[0] < 0 || rows[n-1] >= g.Rows) {
		return nil, nil, fmt.Errorf("rows %d to %d are lent of %d", rows[0], rows[n-1], g.Rows)
	}
	out := &lentChunk{meta: g.Chunks[c.leaf]}
	pages, err := l.locate(&out.meta, g.Rows)
	if err != nil || len(rows) == 0 {
		return c, out, err
	}
	if before := pages[0].Offset - out.meta.Start(); before > 0 {
		if out.dictionary, err = l.read(out.meta.Start(), before); err != nil {
			return nil, nil, err
		}
		out.read = append(out.read, out.dictionary)
		if out.dictHeader, out.dictHead, err = header(out.dictionary); err != nil {
			return nil, nil, fmt.Errorf("dictionary: %w", err)
		}
		if out.dictHeader.Type != format.DictionaryPage {
			return nil, nil, errors.New("the page before its first data page is no dictionary")
		}
		out.codes = copied && out.dictHeader.HasCRC
	}
	for from := 0; from < len(pages); {
		// Pages with rows that are wanted, as long as they follow one another, at once.
		to := from
		var size int64
		rest := rows
		for ; to < len(pages); to++ {
			n, _ := slices.BinarySearch(rest, pages[to].end)
			if n == 0 || size > 0 && pages[to].Offset != pages[to-1].Offset+int64(pages[to-1].Size) {
				break
			}
			size, rest = size+int64(pages[to].Size), rest[n:]
		}
		if to == from {
			from++
			continue
		}
		data, err := l.read(pages[from].Offset, size)
		if err != nil {
			return nil, nil, err
		}
		out.read = append(out.read, data)
		for ; from < to; from++ {
			at := &pages[from]
			p := lentPage{bytes: data[:at.Size], first: at.First}
			data = data[at.Size:]
			if p.header, p.head, err = header(p.bytes); err == nil && (p.header.Type != format.DataPage && p.header.Type != format.DataPageV2 || int64(p.header.Values) != at.end-at.First) {
				err = fmt.Errorf("it is not the data page of %d rows that the index lists", at.end-at.First)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("page %d: %w", from, err)
			}
			n, _ := slices.BinarySearch(rows, at.end)
			// Only a checksum tells that a page is whole, and of nulls only a page of version 2 says how many it has.
			sure := p.header.HasCRC && (out.dictionary == nil || out.dictHeader.HasCRC) && (c.Level == 0 || p.header.Type == format.DataPageV2)
			if n < int(p.header.Values) || !sure || !copied {
				p.rows = rows[:n]
			}
			out.pages = append(out.pages, p)
			rows = rows[n:]
		}
	}
	return c, out, nil
}

// located is where a page lies, and the row after its last.
type located struct {
	footer.Location
	end int64
}

// locate lists a chunk's data pages.
func (l *Lent) locate(meta *footer.Chunk, rows int64) ([]located, error) {
	b, err := l.read(meta.IndexOffset, int64(meta.IndexLength))
	if err != nil {
		return nil, err
	}
	list, err := footer.ParseOffsetIndex(b)
	spare.Put(b)
	if err != nil {
		return nil, fmt.Errorf("index of pages: %w", err)
	}
	out := make([]located, len(list))
	at, first := meta.Start(), int64(0)
	for i, p := range list {
		out[i] = located{p, rows}
		if i+1 < len(list) {
			out[i].end = list[i+1].First
		}
		if p.Offset < at || p.Size <= 0 || p.Offset+int64(p.Size) > meta.Start()+meta.Compressed || p.First != first || out[i].end <= first {
			return nil, fmt.Errorf("index of pages: page %d, rows from %d, is said to lie at bytes %d to %d", i, p.First, p.Offset, p.Offset+int64(p.Size))
		}
		at, first = p.Offset+int64(p.Size), out[i].end
	}
	if first != rows {
		return nil, fmt.Errorf("index of pages: %d rows are listed of %d", first, rows)
	}
	return out, nil
}

func (l *Lent) read(offset, length int64) ([]byte, error) {
	b := spare.Get(int(length))[:length]
	return b, column.ReadAt(l.file.r, b, offset)
}

// header parses a page's header and holds the rest against its checksum.
func header(page []byte) (footer.PageHeader, int, error) {
	h, head, err := footer.ParsePage(page)
	switch {
	case err != nil:
		return h, head, fmt.Errorf("header: %w", err)
	case int64(h.Compressed) != int64(len(page)-head):
		return h, head, fmt.Errorf("it states %d bytes where there are %d", h.Compressed, len(page)-head)
	case h.HasCRC && crc32.ChecksumIEEE(page[head:]) != h.CRC:
		return h, head, errors.New("it does not match its checksum (CRC)")
	}
	return h, head, nil
}

// decodeRows is how many rows are decoded at a time.
const decodeRows = 2048

// decode gives the values of the rows that are not copied, page by page in parts: those of rows that follow one another, and which are wanted.
func (l *Lent) decode(c *field, chunk *lentChunk, codecs *column.Codecs, do func(page int, values *record.Column, rows []int) error) error {
	meta := chunk.meta
	meta.Values, meta.Slack = 0, 0
	size := len(chunk.dictionary)
	for i := range chunk.pages {
		if p := &chunk.pages[i]; p.rows != nil {
			size += len(p.bytes)
			meta.Values += int64(p.header.Values)
		}
	}
	if meta.Values == 0 {
		return nil
	}
	buf := append(spare.Get(size+column.Padding), chunk.dictionary...)
	defer func() { spare.Put(buf) }()
	for i := range chunk.pages {
		if p := &chunk.pages[i]; p.rows != nil {
			buf = append(buf, p.bytes...)
		}
	}
	var budget column.Budget
	r := column.NewReader(c.Shape, codecs, &budget)
	defer r.Release()
	if err := r.Start(&meta, buf); err != nil {
		return err
	}
	if chunk.codes {
		r.Codes()
	}
	var values record.Column
	part := make([]int, 0, decodeRows)
	for i := range chunk.pages {
		p := &chunk.pages[i]
		if p.rows == nil {
			continue
		}
		at, end := p.first, p.first+int64(p.header.Values)
		for rows := p.rows; len(rows) > 0; {
			r.Skip(int(rows[0] - at))
			at = rows[0]
			n := min(decodeRows, end-at)
			if err := r.Fill(int(n), &values); err != nil {
				return err
			}
			part = part[:0]
			for len(rows) > 0 && rows[0] < at+n {
				part, rows = append(part, int(rows[0]-at)), rows[1:]
			}
			if err := do(i, &values, part); err != nil {
				return err
			}
			at += n
		}
		r.Skip(int(end - at))
	}
	return r.Finish()
}

// Read decodes rows of the group, which ascend, of columns.
func (l *Lent) Read(names []string, rows []int64) ([]record.Column, error) {
	out := make([]record.Column, len(names))
	var codecs column.Codecs
	for i, name := range names {
		err := guard(func() error {
			c, chunk, err := l.chunk(name, rows, false)
			if err != nil {
				return err
			}
			defer chunk.release()
			to, n := &out[i], 0
			to.Kind = c.Kind
			return l.decode(c, chunk, &codecs, func(_ int, values *record.Column, rows []int) error {
				for _, row := range rows {
					to.Append(n, values, row)
					n++
				}
				return nil
			})
		})
		if err != nil {
			return nil, l.file.wrap(l.group, name, err)
		}
	}
	return out, nil
}

// lend makes the chunk of rows of a lent one. Pages all of whose rows are among them are copied, with the dictionary, compressed as they are, once they match
// their checksums; of others the rows are written anew.
func (c *chunkWriter) lend(l *Lent, name string, rows []int64) error {
	f, chunk, err := l.chunk(name, rows, true)
	if err != nil {
		return err
	}
	defer chunk.release()
	c.lent = true
	c.bounded = f.Kind != record.String && f.Kind != record.Float64 // reading holds values against the bounds of integers, not of others
	c.coding = c.uncoded
	if chunk.dictionary != nil {
		c.first = *bytes.NewBuffer(spare.Get(len(chunk.dictionary) + headerRoom))
		c.coding = format.RLEDictionary
		h := format.PageHeader{
			Type:                 format.DictionaryPage,
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: chunk.dictHeader.Values, Encoding: format.Plain}),
		}
		if _, err := c.copyPage(&c.first, &h, &chunk.dictHeader, chunk.dictionary[chunk.dictHead:]); err != nil {
			return err
		}
	}
	size := 0
	for i := range chunk.pages {
		size += len(chunk.pages[i].bytes) + headerRoom
	}
	c.pages = *bytes.NewBuffer(spare.Get(size))
	next := 0 // page
	upTo := func(page int) error {
		for ; next < page; next++ {
			if chunk.pages[next].rows != nil {
				continue
			}
			if err := c.copyData(&chunk.pages[next]); err != nil {
				return err
			}
		}
		return nil
	}
	err = l.decode(f, chunk, &c.codecs, func(page int, values *record.Column, rows []int) error {
		if err := upTo(page); err != nil {
			return err
		}
		return c.rewrite(values, rows)
	})
	if err != nil {
		return err
	}
	return upTo(len(chunk.pages))
}

// rewrite adds some rows of a page.
func (c *chunkWriter) rewrite(values *record.Column, rows []int) error {
	coded := values.Kind == record.String && values.Strings.Codes != nil
	if c.plainFrom == coded {
		if err := c.endPage(); err != nil {
			return err
		}
		c.plainFrom = !coded
	}
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n] == rows[0]+n {
			n++
		}
		if _, err := c.append(values, rows[0], rows[0]+n); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// copyData adds a page as it is, under a header of its own: what the file's said beside what a checksum covers is not taken over.
func (c *chunkWriter) copyData(p *lentPage) error {
	if err := c.endPage(); err != nil {
		return err
	}
	h := &p.header
	b := bounds{}
	if c.bounded {
		b = bounds{bytes.Clone(h.Stats.Min), bytes.Clone(h.Stats.Max)} // the page's memory is others' soon
		size := map[format.Type]int{format.Boolean: 1, format.Int32: 4, format.Int64: 8}[c.typ]
		c.bounded = len(b.least) == size && len(b.most) == size || h.Type == format.DataPageV2 && h.Nulls == h.Values
	}
	if !c.bounded {
		b = bounds{}
	}
	stats := format.Statistics{Min: b.least, Max: b.most, NullCount: int64(h.Nulls), MinValue: b.least, MaxValue: b.most}
	header := format.PageHeader{Type: h.Type}
	if h.Type == format.DataPage {
		header.DataPageHeader = thrift.New(format.DataPageHeader{
			NumValues: h.Values, Encoding: h.Encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE, Statistics: stats,
		})
	} else {
		header.DataPageHeaderV2 = thrift.New(format.DataPageHeaderV2{
			NumValues: h.Values, NumNulls: h.Nulls, NumRows: h.Values, Encoding: h.Encoding, DefinitionLevelsByteLength: h.DefLength,
			RepetitionLevelsByteLength: h.RepLength, IsCompressed: thrift.New(!h.PlainValues), Statistics: stats,
		})
	}
	at := c.meta.TotalCompressedSize
	size, err := c.copyPage(&c.pages, &header, h, p.bytes[p.head:])
	if err != nil {
		return err
	}
	c.listPage(at, size, int(h.Values), int(h.Nulls), b)
	return nil
}

// copyPage adds the body of a page under a header.
func (c *chunkWriter) copyPage(to *bytes.Buffer, header *format.PageHeader, h *footer.PageHeader, body []byte) (size int32, err error) {
	header.UncompressedPageSize, header.CompressedPageSize = h.Uncompressed, h.Compressed
	if header.CRC = int32(h.CRC); !h.HasCRC { //nolint:gosec // its bits
		header.CRC = int32(crc32.ChecksumIEEE(body)) //nolint:gosec // its bits
	}
	return c.writePage(to, header, h.Encoding, nil, body)
}
