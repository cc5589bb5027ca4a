package footer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// thriftReader reads the compact protocol from bytes that may be hostile. It
// allocates nothing by itself, takes no length on trust and nests to a limit.
// After an error it yields zeros, so that only the end needs a check.
type thriftReader struct {
	b     []byte
	pos   int
	depth int
	err   error
}

// Wire types of the compact protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
	thriftUUID   = 13
)

const thriftMaxDepth = 32

// ErrShort means that the bytes end within a structure.
var ErrShort = errors.New("metadata ends too early")

func (r *thriftReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *thriftReader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.b)-r.pos {
		r.fail(ErrShort)
		return nil
	}
	r.pos += n
	return r.b[r.pos-n : r.pos : r.pos]
}

func (r *thriftReader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *thriftReader) uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b[r.pos:])
	switch {
	case n == 0:
		r.fail(ErrShort)
		return 0
	case n < 0:
		r.fail(errors.New("metadata holds a number of more than 64 bits"))
		return 0
	}
	r.pos += n
	return v
}

func (r *thriftReader) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// int reads an integer field of any width.
func (r *thriftReader) int(typ byte) int64 {
	switch typ {
	case thriftByte:
		return int64(int8(r.byte()))
	case thriftI16, thriftI32, thriftI64:
		return r.varint()
	}
	r.fail(fmt.Errorf("metadata has type %d where an integer belongs", typ))
	return 0
}

// int32 reads an integer field that must fit.
func (r *thriftReader) int32(typ byte) int32 {
	v := r.int(typ)
	if v < math.MinInt32 || v > math.MaxInt32 {
		r.fail(fmt.Errorf("metadata has %d where a 32-bit integer belongs", v))
		return 0
	}
	return int32(v)
}

// bool reads a boolean field, whose value is its type.
func (r *thriftReader) bool(typ byte) bool {
	if typ != thriftTrue && typ != thriftFalse {
		r.fail(fmt.Errorf("metadata has type %d where a boolean belongs", typ))
	}
	return typ == thriftTrue
}

// boolItem reads a boolean in a list, which takes a byte: 1, or 2 or 0, as writers differ.
func (r *thriftReader) boolItem(typ byte) bool {
	if typ != thriftTrue && typ != thriftFalse {
		r.fail(fmt.Errorf("metadata has type %d where a boolean belongs", typ))
		return false
	}
	return r.byte() == thriftTrue
}

// binary reads a string field. It is a part of the input, not a copy.
func (r *thriftReader) binary(typ byte) []byte {
	if typ != thriftBinary {
		r.fail(fmt.Errorf("metadata has type %d where a string belongs", typ))
		return nil
	}
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail(ErrShort)
		return nil
	}
	return r.take(int(n))
}

// structure calls field for each field of a structure. What field does not
// read, it must skip.
func (r *thriftReader) structure(typ byte, field func(id int16, typ byte)) {
	if typ != thriftStruct {
		r.fail(fmt.Errorf("metadata has type %d where a structure belongs", typ))
		return
	}
	if r.depth++; r.depth > thriftMaxDepth {
		r.fail(fmt.Errorf("metadata nests more than %d deep", thriftMaxDepth))
	}
	id := int16(0)
	for r.err == nil {
		h := r.byte()
		if h == 0 {
			break
		}
		if delta := h >> 4; delta != 0 {
			id += int16(delta)
		} else {
			id = int16(r.varint())
		}
		field(id, h&0xf)
	}
	r.depth--
}

// list calls item for each item of a list.
func (r *thriftReader) list(typ byte, item func(typ byte)) {
	if typ != thriftList && typ != thriftSet {
		r.fail(fmt.Errorf("metadata has type %d where a list belongs", typ))
		return
	}
	h := r.byte()
	n := uint64(h >> 4)
	if n == 15 {
		n = r.uvarint()
	}
	for ; n > 0 && r.err == nil; n-- {
		// Every item takes a byte at least, so the input's length bounds this loop.
		if r.pos >= len(r.b) {
			r.fail(ErrShort)
		}
		item(h & 0xf)
	}
}

// skip passes over a field's value.
func (r *thriftReader) skip(typ byte) {
	switch typ {
	case thriftTrue, thriftFalse:
	case thriftByte:
		r.byte()
	case thriftI16, thriftI32, thriftI64:
		r.uvarint()
	case thriftDouble:
		r.take(8)
	case thriftUUID:
		r.take(16)
	case thriftBinary:
		r.binary(typ)
	case thriftList, thriftSet:
		if r.depth++; r.depth > thriftMaxDepth {
			r.fail(fmt.Errorf("metadata nests more than %d deep", thriftMaxDepth))
		}
		r.list(typ, r.skipItem)
		r.depth--
	case thriftMap:
		if r.depth++; r.depth > thriftMaxDepth {
			r.fail(fmt.Errorf("metadata nests more than %d deep", thriftMaxDepth))
		}
		if n := r.uvarint(); n > 0 {
			types := r.byte()
			for ; n > 0 && r.err == nil; n-- {
				if r.pos >= len(r.b) {
					r.fail(ErrShort)
				}
				r.skipItem(types >> 4)
				r.skipItem(types & 0xf)
			}
		}
		r.depth--
	case thriftStruct:
		r.structure(typ, func(_ int16, typ byte) { r.skip(typ) })
	default:
		r.fail(fmt.Errorf("metadata has the unknown type %d", typ))
	}
}

// skipItem passes over a value in a container, where booleans take a byte.
func (r *thriftReader) skipItem(typ byte) {
	if typ == thriftTrue || typ == thriftFalse {
		r.byte()
		return
	}
	r.skip(typ)
}
