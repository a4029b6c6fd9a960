//go:build unix

package pinned

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func sysMap(f *os.File, n int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
}

func sysUnmap(b []byte) error { return unix.Munmap(b) }

// sysAlloc returns the mapping and the part of it that is aligned (to HugePage if huge) and n bytes long. A small
// allocation on base pages is not padded.
func sysAlloc(n int, huge bool) (raw, data []byte, err error) {
	size := n
	if huge {
		size += HugePage
	}
	raw, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	data = raw
	if huge {
		skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & (HugePage - 1))
		data = raw[skip : skip+n : skip+n]
		adviseHuge(data)
	}
	return raw, data, nil
}

func sysFree(raw []byte) error { return unix.Munmap(raw) }
