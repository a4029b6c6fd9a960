package arrayfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserveSpace asks the file system for n bytes ahead of writing them, so that a disk that is too small is found at the
// start. The file's size stays as it is. Only a lack of space is an error: not every file system can do this.
func reserveSpace(f *os.File, n int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, n)
	if err == unix.ENOSPC || err == unix.EDQUOT {
		return err
	}
	return nil
}

// sendToDisk has the system begin to bring a part of a file to the disk, and does not wait for it.
func sendToDisk(f *os.File, at, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), at, n, unix.SYNC_FILE_RANGE_WRITE)
}
