package job

import (
	"fmt"
	"reflect"
	"slices"

	"hindcast/internal/record"
)

// Same marks a column of a [Map]'s rows that is the events' column of the same name, or of that in the tag's option from, as `row:"note,from=memo"`. Its values go
// into the row as they lie, and need no field in the event. It is a string, int64, float64, bool, [Micros] for a timestamp, or [Days] for a date; with the
// option null it may be null; without, an event whose value is null gives no rows, or is a dead letter.
type Same[T string | int64 | float64 | bool | Micros | Days] struct{}

func (Same[T]) same() reflect.Type { return reflect.TypeFor[T]() }

// mapTags are those of the rows of a map.
var mapTags = tags{tag: "row", private: true, options: []string{"key", "date", "null", "from="}, of: func(f *field, t reflect.Type) (reflect.Type, error) {
	if s, ok := reflect.TypeAssert[interface{ same() reflect.Type }](reflect.Zero(t)); ok {
		f.lent = true
		f.typ = goTypeOf(s.same())
		return s.same(), nil
	}
	return f.of(t)
}}

// same is a column that passes through.
type same struct {
	row, event int  // columns
	unseen     bool // rows that have a place lack it
	shared     shared
}

// withSame adds the columns that pass through to those that a map reads. It returns which they are.
func withSame(events []field, row rowType) ([]field, []same, error) {
	var list []same
	events = slices.Clip(events)
	for i := range row.fields {
		f := &row.fields[i]
		if !f.lent {
			continue
		}
		at := schemaOf(events).Index(f.from)
		switch {
		case at < 0:
			at = len(events)
			events = append(events, field{name: f.name, column: f.from, typ: f.typ, ptr: f.ptr})
		case events[at].kind() != f.kind():
			return nil, nil, fmt.Errorf("field %s: column %s is %s here, and %s in field %s", f.name, f.from, f.kind(), events[at].kind(), events[at].name)
		}
		list = append(list, same{row: i, event: at})
	}
	return events, list, nil
}

// shared holds strings that came by the codes of dictionaries, each once.
type shared struct {
	keys
	of    uint64   // the dictionary that known is for
	known []uint32 // by its codes: 1 + the string's number here, or 0
	// offsets and number are of the dictionary that they make, when all are there.
	offsets []uint32
	number  uint64
}

// mostSharedBytes is how many bytes of strings are kept once; what comes then is kept row by row.
const mostSharedBytes = 1 << 28

// takes readies s for a column, and reports whether its strings come by codes that are worth it.
func (s *shared) takes(c *record.Column) bool {
	if c.Kind != record.String || c.Strings.Codes == nil || c.Strings.Dictionary == 0 || len(s.text) > mostSharedBytes {
		return false
	}
	if s.index == nil {
		s.keys = newKeys(false, false)
		s.add(s.hash(0, nil), 0, nil) // what nulls refer to
	}
	if s.of != c.Strings.Dictionary {
		n := len(c.Strings.Offsets)
		s.of, s.known = c.Strings.Dictionary, slices.Grow(s.known[:0], n)[:n]
		clear(s.known)
	}
	return true
}

// code is the number of the string that row has in c, which it takes.
func (s *shared) code(c *record.Column, row int32) uint32 {
	n := s.known[c.Strings.Codes[row]]
	if n == 0 {
		n = s.meet(c, row)
	}
	return n - 1
}

// meet makes a string known, and returns 1 + its number.
func (s *shared) meet(c *record.Column, row int32) uint32 {
	text := c.Strings.At(int(row))
	hash := s.hash(0, text)
	id := s.find(0, text, hash)
	if id == none {
		id = s.add(hash, 0, text)
	}
	s.known[c.Strings.Codes[row]] = id + 1
	return id + 1
}

// spell makes the dictionary of what is there.
func (s *shared) spell() {
	if len(s.offsets) == len(s.entries)+1 {
		return
	}
	s.offsets = s.offsets[:0]
	for i := range s.entries {
		s.offsets = append(s.offsets, uint32(s.entries[i].key)) //nolint:gosec // takes keeps it small
	}
	s.offsets, s.number = append(s.offsets, uint32(len(s.text))), record.NewDictionary() //nolint:gosec // as above
}

// pending are rows of one chunk of which most columns are still to be filled.
type pending struct {
	to     *record.Batch
	n      int  // so many of the runner's rows
	placed bool // they go without what no function sees
	gaps   bool // they do not follow one another in the batch
}

// mostPending is how many rows are completed at a time, but for those of one event.
const mostPending = 4 * blockRows

// wait notes that a row of an event, for a chunk, is pending.
func (r *mapRunner[E, R]) wait(to *record.Batch, row int32, placed bool) {
	if n := len(r.pending); n > 0 && r.pending[n-1].to == to && r.pending[n-1].placed == placed {
		p := &r.pending[n-1]
		p.n, p.gaps = p.n+1, p.gaps || row != r.rows[len(r.rows)-1]+1
	} else {
		r.pending = append(r.pending, pending{to: to, n: 1, placed: placed})
	}
	r.rows = append(r.rows, row)
}

// fill completes the rows that are pending, a column at a time.
func (r *mapRunner[E, R]) fill(b *record.Batch) error {
	if err := r.fillOwn(b); err != nil {
		return err
	}
	for i := range r.same {
		s := &r.same[i]
		from := &b.Columns[s.event]
		coded := s.shared.takes(from)
		rest := r.rows
		for _, p := range r.pending {
			rows := rest[:p.n]
			rest = rest[p.n:]
			switch to := &p.to.Columns[s.row]; {
			case p.placed && s.unseen:
			case to.Kind != record.String && to.Kind != record.Float64 && from.Nulls == nil && to.Nulls == nil && !s.unseen:
				if p.gaps {
					to.Int64s = appendRows(to.Int64s, from.Int64s, rows)
				} else {
					to.Int64s = append(to.Int64s, from.Int64s[rows[0]:][:p.n]...)
				}
			case coded && from.Nulls == nil && to.Nulls == nil && !s.unseen && (to.Strings.Codes != nil || length(to) == 0):
				to.Strings.Codes = s.shared.appendCodes(to.Strings.Codes, from, rows)
			default:
				for _, row := range rows {
					if err := s.append(to, from, row, coded); err != nil {
						return &Failure{row, fmt.Errorf("field %s: %w", r.row.fields[s.row].name, err)}
					}
				}
			}
		}
	}
	r.pending, r.rows = r.pending[:0], r.rows[:0]
	return nil
}

// appendRows adds the values of rows.
func appendRows(to, from []int64, rows []int32) []int64 {
	for _, row := range rows {
		to = append(to, from[row])
	}
	return to
}

// appendCodes is appendRows for the codes of strings.
func (s *shared) appendCodes(to []uint32, from *record.Column, rows []int32) []uint32 {
	for _, row := range rows {
		to = append(to, s.code(from, row))
	}
	return to
}

// lack gives a chunk whose rows have places nulls for what they lack.
func (r *mapRunner[E, R]) lack(b *record.Batch) {
	for i := range r.same {
		s := &r.same[i]
		if c := &b.Columns[s.row]; s.unseen && length(c) < b.Len {
			if r.nothing == nil {
				r.nothing = map[record.Kind]record.Column{}
			}
			if _, ok := r.nothing[c.Kind]; !ok {
				r.nothing[c.Kind] = record.Nulls(c.Kind, listRows)
			}
			*c = r.nothing[c.Kind]
		}
	}
}

// append adds the value of a row of from to a chunk's column.
func (s *same) append(to, from *record.Column, row int32, coded bool) error {
	n := length(to)
	if from.Nulls != nil || to.Nulls != nil {
		extendNulls(to, n)
		if from.Nulls.Get(int(row)) {
			if to.Strings.Codes != nil {
				to.Nulls.Set(n)
				to.Strings.Codes = append(to.Strings.Codes, 0)
			} else {
				appendNull(to, n)
			}
			return nil
		}
	}
	switch {
	case to.Kind == record.Float64:
		to.Float64s = append(to.Float64s, from.Float64s[row])
	case to.Kind != record.String:
		to.Int64s = append(to.Int64s, from.Int64s[row])
	case coded && (to.Strings.Codes != nil || n == 0):
		to.Strings.Codes = append(to.Strings.Codes, s.shared.code(from, row))
	default:
		if err := s.shared.plain(to); err != nil {
			return err
		}
		return appendString(to, from.Strings.At(int(row)))
	}
	return nil
}

// plain spells the strings of a column out.
func (s *shared) plain(c *record.Column) error {
	if len(c.Strings.Codes) > 0 {
		s.spell()
		c.Strings.Offsets, c.Strings.Data = s.offsets, s.text
	}
	return spellOut(c)
}

// spellOut makes strings that have codes plain.
func spellOut(c *record.Column) error {
	if c.Strings.Codes == nil {
		return nil
	}
	coded := c.Strings
	c.Strings = record.Strings{}
	for n := range coded.Codes {
		var text []byte
		if !c.Nulls.Get(n) {
			text = coded.At(n)
		}
		if err := appendString(c, text); err != nil {
			return err
		}
	}
	return nil
}

// length is how many values a column has.
func length(c *record.Column) int {
	switch {
	case c.Kind == record.Float64:
		return len(c.Float64s)
	case c.Kind != record.String:
		return len(c.Int64s)
	case c.Strings.Codes != nil:
		return len(c.Strings.Codes)
	}
	return max(len(c.Strings.Offsets)-1, 0)
}

// spell gives coded columns of chunks their dictionary. It reports by column of the rows whether all chunks of a list have codes there.
func (r *mapRunner[E, R]) spell(l *rowList) []*shared {
	out := make([]*shared, len(r.row.fields))
	for i := range r.same {
		s := &r.same[i]
		all := true
		for _, b := range l.chunks {
			c := &b.Columns[s.row]
			if c.Strings.Codes == nil {
				all = false
				continue
			}
			s.shared.spell()
			c.Strings.Offsets, c.Strings.Data, c.Strings.Dictionary = s.shared.offsets, s.shared.text, s.shared.number
		}
		if all && s.shared.offsets != nil {
			out[s.row] = &s.shared
		}
	}
	return out
}
