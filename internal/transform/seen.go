package transform

import (
	"bytes"
	"encoding/binary"
	"io"
	"iter"
	"math/bits"
	"slices"
	"sort"
	"sync"
	"unsafe"

	"github.com/zeebo/xxh3"

	"hindcast/internal/job/wire"
	"hindcast/internal/record"
)

// seen remembers the ids of events, exactly, with what tells whether a repeat has the same contents. An id takes 28 bytes and those
// of its place in an index, 5 to 10; one that is longer than 16 bytes, and no UUID, takes its own length as well.
type seen struct {
	sets  [kinds]idSet
	spare spareChunks
}

// idKind says what an id's key is. Ids of two kinds are never equal.
type idKind uint8

const (
	idNone  idKind = iota // null or empty
	idWhole               // 16 bytes: they are the key
	idShort               // fewer, as integers have: the key ends with their number
	idUUID                // a UUID in lower-case hexadecimal digits, as most write it: its digits
	idLong                // others: their hash, and where in idSet.long they are
	kinds
)

type idKey struct{ a, b uint64 }

// keyOf returns the key of an id's bytes. That of a long one lacks its place.
func keyOf(id []byte) (idKind, idKey) {
	switch {
	case len(id) == 16:
		return idWhole, idKey{binary.LittleEndian.Uint64(id), binary.LittleEndian.Uint64(id[8:])}
	case len(id) > 16:
		if key, ok := uuidKey(id); ok {
			return idUUID, key
		}
		return idLong, idKey{a: xxh3.Hash(id)}
	case len(id) == 0:
		return idNone, idKey{}
	}
	var b [16]byte
	b[15] = byte(copy(b[:], id))
	return idShort, idKey{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
}

// intKey returns the key of an integer, of kind idShort.
func intKey(id int64) idKey { return idKey{uint64(id), 8 << 56} }

// uuidKey returns the key of a UUID: its 32 digits, each in four bits.
func uuidKey(id []byte) (idKey, bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return idKey{}, false
	}
	u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	d0, ok0 := unhex(u64(id))
	d1, ok1 := unhex(uint64(u32(id[9:])) | uint64(u32(id[14:]))<<32)
	d2, ok2 := unhex(uint64(u32(id[19:])) | uint64(u32(id[24:]))<<32)
	d3, ok3 := unhex(u64(id[28:]))
	return idKey{d0 | d1<<32, d2 | d3<<32}, ok0 && ok1 && ok2 && ok3
}

// unhex reads eight lower-case hexadecimal digits at once, the first in the lowest bits.
func unhex(text uint64) (digits uint64, ok bool) {
	const each = 0x0101010101010101
	d := text&(15*each) + text>>6&each*9 // a letter has the bit 64
	ok = d&(0xF0*each) == 0 && text == d+each*'0'+(d+each*6)>>4&each*('a'-'0'-10)
	d = (d | d>>4) & 0x00FF00FF00FF00FF
	d = (d | d>>8) & 0x0000FFFF0000FFFF
	return (d | d>>16) & 0xFFFFFFFF, ok
}

// bytes appends a key's id, unless it is long.
func (k idKey) bytes(dst []byte, kind idKind) []byte {
	if kind == idUUID {
		for n := range 32 {
			if n == 8 || n == 12 || n == 16 || n == 20 {
				dst = append(dst, '-')
			}
			digits := k.a
			if n >= 16 {
				digits = k.b
			}
			dst = append(dst, "0123456789abcdef"[digits>>(n%16*4)&15])
		}
		return dst
	}
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], k.a)
	binary.LittleEndian.PutUint64(b[8:], k.b)
	if kind == idShort {
		return append(dst, b[:b[15]]...)
	}
	return append(dst, b[:]...)
}

// hash spreads a key over 64 bits, as XXH3 does with 16 bytes. Equal ids have equal hashes, in every shard: see [Config.Fingerprints].
func (k idKey) hash(kind idKind) uint64 {
	if kind == idLong {
		return k.a
	}
	lo, hi := (k.a^k.b)^0x6782737BEA4239B9, k.b^0xAF56BC3B0996523A
	mhi, mlo := bits.Mul64(lo, hi)
	h := bits.ReverseBytes64(lo) + hi + (mhi ^ mlo)
	h ^= h >> 37
	h *= 0x165667919E3779F9
	return h ^ h>>32
}

// idSet remembers the ids of one kind, in the order in which they came.
type idSet struct {
	kind idKind
	// index is open addressing: 0, or 1 + the id's number, and in the bits that it leaves free some of the hash. So most probes touch nothing else.
	index  []uint32
	number uint32 // the bits of a number
	n      int
	chunks []*idChunk // of chunkIDs each, so that nothing is copied when more come
	long   [][]byte   // of ids of kind idLong: lengths and bytes, in blocks of longBlock or more
	spans  []span
	expect int64  // ids: a hint, which may be wrong
	sum    uint32 // means nothing; it is what touch reads for
	spare  *spareChunks
}

const (
	chunkBits = 10
	chunkIDs  = 1 << chunkBits
)

type idChunk struct {
	keys     [chunkIDs]idKey
	contents [chunkIDs]uint64
	offsets  [chunkIDs]uint32 // less that of their span
}

// idChunks are those of shards that are done, each shard's as a *[]*idChunk: the next one takes them as they are, which spares the kernel and the collector
// most of the work.
var idChunks sync.Pool

// spareChunks are those that a shard took and has no ids in yet.
type spareChunks struct {
	chunks []*idChunk
	asked  bool
}

func (s *spareChunks) take() *idChunk {
	if !s.asked {
		s.asked = true
		if left, ok := idChunks.Get().(*[]*idChunk); ok {
			s.chunks = *left
		}
	}
	last := len(s.chunks) - 1
	if last < 0 {
		return new(idChunk)
	}
	c := s.chunks[last]
	s.chunks = s.chunks[:last]
	return c
}

// span is where ids lie in the log, from number first on: in one topic partition, at offsets near each other.
type span struct {
	first     int
	partition int32
	offset    int64
}

// Places of an index: the least, and the most that are made because ids are expected.
const (
	minIndex = 1 << 9
	maxIndex = 1 << 22
)

// grow makes room in the index for more ids, which are fewer than it has places for at least. It is five sixths full at most: most probes end in the
// cache line that they begin in, and the less memory is looked at, the more of it stays in the cache.
func (s *idSet) grow(more int) {
	if (s.n+more)*6 <= len(s.index)*5 {
		return
	}
	size := max(2*len(s.index), minIndex)
	for size < maxIndex && int64(size)*5 < s.expect*6 {
		size *= 2
	}
	s.index, s.number = make([]uint32, size), uint32(size-1)
	for i := range s.n {
		s.put(s.key(i).hash(s.kind), i)
	}
}

func (s *idSet) put(hash uint64, i int) {
	at := uint32(hash) & s.number
	for s.index[at] != 0 {
		at = (at + 1) & s.number
	}
	s.index[at] = uint32(hash>>32)&^s.number | uint32(i+1)
}

func (s *idSet) key(i int) *idKey { return &s.chunks[i>>chunkBits].keys[i&(chunkIDs-1)] }
func (s *idSet) content(i int) content {
	return content(s.chunks[i>>chunkBits].contents[i&(chunkIDs-1)])
}
func (s *idSet) offset(i int) *uint32 { return &s.chunks[i>>chunkBits].offsets[i&(chunkIDs-1)] }

const longBlock = 64 << 10

// keep keeps a long id and returns its place: the number of its block, and in the low half where it begins there.
func (s *idSet) keep(id []byte) uint64 {
	last := len(s.long) - 1
	if need := len(id) + binary.MaxVarintLen32; last < 0 || cap(s.long[last])-len(s.long[last]) < need {
		s.long = append(s.long, make([]byte, 0, max(need, longBlock)))
		last++
	}
	at := uint64(last)<<32 | uint64(len(s.long[last]))
	s.long[last] = append(binary.AppendUvarint(s.long[last], uint64(len(id))), id...)
	return at
}

func (s *idSet) longID(key idKey) []byte {
	b := s.long[key.b>>32][uint32(key.b):]
	n, size := binary.Uvarint(b)
	return b[size : size+int(n)]
}

// position returns where the event lies that came first with an id.
func (s *idSet) position(i int) Position {
	at := s.spans[sort.Search(len(s.spans), func(n int) bool { return s.spans[n].first > i })-1]
	return Position{at.partition, at.offset + int64(*s.offset(i))}
}

// find returns the number of an id, or -1 and the place of the index that it would take. The bytes of an id of kind idLong are passed, too.
func (s *idSet) find(key idKey, hash uint64, id []byte) (i int, slot uint32) {
	if len(s.index) == 0 {
		return -1, 0
	}
	slot, tag := uint32(hash)&s.number, uint32(hash>>32)&^s.number
	for ; s.index[slot] != 0; slot = (slot + 1) & s.number {
		if s.index[slot]&^s.number != tag {
			continue
		}
		i := int(s.index[slot]&s.number) - 1
		if k := s.key(i); *k == key || s.kind == idLong && k.a == key.a && bytes.Equal(s.longID(*k), id) {
			return i, slot
		}
	}
	return -1, slot
}

// add returns the number of an id, and whether it is new.
func (s *idSet) add(key idKey, hash uint64, id []byte, at Position, c content) (i int, fresh bool) {
	s.grow(1)
	i, slot := s.find(key, hash, id)
	if i >= 0 {
		return i, false
	}
	i = s.n
	if i&(chunkIDs-1) == 0 {
		s.chunks = append(s.chunks, s.spare.take())
	}
	if s.kind == idLong {
		key.b = s.keep(id)
	}
	last := len(s.spans) - 1
	if last < 0 || s.spans[last].partition != at.Partition || uint64(at.Offset-s.spans[last].offset) >= 1<<32 {
		s.spans = append(s.spans, span{i, at.Partition, at.Offset})
		last++
	}
	in := s.chunks[i>>chunkBits]
	in.keys[i&(chunkIDs-1)], in.contents[i&(chunkIDs-1)] = key, uint64(c)
	in.offsets[i&(chunkIDs-1)] = uint32(at.Offset - s.spans[last].offset)
	s.n++
	s.index[slot] = uint32(hash>>32)&^s.number | uint32(s.n)
	return i, true
}

// repeat is an id that was there: which of those that are added, and its number.
type repeat struct{ n, id int32 }

// addAll adds ids, which are not of kind idLong, of rows of a topic partition, and appends those that were there before to repeats. There are touchIDs at most. It
// is not ok, and has done nothing, where the offsets are too far apart.
func (s *idSet) addAll(keys []idKey, hashes, contents []uint64, partition int32, offsets []int64, rows []int32, repeats []repeat) (_ []repeat, ok bool) {
	first, last := offsets[rows[0]], offsets[rows[len(rows)-1]]
	if at := len(s.spans) - 1; at < 0 || s.spans[at].partition != partition || uint64(first-s.spans[at].offset) >= 1<<32 || uint64(last-s.spans[at].offset) >= 1<<32 {
		if uint64(last-first) >= 1<<32 {
			return repeats, false
		}
		s.spans = append(s.spans, span{s.n, partition, first})
	}
	from := s.spans[len(s.spans)-1].offset
	s.grow(len(rows))
	s.sum += s.touch(hashes)
	index, number, i := s.index, s.number, s.n
	for n, hash := range hashes {
		slot, tag := uint32(hash)&number, uint32(hash>>32)&^number
		v := index[slot]
		for v != 0 && (v&^number != tag || *s.key(int(v&number) - 1) != keys[n]) {
			slot = (slot + 1) & number
			v = index[slot]
		}
		if v != 0 {
			repeats = append(repeats, repeat{int32(n), int32(v&number) - 1}) //nolint:gosec // an index is that small
			continue
		}
		in := i & (chunkIDs - 1)
		if in == 0 {
			s.chunks = append(s.chunks, s.spare.take())
		}
		c := s.chunks[len(s.chunks)-1]
		c.keys[in], c.contents[in], c.offsets[in] = keys[n], contents[n], uint32(offsets[rows[n]]-from)
		i++
		index[slot] = tag | uint32(i)
	}
	s.n = i
	return repeats, true
}

// touchIDs is how many ids are brought into the cache at a time: what they take of it should stay in the fastest.
const touchIDs = 128

// touch brings what addAll will look at into the cache. Loads that do not wait for each other overlap, which those of addAll cannot.
func (s *idSet) touch(hashes []uint64) (sum uint32) {
	for _, h := range hashes {
		sum += s.index[uint32(h)&s.number]
	}
	return sum
}

// newSeen makes one for as many ids: a hint, which may be wrong.
func newSeen(expect int64) *seen {
	s := &seen{}
	for k := range s.sets {
		s.sets[k].kind, s.sets[k].expect, s.sets[k].spare = idKind(k), expect, &s.spare
	}
	return s
}

// free gives the memory back. The ids must not be asked for after that.
func (s *seen) free() {
	chunks := s.spare.chunks
	for k := range s.sets {
		chunks = append(chunks, s.sets[k].chunks...)
		s.sets[k] = idSet{}
	}
	if len(chunks) > 0 {
		idChunks.Put(&chunks)
	}
	s.spare = spareChunks{}
}

// firstSeen is the event that came first with an id.
type firstSeen struct {
	at      Position
	content content
}

// meet remembers the nth of the ids k, which is that of a row of ids, or returns the event that came with it before; fresh says which. If the set is full
// and does not have the id, ok is false.
func (s *seen) meet(k *idKeys, n int, ids *record.Column, row int32, at Position, c content, full bool) (before firstSeen, fresh, ok bool) {
	set := &s.sets[k.kinds[n]]
	var long []byte
	if set.kind == idLong {
		long = ids.Strings.At(int(row))
	}
	var i int
	if full {
		if i, _ = set.find(k.keys[n], k.hashes[n], long); i < 0 {
			return firstSeen{}, false, false
		}
	} else if i, fresh = set.add(k.keys[n], k.hashes[n], long, at, c); fresh {
		return firstSeen{}, true, true
	}
	return firstSeen{set.position(i), set.content(i)}, false, true
}

// size is the memory that the ids take, in bytes.
func (s *seen) size() (n int64) {
	for k := range s.sets {
		set := &s.sets[k]
		n += int64(4*cap(set.index)) + int64(len(set.chunks))*int64(unsafe.Sizeof(idChunk{})) + int64(cap(set.spans))*int64(unsafe.Sizeof(span{}))
		for _, b := range set.long {
			n += int64(cap(b))
		}
	}
	return n
}

// idKeys are the ids of a batch's rows.
type idKeys struct {
	kinds  []idKind
	keys   []idKey
	hashes []uint64
	// kind is that of all rows, idNone where they differ.
	kind idKind
}

// of takes the ids of rows.
func (k *idKeys) of(ids *record.Column, rows []int32) {
	k.kinds = slices.Grow(k.kinds[:0], len(rows))[:len(rows)]
	k.keys = slices.Grow(k.keys[:0], len(rows))[:len(rows)]
	k.hashes = slices.Grow(k.hashes[:0], len(rows))[:len(rows)]
	k.kind = idNone
	switch {
	case len(rows) == 0:
		return
	case k.whole(ids, rows):
		return
	case ids.Kind != record.String:
		for n, row := range rows {
			k.kinds[n], k.keys[n] = idShort, intKey(ids.Int64s[row])
		}
	default:
		for n, row := range rows {
			k.kinds[n], k.keys[n] = keyOf(ids.Strings.At(int(row)))
		}
	}
	if ids.Nulls != nil {
		for n, row := range rows {
			if ids.Nulls.Get(int(row)) {
				k.kinds[n] = idNone
			}
		}
	}
	k.kind = k.kinds[0]
	for n, kind := range k.kinds {
		k.hashes[n] = k.keys[n].hash(kind)
		if kind != k.kind {
			k.kind = idNone
		}
	}
}

// whole takes the ids of rows if all are of kind idWhole.
func (k *idKeys) whole(ids *record.Column, rows []int32) bool {
	if ids.Kind != record.String || ids.Strings.Codes != nil || ids.Nulls != nil {
		return false
	}
	offsets, data := ids.Strings.Offsets, ids.Strings.Data
	for n, row := range rows {
		at := offsets[row]
		if offsets[row+1]-at != 16 {
			return false
		}
		id := data[at : at+16]
		key := idKey{binary.LittleEndian.Uint64(id), binary.LittleEndian.Uint64(id[8:])}
		k.kinds[n], k.keys[n], k.hashes[n] = idWhole, key, key.hash(idWhole)
	}
	k.kind = idWhole
	return true
}

// FingerprintGroups is the number of groups that fingerprints come in, by their highest bits.
const FingerprintGroups = 1 << 12

// Fingerprint returns that of an id's bytes; an integer's are its eight, little-endian.
func Fingerprint(id []byte) uint64 {
	kind, key := keyOf(id)
	return key.hash(kind)
}

// FingerprintGroup returns the group of a fingerprint; see [Config.Fingerprints].
func FingerprintGroup(f uint64) int { return int(f >> 52) }

// fingerprints are the hashes of all ids, some at a time, which are valid until the next are.
func (s *seen) fingerprints() iter.Seq[[]uint64] {
	return func(yield func([]uint64) bool) {
		var hashes [chunkIDs]uint64
		for k := range s.sets {
			set := &s.sets[k]
			for c, chunk := range set.chunks {
				n := min(set.n-c*chunkIDs, chunkIDs)
				for i := range n {
					hashes[i] = chunk.keys[i].hash(set.kind)
				}
				if !yield(hashes[:n]) {
					return
				}
			}
		}
	}
}

// write writes all ids to w, which it empties into dst now and then.
func (s *seen) write(w *wire.Writer, dst io.Writer) error {
	var id []byte
	for k := range s.sets {
		set := &s.sets[k]
		w.Uint(uint64(set.n))
		for i := range set.n {
			if key := *set.key(i); set.kind == idLong {
				w.Bytes(set.longID(key))
			} else {
				id = key.bytes(id[:0], set.kind)
				w.Bytes(id)
			}
			at := set.position(i)
			w.Uint(uint64(at.Partition))
			w.Uint(uint64(at.Offset))
			w.Fixed(uint64(set.content(i)))
			if err := w.FlushFull(dst); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *seen) read(r *wire.Reader) {
	for range s.sets {
		for n := r.Len(); n > 0 && r.Err() == nil; n-- {
			id := r.Bytes()
			at := Position{int32(r.Uint()), int64(r.Uint())}
			kind, key := keyOf(id)
			s.sets[kind].add(key, key.hash(kind), id, at, content(r.Fixed()))
		}
	}
}
