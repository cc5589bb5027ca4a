package column

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/parquet-go/parquet-go/format"

	"hindcast/internal/record"
)

var errFewer = errors.New("a page holds fewer values than it states")

// values prepares the decoding of a page's values, which c.data holds.
func (c *Reader) values() (err error) {
	c.bit, c.at = 0, 0
	integer := c.shape.Type == format.Int32 || c.shape.Type == format.Int64
	number := integer || c.shape.Type == format.Float || c.shape.Type == format.Double
	fixed := c.shape.Type == format.FixedLenByteArray
	switch e := c.header.Encoding; {
	case e == format.Plain:
		return nil
	case e == format.RLEDictionary || e == format.PlainDictionary: //nolint:staticcheck // old writers use it
		c.header.Encoding = format.RLEDictionary
		if len(c.data) == 0 { // all values are null
			c.codes = hybrid{}
			return nil
		}
		c.codes, err = newHybrid(c.data[1:], uint(c.data[0]))
		return err
	case e == format.RLE && c.shape.Type == format.Boolean:
		if len(c.data) < 4 {
			c.codes = hybrid{}
			return nil
		}
		n := int64(binary.LittleEndian.Uint32(c.data))
		if n > int64(len(c.data)-4) {
			return errors.New("a page ends within its values")
		}
		c.codes, err = newHybrid(c.data[4:4+n], 1)
		return err
	case e == format.DeltaBinaryPacked && integer:
		if len(c.data) == 0 {
			c.delta = delta{}
			return nil
		}
		return c.delta.reset(c.data, c.shape.Type == format.Int32)
	case e == format.DeltaLengthByteArray && c.shape.Type == format.ByteArray:
		return c.deltaLengths(false)
	case e == format.DeltaByteArray && (c.shape.Type == format.ByteArray || fixed):
		return c.deltaLengths(true)
	case e == format.ByteStreamSplit && (number || fixed):
		if len(c.data)%c.size() != 0 {
			return fmt.Errorf("a page of split values of %d bytes has %d", c.size(), len(c.data))
		}
		return nil
	default:
		return fmt.Errorf("its values have the encoding %v, which is not read for %v", e, c.shape.Type)
	}
}

// size is the bytes of a value of fixed size.
func (c *Reader) size() int {
	switch c.shape.Type {
	case format.Int32, format.Float:
		return 4
	case format.FixedLenByteArray:
		return c.shape.Length
	}
	return 8
}

func (c *Reader) deltaLengths(prefixed bool) (err error) {
	c.lens, c.prefixes, c.prev = c.lens[:0], c.prefixes[:0], c.prev[:0]
	if len(c.data) == 0 {
		return nil
	}
	if c.total > maxDeltaValues {
		return fmt.Errorf("a page of %d delta-encoded strings is more than the %d that are read", c.total, maxDeltaValues)
	}
	was := 8 * (cap(c.lens) + cap(c.prefixes))
	if prefixed {
		if c.prefixes, c.data, err = c.delta.lengths(c.data, c.total, c.prefixes); err != nil {
			return err
		}
	}
	if c.lens, c.data, err = c.delta.lengths(c.data, c.total, c.lens); err != nil {
		return err
	}
	if prefixed && len(c.lens) != len(c.prefixes) {
		return fmt.Errorf("%d prefixes for %d strings", len(c.prefixes), len(c.lens))
	}
	return c.budget.resize(was, 8*(cap(c.lens)+cap(c.prefixes)))
}

// endPage holds what a page held against what it stated.
func (c *Reader) endPage() error {
	h := &c.header
	if h.Type == format.DataPageV2 && int(h.Nulls) != c.nulls && (h.Nulls != 0 || !c.meta.Uncounted) {
		return fmt.Errorf("a page states %d nulls and has %d", h.Nulls, c.nulls)
	}
	more := false
	switch h.Encoding {
	case format.Plain:
		// Some writers (fastparquet) pad with zeros.
		more = len(c.data) > 0 && c.shape.Type != format.Boolean && (len(c.data) > 8 || slices.ContainsFunc(c.data, func(b byte) bool { return b != 0 }))
	case format.DeltaBinaryPacked:
		more = c.delta.left > 0
	case format.DeltaLengthByteArray, format.DeltaByteArray:
		more = c.at < len(c.lens)
	case format.ByteStreamSplit:
		more = c.at < len(c.data)/c.size()
	}
	if more {
		return errors.New("a page holds more values than it states")
	}
	return nil
}

// plainInts decodes len(dst) values from data and returns what follows.
func plainInts(dst []int64, data []byte, typ format.Type) ([]byte, error) {
	if typ == format.Int32 {
		if len(data) < 4*len(dst) {
			return nil, errFewer
		}
		for ; len(dst) >= 8; dst, data = dst[8:], data[32:] { // lengths are checked once for eight
			d, s := (*[8]int64)(dst), (*[32]byte)(data)
			d[0], d[1], d[2], d[3] = plainInt32(s[0:]), plainInt32(s[4:]), plainInt32(s[8:]), plainInt32(s[12:])
			d[4], d[5], d[6], d[7] = plainInt32(s[16:]), plainInt32(s[20:]), plainInt32(s[24:]), plainInt32(s[28:])
		}
		for i := range dst {
			dst[i] = plainInt32(data[4*i:])
		}
		return data[4*len(dst):], nil
	}
	if len(data) < 8*len(dst) {
		return nil, errFewer
	}
	for ; len(dst) >= 8; dst, data = dst[8:], data[64:] {
		d, s := (*[8]int64)(dst), (*[64]byte)(data)
		d[0], d[1], d[2], d[3] = plainInt64(s[0:]), plainInt64(s[8:]), plainInt64(s[16:]), plainInt64(s[24:])
		d[4], d[5], d[6], d[7] = plainInt64(s[32:]), plainInt64(s[40:]), plainInt64(s[48:]), plainInt64(s[56:])
	}
	for i := range dst {
		dst[i] = plainInt64(data[8*i:])
	}
	return data[8*len(dst):], nil
}

func plainInt32(b []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(b))) }

func plainInt64(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }

func plainDouble(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }

func plainFloats(dst []float64, data []byte, typ format.Type) ([]byte, error) {
	if typ == format.Float {
		if len(data) < 4*len(dst) {
			return nil, errFewer
		}
		for i := range dst {
			dst[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
		}
		return data[4*len(dst):], nil
	}
	if len(data) < 8*len(dst) {
		return nil, errFewer
	}
	for ; len(dst) >= 8; dst, data = dst[8:], data[64:] {
		d, s := (*[8]float64)(dst), (*[64]byte)(data)
		d[0], d[1], d[2], d[3] = plainDouble(s[0:]), plainDouble(s[8:]), plainDouble(s[16:]), plainDouble(s[24:])
		d[4], d[5], d[6], d[7] = plainDouble(s[32:]), plainDouble(s[40:]), plainDouble(s[48:]), plainDouble(s[56:])
	}
	for i := range dst {
		dst[i] = plainDouble(data[8*i:])
	}
	return data[8*len(dst):], nil
}

// plainStrings appends n values from data, each of fixed bytes or behind its length, and returns what follows.
func plainStrings(dst *record.Strings, data []byte, n, fixed int) ([]byte, error) {
	if fixed > 0 {
		if len(data)/fixed < n {
			return nil, errFewer
		}
		if err := room(dst, n*fixed); err != nil {
			return nil, err
		}
		end := len(dst.Data)
		dst.Data = append(dst.Data, data[:n*fixed]...)
		for range n {
			end += fixed
			dst.Offsets = append(dst.Offsets, uint32(end))
		}
		return data[n*fixed:], nil
	}
	dst.Offsets = slices.Grow(dst.Offsets, n)
	for range n {
		if len(data) < 4 {
			return nil, errFewer
		}
		size := binary.LittleEndian.Uint32(data)
		if uint64(size) > uint64(len(data)-4) {
			return nil, fmt.Errorf("a string of %d bytes is cut off", size)
		}
		if len(dst.Data)+int(size) > maxBatchBytes {
			return nil, errRoom
		}
		dst.Data = appendBytes(dst.Data, data[4:], int(size))
		dst.Offsets = append(dst.Offsets, uint32(len(dst.Data)))
		data = data[4+size:]
	}
	return data, nil
}

// appendBytes appends the first size bytes of src, which must be there.
func appendBytes(dst, src []byte, size int) []byte {
	// Short values are most: a move of 16 bytes, whatever the length, is much cheaper than a call.
	if end := len(dst); size <= 16 && len(src) >= 16 && cap(dst)-end >= 16 {
		*(*[16]byte)(dst[end : end+16]) = [16]byte(src)
		return dst[:end+size]
	}
	return append(dst, src[:size]...)
}

var errRoom = fmt.Errorf("strings of more than %d MiB in one batch of rows, which is more than is read", maxBatchBytes>>20)

func room(s *record.Strings, n int) error {
	if len(s.Data)+n > maxBatchBytes {
		return errRoom
	}
	return nil
}

// readInts decodes len(dst) values that are not null.
func (c *Reader) readInts(dst []int64) (err error) {
	switch e := c.header.Encoding; {
	case c.shape.wide() && e != format.RLEDictionary:
		if err := c.readWide(len(dst)); err != nil {
			return err
		}
		if err := c.shape.wideInts(dst, &c.wide); err != nil {
			return err
		}
		return c.check(dst)
	case e == format.RLEDictionary:
		codes := c.scratch[:len(dst)]
		if err := c.codes.fill(codes); err != nil {
			return err
		}
		if err := gather(dst, codes, c.ints); err != nil {
			return err
		}
		if c.least >= c.lo && c.most <= c.hi {
			return nil // whatever the dictionary has is within the bounds
		}
		return c.check(dst)
	}
	if err := c.rawInts(dst); err != nil {
		return err
	}
	if err := c.shape.Convert(dst); err != nil {
		return err
	}
	return c.check(dst)
}

// rawInts decodes integers that are in no dictionary, as they are stored.
func (c *Reader) rawInts(dst []int64) (err error) {
	switch c.header.Encoding {
	case format.Plain:
		c.data, err = plainInts(dst, c.data, c.shape.Type)
	case format.DeltaBinaryPacked:
		err = c.delta.fill(dst)
	case format.ByteStreamSplit:
		var raw [8]byte
		for i := range dst {
			if err := c.unsplit(raw[:c.size()]); err != nil {
				return err
			}
			if c.shape.Type == format.Int32 {
				dst[i] = int64(int32(binary.LittleEndian.Uint32(raw[:])))
			} else {
				dst[i] = int64(binary.LittleEndian.Uint64(raw[:]))
			}
		}
	}
	return err
}

// readWide decodes n values that are numbers in bytes.
func (c *Reader) readWide(n int) error {
	c.wide.Data, c.wide.Offsets = c.wide.Data[:0], append(c.wide.Offsets[:0], 0)
	return c.rawStrings(&c.wide, n)
}

// check holds values against the footer's bounds, which may have decided what is read.
func (c *Reader) check(v []int64) error {
	if !c.bounded {
		return nil
	}
	lo, span := c.lo, uint64(c.hi-c.lo)
	for _, x := range v {
		if uint64(x-lo) > span {
			least, most := slices.Min(v), slices.Max(v)
			return fmt.Errorf("it has values from %d to %d where its statistics state %d to %d: what they are used for cannot be trusted", least, most, c.lo, c.hi)
		}
	}
	return nil
}

// gather takes the dictionary's values for codes.
func gather[T int64 | float64](dst []T, codes []uint32, dict []T) error {
	for i, code := range codes[:len(dst)] {
		if int(code) >= len(dict) {
			return errCode(code, len(dict))
		}
		dst[i] = dict[code]
	}
	return nil
}

func errCode(code uint32, n int) error {
	return fmt.Errorf("a value refers to entry %d of a dictionary of %d", code, n)
}

// unsplit gathers the next value of a byte stream split.
func (c *Reader) unsplit(dst []byte) error {
	n := len(c.data) / len(dst)
	if c.at >= n {
		return errFewer
	}
	for i := range dst {
		dst[i] = c.data[i*n+c.at]
	}
	c.at++
	return nil
}

func (c *Reader) readBools(dst []int64) error {
	if c.header.Encoding == format.RLE {
		codes := c.scratch[:len(dst)]
		if err := c.codes.fill(codes); err != nil {
			return err
		}
		for i, v := range codes {
			dst[i] = int64(v)
		}
		return nil
	}
	if c.bit+len(dst) > 8*len(c.data) {
		return errFewer
	}
	for i := range dst {
		dst[i] = int64(c.data[c.bit>>3] >> (c.bit & 7) & 1)
		c.bit++
	}
	return nil
}

func (c *Reader) readFloats(dst []float64) (err error) {
	switch e := c.header.Encoding; {
	case c.shape.wide() && e != format.RLEDictionary:
		if err := c.readWide(len(dst)); err != nil {
			return err
		}
		return wideFloats(dst, &c.wide)
	case e == format.Plain:
		c.data, err = plainFloats(dst, c.data, c.shape.Type)
	case e == format.RLEDictionary:
		codes := c.scratch[:len(dst)]
		if err := c.codes.fill(codes); err != nil {
			return err
		}
		return gather(dst, codes, c.floats)
	case e == format.ByteStreamSplit:
		var raw [8]byte
		for i := range dst {
			if err := c.unsplit(raw[:c.size()]); err != nil {
				return err
			}
			if c.shape.Type == format.Float {
				dst[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[:])))
			} else {
				dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[:]))
			}
		}
	}
	return err
}

// readCodes decodes the dictionary positions of len(dst) values, all within the dictionary.
func (c *Reader) readCodes(dst []uint32) error {
	if err := c.codes.fill(dst); err != nil {
		return err
	}
	var greatest, b, d, e uint32
	rest := dst
	for ; len(rest) >= 4; rest = rest[4:] {
		x := (*[4]uint32)(rest)
		greatest, b, d, e = max(greatest, x[0]), max(b, x[1]), max(d, x[2]), max(e, x[3])
	}
	for _, code := range rest {
		greatest = max(greatest, code)
	}
	if greatest = max(greatest, b, d, e); len(dst) > 0 && int(greatest) >= c.entries {
		return errCode(greatest, c.entries)
	}
	return nil
}

// readStrings appends n values that are not null.
func (c *Reader) readStrings(dst *record.Strings, n int) error {
	switch {
	case c.header.Encoding == format.RLEDictionary: // in a batch that began with plain values
		codes := c.scratch[:n]
		if err := c.readCodes(codes); err != nil {
			return err
		}
		return c.lookUp(dst, codes)
	case !c.shape.text():
		return c.rawStrings(dst, n)
	case c.shape.wide():
		if err := c.readWide(n); err != nil {
			return err
		}
		return c.shape.writeDecimals(dst, &c.wide, n)
	}
	c.ints64 = slices.Grow(c.ints64[:0], n)[:n]
	if err := c.rawInts(c.ints64); err != nil {
		return err
	}
	return c.shape.writeInts(dst, c.ints64)
}

// rawStrings appends n values that are in no dictionary, as they are stored.
func (c *Reader) rawStrings(dst *record.Strings, n int) (err error) {
	switch c.header.Encoding {
	case format.Plain:
		c.data, err = plainStrings(dst, c.data, n, c.fixed())
		return err
	case format.DeltaLengthByteArray:
		return c.readDeltaLength(dst, n)
	case format.DeltaByteArray:
		return c.readDeltaBytes(dst, n)
	case format.ByteStreamSplit:
		size := c.size()
		if err := room(dst, n*size); err != nil {
			return err
		}
		for range n {
			end := len(dst.Data)
			dst.Data = append(dst.Data, make([]byte, size)...)
			if err := c.unsplit(dst.Data[end:]); err != nil {
				return err
			}
			dst.Offsets = append(dst.Offsets, uint32(len(dst.Data)))
		}
		return nil
	}
	return nil
}

// lookUp appends the dictionary's values for codes.
func (c *Reader) lookUp(dst *record.Strings, codes []uint32) error {
	dict := &c.strings
	for _, code := range codes {
		from, to := dict.Offsets[code], dict.Offsets[code+1]
		if err := room(dst, int(to-from)); err != nil {
			return err
		}
		dst.Data = appendBytes(dst.Data, dict.Data[from:], int(to-from))
		dst.Offsets = append(dst.Offsets, uint32(len(dst.Data)))
	}
	return nil
}

func (c *Reader) readDeltaLength(dst *record.Strings, n int) error {
	if n > len(c.lens)-c.at {
		return errFewer
	}
	size, end := 0, len(dst.Data)
	dst.Offsets = slices.Grow(dst.Offsets, n)
	for _, l := range c.lens[c.at : c.at+n] {
		size += int(l)
		if size > len(c.data) {
			return errors.New("a page ends within a string")
		}
		dst.Offsets = append(dst.Offsets, uint32(end+size))
	}
	if err := room(dst, size); err != nil {
		return err
	}
	dst.Data = append(dst.Data, c.data[:size]...)
	c.data, c.at = c.data[size:], c.at+n
	return nil
}

func (c *Reader) readDeltaBytes(dst *record.Strings, n int) error {
	if n > len(c.lens)-c.at {
		return errFewer
	}
	fixed := c.fixed()
	prev := c.prev // of an earlier batch, or a part of dst.Data
	dst.Offsets = slices.Grow(dst.Offsets, n)
	for range n {
		prefix, suffix, end := int(c.prefixes[c.at]), int(c.lens[c.at]), len(dst.Data)
		switch {
		case prefix > len(prev) || suffix > len(c.data):
			return errors.New("a page ends within a string, or has a prefix longer than the string before it")
		case fixed > 0 && prefix+suffix != fixed:
			return fmt.Errorf("a value of %d bytes in a column of %d", prefix+suffix, fixed)
		}
		if err := room(dst, prefix+suffix); err != nil {
			return err
		}
		dst.Data = appendBytes(appendBytes(dst.Data, prev, prefix), c.data, suffix)
		dst.Offsets = append(dst.Offsets, uint32(len(dst.Data)))
		prev = dst.Data[end:]
		c.data = c.data[suffix:]
		c.at++
	}
	if n > 0 {
		c.prev = append(c.prev[:0], prev...)
	}
	return nil
}

// slots are, for eight rows of which a bit says whether there is a value, where among the values theirs lies; 8 is none.
var slots = func() (p [256][8]uint8) {
	for there := range p {
		n := uint8(0)
		for row := range p[there] {
			p[there][row] = 8
			if there>>row&1 == 1 {
				p[there][row] = n
				n++
			}
		}
	}
	return p
}()

// spread moves the values at the start of v to the rows that are not null; of is the first row's bit. Null rows get zeros.
func spread[T int64 | float64 | uint32](v []T, present int, nulls record.Bitmap, of int) {
	var few [16]T           // eight values, then zeros
	i, j := len(v), present // rows and values that are not yet moved
	for ; i > j && i >= 64; i -= 64 {
		switch there := ^word(nulls, of+i-64); there {
		case 0:
			clear(v[i-64 : i])
		case ^uint64(0):
			copy(v[i-64:i], v[j-64:j])
			j -= 64
		default: // without branches: nulls come in no order
			for row := i - 8; row >= i-64; row -= 8 {
				m := uint8(there >> 56)
				there <<= 8
				j -= bits.OnesCount8(m)
				*(*[8]T)(few[:8]) = [8]T(v[j:])
				to, from := (*[8]T)(v[row:]), &slots[m]
				to[0], to[1], to[2], to[3] = few[from[0]&15], few[from[1]&15], few[from[2]&15], few[from[3]&15]
				to[4], to[5], to[6], to[7] = few[from[4]&15], few[from[5]&15], few[from[6]&15], few[from[7]&15]
			}
		}
	}
	for i, j := i-1, j-1; i > j; i-- {
		null := int(nulls[(of+i)>>6] >> ((of + i) & 63) & 1)
		x := v[max(j, 0)]
		if null == 1 {
			x = 0
		}
		v[i] = x
		j -= 1 - null
	}
}

// word is the 64 bits from bit at on.
func word(b record.Bitmap, at int) uint64 {
	w := b[at>>6] >> (at & 63)
	if at&63 > 0 {
		w |= b[at>>6+1] << (64 - at&63)
	}
	return w
}
