package pinned

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// adviseHuge asks for transparent huge pages. Kernels without them refuse; the memory is as good on base pages.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

// preferNode asks that pages of b which are not taken yet lie on a NUMA node while it has room. b begins on a page.
// Kernels without NUMA refuse.
func preferNode(b []byte, node int) error {
	const preferred = 1 // MPOL_PREFERRED
	var mask [16]uint64
	if node < 0 || node >= 64*len(mask) || len(b) == 0 {
		return unix.EINVAL
	}
	mask[node/64] = 1 << (node % 64)
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		preferred,
		uintptr(unsafe.Pointer(&mask)), uintptr(64*len(mask)), 0)
	runtime.KeepAlive(b)
	if errno != 0 {
		return errno
	}
	return nil
}
