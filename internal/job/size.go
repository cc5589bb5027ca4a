package job

import (
	"reflect"
	"unsafe"

	"hindcast/internal/record"
)

// size is the memory that the keys take.
func (s *keys) size() int64 {
	return int64(cap(s.entries))*int64(unsafe.Sizeof(entry{})) + int64(cap(s.text)) + 4*int64(cap(s.index)) + 8*int64(cap(s.versions))
}

// Size implements [Runner].
func (r *foldRunner[E, S]) Size() int64 {
	held := r.states.size() + int64(len(r.states.chunks))*chunkStates*int64(unsafe.Sizeof(*new(S))) + 4*int64(r.found.size)
	n := len(r.states.entries)
	return held + r.hidden.size(r.applied, n, func(id int) reflect.Value { return reflect.ValueOf(r.states.at(uint32(id))).Elem() })
}

// Size implements [Runner].
func (r *columnRunner[E, S]) Size() int64 {
	held := r.keys.size() + 4*int64(r.found.size)
	n := len(r.keys.entries)
	for i := range r.columns {
		c := &r.columns[i]
		held += int64(c.slice.Cap())*int64(c.size) + c.hidden.size(r.applied, n, c.slice.Index)
	}
	return held
}

// hidden estimates what plain values hold behind maps, slices, pointers and strings. The first of them are looked at, which often are the largest, and some of the
// rest; again when an eighth more events have come.
type hidden struct {
	none        bool // there is nothing of the kind
	next        int64
	first, rest float64 // bytes of a value
}

// looked is how many values are looked at, of the first and of the rest.
const looked = 256

func (h *hidden) size(events int64, n int, at func(int) reflect.Value) int64 {
	if h.none || n == 0 {
		return 0
	}
	first, rest := min(n, looked), max(n-looked, 0)
	if events >= h.next {
		h.next = events + events/8 + 4096
		h.first, h.rest = 0, 0
		for i := range first {
			h.first += float64(behind(at(i))) / float64(first)
		}
		if rest > 0 {
			step := (rest + looked - 1) / looked
			some := (rest + step - 1) / step
			for i := 0; i < rest; i += step {
				h.rest += float64(behind(at(first+i))) / float64(some)
			}
		}
	}
	return int64(h.first*float64(first) + h.rest*float64(rest))
}

func newHidden(t reflect.Type) hidden { return hidden{none: !refers(t) && !hasString(t)} }

func hasString(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String:
		return true
	case reflect.Array:
		return hasString(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if t != timeType && hasString(f.Type) {
				return true
			}
		}
	default:
	}
	return false
}

// behind is about the memory that a plain value holds outside itself.
func behind(v reflect.Value) int64 {
	t := v.Type()
	switch t.Kind() {
	case reflect.String:
		return int64(v.Len()+15) &^ 15
	case reflect.Pointer:
		if v.IsNil() {
			return 0
		}
		return int64(t.Elem().Size()) + behind(v.Elem())
	case reflect.Slice:
		return int64(v.Cap())*int64(t.Elem().Size()) + behindAll(v)
	case reflect.Array:
		return behindAll(v)
	case reflect.Map:
		if v.Len() == 0 {
			return 0
		}
		const few = 8
		var of, n int64
		for entries := v.MapRange(); n < few && entries.Next(); n++ {
			of += behind(entries.Key()) + behind(entries.Value())
		}
		// Go's maps have room for 8 entries; then tables that are between 7/16 and 7/8 full, with a byte of control an entry.
		slots := int64(8)
		if v.Len() > 8 {
			slots = int64(v.Len()) * 3 / 2
		}
		return 48 + slots*int64(t.Key().Size()+t.Elem().Size()+1) + int64(v.Len())*of/n
	case reflect.Struct:
		if t == timeType {
			return 0
		}
		var sum int64
		for _, f := range v.Fields() {
			sum += behind(f)
		}
		return sum
	default:
		return 0
	}
}

// behindAll is that of the values of a slice or array, going by the first few.
func behindAll(v reflect.Value) int64 {
	if e := v.Type().Elem(); v.Len() == 0 || !refers(e) && !hasString(e) {
		return 0
	}
	n, sum := min(v.Len(), 8), int64(0)
	for i := range n {
		sum += behind(v.Index(i))
	}
	return sum * int64(v.Len()) / int64(n)
}

// Size implements [Runner].
func (r *mapRunner[E, R]) Size() int64 {
	for _, slot := range r.grown {
		l := &r.slots[slot]
		r.held -= l.held
		l.held = l.full
		if len(l.chunks) > 0 {
			l.held += l.lastSize()
		}
		r.held += l.held
		l.grown = false
	}
	r.grown = r.grown[:0]
	held := r.held
	for i := range r.same {
		held += r.same[i].shared.size() + 4*int64(cap(r.same[i].shared.known))
	}
	return held
}

func batchSize(b *record.Batch) (n int64) {
	for i := range b.Columns {
		c := &b.Columns[i]
		if n += 8*int64(cap(c.Nulls)+cap(c.Int64s)+cap(c.Float64s)) + 4*int64(cap(c.Strings.Codes)); c.Strings.Codes == nil {
			n += 4*int64(cap(c.Strings.Offsets)) + int64(cap(c.Strings.Data))
		}
	}
	return n
}
