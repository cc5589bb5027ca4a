package job

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"sort"

	"github.com/zeebo/xxh3"

	"hindcast/internal/job/wire"
)

// states holds the states of a fold by their keys.
type states[S any] struct {
	keys
	chunks [][]S // of chunkStates each, so that states never move
}

// keys numbers the keys of a fold, in each slot, in the order in which they came.
type keys struct {
	// bucketed: a key belongs to one slot, which is not known when it is looked up.
	bucketed bool
	entries  []entry
	text     []byte
	index    []uint32 // open addressing: 1 + id, or 0
	versions []int64  // nil without a version guard
	sum      uint64   // means nothing: it is what memory is read for ahead of time
}

type entry struct {
	hash   uint64
	key    int // where it begins in text
	keyLen uint32
	slot   int32
}

const (
	chunkBits   = 8
	chunkStates = 1 << chunkBits
	none        = ^uint32(0)
)

func newKeys(bucketed, versioned bool) keys {
	s := keys{bucketed: bucketed, index: make([]uint32, 64)}
	if versioned {
		s.versions = []int64{}
	}
	return s
}

// version is that of the last event applied to a key, 0 without a version guard.
func (s *keys) version(id uint32) int64 {
	if s.versions == nil {
		return 0
	}
	return s.versions[id]
}

func (s *states[S]) at(id uint32) *S { return &s.chunks[id>>chunkBits][id&(chunkStates-1)] }

func (s *keys) key(id uint32) []byte {
	e := &s.entries[id]
	return s.text[e.key : e.key+int(e.keyLen)]
}

func (s *keys) hash(slot int32, key []byte) uint64 {
	h := xxh3.Hash(key)
	if !s.bucketed {
		h ^= uint64(slot) * 0x9E3779B97F4A7C15
	}
	return h
}

// find returns the id of a key, or none. Its hash is that of [keys.hash].
func (s *keys) find(slot int32, key []byte, hash uint64) uint32 {
	mask := uint64(len(s.index) - 1)
	for at := hash & mask; s.index[at] != 0; at = (at + 1) & mask {
		id := s.index[at] - 1
		if e := &s.entries[id]; e.hash == hash && (s.bucketed || e.slot == slot) && bytes.Equal(s.key(id), key) {
			return id
		}
	}
	return none
}

// add numbers a key that find did not find.
func (s *keys) add(hash uint64, slot int32, key []byte) uint32 {
	if len(s.entries)*2 >= len(s.index) {
		s.index = make([]uint32, 2*len(s.index))
		for id := range s.entries {
			s.put(s.entries[id].hash, uint32(id))
		}
	}
	id := uint32(len(s.entries))
	s.entries = append(doubled(s.entries, 1), entry{hash: hash, key: len(s.text), keyLen: uint32(len(key)), slot: slot})
	s.text = append(doubled(s.text, len(key)), key...)
	if s.versions != nil {
		s.versions = append(doubled(s.versions, 1), 0)
	}
	s.put(hash, id)
	return id
}

// doubled has room for n more: append makes large slices longer by a quarter only, and copies them so much more often.
func doubled[T any](s []T, n int) []T {
	if cap(s)-len(s) >= n {
		return s
	}
	return append(make([]T, 0, max(2*cap(s), len(s)+n)), s...)
}

// insert adds the state of a key that find did not find.
func (s *states[S]) insert(hash uint64, slot int32, key []byte, state *S) uint32 {
	id := s.add(hash, slot, key)
	*s.place(id) = *state
	return id
}

// place makes the place for the state of the key that was added last.
func (s *states[S]) place(id uint32) *S {
	if id>>chunkBits == uint32(len(s.chunks)) {
		s.chunks = append(s.chunks, make([]S, chunkStates))
	}
	return s.at(id)
}

// write writes what is known of a key.
func (s *keys) write(w *wire.Writer, id uint32) {
	w.Uint(uint64(s.entries[id].slot))
	w.Bytes(s.key(id))
	w.Int(s.version(id))
}

// read adds the key that write wrote.
func (s *keys) read(r *wire.Reader, slots int) (id uint32, err error) {
	slot, key, version := r.Uint(), r.Bytes(), r.Int()
	if r.Err() != nil || slot >= uint64(slots) {
		return none, wire.ErrShort
	}
	hash := s.hash(int32(slot), key)
	if s.find(int32(slot), key, hash) != none {
		return none, wire.ErrShort
	}
	id = s.add(hash, int32(slot), key)
	if s.versions != nil {
		s.versions[id] = version
	}
	return id, nil
}

func (s *keys) put(hash uint64, id uint32) {
	mask := uint64(len(s.index) - 1)
	at := hash & mask
	for s.index[at] != 0 {
		at = (at + 1) & mask
	}
	s.index[at] = id + 1
}

// sorted is a key's place in the order of output. Some bytes of it, behind those that all keys begin with, spare most looks at the key itself.
type sorted struct {
	prefix uint64
	slot   int32
	id     uint32
}

// sorted returns all keys by slot, then key. It is never nil.
func (s *keys) sorted() []sorted {
	out := make([]sorted, len(s.entries))
	same, slots := 0, int32(0)
	if len(s.entries) > 0 {
		first := s.key(0)
		same = len(first)
		for id := range s.entries {
			same = common(first[:same], s.key(uint32(id)))
			slots = max(slots, s.entries[id].slot+1)
		}
	}
	next := make([]int, slots+1)
	for id := range s.entries {
		next[s.entries[id].slot+1]++
	}
	for slot := range slots {
		next[slot+1] += next[slot]
	}
	for id := range s.entries {
		var part [8]byte
		copy(part[:], s.key(uint32(id))[same:])
		slot := s.entries[id].slot
		out[next[slot]] = sorted{binary.BigEndian.Uint64(part[:]), slot, uint32(id)}
		next[slot]++
	}
	from := 0
	for _, to := range next[:slots] {
		s.sort(out[from:to], 64)
		from = to
	}
	return out
}

// few is how many keys are sorted by comparing them.
const few = 32

// sort sorts keys of a slot whose prefixes are the same but for their lowest bits.
func (s *keys) sort(some []sorted, bits int) {
	if len(some) > few && bits > 0 {
		s.divide(some, bits)
		return
	}
	slices.SortFunc(some, func(a, b sorted) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		return bytes.Compare(s.key(a.id), s.key(b.id))
	})
}

// divide is sort, by the highest byte that differs: in place, each key goes to where those with its byte are.
func (s *keys) divide(some []sorted, bits int) {
	shift := bits - 8
	var next, ends [256]int
	for i := range some {
		next[uint8(some[i].prefix>>shift)]++
	}
	if next[uint8(some[0].prefix>>shift)] == len(some) {
		s.sort(some, shift)
		return
	}
	end := 0
	for digit, n := range next {
		next[digit] = end
		end += n
		ends[digit] = end
	}
	for digit := range next {
		for at := next[digit]; at < ends[digit]; at++ {
			k := some[at]
			for to := uint8(k.prefix >> shift); int(to) != digit; to = uint8(k.prefix >> shift) {
				some[next[to]], k = k, some[next[to]]
				next[to]++
			}
			some[at] = k
		}
	}
	from := 0
	for _, to := range ends {
		if to-from > 1 {
			s.sort(some[from:to], shift)
		}
		from = to
	}
}

// touchKeys brings keys into the cache; see touch.
func (s *keys) touchKeys(order []sorted) {
	sum := uint64(0)
	for _, o := range order {
		sum += uint64(s.entries[o.id].keyLen)
	}
	for _, o := range order {
		if e := &s.entries[o.id]; e.keyLen > 0 {
			sum += uint64(s.text[e.key])
		}
	}
	s.sum += sum
}

// common is how many bytes a and b have in common at their beginnings.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// ofSlot returns the part of a sorted list that is a slot's.
func ofSlot(order []sorted, slot int32) []sorted {
	from := sort.Search(len(order), func(i int) bool { return order[i].slot >= slot })
	to := sort.Search(len(order), func(i int) bool { return order[i].slot > slot })
	return order[from:to]
}
