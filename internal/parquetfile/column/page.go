package column

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/parquetfile/footer"
	"hindcast/internal/record"
)

// nextPage begins the next page that has values and is not skipped whole. When the rows that were to be skipped end with a page, it stops there.
func (c *Reader) nextPage() error {
	for skipping := c.skip > 0; ; {
		if skipping && c.skip == 0 {
			return nil
		}
		if c.in.done() && !c.then.done() {
			c.goOn()
		}
		if c.in.done() {
			return fmt.Errorf("its pages end %d values too early", c.unread)
		}
		h, body, err := c.in.page()
		if err != nil {
			return err
		}
		switch h.Type {
		case format.DictionaryPage:
			if err := c.dictionary(h, body); err != nil {
				return fmt.Errorf("dictionary: %w", err)
			}
			continue
		case format.DataPage, format.DataPageV2:
		default:
			continue // the format tells readers to pass over pages that they do not know
		}
		if !h.Described {
			return errors.New("a data page has no description")
		}
		if h.Values == 0 {
			continue
		}
		if err := c.indexed(h.Values); err != nil {
			return err
		}
		if int64(h.Values) > c.unread {
			return fmt.Errorf("its pages hold more values than the %d that the footer states", c.meta.Values)
		}
		c.unread -= int64(h.Values)
		if int64(h.Values) <= c.skip {
			c.skip -= int64(h.Values)
			c.passed = true
			continue
		}
		c.rest = nil
		c.header, c.left, c.total, c.nulls = h, int(h.Values), int(h.Values), 0
		if h.Type == format.DataPage {
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

// goOn goes on where the chunk does, behind its dictionary.
func (c *Reader) goOn() {
	r, buf := c.in.r, c.in.buf
	c.in, c.then = c.then, input{}
	if c.own {
		c.in.r, c.in.buf, c.in.noCRC = r, buf[:0], c.NoCRC
	}
}

// indexed holds a data page against what the page index states of it, and its values from now on.
func (c *Reader) indexed(values int32) error {
	if c.pages == nil {
		return nil
	}
	if len(c.pages) == 0 || c.pages[0].Values != int64(values) {
		return fmt.Errorf("it has a page of %d values where its page index lists another: what that is used for cannot be trusted", values)
	}
	p := c.pages[0]
	if c.pages = c.pages[1:]; p.Bounded {
		c.Expect(p.Lo, p.Hi)
	}
	return nil
}

func (c *Reader) decompress(codec format.CompressionCodec, src []byte, size int) ([]byte, error) {
	if codec == format.Uncompressed {
		if len(src) != size {
			return nil, fmt.Errorf("a page of %d bytes that is not compressed states %d", len(src), size)
		}
		return src, nil
	}
	err := c.into(size, func(mem []byte) ([]byte, error) { return c.codecs.decode(codec, mem, src, size) })
	if err != nil {
		return nil, fmt.Errorf("decompress a page (%v): %w", codec, err)
	}
	return c.mem, nil
}

// into has the memory of pages filled with size bytes, or other memory that takes its place.
func (c *Reader) into(size int, fill func(mem []byte) ([]byte, error)) (err error) {
	was := cap(c.mem)
	if err := c.budget.resize(was, max(was, size)); err != nil {
		return err
	}
	mem := c.mem
	c.mem = nil // until it is known which it is
	if c.mem, err = fill(mem); err != nil {
		return err
	}
	return c.budget.resize(max(was, size), cap(c.mem))
}

// inflate decompresses the page at hand, or of it what is wanted.
func (c *Reader) inflate(codec format.CompressionCodec, src []byte, size int) ([]byte, error) {
	want := c.wantedOf(size)
	if codec != format.Zstd || size < partLeast || want == size || !c.simple() {
		return c.decompress(codec, src, size)
	}
	err := c.into(size, func(mem []byte) ([]byte, error) {
		mem, c.there = c.codecs.zstdPart(mem, src, size, want)
		return mem, nil
	})
	if err != nil {
		return nil, err
	}
	if c.there == 0 {
		return c.decompress(codec, src, size)
	}
	c.rest = src
	return c.mem, nil
}

func (c *Reader) pageV1(body []byte) (err error) {
	if c.data, err = c.inflate(c.meta.Codec, body, int(c.header.Uncompressed)); err != nil {
		return err
	}
	if c.shape.Level == 0 {
		return nil
	}
	if c.header.DefEncoding == format.BitPacked && c.shape.Level == 1 { // of old writers
		n := (int(c.header.Values) + 7) / 8
		if n > len(c.data) {
			return errors.New("a page ends within its definition levels")
		}
		if err := c.reach(n + 1); err != nil {
			return err
		}
		c.levels = bitPacked(c.data[:n])
		c.data = c.data[n:]
		return nil
	}
	if c.header.DefEncoding != format.RLE {
		return fmt.Errorf("definition levels in the encoding %v, which is not read", c.header.DefEncoding)
	}
	if len(c.data) < 4 {
		return errors.New("a page ends before its definition levels")
	}
	if err := c.reach(4); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(c.data))
	if n > int64(len(c.data)-4) {
		return errors.New("a page ends within its definition levels")
	}
	c.levels, err = newHybrid(c.data[4:4+n], c.shape.levelBits())
	c.data = c.data[4+n:]
	return cmp.Or(err, c.reach(int(4+n)+1))
}

func (c *Reader) pageV2(body []byte) (err error) {
	h := &c.header
	// Nothing repeats, yet some writers state levels of repetition, or wrong numbers of rows. Values are what counts.
	levels := int(h.RepLength) + int(h.DefLength)
	if levels > len(body) || levels > int(h.Uncompressed) {
		return errors.New("a page ends within its definition levels")
	}
	if c.shape.Level > 0 {
		if c.levels, err = newHybrid(body[h.RepLength:levels], c.shape.levelBits()); err != nil {
			return err
		}
	}
	codec := c.meta.Codec
	if h.PlainValues || len(body) == levels {
		codec = format.Uncompressed // a page of nulls only may be left empty
		if len(body) == levels {
			c.data = nil
			return nil
		}
	}
	c.data, err = c.inflate(codec, body[levels:], int(h.Uncompressed)-levels)
	return err
}

// dictionary decodes a dictionary page into memory of its own: batches refer to it for as long as the chunk is read.
func (c *Reader) dictionary(h footer.PageHeader, body []byte) error {
	switch {
	case !h.Described:
		return errors.New("it has no description")
	case c.hasDict:
		return errors.New("there is a second one")
	case h.Encoding != format.Plain && h.Encoding != format.PlainDictionary: //nolint:staticcheck // old writers use it
		return fmt.Errorf("it has the encoding %v, which is not read", h.Encoding)
	}
	if c.bare && c.shape.Kind == record.String {
		c.hasDict, c.entries = true, int(h.Values)
		return nil
	}
	data, err := c.decompress(c.meta.Codec, body, int(h.Uncompressed))
	if err != nil {
		return err
	}
	n := int(h.Values)
	least := map[format.Type]int{
		format.Int32: 4, format.Int64: 8, format.Int96: 12, format.Float: 4, format.Double: 8, format.ByteArray: 4, format.FixedLenByteArray: 1,
	}[c.shape.Type]
	if least == 0 || n > len(data)/least {
		return fmt.Errorf("%d values of %v in %d bytes", n, c.shape.Type, len(data))
	}
	was, most := c.dictSize(), n*16+len(data)
	if c.shape.text() {
		most = n*(MaxScale+24) + 3*len(data)
	}
	if err := c.budget.resize(was, most); err != nil {
		return err
	}
	c.hasDict, c.entries = true, n
	switch typ := c.shape.Type; {
	case c.shape.wide():
		wide := record.Strings{Offsets: make([]uint32, 1, n+1)}
		if _, err = plainStrings(&wide, data, n, c.fixed()); err != nil {
			break
		}
		switch {
		case c.shape.text():
			c.strings = record.Strings{Offsets: make([]uint32, 1, n+2)}
			err = c.shape.writeDecimals(&c.strings, &wide, n)
		case c.shape.Kind == record.Float64:
			c.floats = make([]float64, n)
			err = wideFloats(c.floats, &wide)
		default:
			c.ints = make([]int64, n)
			err = c.shape.wideInts(c.ints, &wide)
		}
	case c.shape.text():
		ints := make([]int64, n)
		c.strings = record.Strings{Offsets: make([]uint32, 1, n+2)}
		if _, err = plainInts(ints, data, typ); err == nil {
			err = c.shape.writeInts(&c.strings, ints)
		}
	case typ == format.Int32 || typ == format.Int64:
		c.ints = make([]int64, n)
		if _, err = plainInts(c.ints, data, typ); err == nil {
			err = c.shape.Convert(c.ints)
		}
	case typ == format.Float || typ == format.Double:
		c.floats = make([]float64, n)
		_, err = plainFloats(c.floats, data, c.shape.Type)
	default:
		c.strings = record.Strings{Offsets: make([]uint32, 1, n+2), Data: make([]byte, 0, len(data))}
		_, err = plainStrings(&c.strings, data, n, c.fixed())
	}
	if err != nil {
		return err
	}
	c.least, c.most = math.MaxInt64, math.MinInt64
	for _, v := range c.ints {
		c.least, c.most = min(c.least, v), max(c.most, v)
	}
	if c.strings.Dictionary = record.NewDictionary(); n == 0 {
		c.strings = noEntry()
	}
	return c.budget.resize(most, c.dictSize())
}

// noEntry is an empty dictionary of strings: rows that are null refer to its first entry.
func noEntry() record.Strings { return record.Strings{Offsets: make([]uint32, 2)} }

// dropDictionary forgets the dictionary of the chunk before.
func (c *Reader) dropDictionary() error {
	was := c.dictSize()
	c.hasDict, c.entries, c.ints, c.floats, c.strings = false, 0, nil, nil, noEntry()
	return c.budget.resize(was, c.dictSize())
}

func (c *Reader) dictSize() int {
	return 8*len(c.ints) + 8*len(c.floats) + 4*cap(c.strings.Offsets) + cap(c.strings.Data)
}

// levelBits is how many bits a definition level takes.
func (s *Shape) levelBits() uint { return uint(bits.Len(uint(s.Level))) } //nolint:gosec // it is small, and not negative

// fixed is the length of the column's byte strings, or 0 where each has its own.
func (c *Reader) fixed() int {
	switch c.shape.Type {
	case format.FixedLenByteArray:
		return c.shape.Length
	case format.Int96:
		return 12
	}
	return 0
}
