package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/record"
)

// input yields the bytes of a column chunk in order, from memory or in windows.
type input struct {
	r        io.ReaderAt
	off, end int64  // what is not yet in buf
	buf      []byte // at least padding bytes of capacity lie behind
	pos      int
	noCRC    bool // tests want to see what lies behind checksums
}

// peek returns the next n bytes, fewer at the chunk's end. They are valid until the next call.
func (in *input) peek(n int) ([]byte, error) {
	have := len(in.buf) - in.pos
	if have < n && in.off < in.end {
		more := min(max(int64(n-have), window), in.end-in.off)
		buf := in.buf[:0]
		if cap(buf) < have+int(more)+padding {
			buf = make([]byte, 0, have+int(more)+padding)
		}
		buf = append(buf, in.buf[in.pos:]...)[:have+int(more)]
		in.buf, in.pos = buf, 0
		if err := readAt(in.r, buf[have:], in.off); err != nil {
			return nil, err
		}
		in.off += more
		have = len(buf)
	}
	return in.buf[in.pos : in.pos+min(n, have)], nil
}

func (in *input) done() bool { return in.pos == len(in.buf) && in.off >= in.end }

// page reads the next page's header and body, and holds the body against its checksum.
func (in *input) page() (h pageHeader, body []byte, err error) {
	for n := 64 << 10; ; n *= 8 {
		b, err := in.peek(n)
		if err != nil {
			return h, nil, err
		}
		var size int
		h, size, err = parsePageHeader(b)
		if err == nil {
			in.pos += size
			break
		}
		if !errors.Is(err, errThriftShort) || len(b) < n || n > maxPageHeader {
			return h, nil, fmt.Errorf("page header: %w", err)
		}
	}
	if h.compressed > maxPage || h.uncompressed > maxPage {
		return h, nil, fmt.Errorf("a page of %d bytes (%d compressed) is larger than the %d that are read", h.uncompressed, h.compressed, maxPage)
	}
	if body, err = in.peek(int(h.compressed)); err != nil {
		return h, nil, err
	}
	if len(body) < int(h.compressed) {
		return h, nil, fmt.Errorf("a page of %d bytes is cut off at the column chunk's end", h.compressed)
	}
	in.pos += len(body)
	if h.hasCRC && !in.noCRC && crc32.ChecksumIEEE(body) != h.crc {
		return h, nil, errors.New("a page does not match its checksum (CRC)")
	}
	return h, body, nil
}

// columnReader decodes one column, one row group after the other.
type columnReader struct {
	col    *column
	meta   *chunkMeta
	in     input
	window bool // in.buf is memory of its own, not a part of the reader's
	codecs *decompressor
	budget *budget
	unread int64 // values of the chunk in pages not yet begun
	absent int64 // nulls of the chunk so far

	hasDict bool
	entries int // of the dictionary
	ints    []int64
	floats  []float64
	strings record.Strings

	// The page: its values not yet taken, and where they come from.
	left     int
	total    int
	nulls    int // seen so far
	header   pageHeader
	mem      []byte
	data     []byte
	levels   hybrid
	codes    hybrid
	delta    delta
	bit      int
	lens     []int64
	prefixes []int64
	at       int // among lens; in values, of a byte stream split
	prev     []byte

	lo, hi  int64
	bounded bool

	// The batch that is being filled.
	out     record.Column
	nullBuf record.Bitmap
	hasNull bool
	codeBuf []uint32
	scratch []uint32
	plain   record.Strings // memory of plain strings
}

// nextPage begins the next page that has values.
func (c *columnReader) nextPage() error {
	for {
		if c.in.done() {
			return fmt.Errorf("its pages end %d values too early", c.unread)
		}
		h, body, err := c.in.page()
		if err != nil {
			return err
		}
		switch h.typ {
		case format.DictionaryPage:
			if err := c.dictionary(h, body); err != nil {
				return fmt.Errorf("dictionary: %w", err)
			}
			continue
		case format.DataPage, format.DataPageV2:
		default:
			continue // the format tells readers to pass over pages that they do not know
		}
		if !h.described {
			return errors.New("a data page has no description")
		}
		if h.values == 0 {
			continue
		}
		if int64(h.values) > c.unread {
			return fmt.Errorf("its pages hold more values than the %d that the footer states", c.meta.values)
		}
		c.unread -= int64(h.values)
		c.header, c.left, c.total, c.nulls = h, int(h.values), int(h.values), 0
		if h.typ == format.DataPage {
			err = c.pageV1(body)
		} else {
			err = c.pageV2(body)
		}
		if err != nil {
			return err
		}
		return c.values()
	}
}

func (c *columnReader) decompress(codec format.CompressionCodec, src []byte, size int) ([]byte, error) {
	if codec == format.Uncompressed {
		if len(src) != size {
			return nil, fmt.Errorf("a page of %d bytes that is not compressed states %d", len(src), size)
		}
		return src, nil
	}
	was := cap(c.mem)
	if err := c.budget.resize(was, max(was, size)); err != nil {
		return nil, err
	}
	data, err := c.codecs.decode(codec, c.mem, src, size)
	if err != nil {
		return nil, fmt.Errorf("decompress a page (%v): %w", codec, err)
	}
	c.mem = data
	return data, c.budget.resize(max(was, size), cap(c.mem))
}

func (c *columnReader) pageV1(body []byte) (err error) {
	if c.data, err = c.decompress(c.meta.codec, body, int(c.header.uncompressed)); err != nil {
		return err
	}
	if !c.col.field.Nullable {
		return nil
	}
	if c.header.defEncoding != format.RLE {
		return fmt.Errorf("definition levels in the encoding %v, which is not read", c.header.defEncoding)
	}
	if len(c.data) < 4 {
		return errors.New("a page ends before its definition levels")
	}
	n := int64(binary.LittleEndian.Uint32(c.data))
	if n > int64(len(c.data)-4) {
		return errors.New("a page ends within its definition levels")
	}
	c.levels, err = newHybrid(c.data[4:4+n], 1)
	c.data = c.data[4+n:]
	return err
}

func (c *columnReader) pageV2(body []byte) (err error) {
	h := &c.header
	// A flat column nests nothing, yet some writers state levels for it, or wrong numbers of rows. Values are what counts.
	levels := int(h.repLength) + int(h.defLength)
	if levels > len(body) || levels > int(h.uncompressed) {
		return errors.New("a page ends within its definition levels")
	}
	if c.col.field.Nullable {
		if c.levels, err = newHybrid(body[h.repLength:levels], 1); err != nil {
			return err
		}
	}
	codec := c.meta.codec
	if h.plainValues || len(body) == levels {
		codec = format.Uncompressed // a page of nulls only may be left empty
		if len(body) == levels {
			c.data = nil
			return nil
		}
	}
	c.data, err = c.decompress(codec, body[levels:], int(h.uncompressed)-levels)
	return err
}

// dictionary decodes a dictionary page into memory of its own: batches refer to it for as long as the chunk is read.
func (c *columnReader) dictionary(h pageHeader, body []byte) error {
	switch {
	case !h.described:
		return errors.New("it has no description")
	case c.hasDict:
		return errors.New("there is a second one")
	case h.encoding != format.Plain && h.encoding != format.PlainDictionary:
		return fmt.Errorf("it has the encoding %v, which is not read", h.encoding)
	}
	data, err := c.decompress(c.meta.codec, body, int(h.uncompressed))
	if err != nil {
		return err
	}
	n := int(h.values)
	least := map[format.Type]int{format.Int32: 4, format.Int64: 8, format.Float: 4, format.Double: 8, format.ByteArray: 4, format.FixedLenByteArray: 1}[c.col.typ]
	if least == 0 || n > len(data)/least {
		return fmt.Errorf("%d values of %v in %d bytes", n, c.col.typ, len(data))
	}
	was := c.dictSize()
	if err := c.budget.resize(was, n*8+len(data)); err != nil {
		return err
	}
	c.hasDict, c.entries = true, n
	switch c.col.typ {
	case format.Int32, format.Int64:
		c.ints = make([]int64, n)
		if _, err = plainInts(c.ints, data, c.col.typ); err == nil {
			err = convert(c.ints, c.col.conv)
		}
	case format.Float, format.Double:
		c.floats = make([]float64, n)
		_, err = plainFloats(c.floats, data, c.col.typ)
	default:
		c.strings = record.Strings{Offsets: make([]uint32, 1, n+2), Data: make([]byte, 0, len(data))}
		if _, err = plainStrings(&c.strings, data, n, c.fixed()); err == nil && n == 0 {
			c.strings = noEntry()
		}
	}
	if err != nil {
		return err
	}
	return c.budget.resize(n*8+len(data), c.dictSize())
}

// noEntry is an empty dictionary of strings: rows that are null refer to its first entry.
func noEntry() record.Strings { return record.Strings{Offsets: make([]uint32, 2)} }

// dropDictionary forgets the dictionary of the chunk before.
func (c *columnReader) dropDictionary() error {
	was := c.dictSize()
	c.hasDict, c.entries, c.ints, c.floats, c.strings = false, 0, nil, nil, noEntry()
	return c.budget.resize(was, c.dictSize())
}

func (c *columnReader) dictSize() int {
	return 8*len(c.ints) + 8*len(c.floats) + 4*cap(c.strings.Offsets) + cap(c.strings.Data)
}

// fixed is the length of the column's byte strings, or 0 where each has its own.
func (c *columnReader) fixed() int {
	if c.col.typ == format.FixedLenByteArray {
		return c.col.length
	}
	return 0
}
