package job

import (
	"cmp"
	"strings"
)

// Set is private state that remembers distinct values, as for a count of distinct invoices. Its zero value is empty.
type Set[T cmp.Ordered] map[T]struct{}

// Add puts v in the set.
func (s *Set[T]) Add(v T) {
	if _, ok := (*s)[v]; ok {
		return
	}
	if *s == nil {
		*s = Set[T]{}
	}
	// A string of an event is part of a larger one, which the set must not keep in memory.
	if str, ok := any(v).(string); ok {
		v = any(strings.Clone(str)).(T)
	}
	(*s)[v] = struct{}{}
}

// AddAll puts all of o in the set: how two parts of a state are merged.
func (s *Set[T]) AddAll(o Set[T]) {
	for v := range o {
		s.Add(v)
	}
}

// Has reports whether v is in the set.
func (s Set[T]) Has(v T) bool {
	_, ok := s[v]
	return ok
}

// Len returns the number of values.
func (s Set[T]) Len() int64 { return int64(len(s)) }
