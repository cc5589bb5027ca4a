package transform

import (
	"math"
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"

	"hindcast/internal/record"
)

// content stands for the values of an event's columns: 40 bits of a hash of all, and in the lowest partBits a few bits of
// each column's, which mostly tell which one differs. Equal contents are equal here.
type content uint64

const partBits = 24

// contents computes those of rows, a column at a time.
type contents struct {
	hashes []uint64 // of the column at hand
	all    []uint64
	parts  []uint64
	dicts  []hashedDictionary // by column
}

// of returns the contents of the listed rows, valid until the next call; skip is a column that is left out.
func (c *contents) of(b *record.Batch, columns int, skip int, rows []int32) []uint64 {
	c.hashes = slices.Grow(c.hashes[:0], len(rows))[:len(rows)]
	c.all = slices.Grow(c.all[:0], len(rows))[:len(rows)]
	c.parts = slices.Grow(c.parts[:0], len(rows))[:len(rows)]
	clear(c.all)
	clear(c.parts)
	for len(c.dicts) < columns {
		c.dicts = append(c.dicts, hashedDictionary{})
	}
	for i := range columns {
		if i == skip {
			continue
		}
		c.hash(&b.Columns[i], &c.dicts[i], rows)
		s, all, parts := newShare(i, columns), c.all, c.parts[:len(c.all)]
		for n, h := range c.hashes[:len(all)] {
			hi, lo := bits.Mul64(all[n]^h^0x9E3779B97F4A7C15, 0xE7037ED1A0B428DB)
			all[n] = hi ^ lo + h
			parts[n] ^= (h & s.mask) << (s.shift & 63)
		}
	}
	for n, parts := range c.parts {
		c.all[n] = c.all[n]&^(1<<partBits-1) | parts
	}
	return c.all
}

// hash puts those of a column's values into c.hashes.
func (c *contents) hash(col *record.Column, d *hashedDictionary, rows []int32) {
	hashes := c.hashes[:len(rows)]
	switch {
	case col.Kind == record.String && col.Strings.Codes != nil:
		d.of(&col.Strings)
		codes := col.Strings.Codes
		for n, row := range rows {
			code := codes[row]
			h := d.hashes[code]
			if h == 0 {
				h = xxh3.Hash(col.Strings.At(int(row)))
				d.hashes[code] = h
			}
			hashes[n] = h
		}
	case col.Kind == record.String:
		for n, row := range rows {
			hashes[n] = xxh3.Hash(col.Strings.At(int(row)))
		}
	case col.Kind == record.Float64:
		values := col.Float64s
		for n, row := range rows {
			hashes[n] = scramble(math.Float64bits(values[row]))
		}
	default:
		values := col.Int64s
		for n, row := range rows {
			hashes[n] = scramble(uint64(values[row]))
		}
	}
	if col.Nulls == nil {
		return
	}
	for n, row := range rows {
		if col.Nulls.Get(int(row)) {
			c.hashes[n] = nullHash
		}
	}
}

// hashedDictionary has the hashes of a dictionary's entries, 0 where one was not asked for yet. It is kept for as long as batches come
// with the same dictionary: a row group has one, and many batches.
type hashedDictionary struct {
	number uint64
	hashes []uint64
}

func (d *hashedDictionary) of(s *record.Strings) {
	if s.Dictionary != 0 && s.Dictionary == d.number {
		return
	}
	d.number = s.Dictionary
	d.hashes = slices.Grow(d.hashes[:0], len(s.Offsets))[:len(s.Offsets)]
	clear(d.hashes)
}

// share is the part of a content's lowest bits that belongs to a column.
type share struct {
	shift int
	mask  uint64
}

func newShare(column, columns int) share {
	width := min(max(partBits/columns, 1), 12)
	return share{shift: column * width % partBits, mask: 1<<width - 1}
}

const nullHash = 0xA0761D6478BD642F

// scramble spreads the bits of an integer, one to one.
func scramble(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 27
	x *= 0x94D049BB133111EB
	return x ^ x>>31
}

// differing returns the first column whose part differs, or -1 where none shows.
func differing(a, b content, columns, skip int) int {
	if columns > partBits { // they share bits
		return -1
	}
	for i := range columns {
		s := newShare(i, columns)
		if i != skip && uint64(a^b)>>s.shift&s.mask != 0 {
			return i
		}
	}
	return -1
}
