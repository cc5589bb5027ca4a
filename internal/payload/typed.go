package payload

import (
	"fmt"
	"slices"

	"hindcast/internal/record"
	"hindcast/internal/spec"
)

// Source says where one column of an event comes from, of events whose fields are columns of a file.
type Source struct {
	// Name is that of the file's column. Where it is empty the file has none, and Fill is what all of its events have; nil: null.
	Name string
	Fill *Value
	// Factor is what an upcast multiplies the column by; 1 for none.
	Factor int64
}

// Value is one that a column has in every row.
type Value struct{ cell cell }

// Repeat returns a column of n rows that have the value.
func (v *Value) Repeat(kind record.Kind, n int) record.Column {
	c := record.Column{Kind: kind}
	if v == nil {
		c.Nulls = record.NewBitmap(n)
		for i := range c.Nulls {
			c.Nulls[i] = ^uint64(0)
		}
		v = &Value{}
	}
	switch kind {
	case record.String:
		c.Strings = record.Strings{Codes: make([]uint32, n), Offsets: []uint32{0, uint32(len(v.cell.text))}, Data: v.cell.text}
	case record.Float64:
		c.Float64s = slices.Repeat([]float64{v.cell.float}, n)
	default:
		c.Int64s = slices.Repeat([]int64{v.cell.num}, n)
	}
	return c
}

// Versions says which versions the events of a file may have. The zero value is of a file without a column for them.
type Versions struct {
	Column  bool // there is one
	Bounded bool // Min and Max are the least and greatest there
	Min     int64
	Max     int64
	Null    bool // some may have none
}

// By is the column that has an event's version; empty where upcasts do not depend on one.
func (n *Names) By() string { return n.by }

// Known reports whether something is looked for under a name in events of any age.
func (n *Names) Known(name string) bool { return slices.Contains(n.wanted(), name) }

// Rule is that of a column, and its zone where it has one.
func (n *Names) Rule(column int) (spec.Column, *Zone) {
	return n.rules[column].Column, n.rules[column].zone
}

// Typed says where each column comes from of events that lie in the given columns of a file. The error is about the column of the event that it names, and says
// why there is no one place for it.
func (n *Names) Typed(has []string, v Versions) (sources []Source, column string, err error) {
	var of uint64
	for i, set := range n.sets(v) {
		s := n.shapes[set]
		next := make([]Source, len(n.schema))
		for col := range next {
			next[col].Factor = 1
			for _, name := range has {
				if to, ok := s.column[name]; !ok || to != col {
					continue
				}
				if next[col].Name != "" {
					return nil, n.schema[col].Name, fmt.Errorf("the file has it twice, as %s and %s: an event has one", next[col].Name, name)
				}
				next[col].Name, next[col].Factor = name, s.factor[col]
			}
			if next[col].Name == "" && s.fill[col] != nil {
				next[col].Fill = &Value{*s.fill[col]}
			}
		}
		if i == 0 {
			sources, of = next, set
			continue
		}
		for col := range next {
			if next[col].Name != sources[col].Name || next[col].Factor != sources[col].Factor || n.shapes[of].fill[col] != s.fill[col] && next[col].Name == "" {
				return nil, n.schema[col].Name, fmt.Errorf("events of the file may be of several versions (column %s: %s), which upcasts read differently; "+
					"typed columns are upcast only where all events of a file are on the same side", n.by, v)
			}
		}
	}
	return sources, "", nil
}

func (v Versions) String() string {
	switch {
	case !v.Bounded:
		return "its footer does not prove which"
	case v.Null:
		return fmt.Sprintf("%d to %d, or none", v.Min, v.Max)
	}
	return fmt.Sprintf("%d to %d", v.Min, v.Max)
}

// sets are those of the upcasts that apply to some event of a file.
func (n *Names) sets(v Versions) []uint64 {
	if n.by == "" || !v.Column {
		return []uint64{n.set(0, false)}
	}
	var out []uint64
	add := func(set uint64) {
		if !slices.Contains(out, set) {
			out = append(out, set)
		}
	}
	if v.Null {
		add(n.set(0, false))
	}
	if !v.Bounded {
		for _, set := range n.ages() {
			add(set)
		}
		return out
	}
	add(n.set(v.Min, true))
	add(n.set(v.Max, true))
	for _, u := range n.upcasts {
		if u.By != "" && u.Below > v.Min && u.Below <= v.Max {
			add(n.set(u.Below, true))
		}
	}
	return out
}

// Multiply multiplies by a factor, and reports whether the product fits.
func Multiply(v, by int64) (int64, bool) { return times(v, by) }

// FromUnit makes microseconds of an integer that counts something else since 1970, and reports whether they fit.
func FromUnit(v int64, unit spec.TimeUnit) (int64, bool) { return fromUnit(v, unit) }
