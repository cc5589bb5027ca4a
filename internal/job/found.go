package job

import (
	"unsafe"

	"hindcast/internal/record"
)

// found is where the states of a block's keys are, by the numbers of its live events.
type found struct {
	ids [blockRows]uint32 // or none
	// unknown are the events whose state no code told. Of these there are the key's bytes in keys, its hash, and where its id is to be kept for the next
	// event with its code, if it has one.
	unknown []int32
	keys    []byte
	places  [blockRows]struct{ from, to int }
	hashes  [blockRows]uint64
	cells   [blockRows]*uint32

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

// set notes the id of key n, which no code told.
func (f *found) set(n int, id uint32) {
	if f.ids[n] = id; f.cells[n] != nil {
		*f.cells[n] = id + 1
	}
}

func (f *found) key(n int) []byte { return f.keys[f.places[n].from:f.places[n].to] }

// begin forgets the block before.
func (f *found) begin() { f.unknown, f.keys = f.unknown[:0], f.keys[:0] }

// ask notes that no code told the state of event n, whose key was appended to keys from there on.
func (f *found) ask(n, from int, hash uint64) {
	f.places[n].from, f.places[n].to = from, len(f.keys)
	f.hashes[n] = hash
	f.unknown = append(f.unknown, int32(n)) //nolint:gosec // a block is small
}

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
	f.begin()
	d := r.keySource(b)
	kept := 0
	for _, i := range r.live {
		p := unsafe.Pointer(&r.fresh[i])
		slot := b.slot(int(i))
		var cell *uint32
		if d != nil && uint(slot) < uint(len(f.slots)) {
			if code, ok := d.codeOf(&b.batch.Columns[f.source], b.rows[i], *(*string)(unsafe.Add(p, r.row.fields[0].offset))); ok {
				cell = f.cell(d, slot, code)
				if id := *cell; id != 0 {
					f.ids[kept], r.live[kept] = id-1, i
					kept++
					continue
				}
			}
		}
		f.cells[kept] = cell
		from := len(f.keys)
		var err error
		if f.keys, err = r.row.appendKey(f.keys, p); err != nil {
			f.keys = f.keys[:from]
			out.Failures = append(out.Failures, Failure{b.rows[i], err})
			continue
		}
		if hash := r.states.hash(slot, f.keys[from:]); r.share.has(hash) {
			f.ask(kept, from, hash)
		} else {
			f.set(kept, elsewhere)
		}
		r.live[kept] = i
		kept++
	}
	r.live = r.live[:kept]
	r.states.touch(f)
	for _, n := range f.unknown {
		f.set(int(n), r.states.find(b.slot(int(r.live[n])), f.key(int(n)), f.hashes[n]))
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
func (s *keys) touch(f *found) {
	mask, sum := uint64(len(s.index)-1), uint64(0)
	for _, n := range f.unknown {
		sum += uint64(s.index[f.hashes[n]&mask])
	}
	for _, n := range f.unknown {
		if at := s.index[f.hashes[n]&mask]; at != 0 {
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

// touchSorted does so for what is drained of keys: their bytes, their states, and the text of a field of these, if there is one.
func (s *states[S]) touchSorted(order []sorted, text *field) {
	s.touchKeys(order)
	size, sum := unsafe.Sizeof(*new(S)), uint64(0)
	for _, o := range order {
		p := unsafe.Pointer(s.at(o.id))
		sum += uint64(*(*byte)(p)) + uint64(*(*byte)(unsafe.Add(p, size-1)))
	}
	if text != nil {
		for _, o := range order {
			if v := *(*string)(unsafe.Add(unsafe.Pointer(s.at(o.id)), text.offset)); v != "" {
				sum += uint64(v[0])
			}
		}
	}
	s.sum += sum
}
