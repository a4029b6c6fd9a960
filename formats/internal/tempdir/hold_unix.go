//go:build linux || darwin

package tempdir

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// hold locks a folder: errTaken where another process has done so, or has removed it since; nil without an error where
// the file system has no locks.
func hold(path string) (*os.File, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, errTaken
	}
	if err != nil {
		return nil, err
	}
	is, err := f.Stat()
	if err == nil {
		switch e := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); e {
		case nil:
		case unix.EWOULDBLOCK:
			err = errTaken
		default:
			return nil, f.Close()
		}
	}
	if err == nil {
		if now, e := os.Lstat(path); e != nil || !os.SameFile(is, now) {
			err = errTaken
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes folders that nobody holds, as far as that is possible.
func sweep(parent, prefix string) {
	list, _ := os.ReadDir(parent)
	for _, e := range list {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		path := filepath.Join(parent, e.Name())
		if f, err := hold(path); err == nil && f != nil {
			_ = os.RemoveAll(path)
			_ = f.Close()
		}
	}
}
