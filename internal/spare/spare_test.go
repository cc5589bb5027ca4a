package spare

import "testing"

func TestClass(t *testing.T) {
	t.Parallel()
	last, size := -1, 0
	for want := least; want < 1<<32; want += want/64 + 1 {
		n, of := class(want)
		if of < want || of > want+want/4 {
			t.Fatalf("a buffer of %d bytes is made for %d", of, want)
		}
		if m, again := class(of); m != n || again != of {
			t.Fatalf("size %d is of class %d (%d bytes), but its buffers, of %d, of class %d (%d)", want, n, of, of, m, again)
		}
		if n < last || (n == last) != (of == size) {
			t.Fatalf("class %d (%d bytes) follows class %d (%d bytes)", n, of, last, size)
		}
		last, size = n, of
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, least - 1, least, least + 1, 3 << 20} {
		for range 3 {
			b := Get(size)
			if len(b) != 0 || cap(b) < size {
				t.Fatalf("a buffer for %d bytes has length %d and capacity %d", size, len(b), cap(b))
			}
			Put(b[:cap(b)])
		}
	}
	Put(nil)
	Put(make([]byte, 0, least+1)) // not of Get: no class has that size
	if b := Get(least + 1); cap(b) == least+1 {
		t.Error("a buffer that is of no class is passed on")
	}
}

func TestSpoil(t *testing.T) {
	Spoil()
	defer spoils.Store(false)
	for _, size := range []int{1, least, least + 1} { // neither the first nor the last is passed on
		b := make([]byte, size)
		Put(b[:1])
		for i := range b {
			if b[i] != spoilt {
				t.Fatalf("byte %d of %d is still there", i, size)
			}
		}
	}
}
