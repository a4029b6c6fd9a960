// Package wholefile replaces a file so that whoever reads it finds the old one or the new one, whole.
package wholefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Replace makes the file of that name what write writes, with these permissions. It writes beside the file, syncs, and
// moves the new one into place; the name outlives the machine's end too. On an error the old file, or none, is there. A
// process that is killed may leave a file ".NAME.*.new".
func Replace(name string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.new")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // it may be closed already
			_ = os.Remove(f.Name())
		}
	}()
	if err := errors.Join(write(f), f.Chmod(mode), f.Sync()); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(name))
}

// syncFolder makes the names in a folder durable, where the system can and this user may read it.
func syncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil // the system has no such call
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
