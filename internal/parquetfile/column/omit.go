package column

import (
	"encoding/binary"
	"fmt"

	"github.com/parquet-go/parquet-go/format"
)

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
	if n > len(c.data) {
		return errFewer
	}
	c.data = c.data[n:]
	return nil
}

// omitStrings leaves out the next n values, each of which lies behind its length.
func (c *Reader) omitStrings(n int) error {
	data := c.data
	for range n {
		if len(data) < 4 {
			return errFewer
		}
		size := binary.LittleEndian.Uint32(data)
		if uint64(size) > uint64(len(data)-4) {
			return fmt.Errorf("a string of %d bytes is cut off", size)
		}
		data = data[4+size:]
	}
	c.data = data
	return nil
}
