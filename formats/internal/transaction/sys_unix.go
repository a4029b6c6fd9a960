//go:build linux || darwin

package transaction

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenNonblock keeps an open from waiting for the other end of a pipe that someone has put in a file's place.
const OpenNonblock = unix.O_NONBLOCK

// closeBeforeRemove says that open files cannot be removed.
const closeBeforeRemove = false

// lockFile takes the file's exclusive lock, or fails at once. The system gives it back when the process ends.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// FreeSpace returns the bytes that this user can still write to the file system of a directory.
func FreeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// syncDir makes the names in a directory durable.
func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
