package edgesort

import (
	"os"

	"golang.org/x/sys/unix"
)

// readAhead asks the system to read a part of a file, and does not wait for it.
func readAhead(f *os.File, at, n int64) { _ = unix.Fadvise(int(f.Fd()), at, n, unix.FADV_WILLNEED) }
