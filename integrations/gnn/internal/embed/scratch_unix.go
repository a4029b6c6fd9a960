//go:build linux || darwin

package embed

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// scratch returns n bytes, which are zero, of a file in a folder that has no name and goes with this process. The
// system writes them to the disk where memory is short. free gives them back.
func scratch(folder string, n int64) (b []byte, free func() error, err error) {
	f, err := os.CreateTemp(folder, scratchName)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := errors.Join(os.Remove(f.Name()), reserve(f, n)); err != nil {
		return nil, nil, writeError(f.Name(), err)
	}
	if b, err = unix.Mmap(int(f.Fd()), 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, nil, err
	}
	return b, func() error { return unix.Munmap(b) }, nil
}
