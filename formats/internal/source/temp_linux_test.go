package source

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// A process that is killed between two calls must leave nothing behind, so there is no call that makes a name.
func TestATemporaryFileHasANameAtNoMoment(t *testing.T) {
	dir := t.TempDir()
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err != nil {
		t.Logf("not seen: this file system has no files without a name: %v", err)
		return
	} else if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	calls := expect.FailingCall(t, dir, -1, nil, func() {
		f, path, err := TempFile(&Budget{Dir: dir})
		if err != nil || path != "" {
			t.Errorf("TempFile: %q, %v", path, err)
			return
		}
		defer f.Close()
		text := make([]byte, 5)
		if _, err := f.WriteString("edges"); err != nil {
			t.Error(err)
		}
		_, err = f.ReadAt(text, 0)
		expect.That(t, err == nil && string(text) == "edges", "it reads %q, %v", text, err)
	})
	for _, c := range calls {
		expect.That(t, c.Name != "unlinkat" && (c.Name != "openat" || c.Path == dir), "%s of %s: the file had a name",
			c.Name, c.Path)
	}
}

// Where there are no files without a name, the name is taken away at once, or told.
func TestATemporaryFileLosesItsName(t *testing.T) {
	dir := t.TempDir()
	expect.FailingCall(t, dir, 0, unix.EOPNOTSUPP, func() { // the call that makes a file without a name
		f, path, err := TempFile(&Budget{Dir: dir})
		if err != nil || path != "" {
			t.Errorf("TempFile: %q, %v", path, err)
			return
		}
		left, err := os.ReadDir(dir)
		expect.That(t, err == nil && len(left) == 0, "left behind: %v, %v", left, err)
		expect.OK(t, f.Close())
	})
}
