package source

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// drop takes a file out of the page cache.
func drop(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close()); err != nil {
		t.Fatal(err)
	}
}
