package direct

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Set has the transfers of an open file go past the page cache, or through it again.
func Set(f *os.File, on bool) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		if flags &^= unix.O_DIRECT; on {
			flags |= unix.O_DIRECT
		}
		if err == nil {
			_, err = unix.FcntlInt(fd, unix.F_SETFL, flags)
		}
		failed = err
	})
	return errors.Join(err, failed)
}

// Open opens a file once more for reading, past the page cache.
func Open(f *os.File) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY|unix.O_DIRECT, 0)
}

// Refused reports whether the error of a transfer says that it cannot go past the page cache.
func Refused(err error) bool { return errors.Is(err, unix.EINVAL) }

// Cached reports about which share of a file is in the page cache, by some of its pages.
func Cached(f *os.File, size int64) float64 {
	const samples = 61 // not where others look, too
	hits, b := 0, make([]byte, 1)
	for i := range int64(samples) {
		if n, _ := unix.Preadv2(int(f.Fd()), [][]byte{b}, size/samples*i, unix.RWF_NOWAIT); n == 1 {
			hits++
		}
	}
	return float64(hits) / samples
}

// toDisk has the system bring a part of a file to the disk, and may wait until it is there.
func toDisk(f *os.File, b bound, wait bool) {
	flags := unix.SYNC_FILE_RANGE_WRITE
	if wait {
		flags |= unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	}
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SyncFileRange(int(fd), b.from, b.to-b.from, flags) })
	}
}
