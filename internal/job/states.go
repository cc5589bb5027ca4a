package job

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"sort"

	"github.com/zeebo/xxh3"
)

// states holds the states of a fold by slot and key, in the order in which the keys came.
type states[S any] struct {
	// bucketed: a key belongs to one slot, which is not known when it is looked up.
	bucketed bool
	entries  []entry
	chunks   [][]S // of chunkStates each, so that states never move
	keys     []byte
	index    []uint32 // open addressing: 1 + id, or 0
	versions []int64  // nil without a version guard
	sum      uint64   // means nothing: it is what memory is read for ahead of time
}

type entry struct {
	hash   uint64
	key    int // where it begins in keys
	keyLen uint32
	slot   int32
}

const (
	chunkBits   = 8
	chunkStates = 1 << chunkBits
	none        = ^uint32(0)
)

func newStates[S any](bucketed, versioned bool) *states[S] {
	s := &states[S]{bucketed: bucketed, index: make([]uint32, 64)}
	if versioned {
		s.versions = []int64{}
	}
	return s
}

// version is that of the last event applied to a key, 0 without a version guard.
func (s *states[S]) version(id uint32) int64 {
	if s.versions == nil {
		return 0
	}
	return s.versions[id]
}

func (s *states[S]) at(id uint32) *S { return &s.chunks[id>>chunkBits][id&(chunkStates-1)] }

func (s *states[S]) key(id uint32) []byte {
	e := &s.entries[id]
	return s.keys[e.key : e.key+int(e.keyLen)]
}

func (s *states[S]) hash(slot int32, key []byte) uint64 {
	h := xxh3.Hash(key)
	if !s.bucketed {
		h ^= uint64(slot) * 0x9E3779B97F4A7C15
	}
	return h
}

// find returns the id of a key's state, or none. The key's hash is that of [states.hash].
func (s *states[S]) find(slot int32, key []byte, hash uint64) uint32 {
	mask := uint64(len(s.index) - 1)
	for at := hash & mask; s.index[at] != 0; at = (at + 1) & mask {
		id := s.index[at] - 1
		if e := &s.entries[id]; e.hash == hash && (s.bucketed || e.slot == slot) && bytes.Equal(s.key(id), key) {
			return id
		}
	}
	return none
}

// insert adds the state of a key that find did not find.
func (s *states[S]) insert(hash uint64, slot int32, key []byte, state S) uint32 {
	if len(s.entries)*2 >= len(s.index) {
		s.index = make([]uint32, 2*len(s.index))
		for id := range s.entries {
			s.put(s.entries[id].hash, uint32(id))
		}
	}
	id := uint32(len(s.entries))
	s.entries = append(s.entries, entry{hash: hash, key: len(s.keys), keyLen: uint32(len(key)), slot: slot})
	s.keys = append(s.keys, key...)
	if s.versions != nil {
		s.versions = append(s.versions, 0)
	}
	if id>>chunkBits == uint32(len(s.chunks)) {
		s.chunks = append(s.chunks, make([]S, chunkStates))
	}
	*s.at(id) = state
	s.put(hash, id)
	return id
}

func (s *states[S]) put(hash uint64, id uint32) {
	mask := uint64(len(s.index) - 1)
	at := hash & mask
	for s.index[at] != 0 {
		at = (at + 1) & mask
	}
	s.index[at] = id + 1
}

// sorted is a state's place in the order of output. The first bytes of its key spare most looks at the key itself.
type sorted struct {
	prefix uint64
	slot   int32
	id     uint32
}

// sorted returns all states by slot, then key. It is never nil.
func (s *states[S]) sorted() []sorted {
	out := make([]sorted, len(s.entries))
	for id := range s.entries {
		var first [8]byte
		copy(first[:], s.key(uint32(id)))
		out[id] = sorted{binary.BigEndian.Uint64(first[:]), s.entries[id].slot, uint32(id)}
	}
	slices.SortFunc(out, func(a, b sorted) int {
		if c := cmp.Or(cmp.Compare(a.slot, b.slot), cmp.Compare(a.prefix, b.prefix)); c != 0 {
			return c
		}
		return bytes.Compare(s.key(a.id), s.key(b.id))
	})
	return out
}

// ofSlot returns the part of a sorted list that is a slot's.
func ofSlot(order []sorted, slot int32) []sorted {
	from := sort.Search(len(order), func(i int) bool { return order[i].slot >= slot })
	to := sort.Search(len(order), func(i int) bool { return order[i].slot > slot })
	return order[from:to]
}
