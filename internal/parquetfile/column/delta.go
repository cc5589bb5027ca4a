package column

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parquet-go/bitpack"
)

// delta decodes DELTA_BINARY_PACKED integers as they are asked for.
type delta struct {
	b      []byte
	narrow bool // values are 32 bits wide and wrap there
	left   int  // values not yet taken
	total  int
	last   int64
	min    int64
	widths []byte // of the miniblocks left in this block
	minis  int
	size   int // values of a miniblock
	buf    []int64
	pos    int
}

const maxDeltaBlock = 1 << 16

// reset starts on b. It keeps d's memory.
func (d *delta) reset(b []byte, narrow bool) error {
	*d = delta{b: b, narrow: narrow, buf: d.buf[:0]}
	block, minis, total := d.uvarint(), d.uvarint(), d.uvarint()
	first, n := binary.Varint(d.b)
	if n <= 0 {
		return errDelta
	}
	d.b = d.b[n:]
	if block == 0 || block > maxDeltaBlock || minis == 0 || block%minis != 0 || block/minis%8 != 0 || total > 1<<31 {
		return fmt.Errorf("a delta encoding of %d values in blocks of %d with %d parts", total, block, minis)
	}
	d.total, d.left = int(total), int(total)
	d.minis, d.size = int(minis), int(block/minis)
	d.last = first
	if cap(d.buf) < d.size {
		d.buf = make([]int64, 0, d.size)
	}
	return nil
}

var errDelta = errors.New("a delta encoding is cut off")

func (d *delta) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.b = nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

// fill decodes len(dst) values.
func (d *delta) fill(dst []int64) error {
	if len(dst) > d.left {
		return fmt.Errorf("a delta encoding of %d values where the page states more", d.total)
	}
	if len(dst) > 0 && d.left == d.total {
		dst[0] = d.wrap(d.last)
		d.left--
		dst = dst[1:]
	}
	for len(dst) > 0 {
		n := 0
		if d.pos < len(d.buf) {
			n = copy(dst, d.buf[d.pos:])
			d.pos += n
		} else if len(dst) >= d.size {
			var err error
			if n, err = d.miniblock(dst[:d.size]); err != nil {
				return err
			}
		} else {
			k, err := d.miniblock(d.buf[:d.size])
			if err != nil {
				return err
			}
			d.buf, d.pos = d.buf[:k], 0
			continue
		}
		d.left -= n
		dst = dst[n:]
	}
	return nil
}

// miniblock decodes the next miniblock into dst, which is of its size, and returns how many values it had, of those that are left.
func (d *delta) miniblock(dst []int64) (n int, err error) {
	if len(d.widths) == 0 {
		v, n := binary.Varint(d.b)
		if n <= 0 || len(d.b)-n < d.minis {
			return 0, errDelta
		}
		d.min, d.widths, d.b = v, d.b[n:n+d.minis], d.b[n+d.minis:]
	}
	width := uint(d.widths[0])
	d.widths = d.widths[1:]
	if width > 64 {
		return 0, fmt.Errorf("a delta encoding with values of %d bits", width)
	}
	n = min(d.size, d.left)
	if width == 0 {
		clear(dst)
	} else {
		size := d.size * int(width) / 8
		if len(d.b) < size {
			// Writers may leave away the Padding of the last miniblock.
			if len(d.b) < (n*int(width)+7)/8 {
				return 0, errDelta
			}
			size = len(d.b)
			dst = dst[:n]
		}
		bitpack.Unpack(dst, d.b[:size], width)
		d.b = d.b[size:]
	}
	last, least := d.last, d.min
	if d.narrow {
		for i, v := range dst {
			last = int64(int32(last + least + v))
			dst[i] = last
		}
	} else {
		for i, v := range dst {
			last += least + v
			dst[i] = last
		}
	}
	d.last = last
	return n, nil
}

func (d *delta) wrap(v int64) int64 {
	if d.narrow {
		return int64(int32(v))
	}
	return v
}

// lengths decodes all of a delta encoding of at most most lengths, and returns the bytes behind it.
func (d *delta) lengths(b []byte, most int, dst []int64) (lengths []int64, rest []byte, err error) {
	if err := d.reset(b, true); err != nil {
		return nil, nil, err
	}
	if d.total > most {
		return nil, nil, fmt.Errorf("%d lengths in a page of %d values", d.total, most)
	}
	if cap(dst) < d.total {
		dst = make([]int64, d.total)
	}
	dst = dst[:d.total]
	if err := d.fill(dst); err != nil {
		return nil, nil, err
	}
	for _, n := range dst {
		if n < 0 {
			return nil, nil, fmt.Errorf("a length of %d", n)
		}
	}
	return dst, d.b, nil
}
