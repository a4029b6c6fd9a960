package gpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// takePages maps anonymous memory on pages of the size asked for.
func takePages(n int64, pages string) (b []byte, free func() error, err error) {
	advice, known := map[string]int{"small": unix.MADV_NOHUGEPAGE, "huge": unix.MADV_HUGEPAGE}[pages]
	if !known {
		return nil, nil, fmt.Errorf("-pages %q: must be small or huge", pages)
	}
	b, err = unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil, fmt.Errorf("map %d bytes: %w", n, err)
	}
	free = func() error { return unix.Munmap(b) }
	if err := unix.Madvise(b, advice); err != nil {
		free()
		return nil, nil, fmt.Errorf("ask for %s pages: %w", pages, err)
	}
	return b, free, nil
}
