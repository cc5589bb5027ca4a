package payload

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"hindcast/internal/record"
	"hindcast/internal/spec"
)

// maxUpcasts bounds a job's upcasts.
const maxUpcasts = 64

// Names knows under which names events have their columns, and what is made of those of older events.
// It is not safe for concurrent use.
type Names struct {
	schema  record.Schema
	rules   []rule // by column
	current map[string]int
	upcasts []spec.Upcast
	by      string
	shapes  map[uint64]*Shape // by the set of upcasts that apply
}

// Shape is how events of one age are read.
type Shape struct {
	column map[string]int // what a field of a name is
	fill   []*cell        // what a column is that an event lacks
	factor []int64        // of what an event has; 1 for none
}

// rule is a column's, ready for use.
type rule struct {
	spec.Column
	zone *Zone // nil: none
}

// NewNames checks a job's rules and upcasts against the columns that it reads.
func NewNames(schema record.Schema, rules map[string]spec.Column, upcasts []spec.Upcast) (*Names, error) {
	n := &Names{schema: schema, rules: make([]rule, len(schema)), current: map[string]int{}, upcasts: upcasts, shapes: map[uint64]*Shape{}}
	for i, f := range schema {
		if _, twice := n.current[f.Name]; twice {
			return nil, fmt.Errorf("the event has a column %q twice", f.Name)
		}
		n.current[f.Name] = i
	}
	for i, f := range schema {
		r := rule{Column: rules[f.Name]}
		if err := fits(f, r.Column); err != nil {
			return nil, err
		}
		if r.Zone != "" {
			var err error
			if r.zone, err = NewZone(r.Zone); err != nil {
				return nil, err
			}
		}
		n.rules[i] = r
		for _, alias := range r.Aliases {
			if of, ok := n.current[alias]; ok {
				return nil, fmt.Errorf("source.event.columns.%s: the alias %s is a name of the column %s", f.Name, alias, schema[of].Name)
			}
			n.current[alias] = i
		}
	}
	if len(upcasts) > maxUpcasts {
		return nil, fmt.Errorf("source.event.upcast has %d entries; at most %d are read", len(upcasts), maxUpcasts)
	}
	for i, u := range upcasts {
		if u.By != "" {
			n.by = u.By
		}
		for _, name := range slices.Sorted(maps.Keys(u.Multiply)) {
			if col, ok := n.current[n.after(name, i+1, ^uint64(0))]; ok && schema[col].Kind != record.Int64 && schema[col].Kind != 0 {
				return nil, fmt.Errorf("source.event.upcast[%d].multiply.%s: the column is %s, and only integers are multiplied", i, name, schema[col].Kind)
			}
		}
	}
	for _, set := range n.ages() {
		s, err := n.shape(set)
		if err != nil {
			return nil, err
		}
		n.shapes[set] = s
	}
	return n, nil
}

// fits reports a rule that can have no effect on a column.
func fits(f record.Field, rule spec.Column) error {
	time := f.Kind == record.Timestamp
	var key string
	switch {
	case f.Kind == 0: // any
		return nil
	case rule.Scale != nil && f.Kind != record.Int64:
		key = "scale"
	case rule.Zone != "" && !time:
		key = "zone"
	case rule.Unit != "" && !time:
		key = "unit"
	case rule.INT96 && !time:
		key = "int96"
	default:
		return nil
	}
	want := record.Timestamp
	if key == "scale" {
		want = record.Int64
	}
	return fmt.Errorf("source.event.columns.%s.%s: the job reads the column as %s, and the rule is for %s", f.Name, key, f.Kind, want)
}

// Unused names a rule or upcast that concerns none of the columns, so that it can have no effect: usually a name is misspelt.
func Unused(schema record.Schema, event spec.Event) error {
	n, err := NewNames(schema, event.Columns, event.Upcasts)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(event.Columns)) {
		if schema.Index(name) < 0 {
			return fmt.Errorf("source.event.columns.%s: the job reads no such column; it reads %s", name, list(columns(schema)))
		}
	}
	for i, u := range event.Upcasts {
		used := func(name string) bool { _, ok := n.current[n.after(name, i+1, ^uint64(0))]; return ok }
		for _, old := range slices.Sorted(maps.Keys(u.Rename)) {
			if !used(u.Rename[old]) {
				return fmt.Errorf("source.event.upcast[%d].rename.%s: the job reads no column %s; it reads %s", i, old, u.Rename[old], list(columns(schema)))
			}
		}
		for _, name := range slices.Concat(slices.Sorted(maps.Keys(u.Default)), slices.Sorted(maps.Keys(u.Multiply))) {
			if !used(name) {
				return fmt.Errorf("source.event.upcast[%d]: the job reads no column %s; it reads %s", i, name, list(columns(schema)))
			}
		}
	}
	return nil
}

func columns(s record.Schema) []string {
	var out []string
	for _, f := range s {
		out = append(out, f.Name)
	}
	return out
}

// after follows a name through the upcasts of a set, from number i on.
func (n *Names) after(name string, i int, set uint64) string {
	for ; i < len(n.upcasts); i++ {
		if to, ok := n.upcasts[i].Rename[name]; ok && set>>i&1 != 0 {
			name = to
		}
	}
	return name
}

// set is that of the upcasts for events of a version, or of none.
func (n *Names) set(version int64, known bool) uint64 {
	set := uint64(0)
	for i, u := range n.upcasts {
		if u.By == "" || !known || version < u.Below {
			set |= 1 << i
		}
	}
	return set
}

// ages are the sets that there can be.
func (n *Names) ages() []uint64 {
	out := []uint64{n.set(0, false)}
	for _, u := range n.upcasts {
		if u.By != "" {
			for _, v := range []int64{u.Below - 1, u.Below} {
				if set := n.set(v, true); !slices.Contains(out, set) {
					out = append(out, set)
				}
			}
		}
	}
	return out
}

// shapeOf is how events of a version are read, or of none.
func (n *Names) shapeOf(version int64, known bool) *Shape {
	if n.by == "" {
		known = false
	}
	return n.shapes[n.set(version, known)]
}

// wanted are all the names under which something is looked for in an event.
func (n *Names) wanted() []string {
	all := map[string]bool{}
	for name := range n.current {
		all[name] = true
	}
	for _, u := range n.upcasts {
		for old := range u.Rename {
			all[old] = true
		}
	}
	if n.by != "" {
		all[n.by] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func (n *Names) shape(set uint64) (*Shape, error) {
	s := &Shape{column: map[string]int{}, fill: make([]*cell, len(n.schema)), factor: make([]int64, len(n.schema))}
	for _, name := range n.wanted() {
		if col, ok := n.current[n.after(name, 0, set)]; ok {
			s.column[name] = col
		}
	}
	for i := range s.factor {
		s.factor[i] = 1
	}
	for i, u := range n.upcasts {
		if set>>i&1 == 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(u.Multiply)) {
			by := u.Multiply[name]
			col, ok := n.current[n.after(name, i+1, set)]
			if !ok {
				continue
			}
			if s.factor[col], ok = times(s.factor[col], by); !ok {
				return nil, fmt.Errorf("source.event.upcast[%d].multiply.%s: the factors of all upcasts do not fit 64 bits", i, name)
			}
			if c := s.fill[col]; c != nil && !c.null {
				if c.num, ok = times(c.num, by); !ok {
					return nil, fmt.Errorf("source.event.upcast[%d].multiply.%s: a default before it does not fit 64 bits then", i, name)
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(u.Default)) {
			col, ok := n.current[n.after(name, i+1, set)]
			if !ok || s.fill[col] != nil {
				continue
			}
			c := &cell{}
			if err := c.parse(n.schema[col].Kind, n.rules[col], u.Default[name]); err != nil {
				return nil, fmt.Errorf("source.event.upcast[%d].default.%s: %w", i, name, err)
			}
			s.fill[col] = c
		}
	}
	return s, nil
}

// times multiplies, and reports whether the product fits.
func times(v, by int64) (int64, bool) {
	if v == math.MinInt64 {
		return v, by == 1
	}
	u := uint64(v)
	if v < 0 {
		u = -u
	}
	hi, lo := bits.Mul64(u, uint64(by))
	switch {
	case hi != 0 || lo > 1<<63 || lo == 1<<63 && v > 0:
		return 0, false
	case v < 0:
		return int64(-lo), true
	}
	return int64(lo), true
}

// list writes names for people, in the given order.
func list(names []string) string {
	switch n := len(names); n {
	case 0:
		return "none"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}
