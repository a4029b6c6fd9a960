package diskio

import (
	"os"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// A file whose name was taken away can be used, and the folder is empty.
func TestAHiddenFileHasNoName(t *testing.T) {
	for name, create := range map[string]func(string) (*os.File, error){"without": createHidden, "taken": createNamed} {
		folder := t.TempDir()
		f, err := create(folder)
		if err != nil {
			t.Skip(err)
		}
		page := expect.Must(pinned.Allocate(1<<16, pinned.Options{}))(t)
		page.Bytes()[77] = 5
		n, err := f.WriteAt(page.Bytes(), 1<<16)
		expect.That(t, err == nil && n == 1<<16, "%s: %d bytes written: %v", name, n, err)
		clear(page.Bytes())
		_, err = f.ReadAt(page.Bytes(), 1<<16)
		expect.That(t, err == nil && page.Bytes()[77] == 5, "%s: %v", name, err)
		files, err := os.ReadDir(folder)
		expect.That(t, err == nil && len(files) <= 0, "%s: %v, %v", name, files, err)
		expect.OK(t, f.Close())
		expect.OK(t, page.Close())
		if f, err := create(folder + "/none"); err == nil {
			t.Errorf("%s: %v is there without its folder", name, f.Name())
		}
	}
}
