package prefetch

import (
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/internal/expect"
	"golang.org/x/sys/unix"
)

// TestNothingBesideTheIDsIsRead puts the ids at the very end of a mapping, before a page that may not be read.
func TestNothingBesideTheIDsIsRead(t *testing.T) {
	page := unix.Getpagesize()
	m := expect.Must(unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE))(t)
	defer unix.Munmap(m)
	expect.OK(t, unix.Mprotect(m[page:], unix.PROT_NONE))
	end := unsafe.Pointer(unsafe.SliceData(m[page:]))
	for n := range 19 {
		ids64 := unsafe.Slice((*int64)(unsafe.Add(end, -8*n)), n)
		ids32 := unsafe.Slice((*int32)(unsafe.Add(end, -4*n)), n)
		for _, c := range calls {
			c.call(nil, ids32, ids64)
		}
	}
}
