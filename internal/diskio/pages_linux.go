package diskio

import (
	"os"

	"golang.org/x/sys/unix"
)

// readAtRandom keeps the system from reading more of a file than it is asked for.
func readAtRandom(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) }
