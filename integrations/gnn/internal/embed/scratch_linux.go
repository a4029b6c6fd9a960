package embed

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve makes a file n bytes long, for which the disk has room.
func reserve(f *os.File, n int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(n)
	}
	return err
}
