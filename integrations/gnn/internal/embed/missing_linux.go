package embed

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// missingStep is how many bytes missing asks for at a time.
const missingStep = 1 << 30

// missing returns how many bytes of a mapped file are not in the page cache, about.
func missing(b []byte) (bytes int64) {
	page := os.Getpagesize()
	there := make([]byte, min(len(b), missingStep)/page+2)
	for len(b) > 0 {
		n := min(len(b), missingStep)
		at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		skip := at % uintptr(page)
		pages := (int(skip) + n + page - 1) / page
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, at-skip, skip+uintptr(n),
			uintptr(unsafe.Pointer(unsafe.SliceData(there)))); errno != 0 {
			return bytes
		}
		for _, in := range there[:pages] {
			if in&1 == 0 {
				bytes += int64(page)
			}
		}
		b = b[n:]
	}
	return bytes
}
