package plan

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Range is a half-open range of offsets: [First, Next).
type Range struct{ First, Next int64 }

// Len returns how many offsets r has.
func (r Range) Len() int64 { return max(0, r.Next-r.First) }

// Empty reports whether r has no offset.
func (r Range) Empty() bool { return r.Next <= r.First }

// Contains reports whether offset o lies in r.
func (r Range) Contains(o int64) bool { return r.First <= o && o < r.Next }

// Clip returns what r and c share; it may be empty.
func (r Range) Clip(c Range) Range { return Range{max(r.First, c.First), min(r.Next, c.Next)} }

// String writes r as "12-40": first offset, and the one after the last. Where the end is not known: "12-".
func (r Range) String() string {
	if r.Next == openEnd {
		return fmt.Sprintf("%d-", r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Next)
}

// MarshalText writes r as String does.
func (r Range) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (r *Range) UnmarshalText(b []byte) error {
	v, err := ParseRange(string(b))
	if err != nil {
		return err
	}
	*r = v
	return nil
}

// ParseRange reads "12-40", or "12-" without an end. Offsets are not negative, and the second is greater than the first.
func ParseRange(s string) (Range, error) {
	a, b, ok := strings.Cut(s, "-")
	first, err1 := strconv.ParseUint(a, 10, 63)
	next, err2 := uint64(openEnd), error(nil)
	if b != "" {
		next, err2 = strconv.ParseUint(b, 10, 63)
	}
	if !ok || err1 != nil || err2 != nil || next <= first {
		return Range{}, fmt.Errorf("%q is not a range of offsets: write FIRST-NEXT, as 12-40 for the offsets 12 to 39", s)
	}
	return Range{int64(first), int64(next)}, nil
}

// Ranges is a set of offsets: sorted, not empty, neither overlapping nor
// adjacent. Its methods do not change it; results may share its memory.
type Ranges []Range

// RangesOf returns the set of the offsets of rs, which may be in any order, overlap and be empty.
func RangesOf(rs ...Range) Ranges {
	rs = slices.Clone(rs)
	slices.SortFunc(rs, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	var out Ranges
	for _, r := range rs {
		out = out.add(r)
	}
	return out
}

// add appends a range that does not begin before the last one does.
func (rs Ranges) add(r Range) Ranges {
	if r.Empty() {
		return rs
	}
	if n := len(rs); n > 0 && r.First <= rs[n-1].Next {
		rs[n-1].Next = max(rs[n-1].Next, r.Next)
		return rs
	}
	return append(rs, r)
}

// Len returns how many offsets rs has.
func (rs Ranges) Len() int64 {
	var n int64
	for _, r := range rs {
		n += r.Len()
	}
	return n
}

// Hull returns the range from the first to the last offset; it is empty for the empty set.
func (rs Ranges) Hull() Range {
	if len(rs) == 0 {
		return Range{}
	}
	return Range{rs[0].First, rs[len(rs)-1].Next}
}

// Contains reports whether offset o lies in rs.
func (rs Ranges) Contains(o int64) bool {
	i := rs.search(o)
	return i < len(rs) && rs[i].First <= o
}

// search returns the index of the first range that ends after o.
func (rs Ranges) search(o int64) int {
	return sort.Search(len(rs), func(i int) bool { return rs[i].Next > o })
}

// ContainsAll reports whether every offset of o lies in rs.
func (rs Ranges) ContainsAll(o Ranges) bool { return len(o.Minus(rs)) == 0 }

// within returns the indexes of the ranges that have offsets in c: rs[lo:hi].
func (rs Ranges) within(c Range) (lo, hi int) {
	lo = rs.search(c.First)
	return lo, lo + sort.Search(len(rs)-lo, func(i int) bool { return rs[lo+i].First >= c.Next })
}

// Clip returns the offsets of rs that lie in c.
func (rs Ranges) Clip(c Range) Ranges {
	if c.Empty() {
		return nil
	}
	lo, hi := rs.within(c)
	if lo == hi {
		return nil
	}
	if rs[lo].First >= c.First && rs[hi-1].Next <= c.Next {
		return rs[lo:hi:hi]
	}
	out := slices.Clone(rs[lo:hi])
	out[0] = out[0].Clip(c)
	out[len(out)-1] = out[len(out)-1].Clip(c)
	return out
}

// count returns how many offsets of rs lie in c.
func (rs Ranges) count(c Range) int64 {
	lo, hi := rs.within(c)
	var n int64
	for _, r := range rs[lo:hi] {
		n += r.Clip(c).Len()
	}
	return n
}

// Union returns the offsets of either.
func (rs Ranges) Union(o Ranges) Ranges {
	if len(rs) == 0 {
		return o
	}
	if len(o) == 0 {
		return rs
	}
	out := make(Ranges, 0, len(rs)+len(o))
	for len(rs) > 0 || len(o) > 0 {
		if len(o) == 0 || len(rs) > 0 && rs[0].First <= o[0].First {
			out, rs = out.add(rs[0]), rs[1:]
		} else {
			out, o = out.add(o[0]), o[1:]
		}
	}
	return out
}

// Intersect returns the offsets of both.
func (rs Ranges) Intersect(o Ranges) Ranges {
	var out Ranges
	for len(rs) > 0 && len(o) > 0 {
		out = out.add(rs[0].Clip(o[0]))
		if rs[0].Next < o[0].Next {
			rs = rs[1:]
		} else {
			o = o[1:]
		}
	}
	return out
}

// Minus returns the offsets of rs that are not in o.
func (rs Ranges) Minus(o Ranges) Ranges {
	var out Ranges
	for _, r := range rs {
		for len(o) > 0 && o[0].Next <= r.First {
			o = o[1:]
		}
		for i := 0; i < len(o) && o[i].First < r.Next; i++ {
			out = out.add(Range{r.First, o[i].First})
			r.First = max(r.First, o[i].Next)
		}
		out = out.add(r)
	}
	return out
}

// All yields the offsets in ascending order.
func (rs Ranges) All() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, r := range rs {
			for o := r.First; o < r.Next; o++ {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// String writes rs as "0-12,40-41".
func (rs Ranges) String() string {
	parts := make([]string, len(rs))
	for i, r := range rs {
		parts[i] = r.String()
	}
	return strings.Join(parts, ",")
}
