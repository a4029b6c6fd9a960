package transaction

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const (
	OpenNonblock      = 0
	closeBeforeRemove = true
)

func lockFile(f *os.File) error {
	// The lock is on a byte far beyond the text, which other processes may then still read.
	o := windows.Overlapped{OffsetHigh: 0x7FFFFFFF}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &o)
}

// FreeSpace returns the bytes that this user can still write to the file system of a directory.
func FreeSpace(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(free), nil
}

func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

func syncDir(*os.Root, string) error { return nil } // the system has no such call
