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
	all    []uint64
	parts  []uint64
	hashes []uint64           // of the column at hand
	dicts  []hashedDictionary // by column
}

// of returns the contents of the listed rows, valid until the next call; skip is a column that is left out.
func (c *contents) of(b *record.Batch, columns int, skip int, rows []int32) []uint64 {
	c.all = slices.Grow(c.all[:0], len(rows))[:len(rows)]
	c.parts = slices.Grow(c.parts[:0], len(rows))[:len(rows)]
	clear(c.all)
	clear(c.parts)
	for len(c.dicts) < columns {
		c.dicts = append(c.dicts, hashedDictionary{})
	}
	for i := range columns {
		if i != skip {
			c.add(&b.Columns[i], &c.dicts[i], rows, newShare(i, columns))
		}
	}
	for n, parts := range c.parts {
		c.all[n] = c.all[n]&^(1<<partBits-1) | parts
	}
	return c.all
}

// add adds a column's values to the contents of rows.
func (c *contents) add(col *record.Column, d *hashedDictionary, rows []int32, s share) {
	all, parts := c.all[:len(rows)], c.parts[:len(rows)]
	if col.Kind == record.Float64 || col.Kind == record.String || col.Nulls != nil {
		c.hash(col, d, rows)
		for n, h := range c.hashes[:len(rows)] {
			all[n], parts[n] = s.mix(all[n], parts[n], h)
		}
		return
	}
	values := col.Int64s
	for n, row := range rows {
		all[n], parts[n] = s.mix(all[n], parts[n], scramble(uint64(values[row])))
	}
}

// hash puts the hashes of a column's values into c.hashes.
func (c *contents) hash(col *record.Column, d *hashedDictionary, rows []int32) {
	c.hashes = slices.Grow(c.hashes[:0], len(rows))[:len(rows)]
	hashes := c.hashes
	switch {
	case col.Kind == record.String && col.Strings.Codes != nil:
		d.look(&col.Strings, rows, hashes)
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
			hashes[n] = nullHash
		}
	}
}

// hashedDictionary has the hashes of a dictionary's entries, 0 where one was not asked for yet. It is kept for as long as batches come
// with the same dictionary: a row group has one, and many batches.
type hashedDictionary struct {
	number  uint64
	hashes  []uint64
	unknown []int32
}

// look puts the hashes of rows into hashes. First come those that are known, in a loop whose loads need not wait for each other.
func (d *hashedDictionary) look(s *record.Strings, rows []int32, hashes []uint64) {
	d.of(s)
	d.unknown = slices.Grow(d.unknown[:0], len(rows))[:len(rows)]
	known, codes, unknown, missing := d.hashes, s.Codes, d.unknown, 0
	for n, row := range rows {
		h := known[codes[row]]
		hashes[n], unknown[missing] = h, int32(n) //nolint:gosec // a batch is small
		if h == 0 {
			missing++
		}
	}
	for _, n := range unknown[:missing] {
		code := codes[rows[n]]
		if known[code] == 0 {
			known[code] = xxh3.Hash(s.Data[s.Offsets[code]:s.Offsets[code+1]])
		}
		hashes[n] = known[code]
	}
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

// mix adds the hash of a column's value to what a content is made of.
func (s share) mix(all, parts, h uint64) (uint64, uint64) {
	hi, lo := bits.Mul64(all^h^0x9E3779B97F4A7C15, 0xE7037ED1A0B428DB)
	return hi ^ lo + h, parts ^ (h&s.mask)<<(s.shift&63)
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
