package parquetfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sort"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/plain"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/zeebo/xxh3"

	"hindcast/internal/parquetfile/column"
	"hindcast/internal/record"
	"hindcast/internal/spare"
)

// chunkWriter makes the pages of one column of a row group. Pages end by rows and lengths alone, so
// that the bytes do not depend on how rows come in batches.
type chunkWriter struct {
	field  record.Field
	typ    format.Type
	coding format.Encoding // of data pages; see plainFrom
	coded  bool            // coding is that of a dictionary, if one is of use
	chosen bool            // coding is what suits the first page; see choose
	millis bool
	width  int // bytes that a value counts for, beside a string's length
	full   int // the size at which a page ends
	zstd   *compressor
	*bench

	page page
	dict dictionary
	// plainFrom is set once the dictionary has passed its limit: pages go on without it, as uncoded.
	plainFrom bool
	uncoded   format.Encoding

	// Of a chunk with pages of another file; see lend. Bounded says that all of its pages have bounds.
	lent, bounded bool

	// The row group's pages, compressed, and what its metadata says of them. The dictionary's, which is known last, comes first.
	first   bytes.Buffer
	pages   bytes.Buffer
	meta    format.ColumnMetaData
	index   format.ColumnIndex
	offsets format.OffsetIndex
	bounds  bounds
	rows    int64
	lengths int64 // of strings

	header bytes.Buffer
}

// bench is what the columns of a file work with by turns.
type bench struct {
	encoded, packed, levels []byte
	codecs                  column.Codecs // of lent pages
}

// page holds the values of the current data page that are not null, as the kind has it.
type page struct {
	ints   []int64
	days   []int32
	floats []float64
	bits   []byte // booleans, packed
	text   []byte // strings, one after the other, of which string i ends at ends[i+1]
	ends   []uint32
	codes  []int32 // in place of all of these, where there is a dictionary
	values int     // that are not null
	levels []byte  // 0 or 1 a row, if the column is nullable
	rows   int
	size   int // by which pages end
}

func (p *page) reset() {
	*p = page{
		ints: p.ints[:0], days: p.days[:0], floats: p.floats[:0], bits: p.bits[:0], text: p.text[:0], ends: append(p.ends[:0], 0),
		codes: p.codes[:0], levels: p.levels[:0],
	}
}

// dictionary numbers the distinct values of a row group in the order in which they come.
type dictionary struct {
	values page
	n      int
	// slots is a hash table, of a power of two: zero, or 32 bits of a hash over a code that is counted from 1.
	slots []uint64
	// Codes of values of the dictionary that strings were last coded by, counted from 1; zero is not yet known.
	of    uint64
	known []int32
}

func (d *dictionary) reset() {
	d.values.reset()
	d.n, d.of = 0, 0
	clear(d.slots)
}

// size is what its values take.
func (d *dictionary) size() int {
	return len(d.values.text) + 8*len(d.values.ints) + 4*len(d.values.days) + 8*len(d.values.floats)
}

// text returns the code of a string.
func (d *dictionary) text(s []byte) int32 {
	hash := uint32(xxh3.Hash(s)) //nolint:gosec // as many bits as are kept
	at, code := d.find(hash, func(code int32) bool {
		return string(d.values.text[d.values.ends[code]:d.values.ends[code+1]]) == string(s)
	})
	if code < 0 {
		d.values.addText(s)
		code = d.add(at, hash)
	}
	return code
}

// take gets to know the dictionary of strings that have codes.
func (d *dictionary) take(s *record.Strings) {
	if d.of == s.Dictionary && len(d.known) == len(s.Offsets) {
		return
	}
	d.of = s.Dictionary
	d.known = slices.Grow(d.known[:0], len(s.Offsets))[:len(s.Offsets)]
	clear(d.known)
}

// coded returns the code of row i of strings whose dictionary was taken.
func (d *dictionary) coded(s *record.Strings, i int) int32 {
	known := &d.known[s.Codes[i]]
	if *known == 0 {
		*known = d.text(s.At(i)) + 1
	}
	return *known - 1
}

// fixed returns the code of a value of fixed size.
func (d *dictionary) fixed(typ format.Type, word uint64) int32 {
	hash := uint32(word * 0x9E3779B97F4A7C15 >> 32) //nolint:gosec // as many bits as are kept
	at, code := d.find(hash, func(code int32) bool { return d.values.word(typ, code) == word })
	if code < 0 {
		d.values.addFixed(typ, word)
		code = d.add(at, hash)
	}
	return code
}

// find returns the code with a hash for which is holds, or -1 and the slot where it belongs.
func (d *dictionary) find(hash uint32, is func(code int32) bool) (at int, code int32) {
	if 2*d.n >= len(d.slots) {
		d.grow()
	}
	mask := len(d.slots) - 1
	for at = int(hash) & mask; ; at = (at + 1) & mask {
		slot := d.slots[at]
		if slot == 0 {
			return at, -1
		}
		if code := int32(slot) - 1; uint32(slot>>32) == hash && is(code) { //nolint:gosec // its halves
			return at, code
		}
	}
}

// add gives the value that was added last its code.
func (d *dictionary) add(at int, hash uint32) int32 {
	d.n++
	d.slots[at] = uint64(hash)<<32 | uint64(d.n) //nolint:gosec // a dictionary ends at a size
	return int32(d.n) - 1                        //nolint:gosec // a dictionary ends at a size
}

func (d *dictionary) grow() {
	old := d.slots
	d.slots = make([]uint64, max(1024, 4*len(old)))
	mask := len(d.slots) - 1
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		at := int(slot>>32) & mask
		for d.slots[at] != 0 {
			at = (at + 1) & mask
		}
		d.slots[at] = slot
	}
}

func newChunkWriter(f record.Field, enc Encoding, millis bool, b *bench) *chunkWriter {
	c := &chunkWriter{field: f, millis: millis, width: valueWidth(f), full: pageBytes, zstd: &numbers, bench: b, coding: format.Plain, uncoded: format.Plain}
	switch f.Kind {
	case record.Bool:
		c.typ = format.Boolean
	case record.Float64:
		c.typ = format.Double
	case record.String:
		c.typ, c.zstd, c.uncoded = format.ByteArray, &texts, format.DeltaLengthByteArray
	case record.Date:
		c.typ = format.Int32
	case record.Int64, record.Timestamp:
		c.typ = format.Int64
	}
	switch {
	case enc == Dictionary, enc == Auto && (f.Kind == record.String || f.Kind == record.Date):
		c.coded = true
	case enc == Auto && c.typ == format.Int64:
		c.chosen = true
	case enc == Delta && f.Kind == record.String:
		c.coding = format.DeltaByteArray
	case enc == Delta:
		c.coding = format.DeltaBinaryPacked
	}
	c.reset()
	return c
}

// reset begins a row group.
func (c *chunkWriter) reset() {
	c.page.reset()
	c.dict.reset()
	c.plainFrom, c.rows, c.lengths, c.bounds = false, 0, 0, bounds{}
	if c.lent { // what was copied may be much larger than what is written
		spare.Put(c.first.Bytes())
		spare.Put(c.pages.Bytes())
		c.first, c.pages = bytes.Buffer{}, bytes.Buffer{}
	}
	c.lent, c.bounded = false, true
	c.first.Reset()
	c.pages.Reset()
	c.index, c.offsets = format.ColumnIndex{}, format.OffsetIndex{}
	c.meta = format.ColumnMetaData{Type: c.typ, PathInSchema: []string{c.field.Name}, Codec: format.Zstd}
	switch {
	case c.coded:
		c.coding = format.RLEDictionary
	case c.chosen:
		c.coding = format.Plain
	}
	if c.field.Nullable {
		c.meta.SizeStatistics.DefinitionLevelHistogram = make([]int64, 2)
	}
}

// encodings lists what the row group is written in.
func (c *chunkWriter) encodings() []format.Encoding {
	var list []format.Encoding
	for _, s := range c.meta.EncodingStats {
		list = append(list, s.Encoding)
	}
	if c.field.Nullable {
		list = append(list, format.RLE)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// choose decides between plain integers and differences for a row group that has only the current page, by what is smaller of the page's first
// values. Differences take a fifth of the time to write, and so may be a little larger, but where nothing becomes smaller: by a quarter, or by a half where
// there is a whole page of values.
func (c *chunkWriter) choose() (err error) {
	if !c.chosen || c.rows > 0 || c.lent {
		return nil
	}
	const enough = 4096
	some := page{ints: c.page.ints[:min(len(c.page.ints), enough)]}
	size := map[format.Encoding]int{}
	for _, coding := range []format.Encoding{format.Plain, format.DeltaBinaryPacked} {
		if c.encoded, err = some.encode(c.encoded[:0], c.typ, coding); err != nil {
			return err
		}
		if c.packed, err = c.zstd.pack(c.encoded, c.packed[:0]); err != nil {
			return err
		}
		size[coding] = len(c.packed)
	}
	c.coding = format.Plain
	more := size[format.Plain] / 4
	if c.page.size >= pageBytes {
		more = size[format.Plain] / 2
	}
	if d := size[format.DeltaBinaryPacked]; d <= size[format.Plain]+more && d <= 6*len(some.ints) {
		c.coding = format.DeltaBinaryPacked
	}
	return nil
}

// uncode gives up the dictionary of a row group that has only the current page, if hardly a value comes twice there: ids would
// fill it for nothing.
func (c *chunkWriter) uncode() {
	p := &c.page
	if c.coding != format.RLEDictionary || c.rows > 0 || 4*c.dict.n <= 3*p.values {
		return
	}
	c.coding = c.uncoded
	of := &c.dict.values
	for _, code := range p.codes {
		if c.typ == format.ByteArray {
			p.addText(of.text[of.ends[code]:of.ends[code+1]])
		} else {
			p.addFixed(c.typ, of.word(c.typ, code))
		}
	}
	p.codes = p.codes[:0]
}

// append adds rows [from, to) of col, ending pages on the way. It returns their size.
func (c *chunkWriter) append(col *record.Column, from, to int) (size int, err error) {
	p := &c.page
	for from < to {
		before := p.size
		switch bulk, coded := c.inBulk(col); {
		case bulk:
			from = c.appendBulk(col, from, to)
		case coded:
			from = c.appendCoded(&col.Strings, from, to)
		default:
			if from, err = c.appendRows(col, from, to); err != nil {
				return 0, err
			}
		}
		size += p.size - before
		if p.size >= c.full {
			if err := c.endPage(); err != nil {
				return 0, err
			}
		}
	}
	return size, nil
}

// appendRows adds rows one by one, until the page is full, and returns which is next.
func (c *chunkWriter) appendRows(col *record.Column, from, to int) (next int, err error) {
	if col.Strings.Codes != nil && col.Strings.Dictionary != 0 {
		c.dict.take(&col.Strings)
	}
	for row := from; row < to; row++ {
		n := c.width
		if col.Nulls.Get(row) {
			if !c.field.Nullable {
				return row, fmt.Errorf("row %d of the batch is null, and the column is not nullable", row)
			}
			c.page.levels = append(c.page.levels, 0)
		} else {
			if c.field.Nullable {
				c.page.levels = append(c.page.levels, 1)
			}
			length, err := c.value(col, row)
			if err != nil {
				return row, err
			}
			n += length
			c.page.values++
		}
		c.page.rows++
		if c.page.size += n; c.page.size >= c.full {
			return row + 1, nil
		}
	}
	return to, nil
}

// inBulk reports whether values lie in the page as they do in the column, or by the codes of another dictionary, all in one loop.
func (c *chunkWriter) inBulk(col *record.Column) (bulk, coded bool) {
	if c.field.Nullable || col.Nulls != nil {
		return false, false
	}
	if c.coding == format.RLEDictionary && !c.plainFrom {
		return false, c.typ == format.ByteArray && col.Strings.Codes != nil && col.Strings.Dictionary != 0 && !c.lent
	}
	return c.typ == format.Int64 && !c.millis || c.typ == format.ByteArray && col.Strings.Codes == nil, false
}

// appendBulk adds rows whose values are copied, as many as the page takes, and returns which is next.
func (c *chunkWriter) appendBulk(col *record.Column, from, to int) (next int) {
	p := &c.page
	n, bytes := to-from, 0
	if c.typ == format.Int64 {
		n = min(n, (c.full-p.size+c.width-1)/c.width)
		p.ints = append(p.ints, col.Int64s[from:from+n]...)
	} else {
		ends := col.Strings.Offsets[from : to+1]
		full := sort.Search(n, func(i int) bool { return p.size+(i+1)*c.width+int(ends[i+1]-ends[0]) >= c.full })
		n = min(n, full+1)
		bytes = int(ends[n] - ends[0])
		base := uint32(len(p.text)) - ends[0] //nolint:gosec // far less, by the size of pages; what wraps around wraps back
		p.text = append(p.text, col.Strings.Data[ends[0]:ends[n]]...)
		for _, end := range ends[1 : n+1] {
			p.ends = append(p.ends, base+end)
		}
		c.lengths += int64(bytes)
	}
	p.values, p.rows, p.size = p.values+n, p.rows+n, p.size+n*c.width+bytes
	return from + n
}

// appendCoded adds rows of strings that have codes, as many as the page takes, and returns which is next.
func (c *chunkWriter) appendCoded(s *record.Strings, from, to int) (next int) {
	p, d := &c.page, &c.dict
	d.take(s)
	row, size := from, p.size
	for ; row < to && size < c.full; row++ {
		code := s.Codes[row]
		known := d.known[code]
		if known == 0 {
			known = d.text(s.At(row)) + 1
			d.known[code] = known
		}
		p.codes = append(p.codes, known-1)
		size += c.width + int(s.Offsets[code+1]-s.Offsets[code])
	}
	n := row - from
	c.lengths += int64(size - p.size - n*c.width)
	p.values, p.rows, p.size = p.values+n, p.rows+n, size
	return row
}

// value adds a value that is not null to the page, and returns a string's length.
func (c *chunkWriter) value(col *record.Column, row int) (length int, err error) {
	p, coded := &c.page, c.coding == format.RLEDictionary && !c.plainFrom
	if coded && c.lent { // the dictionary is copied, and not known here
		p.codes = append(p.codes, int32(col.Strings.Codes[row])) //nolint:gosec // a dictionary is much smaller
		return 0, nil
	}
	if c.field.Kind == record.String {
		s := col.Strings.At(row)
		c.lengths += int64(len(s))
		if coded {
			if col.Strings.Codes != nil && col.Strings.Dictionary != 0 {
				p.codes = append(p.codes, c.dict.coded(&col.Strings, row))
			} else {
				p.codes = append(p.codes, c.dict.text(s))
			}
			return len(s), nil
		}
		p.addText(s)
		return len(s), nil
	}
	v, word := int64(0), uint64(0)
	if c.field.Kind == record.Float64 {
		word = math.Float64bits(col.Float64s[row])
	} else if v, err = c.stored(col.Int64s[row]); err != nil {
		return 0, err
	} else {
		word = uint64(v) //nolint:gosec // its bits
	}
	if coded {
		p.codes = append(p.codes, c.dict.fixed(c.typ, word))
		return 0, nil
	}
	p.addFixed(c.typ, word)
	return 0, nil
}

// stored is a value as the file has it.
func (c *chunkWriter) stored(v int64) (int64, error) {
	switch {
	case c.field.Kind == record.Date && (v < math.MinInt32 || v > math.MaxInt32):
		return 0, fmt.Errorf("%d days since 1970 are past what a Parquet date holds", v)
	case c.millis && v%1000 != 0:
		return 0, fmt.Errorf("the timestamp %d µs is no whole millisecond", v)
	case c.millis:
		return v / 1000, nil
	case c.field.Kind == record.Bool && v != 0:
		return 1, nil
	}
	return v, nil
}

func (p *page) addText(s []byte) {
	p.text = append(p.text, s...)
	p.ends = append(p.ends, uint32(len(p.text))) //nolint:gosec // far less, by the size of pages and dictionaries
}

func (p *page) addFixed(typ format.Type, word uint64) {
	switch typ {
	case format.Boolean:
		if p.values%8 == 0 {
			p.bits = append(p.bits, 0)
		}
		p.bits[p.values/8] |= byte(word) << (p.values % 8)
	case format.Int32:
		p.days = append(p.days, int32(word)) //nolint:gosec // it was checked
	case format.Double:
		p.floats = append(p.floats, math.Float64frombits(word))
	case format.Int64, format.Int96, format.Float, format.ByteArray, format.FixedLenByteArray:
		p.ints = append(p.ints, int64(word)) //nolint:gosec // its bits
	}
}

// word is the bits of value i of fixed size, of those that dictionaries have.
func (p *page) word(typ format.Type, i int32) uint64 {
	switch typ { //nolint:exhaustive // those of newChunkWriter
	case format.Int32:
		return uint64(p.days[i]) //nolint:gosec // its bits
	case format.Double:
		return math.Float64bits(p.floats[i])
	}
	return uint64(p.ints[i]) //nolint:gosec // its bits
}

// encode lays out values.
func (p *page) encode(dst []byte, typ format.Type, coding format.Encoding) ([]byte, error) {
	switch coding { //nolint:exhaustive // those of newChunkWriter
	case format.RLEDictionary:
		return new(rle.DictionaryEncoding).EncodeInt32(dst, p.codes)
	case format.DeltaLengthByteArray:
		return new(delta.LengthByteArrayEncoding).EncodeByteArray(dst, p.text, p.ends)
	case format.DeltaByteArray:
		return new(delta.ByteArrayEncoding).EncodeByteArray(dst, p.text, p.ends)
	case format.DeltaBinaryPacked:
		if typ == format.Int32 {
			return new(delta.BinaryPackedEncoding).EncodeInt32(dst, p.days)
		}
		return new(delta.BinaryPackedEncoding).EncodeInt64(dst, p.ints)
	}
	var e plain.Encoding
	switch typ { //nolint:exhaustive // those of newChunkWriter
	case format.Boolean:
		return e.EncodeBoolean(dst, p.bits)
	case format.Int32:
		return e.EncodeInt32(dst, p.days)
	case format.Double:
		return e.EncodeDouble(dst, p.floats)
	case format.ByteArray:
		return e.EncodeByteArray(dst, p.text, p.ends)
	}
	return e.EncodeInt64(dst, p.ints)
}

// endPage writes the current page, if it has a row.
func (c *chunkWriter) endPage() error {
	p := &c.page
	if p.rows == 0 {
		return nil
	}
	c.uncode()
	err := c.choose()
	if err != nil {
		return err
	}
	coding := c.coding
	if c.plainFrom {
		coding = c.uncoded
	}
	if c.encoded, err = p.encode(c.encoded[:0], c.typ, coding); err != nil {
		return err
	}
	c.levels = c.levels[:0]
	if c.field.Nullable {
		if c.levels, err = (&rle.Encoding{BitWidth: 1}).EncodeLevels(c.levels, p.levels); err != nil {
			return err
		}
	}
	if c.packed, err = c.zstd.pack(c.encoded, c.packed[:0]); err != nil {
		return err
	}
	nulls := p.rows - p.values
	var b bounds
	if c.bounded {
		b = p.bounds(c.typ, coding, &c.dict.values)
	}
	at := c.meta.TotalCompressedSize
	header := format.PageHeader{
		Type: format.DataPageV2,
		DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{
			NumValues: count(p.rows), NumNulls: count(nulls), NumRows: count(p.rows), Encoding: coding,
			DefinitionLevelsByteLength: count(len(c.levels)), IsCompressed: thrift.New(true),
			// Min and Max, too: old readers know nothing else.
			Statistics: format.Statistics{Min: b.least, Max: b.most, NullCount: int64(nulls), MinValue: b.least, MaxValue: b.most},
		}),
	}
	size, err := c.putPage(&c.pages, &header, c.levels)
	if err != nil {
		return err
	}
	c.listPage(at, size, p.rows, nulls, b)
	c.plainFrom = c.plainFrom || !c.lent && c.coding == format.RLEDictionary && c.dict.size() > dictionaryBytes
	p.reset()
	return nil
}

// listPage adds a page to what is said of the chunk.
func (c *chunkWriter) listPage(at int64, size int32, rows, nulls int, b bounds) {
	c.offsets.PageLocations = append(c.offsets.PageLocations, format.PageLocation{Offset: at, CompressedPageSize: size, FirstRowIndex: c.rows})
	c.rows += int64(rows)
	c.meta.NumValues += int64(rows)
	c.meta.Statistics.NullCount += int64(nulls)
	c.bounds.widen(c.typ, b)
	c.index.NullPages = append(c.index.NullPages, rows == nulls)
	c.index.NullCounts = append(c.index.NullCounts, int64(nulls))
	c.index.MinValues = append(c.index.MinValues, b.least)
	c.index.MaxValues = append(c.index.MaxValues, b.most)
	if c.field.Nullable {
		c.index.DefinitionLevelHistogram = append(c.index.DefinitionLevelHistogram, int64(nulls), int64(rows-nulls))
		c.meta.SizeStatistics.DefinitionLevelHistogram[0] += int64(nulls)
		c.meta.SizeStatistics.DefinitionLevelHistogram[1] += int64(rows - nulls)
	}
}

// putPage adds a page's header, its levels and c.packed, which is c.encoded.
func (c *chunkWriter) putPage(to *bytes.Buffer, h *format.PageHeader, levels []byte) (size int32, err error) {
	if len(c.encoded) > math.MaxInt32/2 {
		return 0, fmt.Errorf("a page of %d bytes", len(c.encoded))
	}
	h.UncompressedPageSize, h.CompressedPageSize = count(len(levels)+len(c.encoded)), count(len(levels)+len(c.packed))
	h.CRC = int32(crc32.Update(crc32.ChecksumIEEE(levels), crc32.IEEETable, c.packed)) //nolint:gosec // its bits
	coding := format.Plain
	if h.DataPageHeaderV2.Valid {
		coding = h.DataPageHeaderV2.V.Encoding
	}
	return c.writePage(to, h, coding, levels, c.packed)
}

// writePage adds a page whose header is complete.
func (c *chunkWriter) writePage(to *bytes.Buffer, h *format.PageHeader, coding format.Encoding, levels, values []byte) (size int32, err error) {
	c.header.Reset()
	if err := encodeThrift(&c.header, h); err != nil {
		return 0, err
	}
	head := count(c.header.Len())
	to.Write(c.header.Bytes())
	to.Write(levels)
	to.Write(values)
	c.meta.TotalUncompressedSize += int64(head + h.UncompressedPageSize)
	c.meta.TotalCompressedSize += int64(head + h.CompressedPageSize)
	is := func(s format.PageEncodingStats) bool { return s.PageType == h.Type && s.Encoding == coding }
	if i := slices.IndexFunc(c.meta.EncodingStats, is); i >= 0 {
		c.meta.EncodingStats[i].Count++
	} else {
		c.meta.EncodingStats = append(c.meta.EncodingStats, format.PageEncodingStats{PageType: h.Type, Encoding: coding, Count: 1})
	}
	return head + h.CompressedPageSize, nil
}

// finish ends the row group: the chunk, which begins at offset at of the file, is dictionary then pages.
func (c *chunkWriter) finish(at int64, write func([]byte) error) error {
	if err := c.endPage(); err != nil {
		return err
	}
	if c.coding == format.RLEDictionary && !c.lent {
		var err error
		if c.encoded, err = c.dict.values.encode(c.encoded[:0], c.typ, format.Plain); err != nil {
			return err
		}
		if c.packed, err = c.zstd.pack(c.encoded, c.packed[:0]); err != nil {
			return err
		}
		header := format.PageHeader{
			Type:                 format.DictionaryPage,
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: count(c.dict.n), Encoding: format.Plain}),
		}
		if _, err := c.putPage(&c.first, &header, nil); err != nil {
			return err
		}
	}
	if c.first.Len() > 0 {
		c.meta.DictionaryPageOffset = at
	}
	c.meta.Encoding = c.encodings()
	c.meta.DataPageOffset = at + int64(c.first.Len())
	if err := write(c.first.Bytes()); err != nil {
		return err
	}
	if err := write(c.pages.Bytes()); err != nil {
		return err
	}
	for i := range c.offsets.PageLocations {
		c.offsets.PageLocations[i].Offset += c.meta.DataPageOffset
	}
	slices.SortFunc(c.meta.EncodingStats, func(a, b format.PageEncodingStats) int {
		return cmp.Or(cmp.Compare(a.PageType, b.PageType), cmp.Compare(a.Encoding, b.Encoding))
	})
	if !c.bounded {
		c.index = format.ColumnIndex{}
	} else {
		c.meta.Statistics.MinValue, c.meta.Statistics.MaxValue = c.bounds.least, c.bounds.most
	}
	if c.typ == format.ByteArray && c.coding != format.RLEDictionary && !c.lent {
		c.meta.SizeStatistics.UnencodedByteArrayDataBytes = c.lengths
	}
	c.index.BoundaryOrder = order(c.typ, &c.index)
	if c.typ == format.ByteArray {
		for i := range c.index.MinValues {
			c.index.MinValues[i], c.index.MaxValues[i] = shortBounds(c.index.MinValues[i], c.index.MaxValues[i])
		}
	}
	return nil
}

func encodeThrift(w *bytes.Buffer, v any) error {
	return thrift.NewEncoder(new(thrift.CompactProtocol).NewWriter(w)).Encode(v)
}

func count(n int) int32 { return int32(n) } //nolint:gosec // of things that a page's size limits

// schemaElement describes a column.
func (c *chunkWriter) schemaElement(id int, binary bool) format.SchemaElement {
	e := format.SchemaElement{Name: c.field.Name, FieldID: count(id), Type: thrift.New(c.typ), RepetitionType: thrift.New(format.Required)}
	if c.field.Nullable {
		e.RepetitionType = thrift.New(format.Optional)
	}
	if bits := map[format.Type]int32{format.Boolean: 1, format.Int32: 32, format.Int64: 64, format.Double: 64}[c.typ]; bits > 0 {
		e.TypeLength = thrift.New(bits)
	}
	switch {
	case c.field.Kind == record.Int64:
		e.LogicalType.Value = &format.IntType{BitWidth: 64, IsSigned: true}
	case c.field.Kind == record.String && !binary:
		e.LogicalType.Value = new(format.StringType)
		e.ConvertedType = thrift.New(deprecated.UTF8)
	case c.field.Kind == record.Date:
		e.LogicalType.Value = new(format.DateType)
		e.ConvertedType = thrift.New(deprecated.Date)
	case c.field.Kind == record.Timestamp && c.millis:
		e.LogicalType.Value = &format.TimestampType{IsAdjustedToUTC: true, Unit: format.TimeUnit{Value: new(format.MilliSeconds)}}
		e.ConvertedType = thrift.New(deprecated.TimestampMillis)
	case c.field.Kind == record.Timestamp:
		e.LogicalType.Value = &format.TimestampType{IsAdjustedToUTC: true, Unit: format.TimeUnit{Value: new(format.MicroSeconds)}}
		e.ConvertedType = thrift.New(deprecated.TimestampMicros)
	}
	return e
}

// bounds are the least and greatest of values, as statistics have them; nil where there is none.
type bounds struct{ least, most []byte }

// bounds of a page's values, which are codes of dict where the coding says so.
func (p *page) bounds(typ format.Type, coding format.Encoding, dict *page) bounds {
	if p.values == 0 {
		return bounds{}
	}
	of := p
	var seen []bool
	if coding == format.RLEDictionary {
		if typ == format.ByteArray {
			return p.codedBounds(dict)
		}
		of = dict
		seen = make([]bool, max(len(dict.ints), len(dict.days), len(dict.floats)))
		for _, code := range p.codes {
			seen[code] = true
		}
	}
	is := func(i int) bool { return seen == nil || seen[i] }
	switch typ { //nolint:exhaustive // those of newChunkWriter
	case format.Boolean:
		lo, hi := byte(1), byte(0)
		for i := range p.values {
			b := p.bits[i/8] >> (i % 8) & 1
			lo, hi = min(lo, b), max(hi, b)
		}
		return bounds{[]byte{lo}, []byte{hi}}
	case format.Int32:
		lo, hi := int32(math.MaxInt32), int32(math.MinInt32)
		for i, v := range of.days {
			if is(i) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
		return bounds{binary.LittleEndian.AppendUint32(nil, uint32(lo)), binary.LittleEndian.AppendUint32(nil, uint32(hi))} //nolint:gosec // their bits
	case format.Double:
		return floatBounds(of.floats, is)
	case format.ByteArray:
		return of.textBounds()
	}
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for i, v := range of.ints {
		if is(i) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return bounds{binary.LittleEndian.AppendUint64(nil, uint64(lo)), binary.LittleEndian.AppendUint64(nil, uint64(hi))} //nolint:gosec // their bits
}

// textBounds are those of strings.
func (p *page) textBounds() bounds {
	var t textRange
	for i := range len(p.ends) - 1 {
		t.add(p.text[p.ends[i]:p.ends[i+1]])
	}
	return bounds{bytes.Clone(t.least), bytes.Clone(t.most)}
}

// codedBounds are those of strings of a dictionary, of which each is looked at once.
func (p *page) codedBounds(dict *page) bounds {
	seen := make([]bool, len(dict.ends)-1)
	var t textRange
	for _, code := range p.codes {
		if !seen[code] {
			seen[code] = true
			t.add(dict.text[dict.ends[code]:dict.ends[code+1]])
		}
	}
	return bounds{bytes.Clone(t.least), bytes.Clone(t.most)}
}

// textRange is from the least of some strings to the greatest. Their first bytes tell of most strings that they lie between.
type textRange struct {
	least, most []byte
	from, to    [2]uint64
}

func (t *textRange) add(v []byte) {
	var first [2]uint64
	if len(v) >= 16 {
		first = [2]uint64{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])}
	} else {
		var b [16]byte
		copy(b[:], v)
		first = [2]uint64{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])}
	}
	if t.least == nil {
		t.least, t.most, t.from, t.to = v, v, first, first
		return
	}
	if before(t.from, first) && before(first, t.to) {
		return
	}
	if bytes.Compare(v, t.least) < 0 {
		t.least, t.from = v, first
	} else if bytes.Compare(v, t.most) > 0 {
		t.most, t.to = v, first
	}
}

// before is true only for the first bytes of a lesser string.
func before(a, b [2]uint64) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }

// floatBounds leaves NaN out, and has a zero bound cover both zeros, as the format asks of writers.
func floatBounds(values []float64, is func(int) bool) bounds {
	lo, hi := math.Inf(1), math.Inf(-1)
	none := true
	for i, v := range values {
		if is(i) && v == v {
			lo, hi, none = min(lo, v), max(hi, v), false
		}
	}
	if none {
		return bounds{}
	}
	if lo == 0 {
		lo = math.Copysign(0, -1)
	}
	if hi == 0 {
		hi = 0
	}
	return bounds{binary.LittleEndian.AppendUint64(nil, math.Float64bits(lo)), binary.LittleEndian.AppendUint64(nil, math.Float64bits(hi))}
}

// widen has b cover o, too.
func (b *bounds) widen(typ format.Type, o bounds) {
	switch {
	case o.least == nil:
	case b.least == nil:
		*b = o
	default:
		if compare(typ, o.least, b.least) < 0 {
			b.least = o.least
		}
		if compare(typ, o.most, b.most) > 0 {
			b.most = o.most
		}
	}
}

// compare compares values as statistics have them.
func compare(typ format.Type, a, b []byte) int {
	switch typ { //nolint:exhaustive // those of newChunkWriter
	case format.Int32:
		return cmp.Compare(int64(int32(binary.LittleEndian.Uint32(a))), int64(int32(binary.LittleEndian.Uint32(b)))) //nolint:gosec // their bits
	case format.Int64:
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b))) //nolint:gosec // their bits
	case format.Double:
		return cmp.Compare(math.Float64frombits(binary.LittleEndian.Uint64(a)), math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return bytes.Compare(a, b)
}

// order is how the bounds of the pages that have some follow one another.
func order(typ format.Type, index *format.ColumnIndex) format.BoundaryOrder {
	up, down, n := true, true, 0
	var last bounds
	for i := range index.MinValues {
		b := bounds{index.MinValues[i], index.MaxValues[i]}
		if b.least == nil {
			continue
		}
		if n++; n > 1 {
			lo, hi := compare(typ, last.least, b.least), compare(typ, last.most, b.most)
			up, down = up && lo <= 0 && hi <= 0, down && lo >= 0 && hi >= 0
		}
		last = b
	}
	switch {
	case n < 2:
	case up:
		return format.Ascending
	case down:
		return format.Descending
	}
	return format.Unordered
}

// shortBounds cuts the bounds of strings short: the lower one to a prefix, the upper one to a prefix that is counted up.
func shortBounds(least, most []byte) (short, above []byte) {
	const limit = 16
	if len(least) > limit {
		least = least[:limit]
	}
	if len(most) > limit {
		cut := bytes.Clone(most[:limit])
		for i := limit - 1; i >= 0; i-- {
			if cut[i]++; cut[i] != 0 {
				return least, cut
			}
		}
	}
	return least, most // there is no shorter bound above bytes that are all 0xFF
}
