package column

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

const (
	// LazyFrom is the size of pages of which, where the last values may not be wanted, it is worth while to decompress them as they are asked for: those of writers
	// that end pages with row groups. It takes a little more time than to decompress all at once, and memory for a window in place of a page.
	LazyFrom = 1 << 20
	// flowWindow is the largest window of which that is done. The common levels of zstd have 2 MiB, and 8 MiB the higher ones.
	flowWindow = 8 << 20
	// flowChunk is how much is decompressed at a time: a block of zstd.
	flowChunk = 128 << 10
)

// flow is what of a page is not decompressed yet. It holds nothing of a page that is decompressed whole.
type flow struct {
	zstd *zstd.Decoder
	body bytesReader
	held int // accounted for
	left int // bytes of the page
}

// bytesReader reads itself. It is not a [bytes.Reader], which the decoder would take for something to decompress at once.
type bytesReader []byte

func (b *bytesReader) Read(p []byte) (int, error) {
	if len(*b) == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	n := copy(p, *b)
	*b = (*b)[n:]
	return n, nil
}

// flowDecoders are those that were used; each has memory of the size of a window.
var flowDecoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(false), zstd.WithDecoderMaxMemory(maxPage), zstd.WithDecoderMaxWindow(flowWindow))
	if err != nil {
		panic(err) // its options are constant
	}
	return d
}}

// open makes c.data the bytes of a page, or where it can and need not have all of them at once, c.flow what gives them.
func (c *Reader) open(codec format.CompressionCodec, body []byte, size int) (err error) {
	window, ok := c.flows(codec, body, size)
	if !ok {
		c.data, err = c.decompress(codec, body, size)
		return err
	}
	held := window + 5*flowChunk // the decoder's blocks
	if err := c.budget.resize(0, held); err != nil {
		return err
	}
	c.data = c.mem[:0]
	c.flow = flow{zstd: flowDecoders.Get().(*zstd.Decoder), body: body, held: held, left: size} //nolint:forcetypeassert // nothing else is put there
	if err := c.flow.zstd.Reset(&c.flow.body); err != nil {
		return fmt.Errorf("decompress a page (%v): %w", codec, err)
	}
	return nil
}

// flows reports whether a page is to be decompressed as its values are asked for, and with what window. Its frame must state the size that the page states.
func (c *Reader) flows(codec format.CompressionCodec, body []byte, size int) (window int, ok bool) {
	h := &c.header
	if c.Lazy == 0 || size < c.Lazy || codec != format.Zstd || h.Encoding != format.Plain || c.shape.Type == format.Boolean ||
		h.Type == format.DataPage && c.shape.Level > 0 && h.DefEncoding != format.RLE {
		return 0, false
	}
	var frame zstd.Header
	if err := frame.Decode(body); err != nil || !frame.HasFCS || frame.FrameContentSize != uint64(size) { //nolint:gosec // not negative
		return 0, false
	}
	if frame.SingleSegment {
		frame.WindowSize = frame.FrameContentSize
	}
	return int(frame.WindowSize), frame.WindowSize <= flowWindow //nolint:gosec // then it is small
}

// need has at least n more bytes of the page in c.data, or all that there are. What c.data was is not valid any more.
func (c *Reader) need(n int) error {
	f := &c.flow
	if len(c.data) >= n || f.left == 0 {
		return nil
	}
	have := len(c.data)
	more := min(max(n-have, flowChunk), f.left)
	mem := c.mem
	if was := cap(mem); was < have+more+Padding {
		mem = make([]byte, 0, have+more+(have+more)/4+Padding)
		if err := c.budget.resize(was, cap(mem)); err != nil {
			return err
		}
	}
	mem = mem[:have+more]
	copy(mem, c.data)
	c.mem, c.data = mem, mem
	if k, err := io.ReadFull(f.zstd, mem[have:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the end of the page, not of the file
		}
		return fmt.Errorf("decompress a page (%v): %d of its last %d bytes: %w", c.meta.Codec, k, f.left, err)
	}
	if f.left -= more; f.left > 0 {
		return nil
	}
	var beyond [1]byte
	if k, err := f.zstd.Read(beyond[:]); k > 0 {
		return errors.New("a page decompresses to more than it states")
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("decompress a page (%v): %w", c.meta.Codec, err)
	}
	return c.stop()
}

// stop gives up what is left of a page.
func (c *Reader) stop() error {
	f := c.flow
	if f.zstd == nil {
		return nil
	}
	c.flow = flow{}
	if err := f.zstd.Reset(nil); err != nil {
		return err
	}
	flowDecoders.Put(f.zstd)
	return c.budget.resize(f.held, 0)
}

// omit leaves out the next n rows of the page. Values are not looked at, where it is known without how long they are.
func (c *Reader) omit(n int) error {
	c.begin(n)
	present, err := c.present(0, n)
	if err != nil {
		return err
	}
	c.left -= n
	switch e, typ := c.header.Encoding, c.shape.Type; {
	case e == format.RLEDictionary:
		return c.codes.skip(present)
	case e != format.Plain || typ == format.Boolean:
		return c.take(0, n, present)
	case typ == format.ByteArray:
		return c.omitStrings(present)
	case typ == format.Int96 || typ == format.FixedLenByteArray:
		return c.omitBytes(present * c.fixed())
	}
	return c.omitBytes(present * c.size())
}

// omitBytes leaves out the next n bytes of the page.
func (c *Reader) omitBytes(n int) error {
	for n > len(c.data) {
		n -= len(c.data)
		c.data = c.data[:0]
		if err := c.need(1); err != nil {
			return err
		}
		if len(c.data) == 0 {
			return errFewer
		}
	}
	c.data = c.data[n:]
	return nil
}

// omitStrings leaves out the next n values, each of which lies behind its length.
func (c *Reader) omitStrings(n int) error {
	for range n {
		if len(c.data) < 4 {
			if err := c.need(4); err != nil {
				return err
			}
			if len(c.data) < 4 {
				return errFewer
			}
		}
		size := int(binary.LittleEndian.Uint32(c.data))
		if size > len(c.data)-4+c.flow.left {
			return fmt.Errorf("a string of %d bytes is cut off", size)
		}
		if err := c.omitBytes(4 + size); err != nil {
			return err
		}
	}
	return nil
}
