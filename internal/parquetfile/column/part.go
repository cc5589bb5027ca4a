package column

import (
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/record"
)

// Some writers put a whole chunk into one page. Of such a page that is compressed with zstd, only the beginning is decompressed where the rest is not wanted.

// partLeast is the size of pages, in bytes, of which a part is worth while.
const partLeast = 512 << 10

// Until says that no row from that one of the chunk on will be asked for, which may turn out wrong. The chunk is one of whose pages none is left out.
func (c *Reader) Until(row int64) { c.until = row }

// Peek shows the rows of a chunk of numbers that has one page, some at a time, before they are read. It is not ok, and shows none, where there are
// more pages, or to look at them twice would cost more than copying.
func (c *Reader) Peek(rows int, see func(values *record.Column, n int)) (ok bool, err error) {
	if c.left == 0 && c.skip == 0 {
		if err := c.nextPage(); err != nil {
			return false, err
		}
	}
	if c.unread > 0 || c.skip > 0 || c.shape.Kind == record.String || !c.simple() {
		return false, nil
	}
	was := *c
	defer func() { *c = was }()
	for c.left > 0 {
		n := min(rows, c.left)
		if err := c.fill(n); err != nil {
			return false, err
		}
		see(&c.out, n)
	}
	return true, nil
}

// simple reports whether the page's values lie so that a place among them is all that reading has to remember.
func (c *Reader) simple() bool {
	switch c.header.Encoding {
	case format.Plain:
		return c.shape.Type != format.Boolean
	case format.RLEDictionary, format.PlainDictionary: //nolint:staticcheck // old writers use it
		return true
	}
	return false
}

// wantedOf is how many bytes of the page at hand, of size bytes, are wanted: by the share of its rows.
func (c *Reader) wantedOf(size int) int {
	first := c.meta.Values - c.unread - int64(c.total)
	if c.until <= first || c.until >= first+int64(c.total) {
		return size
	}
	return int(int64(size) * (c.until - first) / int64(c.total))
}

// step does something with the page at hand. If only a part of it is there, and that turns out to be too little, it is done again with all of it.
func (c *Reader) step(do func() error) error {
	if c.rest == nil {
		return do()
	}
	was := *c
	if err := do(); err == nil && c.taken() <= c.there {
		return nil
	}
	*c = was
	if err := c.complete(); err != nil {
		return err
	}
	return do()
}

// reach makes sure that the first n bytes of the page are there.
func (c *Reader) reach(n int) error {
	if c.rest != nil && n > c.there {
		return c.complete()
	}
	return nil
}

// taken is how many bytes of the page's memory were read.
func (c *Reader) taken() int {
	if c.header.Encoding == format.RLEDictionary {
		return len(c.mem) - len(c.codes.packed) - len(c.codes.b)
	}
	return len(c.mem) - len(c.data)
}

// complete decompresses all of the page at hand, to where its part lies.
func (c *Reader) complete() error {
	body := c.rest
	c.rest = nil
	_, err := c.decompress(format.Zstd, body, len(c.mem))
	return err
}

// zstdPart decompresses as many whole blocks of src into dst's memory as hold about want bytes of the size that it has, and returns that memory, and how many
// bytes are there: none where it cannot be told.
func (d *Codecs) zstdPart(dst, src []byte, size, want int) (mem []byte, there int) {
	var h zstd.Header
	if h.Decode(src) != nil || h.Skippable {
		return dst, 0
	}
	// RFC 8878, 3.1.1.2: a block's header has three bytes, of which the lowest bit says that it is the last, two more what it is, and the others its size.
	end, enough := h.HeaderSize, int(int64(len(src))*int64(want)/int64(size))
	for enough += enough/16 + 1<<14; end < enough; {
		if len(src) < end+3 || src[end]&1 == 1 {
			return dst, 0 // nothing is spared, or something is wrong, which is found where all is decompressed
		}
		n := int(src[end]) | int(src[end+1])<<8 | int(src[end+2])<<16
		if end += 3 + n>>3; n>>1&3 == 1 { // one byte, so many times
			end += 1 - n>>3
		}
	}
	if end >= len(src) {
		return dst, 0
	}
	mem, room := roomFor(dst, size, zstdRoom)
	out, err := d.unzstd(src[:end], room)
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(out) > size {
		return mem, 0
	}
	return mem, len(out)
}
