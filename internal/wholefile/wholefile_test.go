package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestTheOldFileStaysWhereTheNewOneFails writes a file, then fails to replace it.
func TestTheOldFileStaysWhereTheNewOneFails(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "state")
	text := func(s string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, failed := io.WriteString(w, s)
			return errors.Join(failed, err)
		}
	}
	holds := func(want string) {
		t.Helper()
		got, err := os.ReadFile(name)
		expect.That(t, err == nil && string(got) == want, "the file holds %q, %v; want %q", got, err, want)
		files, err := os.ReadDir(folder)
		expect.That(t, err == nil && len(files) == 1, "the folder holds %v, %v; want one file", files, err)
	}
	expect.OK(t, Replace(name, 0o600, text("old", nil)))
	holds("old")
	broken := errors.New("broken")
	err := Replace(name, 0o600, text("half of the n", broken))
	expect.That(t, errors.Is(err, broken), "error %v, want %v", err, broken)
	holds("old")
	expect.OK(t, Replace(name, 0o600, text("new", nil)))
	holds("new")
	expect.That(t, Replace(filepath.Join(folder, "none", "state"), 0o600, text("x", nil)) != nil,
		"a file in a folder that is not there was written")
}
