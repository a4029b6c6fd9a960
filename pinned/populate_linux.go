package pinned

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Populate reads the pages that b touches, in order, and enters them in the page table, so that the first random read of each
// costs no fault. b may be part of a mapped file; nothing is written. errors.ErrUnsupported where the system cannot (Linux can
// from 5.14 on), ErrFault where a file was cut short.
func Populate(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	before := uintptr(p) % uintptr(os.Getpagesize())
	pages := unsafe.Slice((*byte)(unsafe.Add(p, -int(before))), len(b)+int(before))
	err := unix.Madvise(pages, unix.MADV_POPULATE_READ)
	switch {
	case errors.Is(err, unix.EINVAL):
		return errors.ErrUnsupported
	case errors.Is(err, unix.EFAULT):
		return ErrFault
	}
	return err
}
