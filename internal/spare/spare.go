// Package spare passes large buffers that one reader is done with on to the next. Fresh memory is dear: the kernel clears it, and the machine below, which
// functions run on, has to find it first. What nobody takes is the collector's.
package spare

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// least is the size, in bytes, that buffers are passed on from: what is smaller is cheap to make.
const least = 64 << 10

// pools are of buffers of four sizes between a power of two and the next, in ascending order: each of *[]byte.
var pools [4 * bits.UintSize]sync.Pool

// class returns the least class of sizes that holds size bytes, and its size.
func class(size int) (n, of int) {
	shift := bits.Len(uint(size-1)) - 3 //nolint:gosec // it is positive
	of = (size + 1<<shift - 1) >> shift << shift
	return 4*shift + of>>shift - 5, of
}

// Get returns an empty buffer that has room for size bytes at least. Behind its length may lie what others left there.
func Get(size int) []byte {
	if size < least {
		return make([]byte, 0, size)
	}
	n, of := class(size)
	if b, ok := pools[n].Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 0, of)
}

// Put passes a buffer of [Get] on. The caller must not use it any more, nor any part of it.
func Put(b []byte) {
	if spoils.Load() {
		b = b[:cap(b)]
		for i := range b {
			b[i] = spoilt
		}
	}
	if cap(b) < least {
		return
	}
	if n, of := class(cap(b)); of == cap(b) { // all of Get's are
		b = b[:0]
		pools[n].Put(&b)
	}
}

const spoilt = 0xA5

var spoils atomic.Bool

// Spoil has [Put] overwrite buffers from now on. So tests see what goes on using them.
func Spoil() { spoils.Store(true) }
