package job

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"
)

// borrowers are the fields of a state, columns but for keys and private ones, that an author may set to a string, bytes or pointer of an event.
func borrowers(t reflect.Type, row rowType) []field {
	var out []field
	for sf := range t.Fields() {
		if slices.ContainsFunc(row.fields[:row.keys], func(f field) bool { return f.offset == sf.Offset }) {
			continue
		}
		f := field{offset: sf.Offset}
		elem := sf.Type
		if elem.Kind() == reflect.Pointer {
			f.ptr, elem = true, elem.Elem()
		}
		if f.typ = goTypeOf(elem); f.ptr || f.typ == goString || f.typ == goBytes {
			out = append(out, f)
		}
	}
	return out
}

// detach replaces what the field at p borrowed by a copy. Memory that events own is told by held.
func (f *field) detach(p unsafe.Pointer, held func(unsafe.Pointer) bool) {
	if !f.ptr {
		switch f.typ {
		case goString:
			detachString((*string)(p), held)
		case goBytes:
			detachBytes((*[]byte)(p), held)
		default: // holds no pointer
		}
		return
	}
	switch f.typ {
	case goBool:
		detachValue((**bool)(p), held)
	case goInt64, goMicros, goDays:
		detachValue((**int64)(p), held)
	case goInt32:
		detachValue((**int32)(p), held)
	case goFloat64:
		detachValue((**float64)(p), held)
	case goTime, goDate:
		detachValue((**time.Time)(p), held)
	case goString:
		if detachValue((**string)(p), held); *(**string)(p) != nil {
			detachString(*(**string)(p), held)
		}
	case goBytes:
		if detachValue((**[]byte)(p), held); *(**[]byte)(p) != nil {
			detachBytes(*(**[]byte)(p), held)
		}
	}
}

func detachValue[T any](p **T, held func(unsafe.Pointer) bool) {
	if *p != nil && held(unsafe.Pointer(*p)) {
		v := **p
		*p = &v
	}
}

func detachString(p *string, held func(unsafe.Pointer) bool) {
	if held(unsafe.Pointer(unsafe.StringData(*p))) {
		*p = strings.Clone(*p)
	}
}

func detachBytes(p *[]byte, held func(unsafe.Pointer) bool) {
	if held(unsafe.Pointer(unsafe.SliceData(*p))) {
		*p = bytes.Clone(*p)
	}
}

// texts has copies of strings, many to a block of memory: each by itself would be one more thing for the collector to find.
type texts struct{ free []byte }

const textBlock = 32 << 10

// detach is [detachString] for strings that live as long as others do.
func (t *texts) detach(p *string, held func(unsafe.Pointer) bool) {
	n := len(*p)
	if n == 0 || n > textBlock/64 || !held(unsafe.Pointer(unsafe.StringData(*p))) {
		detachString(p, held)
		return
	}
	if n > len(t.free) {
		t.free = make([]byte, textBlock)
	}
	copy(t.free, *p)
	*p, t.free = unsafe.String(unsafe.SliceData(t.free), n), t.free[n:]
}
