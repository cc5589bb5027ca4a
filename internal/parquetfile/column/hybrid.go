package column

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/parquet-go/bitpack"

	"hindcast/internal/record"
)

// hybrid decodes runs of repeated and bit-packed values (RLE in Parquet's
// terms: levels, dictionary codes, some booleans) as they are asked for, so that a run's stated
// length costs nothing until somebody wants the values.
type hybrid struct {
	b      []byte // not yet read; at least Padding bytes of capacity lie behind
	width  uint
	run    int // values left of a repeated run
	value  uint32
	packed []byte // groups of eight values not yet unpacked
	carry  [8]uint32
	left   int // values of carry that are not yet taken, at its end
}

func newHybrid(b []byte, width uint) (hybrid, error) {
	if width > 32 {
		return hybrid{}, fmt.Errorf("values of %d bits", width)
	}
	return hybrid{b: b, width: width}, nil
}

// bitPacked decodes the bits of b, from the greatest of each byte on: the encoding of levels before RLE.
func bitPacked(b []byte) hybrid {
	packed := make([]byte, len(b), len(b)+Padding)
	for i, v := range b {
		packed[i] = bits.Reverse8(v)
	}
	return hybrid{width: 1, packed: packed}
}

// next returns up to most values: repeats of one value, or as many as it puts
// into buf, which must have room for at least eight.
func (h *hybrid) next(most int, buf []uint32) (n int, repeated bool, err error) {
	for {
		switch {
		case h.run > 0:
			n = min(h.run, most)
			h.run -= n
			return n, true, nil
		case h.left > 0:
			n = copy(buf[:min(most, len(buf))], h.carry[8-h.left:])
			h.left -= n
			return n, false, nil
		case len(h.packed) > 0:
			return h.unpack(min(most, len(buf)), buf), false, nil
		}
		if err := h.header(); err != nil {
			return 0, false, err
		}
	}
}

// unpack takes values of the packed run, which begins at a group of eight.
func (h *hybrid) unpack(most int, buf []uint32) int {
	groups := min(len(h.packed)/int(h.width), most/8)
	if groups > 0 {
		n := groups * int(h.width)
		bitpack.Unpack(buf[:groups*8], h.packed[:n], h.width)
		h.packed = h.packed[n:]
		return groups * 8
	}
	// Fewer than eight are wanted, or the page ends within a group.
	n := min(int(h.width), len(h.packed))
	whole := n * 8 / int(h.width)
	bitpack.Unpack(h.carry[8-whole:], h.packed[:n], h.width)
	h.packed, h.left = h.packed[n:], whole
	taken := copy(buf[:most], h.carry[8-h.left:])
	h.left -= taken
	return taken
}

func (h *hybrid) header() error {
	u, n := binary.Uvarint(h.b)
	if n <= 0 {
		return errors.New("there are fewer values than the page states")
	}
	h.b = h.b[n:]
	if u&1 == 1 {
		size := (u >> 1) * uint64(h.width)
		if u>>1 > 1<<32 {
			return errors.New("a run of packed values has an impossible length")
		}
		if h.width == 0 {
			h.run, h.value = int(u>>1)*8, 0
			return nil
		}
		// Writers may leave away the Padding of the last group.
		have := min(size, uint64(len(h.b)))
		h.packed, h.b = h.b[:have], h.b[have:]
		if size > 0 && have*8 < uint64(h.width) {
			return errors.New("a run of packed values is cut off")
		}
		return nil
	}
	size := int(h.width+7) / 8
	if len(h.b) < size || u>>1 > 1<<32 {
		return errors.New("a run of repeated values is cut off")
	}
	h.value = 0
	for i := range size {
		h.value |= uint32(h.b[i]) << (8 * i)
	}
	if h.width < 32 && h.value>>h.width != 0 {
		return fmt.Errorf("a repeated value of %d does not fit its %d bits", h.value, h.width)
	}
	h.run, h.b = int(u>>1), h.b[size:]
	return nil
}

// fill decodes len(dst) values.
func (h *hybrid) fill(dst []uint32) error {
	var small [8]uint32
	for len(dst) > 0 {
		buf := dst
		if len(buf) < len(small) {
			buf = small[:]
		}
		n, repeated, err := h.next(len(dst), buf)
		if err != nil {
			return err
		}
		switch {
		case repeated:
			run, value := dst[:n], h.value
			for i := range run {
				run[i] = value
			}
		case len(dst) < len(small):
			copy(dst, small[:n])
		}
		dst = dst[n:]
	}
	return nil
}

// skip passes over n values.
func (h *hybrid) skip(n int) error {
	var buf [8]uint32
	for n > 0 {
		if groups := min(len(h.packed)/max(int(h.width), 1), n/8); h.run == 0 && h.left == 0 && groups > 0 {
			h.packed = h.packed[groups*int(h.width):]
			n -= groups * 8
			continue
		}
		k, _, err := h.next(n, buf[:])
		if err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// levels decodes n definition levels of a column whose values have the level full: it marks nulls from bit at on and counts the rest.
func (h *hybrid) levels(full int, nulls record.Bitmap, at, n int, buf []uint32) (present int, err error) {
	top := uint32(full) //nolint:gosec // a depth
	for n > 0 {
		if h.run == 0 && h.left == 0 && len(h.packed) == 0 {
			if err := h.header(); err != nil {
				return 0, fmt.Errorf("definition levels: %w", err)
			}
		}
		if top == 1 && h.run == 0 && h.left == 0 && len(h.packed) > 0 && n >= 8 { // a bit each
			k := min(64, 8*len(h.packed), n&^7)
			absent := ^binary.LittleEndian.Uint64(h.packed[:8]) & (^uint64(0) >> (64 - k))
			mark(nulls, at, absent)
			present += k - bits.OnesCount64(absent)
			h.packed, at, n = h.packed[k/8:], at+k, n-k
			continue
		}
		k, repeated, err := h.next(n, buf)
		if err != nil {
			return 0, fmt.Errorf("definition levels: %w", err)
		}
		switch {
		case repeated && h.value == top:
			present += k
		case repeated && h.value > top:
			return 0, tooDeep(h.value, top)
		case repeated:
			for i := 0; i < k; i += 64 {
				mark(nulls, at+i, ^uint64(0)>>(64-min(64, k-i)))
			}
		case top == 1:
			for i, v := range buf[:k] {
				// Branch-free: nulls come in no order.
				nulls[(at+i)>>6] |= uint64(1-v&1) << ((at + i) & 63)
				present += int(v & 1)
			}
		default:
			for i, v := range buf[:k] {
				switch {
				case v == top:
					present++
				case v > top:
					return 0, tooDeep(v, top)
				default:
					nulls.Set(at + i)
				}
			}
		}
		at, n = at+k, n-k
	}
	return present, nil
}

// mark sets the bits of word from bit at on.
func mark(b record.Bitmap, at int, word uint64) {
	b[at>>6] |= word << (at & 63)
	if rest := word >> 1 >> (63 - at&63); rest != 0 {
		b[at>>6+1] |= rest
	}
}

func tooDeep(level, top uint32) error {
	return fmt.Errorf("a definition level of %d, where values have %d", level, top)
}
