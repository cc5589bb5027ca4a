package job

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestKeysAreSortedBySlotAndThenByTheirBytes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for name, key := range map[string]func(i int) []byte{
		"none":            nil,
		"numbers":         func(i int) []byte { return appendOrdered(nil, int64(i*7919%1000-500)) },
		"one beginning":   func(int) []byte { return fmt.Appendf(nil, "account-%06d", rnd.IntN(1e6)) },
		"long beginnings": func(int) []byte { return fmt.Appendf(nil, "%d-the same for many-%d", rnd.IntN(3), rnd.IntN(1e6)) },
		"zeros and ends": func(int) []byte {
			b := make([]byte, rnd.IntN(14))
			for i := range b {
				b[i] = byte(rnd.IntN(2) * 255)
			}
			return b
		},
	} {
		for _, slots := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s in %d slots", name, slots), func(t *testing.T) {
				s := newKeys(false, false)
				for i := range 1000 {
					if key == nil {
						break
					}
					k, slot := key(i), int32(rnd.IntN(slots))
					if h := s.hash(slot, k); s.find(slot, k, h) == none {
						s.add(h, slot, k)
					}
				}
				got := s.sorted()
				if got == nil {
					t.Fatal("the order is nil, which says that draining has not begun")
				}
				seen := map[uint32]bool{}
				for _, o := range got {
					if seen[o.id] = true; o.slot != s.entries[o.id].slot {
						t.Errorf("key %q is said to be in slot %d, and is in %d", s.key(o.id), o.slot, s.entries[o.id].slot)
					}
				}
				if len(got) != len(s.entries) || len(seen) != len(got) {
					t.Errorf("of %d keys %d were sorted, %d of them different", len(s.entries), len(got), len(seen))
				}
				if !slices.IsSortedFunc(got, func(a, b sorted) int {
					return cmp.Or(cmp.Compare(a.slot, b.slot), bytes.Compare(s.key(a.id), s.key(b.id)))
				}) {
					t.Error("the order is not that of slots and keys")
				}
			})
		}
	}
}
