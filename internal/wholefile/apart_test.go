package wholefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestATargetLiesApartFromWhatIsRead by whatever names and links.
func TestATargetLiesApartFromWhatIsRead(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"a/b/c", "other"} {
		expect.OK(t, os.MkdirAll(name, 0o700))
	}
	for _, name := range []string{"a/file", "a/b/file", "alone"} {
		expect.OK(t, os.WriteFile(name, []byte("x"), 0o600))
	}
	for name, to := range map[string]string{"link": "a", "other/deep": "../a/b/c", "dangling": "a/b/new",
		"linked": "a/b/file"} {
		expect.OK(t, os.Symlink(to, name))
	}
	for _, c := range []struct{ target, input, how string }{
		{"a", "a", "is"}, {"./a/", filepath.Join(dir, "a"), "is"}, {"link", "a", "is"}, {"a", "link", "is"},
		{"alone", "alone", "is"}, {"linked", "a/b/file", "is"}, {"a/../a", "a", "is"},
		{"a/new", "a", "lies in"}, {"a/b/c/new", "a", "lies in"}, {"link/b/new", "a", "lies in"},
		{"other/deep/new", "a/b", "lies in"}, {"dangling", "a", "lies in"}, {"a/new", "link", "lies in"},
		{"linked", "a", "lies in"}, {"new", ".", "lies in"},
		{"a", "a/b", "contains"}, {"link", "a/b/file", "contains"}, {"a/b", "linked", "contains"},
		{"a", "other/deep", "contains"}, {".", "alone", "contains"},
		{"new", "a", ""}, {"a/b/new", "a/b/c", ""}, {"a/c", "a/b", ""}, {"other", "a", ""}, {"ab", "a", ""},
		{"a/b/c", "a/file", ""}, {"other/deep", "other", ""}, {"missing/new", "a", ""}, {"a", "missing", ""},
		{"-", ".", ""}, {os.DevNull, "/", ""},
	} {
		err := Apart(c.target, "nowhere", c.input)
		expect.That(t, errors.Is(err, ErrInput) == (c.how != ""), "%s of %s: %v", c.target, c.input, err)
		expect.That(t, c.how == "" || strings.Contains(err.Error(), " it "+c.how+" "), "%s of %s: %v; want %s",
			c.target, c.input, err, c.how)
	}
}
