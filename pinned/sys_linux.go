package pinned

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
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

// populate asks for huge pages first: what is read from the disk after that lies on such pages, and is entered so.
func populate(b []byte) error {
	ReadOnHugePages(b)
	switch errno := advise(b, unix.MADV_POPULATE_READ); {
	case errno == 0:
		return nil
	case errno == unix.EINVAL:
		return errors.ErrUnsupported
	case errno == unix.EFAULT:
		return cmp.Or(touchAll(b), ErrFault)
	default:
		return errno
	}
}

// advise advises the system about the pages that b touches.
func advise(b []byte, advice uintptr) unix.Errno {
	// The address is a number: the page may begin before the Go object that b is part of.
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	before := p % uintptr(os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, p-before, uintptr(len(b))+before, advice)
	runtime.KeepAlive(b)
	return errno
}

const (
	soon        = unix.MADV_WILLNEED
	atRandom    = unix.MADV_RANDOM
	inOrder     = unix.MADV_NORMAL
	onHugePages = unix.MADV_HUGEPAGE
)

// hint tells the system how the pages that b touches will be read.
func hint(b []byte, advice uintptr) {
	if len(b) > 0 {
		_ = advise(b, advice)
	}
}

// fileSystem returns "tmpfs" or "hugetlbfs" if the file, named as in /proc/self/maps, lies there, else nothing.
func fileSystem(path string) string {
	switch { // of no file system that a path leads to
	case strings.HasPrefix(path, "/memfd:"), strings.HasPrefix(path, "/dev/zero"), strings.HasPrefix(path, "/SYSV"):
		return "tmpfs"
	case strings.HasPrefix(path, "/anon_hugepage"):
		return "hugetlbfs"
	}
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return ""
	}
	switch uint32(s.Type) {
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.HUGETLBFS_MAGIC:
		return "hugetlbfs"
	}
	return ""
}

// mapWritable maps again what m describes, shared, for reading and writing. Nothing writes there: it is how pages of
// tmpfs and hugetlbfs can be pinned.
func mapWritable(m memory) ([]byte, error) {
	f, err := os.OpenFile(m.path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("it cannot be mapped for writing: %w", err)
	}
	defer f.Close()
	if err := m.isOf(f); err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), m.offset, int(m.hi-m.lo), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// isOf returns an error unless f is the file that m is mapped from.
func (m *memory) isOf(f *os.File) error {
	var now unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &now); err != nil {
		return err
	}
	if (fileID{unix.Major(uint64(now.Dev)), unix.Minor(uint64(now.Dev)), now.Ino}) != m.file {
		return fmt.Errorf("%s is another file now than the one that is mapped", m.path)
	}
	return nil
}
