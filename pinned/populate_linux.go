package pinned

import (
	"errors"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Populate reads the pages that b touches, in order, and enters them in the page table, so that the first random read
// of each costs no fault. b may be part of a mapped file; nothing is written. errors.ErrUnsupported where the system
// cannot (Linux can from 5.14 on), ErrFault where a file was cut short.
func Populate(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	// By number, since the page may begin before the object that b is part of, where b is Go memory.
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	before := p % uintptr(os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, p-before, uintptr(len(b))+before, unix.MADV_POPULATE_READ)
	runtime.KeepAlive(b)
	switch {
	case errno == 0:
		return nil
	case errno == unix.EINVAL:
		return errors.ErrUnsupported
	case errno == unix.EFAULT:
		return ErrFault
	}
	return errno
}
