package job

import (
	"unsafe"

	"hindcast/internal/record"
)

// found is where the states of a block's keys are, by the numbers of its live events.
type found struct {
	ids [blockRows]uint32 // or none; then the rest is there, too
	// Of a key these are its bytes in keys, its hash, and where its id is to be kept for the next event with its code, if it has one.
	keys   []byte
	ends   [1 + blockRows]int // that of key n, behind where it begins
	hashes [blockRows]uint64
	cells  [blockRows]*uint32

	// A key that is one string is mostly one of the event's as it lies, and then its code in that field's dictionary tells the state, without a look at the key.
	source int // the field
	slots  []codes
	size   int // entries of slots
}

// codes has, by the codes of one dictionary, 1 + the id of the state that a key has in a slot, or 0 where that is not known yet.
type codes struct {
	serial int // of the dictionary
	ids    []uint32
}

// mostCodes is how many entries found keeps, over all slots.
const mostCodes = 1 << 22

// elsewhere stands for the id of a key that another share has.
const elsewhere = none - 1

// set notes the id of key n.
func (f *found) set(n int, id uint32) {
	if f.ids[n] = id; f.cells[n] != nil {
		*f.cells[n] = id + 1
	}
}

func (f *found) key(n int) []byte { return f.keys[f.ends[n]:f.ends[n+1]] }

// cell is where the id of a slot's state for a code of d is kept.
func (f *found) cell(d *dictionary, slot int32, code uint32) *uint32 {
	c := &f.slots[slot]
	if c.serial != d.serial {
		n := len(d.offsets) - 1
		if f.size += n - len(c.ids); f.size > mostCodes {
			clear(f.slots)
			f.size = n
		}
		if cap(c.ids) < n {
			c.ids = make([]uint32, n)
		}
		c.serial, c.ids = d.serial, c.ids[:n]
		clear(c.ids)
	}
	return &c.ids[code]
}

// find looks up the states of the live events. Events whose key cannot be are failures.
func (r *foldRunner[E, S]) find(b block[E], out *Outcome) {
	f := &r.found
	f.keys = f.keys[:0]
	d := r.keySource(b)
	kept, unknown := 0, 0
	for _, i := range r.live {
		p := unsafe.Pointer(&r.fresh[i])
		f.cells[kept], f.ids[kept], f.ends[kept+1] = nil, none, f.ends[kept]
		slot := b.slot(int(i))
		if d != nil && uint(slot) < uint(len(f.slots)) {
			if code, ok := d.codeOf(&b.batch.Columns[f.source], b.rows[i], *(*string)(unsafe.Add(p, r.row.fields[0].offset))); ok {
				cell := f.cell(d, slot, code)
				f.cells[kept], f.ids[kept] = cell, *cell-1 // 0 - 1 is none
			}
		}
		if f.ids[kept] == none {
			var err error
			if f.keys, err = r.row.appendKey(f.keys, p); err != nil {
				f.keys = f.keys[:f.ends[kept]]
				out.Failures = append(out.Failures, Failure{b.rows[i], err})
				continue
			}
			f.ends[kept+1] = len(f.keys)
			f.hashes[kept] = r.states.hash(slot, f.key(kept))
			if r.share.has(f.hashes[kept]) {
				unknown++
			} else {
				f.set(kept, elsewhere)
			}
		}
		r.live[kept] = i
		kept++
	}
	r.live = r.live[:kept]
	if unknown > 0 {
		r.states.touch(f, kept)
		for n, i := range r.live {
			if f.ids[n] == none {
				f.set(n, r.states.find(b.slot(int(i)), f.key(n), f.hashes[n]))
			}
		}
	}
	r.states.touchStates(f.ids[:kept])
}

// keySource returns the dictionary of the event's field that keys are, going by the first live event, or nil.
func (r *foldRunner[E, S]) keySource(b block[E]) *dictionary {
	if len(r.live) == 0 || r.row.keys != 1 || r.row.fields[0].typ != goString {
		return nil
	}
	first := r.live[0]
	key := *(*string)(unsafe.Add(unsafe.Pointer(&r.fresh[first]), r.row.fields[0].offset))
	for field := range r.in.fields {
		if d := &r.in.dicts[field]; d.active {
			if _, ok := d.codeOf(&b.batch.Columns[field], b.rows[first], key); ok {
				if f := &r.found; f.source != field {
					clear(f.slots)
					f.source, f.size = field, 0
				}
				return d
			}
		}
	}
	return nil
}

// codeOf returns the code of a row if v is that code's string itself, not one with the same bytes.
func (d *dictionary) codeOf(c *record.Column, row int32, v string) (uint32, bool) {
	if c.Nulls.Get(int(row)) {
		return 0, false
	}
	code := c.Strings.Codes[row]
	of := d.value(code)
	return code, len(of) == len(v) && unsafe.StringData(of) == unsafe.StringData(v)
}

// touch and touchStates bring what is needed next into the cache. Loads that do not wait for each other overlap.
func (s *keys) touch(f *found, n int) {
	mask, sum := uint64(len(s.index)-1), uint64(0)
	for i, h := range f.hashes[:n] {
		if f.ids[i] == none {
			sum += uint64(s.index[h&mask])
		}
	}
	for i, h := range f.hashes[:n] {
		if f.ids[i] != none {
			continue
		}
		if at := s.index[h&mask]; at != 0 {
			if e := &s.entries[at-1]; e.keyLen > 0 {
				sum += uint64(s.text[e.key])
			}
		}
	}
	s.sum += sum
}

func (s *states[S]) touchStates(ids []uint32) {
	size, sum := unsafe.Sizeof(*new(S)), uint64(0)
	for _, id := range ids {
		if id < elsewhere {
			p := unsafe.Pointer(s.at(id))
			sum += uint64(*(*byte)(p)) + uint64(*(*byte)(unsafe.Add(p, size-1)))
		}
	}
	s.sum += sum
}
