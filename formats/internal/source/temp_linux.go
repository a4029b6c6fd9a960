package source

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// createHidden creates a file that has a name at no moment, so that no kill leaves one behind; nil where the file
// system has no such files.
func createHidden(folder string) *os.File {
	fd, err := unix.Open(folder, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), filepath.Join(folder, "(temporary file)"))
}
