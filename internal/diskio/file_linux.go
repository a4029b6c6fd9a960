package diskio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/pinned"
)

// goDirect reopens the file past the page cache and tries whether it can be read so.
func (f *File) goDirect() error {
	past, err := direct.Open(f.file)
	if err != nil {
		return fmt.Errorf("the file system refuses O_DIRECT: %w", unwrapped(err))
	}
	page, err := pinned.Allocate(1<<16, pinned.Options{})
	if err != nil {
		return err
	}
	defer page.Close()
	for _, f.page = range []int64{diskPage, 1 << 14, 1 << 16} {
		if _, err = unix.Pread(int(past.Fd()), page.Bytes()[:f.page], 0); err == nil {
			break
		}
	}
	if err != nil {
		f.page = diskPage
		_ = past.Close()
		return fmt.Errorf("the file system refuses to read with O_DIRECT: %w", err)
	}
	if _, err := unix.Pread(int(past.Fd()), page.Bytes()[:diskSector], diskSector); err == nil {
		f.sector = diskSector
	}
	_ = f.file.Close()
	f.file, f.direct = past, true
	return nil
}

// unwrapped returns the system's part of an error, without the path.
func unwrapped(err error) error {
	if p, ok := err.(*os.PathError); ok {
		return p.Err
	}
	return err
}

// createHidden creates a file on the disk of a folder, which is read and written past the page cache. No name leads to
// it, so the system removes it when the process ends, however that is.
func createHidden(folder string) (*os.File, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return nil, err
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return nil, errors.New("the folder is in memory")
	}
	fd, err := unix.Open(folder, unix.O_TMPFILE|hiddenFlags, 0o600)
	if err != nil {
		return createNamed(folder)
	}
	return os.NewFile(uintptr(fd), filepath.Join(folder, "(packed rows)")), nil
}

const hiddenFlags = unix.O_RDWR | unix.O_DIRECT | unix.O_CLOEXEC

// createNamed is createHidden where the file system has no files without names: it takes the name away at once.
func createNamed(folder string) (*os.File, error) {
	named, err := os.CreateTemp(folder, ".khop-pack-*")
	if err != nil {
		return nil, unwrapped(err)
	}
	defer named.Close()
	hidden, err := os.OpenFile(named.Name(), hiddenFlags, 0)
	return hidden, errors.Join(err, os.Remove(named.Name()))
}
