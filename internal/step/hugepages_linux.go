package step

import (
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// hugeHeap is how many bytes of the heap lie in huge pages, where the kernel has some. It costs address space only, until it is used.
const hugeHeap = 512 << 20

// hugePages asks the kernel, once, for huge pages for the heap of this process: what workers hold is large and looked up at random, and faults and address
// translation were a tenth of what they do. The runtime has no way to ask for them. But it hands out freed memory again, lowest address first, and the kernel
// remembers what was asked of a range when its pages were given back. Without huge pages all goes on as it did.
var hugePages = sync.OnceFunc(func() {
	var b strings.Builder // unlike make, it does not clear what it grows by, which would use it
	b.Grow(hugeHeap)
	b.WriteByte(0)
	_ = syscall.Madvise(unsafe.Slice(unsafe.StringData(b.String()), hugeHeap), syscall.MADV_HUGEPAGE) // a hint
	runtime.KeepAlive(&b)
	b.Reset()
	runtime.GC()
})
