package source

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// drop takes a file out of the page cache.
func drop(t *testing.T, path string) {
	t.Helper()
	f := expect.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	expect.OK(t, errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close()))
}
