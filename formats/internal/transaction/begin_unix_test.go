//go:build unix

package transaction

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// plain are directories that "whole" makes complete, of files whose names end in .arrow.
var plain = &Kind{
	Manifest: "whole",
	Makes:    func(name string) bool { return strings.HasSuffix(name, ".arrow") && !strings.Contains(name, "..") },
	Inspect:  func(string, *os.Root) (int64, []string, error) { return 1, nil, nil },
	Verify:   func(string, *os.Root, string) error { return nil },
	Error: func(path, remedy string, err error) error {
		if remedy != "" {
			remedy = "; " + remedy
		}
		return fmt.Errorf("%s: %w%s", path, err, remedy)
	},
	Exchange: Exchange, Link: os.Link,
}

// TestRoomIsComparedToTheByte: the bytes needed with those that are free and will be.
func TestRoomIsComparedToTheByte(t *testing.T) {
	dir := t.TempDir()
	free := expect.Must(FreeSpace(dir))(t)
	var st syscall.Statfs_t
	expect.OK(t, syscall.Statfs(dir, &st))
	now := int64(st.Bavail) * int64(st.Bsize)
	expect.That(t, free >= now/2 && free <= 2*now, "%d bytes are free, not %d", free, now)
	const far = 1 << 60
	for _, c := range []struct {
		need, freed int64
		want        bool
	}{{0, 0, true}, {-1, -far, true}, {far, far, true}, {far, far - 1<<59, false}, {1, -far, false}, {1, 0, true}} {
		err := plain.checkSpace(dir, c.need, c.freed)
		expect.That(t, (err == nil) == c.want && (err == nil || errors.Is(err, ErrSpace)),
			"%d are needed, %d become free: %v", c.need, c.freed, err)
	}
	expect.Is(t, plain.checkSpace(filepath.Join(dir, "none"), far, 0), nil, "what is free is not known")
	err := plain.checkSpace(dir, far, -free)
	want := ": not enough disk space: 1,152,921,504,606,846,976 bytes (1.0 EiB) are needed, "
	expect.That(t, err != nil && strings.HasPrefix(err.Error(), dir+want) && strings.HasSuffix(err.Error(),
		" are free; make room, or choose another disk"), "%v", err)
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		err := plain.WriteError(filepath.Join(dir, "x"), full, 0)
		expect.That(t, errors.Is(err, ErrSpace) && strings.HasPrefix(err.Error(), dir+"/x: not enough disk space: ") &&
			!strings.Contains(err.Error(), "for this file alone"), "%v", err)
	}
	err = plain.WriteError("x", syscall.EIO, 5)
	expect.That(t, err.Error() == "x: input/output error", "%v", err)
}

// A full disk is reported with the bytes needed and free, exactly and as people read them.
func TestAFullDiskIsToldInBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.arrow")
	of := `[0-9,]+ bytes \([0-9.]+ [KMGT]?i?B\)`
	for need, want := range map[int64]string{
		0: `: not enough disk space: ` + of + ` are free: no space left on device; make room, or choose another disk$`,
		2048: `: not enough disk space: 2,048 bytes \(2.0 KiB\) more are needed for this file alone, ` + of +
			` are free: no space left on device; make room, or choose another disk$`,
	} {
		err := plain.WriteError(path, syscall.ENOSPC, need)
		expect.That(t, errors.Is(err, ErrSpace) && errors.Is(err, syscall.ENOSPC) &&
			regexp.MustCompile(want).MatchString(err.Error()), "%v, not %s", err, want)
	}
}

// TestAnOldDirectoryThatCannotBePutBackIsNamed: its parent is not there, when a dead writer had set it aside.
func TestAnOldDirectoryThatCannotBePutBackIsNamed(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "x"+WorkSuffix, workOld)
	expect.OK(t, errors.Join(os.MkdirAll(old, 0o777), os.WriteFile(filepath.Join(old, "whole"), nil, 0o666)))
	m := expect.Must(plain.lockMarker(filepath.Dir(old)))(t)
	defer func() { _ = m.release() }()
	beside := filepath.Join(dir, "none", "x")
	err := m.tidy(beside)
	expect.That(t, errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(err.Error(), beside+": rename "), "%v", err)
	_, err = os.Stat(filepath.Join(old, "whole"))
	expect.That(t, err == nil, "%v", err)
}

// TestAMarkerNamesOnlyWhatAWriterMakes: nothing else is ever removed.
func TestAMarkerNamesOnlyWhatAWriterMakes(t *testing.T) {
	for name, want := range map[string][2]bool{"graph/x.arrow": {true, true}, "graph": {false, true},
		".": {false, true}, "whole": {false, true}, "whole.tmp": {true, true}, "new": {false, true},
		"new/whole": {true, true}, "old/.khop-incomplete": {true, true}, "next/whole": {false, true},
		"new/graph": {false, true}, "new/new/x.arrow": {true, true}, "new/..": {false, false}, "..": {false, false},
		"new/whole.tmp": {true, true}, "a/../x.arrow": {false, false}} {
		if file, dir := plain.mayNameFile(name), plain.mayNameDir(name); file != want[0] || dir != want[1] {
			t.Errorf("a writer makes a file %q: %t; a directory: %t", name, file, dir)
		}
	}
}

// TestLinksToADirectoryAreFollowed to where it lies, forty of them at most.
func TestLinksToADirectoryAreFollowed(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "x.khop")
	err := errors.Join(os.Mkdir(filepath.Join(root, "a"), 0o700),
		os.Symlink("../x.khop", filepath.Join(root, "a", "near")),
		os.Symlink(filepath.Join(root, "a", "near"), filepath.Join(root, "far")))
	for i := range 41 {
		err = errors.Join(err, os.Symlink(fmt.Sprint("l", i-1), filepath.Join(root, fmt.Sprint("l", i))))
	}
	expect.OK(t, err)
	for _, name := range []string{"x.khop", "far", "a/near", "a/../far", "./x.khop"} {
		got := target(filepath.Join(root, name))
		expect.That(t, got == dir, "%s is %s", name, got)
	}
	for i, want := range map[int]string{39: "l-1", 40: "l0"} {
		got := target(filepath.Join(root, fmt.Sprint("l", i)))
		expect.That(t, got == filepath.Join(root, want), "after %d links: %s", i+1, got)
	}
	t.Chdir(filepath.Join(root, "a"))
	expect.That(t, target(".") == filepath.Join(root, "a") && target("..") == root && target("near") == "../x.khop",
		"from within: %s, %s, %s", target("."), target(".."), target("near"))
}
