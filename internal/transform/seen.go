package transform

import (
	"bytes"
	"math"
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"

	"hindcast/internal/job/wire"
	"hindcast/internal/record"
)

// seen remembers the ids of events, exactly, with what tells whether a repeat has the same contents.
type seen struct {
	entries []seenEntry
	ids     []byte
	// index is open addressing: 0, or the high half of the hash and below it 1 + the entry. So most probes touch nothing else.
	index []uint64
}

type seenEntry struct {
	hash    uint64
	id      int // where it begins in ids
	idLen   uint32
	part    int32
	offset  int64
	content content
}

func newSeen(rows int64) *seen {
	rows = min(max(rows, 1<<9), 1<<23) // a hint, which may be wrong
	size := 1
	for int64(size) < 2*rows {
		size *= 2
	}
	return &seen{index: make([]uint64, size), entries: make([]seenEntry, 0, rows)}
}

func (s *seen) id(e *seenEntry) []byte { return s.ids[e.id : e.id+int(e.idLen)] }

// touch brings what add will look at into the cache. Loads that do not wait for each other overlap, which those of add cannot.
func (s *seen) touch(hashes []uint64) (sum uint64) {
	mask := uint64(len(s.index) - 1)
	for _, h := range hashes {
		sum += s.index[h&mask]
	}
	return sum
}

// add returns the event that came with the id, whose hash is XXH3, before, or remembers this one and returns nil.
func (s *seen) add(id []byte, hash uint64, at Position, c content) *seenEntry {
	mask := uint64(len(s.index) - 1)
	slot := hash & mask
	for ; s.index[slot] != 0; slot = (slot + 1) & mask {
		if s.index[slot]>>32 != hash>>32 {
			continue
		}
		if e := &s.entries[uint32(s.index[slot])-1]; e.hash == hash && bytes.Equal(s.id(e), id) {
			return e
		}
	}
	s.entries = append(s.entries, seenEntry{hash: hash, id: len(s.ids), idLen: uint32(len(id)), part: at.Partition, offset: at.Offset, content: c})
	s.ids = append(s.ids, id...)
	s.index[slot] = hash>>32<<32 | uint64(len(s.entries))
	if len(s.entries)*2 > len(s.index) {
		s.grow()
	}
	return nil
}

func (s *seen) grow() {
	s.index = make([]uint64, 2*len(s.index))
	mask := uint64(len(s.index) - 1)
	for i := range s.entries {
		hash := s.entries[i].hash
		slot := hash & mask
		for s.index[slot] != 0 {
			slot = (slot + 1) & mask
		}
		s.index[slot] = hash>>32<<32 | uint64(i+1)
	}
}

// fingerprints returns the hashes of all ids, sorted.
func (s *seen) fingerprints() []uint64 {
	out := make([]uint64, len(s.entries))
	for i := range s.entries {
		out[i] = s.entries[i].hash
	}
	slices.Sort(out)
	return out
}

func (s *seen) write(w *wire.Writer) {
	w.Uint(uint64(len(s.entries)))
	for i := range s.entries {
		e := &s.entries[i]
		w.Bytes(s.id(e))
		w.Uint(uint64(e.part))
		w.Uint(uint64(e.offset))
		w.Fixed(e.content.all)
		w.Fixed(e.content.parts)
	}
}

func (s *seen) read(r *wire.Reader) {
	for n := r.Len(); n > 0 && r.Err() == nil; n-- {
		id := r.Bytes()
		at := Position{int32(r.Uint()), int64(r.Uint())}
		s.add(id, xxh3.Hash(id), at, content{r.Fixed(), r.Fixed()})
	}
}

// content stands for the values of an event's columns: all of them in one hash, and in parts a few bits of
// each column's, which mostly tell which one differs. Equal contents have equal hashes.
type content struct{ all, parts uint64 }

// contents computes those of rows, a column at a time.
type contents struct {
	rows []content
	dict []uint64
}

// of returns the contents of the listed rows; skip is a column that is left out.
func (c *contents) of(b *record.Batch, columns int, skip int, rows []int32) []content {
	c.rows = slices.Grow(c.rows[:0], len(rows))[:len(rows)]
	clear(c.rows)
	for i := range columns {
		if i == skip {
			continue
		}
		c.mix(&b.Columns[i], newShare(i, columns), rows)
	}
	return c.rows
}

func (c *contents) mix(col *record.Column, s share, rows []int32) {
	dict := col.Kind == record.String && col.Strings.Codes != nil && len(col.Strings.Offsets) <= 2*len(rows)
	if dict {
		c.hashDictionary(&col.Strings)
	}
	for n, row := range rows {
		h := uint64(nullHash)
		switch {
		case col.Nulls.Get(int(row)):
		case dict:
			h = c.dict[col.Strings.Codes[row]]
		case col.Kind == record.String:
			h = xxh3.Hash(col.Strings.At(int(row)))
		case col.Kind == record.Float64:
			h = scramble(math.Float64bits(col.Float64s[row]))
		default:
			h = scramble(uint64(col.Int64s[row]))
		}
		at := &c.rows[n]
		hi, lo := bits.Mul64(at.all^h^0x9E3779B97F4A7C15, 0xE7037ED1A0B428DB)
		at.all = hi ^ lo + h
		at.parts ^= (h & s.mask) << s.shift
	}
}

func (c *contents) hashDictionary(s *record.Strings) {
	c.dict = c.dict[:0]
	for i := range len(s.Offsets) - 1 {
		c.dict = append(c.dict, xxh3.Hash(s.Data[s.Offsets[i]:s.Offsets[i+1]]))
	}
}

// share is the part of content.parts that belongs to a column.
type share struct {
	shift int
	mask  uint64
}

func newShare(column, columns int) share {
	width := min(max(64/columns, 1), 16)
	return share{shift: column * width % 64, mask: 1<<width - 1}
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
	if columns > 64 { // they share bits
		return -1
	}
	for i := range columns {
		s := newShare(i, columns)
		if i != skip && (a.parts^b.parts)>>s.shift&s.mask != 0 {
			return i
		}
	}
	return -1
}
