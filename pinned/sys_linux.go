package pinned

import "golang.org/x/sys/unix"

// adviseHuge asks for transparent huge pages. Kernels without them refuse; the memory is as good on base pages.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
