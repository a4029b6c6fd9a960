package disk

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/pinned"
)

// goDirect reopens the file past the page cache and tries whether it can be read so.
func (f *File) goDirect() error {
	direct, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.file.Fd()), os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return fmt.Errorf("the file system refuses O_DIRECT: %w", unwrapped(err))
	}
	page, err := pinned.Allocate(1<<16, pinned.Options{})
	if err != nil {
		return err
	}
	defer page.Close()
	for _, f.page = range []int64{diskPage, 1 << 14, 1 << 16} {
		if _, err = unix.Pread(int(direct.Fd()), page.Bytes()[:f.page], 0); err == nil {
			break
		}
	}
	if err != nil {
		f.page = diskPage
		_ = direct.Close()
		return fmt.Errorf("the file system refuses to read with O_DIRECT: %w", err)
	}
	if _, err := unix.Pread(int(direct.Fd()), page.Bytes()[:diskSector], diskSector); err == nil {
		f.sector = diskSector
	}
	_ = f.file.Close()
	f.file, f.direct = direct, true
	return nil
}

// unwrapped returns the system's part of an error, without the path.
func unwrapped(err error) error {
	if p, ok := err.(*os.PathError); ok {
		return p.Err
	}
	return err
}
