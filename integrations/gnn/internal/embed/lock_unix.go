//go:build linux || darwin

package embed

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockWhole takes a file's exclusive lock, or fails at once. The system gives it back when the process ends.
func lockWhole(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
