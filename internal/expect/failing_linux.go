package expect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Attempt is something that a test does to a dataset while a system call of it fails.
type Attempt struct {
	Before func(dir string) error // makes what is there before; nil: nothing
	Do     func(dir string) error
	// State says what is at dir, and how many others are beside it; nil where Do changes nothing.
	State func(dir string) (what string, beside int)
	// Elsewhere leaves out calls about the dataset: those about other files below root fail.
	Elsewhere bool
	// Only names the calls that fail, with spaces between; "" for all.
	Only string
	// Again names a call that is made in another way where it fails; "" for none.
	Again string
}

// FailingCalls lets each call about a file that an attempt makes fail in turn, below root. What was to be made is then
// there as it would be; or there is an error that says so, what was there before is as it was, and no file stays open.
// Then the same works.
func FailingCalls(t *testing.T, root string, a Attempt) {
	t.Helper()
	f := &failing{Attempt: a, root: root}
	dir := f.begin(t, "whole")
	var err error
	calls := FailingCall(t, f.folder(dir), -1, nil, func() { err = a.Do(dir) })
	if err != nil {
		t.Fatal(err)
	}
	if a.State != nil {
		f.whole, f.beside = a.State(dir)
	}
	for i, c := range calls {
		if c.Name == "fsync" {
			f.last = i
		}
	}
	for i, c := range calls {
		if i+1 < len(calls) && (strings.HasPrefix(calls[i+1].Path, c.Path+"/") || calls[i+1] == c) {
			continue // of the way to a file, or the first of two ways to remove it: Go's, not ours
		}
		if a.Elsewhere && strings.HasPrefix(c.Path, dir) ||
			a.Only != "" && !slices.Contains(strings.Fields(a.Only), c.Name) {
			continue
		}
		f.try(t, i, c)
	}
}

// failing is an attempt, and what it makes where nothing fails.
type failing struct {
	Attempt
	root   string
	whole  string
	beside int
	last   int // the number of the last fsync: what is behind it tidies up
}

// folder is where calls are failed.
func (f *failing) folder(dir string) string {
	if f.Elsewhere {
		return f.root
	}
	return filepath.Dir(dir)
}

// begin makes a folder with what is there before.
func (f *failing) begin(t *testing.T, name string) (dir string) {
	t.Helper()
	dir, old := filepath.Join(f.root, name, "x.khop"), filepath.Join(f.root, "old", "x.khop")
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Dir(dir), 0o777))
	if f.Before == nil {
		return dir
	}
	if _, err := os.Stat(old); err != nil {
		must(os.Mkdir(filepath.Dir(old), 0o777))
		must(f.Before(old))
	}
	must(os.CopyFS(dir, os.DirFS(old)))
	return dir
}

// unnoticed are calls of whose answer a writer does without, or takes none for another one.
var unnoticed = map[string]bool{"newfstatat": true, "statx": true, "fstat": true, "statfs": true, "fallocate": true}

// names reports whether an error names a file of the attempt that was whole: as it is called now, or below its folder.
func (f *failing) names(err error, path string) bool {
	now := filepath.Join(f.root, strings.Replace(strings.TrimPrefix(path, f.root), "whole", "now", 1))
	return strings.Contains(err.Error(), now) || strings.Contains(err.Error(), filepath.Base(path)+":")
}

// try makes the attempt while a call fails.
func (f *failing) try(t *testing.T, number int, c Call) {
	t.Helper()
	dir := f.begin(t, "now")
	defer os.RemoveAll(filepath.Dir(dir))
	name, opened := c.Name+" "+strings.TrimPrefix(c.Path, f.root), OpenFiles(t)
	var err error
	FailingCall(t, f.folder(dir), number, unix.EIO, func() { err = f.Do(dir) })
	if n := OpenFiles(t); n != opened {
		t.Errorf("%s: %d files stay open", name, n-opened)
	}
	switch {
	case err == nil && !unnoticed[c.Name] && c.Name != f.Again && (f.State == nil || number < f.last) &&
		filepath.Base(c.Path) != "old":
		t.Errorf("%s: it fails, and nobody says so", name)
	case err != nil && !strings.Contains(err.Error(), unix.EIO.Error()) && !unnoticed[c.Name]:
		t.Errorf("%s: %v", name, err)
	case err != nil && !unnoticed[c.Name] && c.Name != "flock" && !f.names(err, c.Path):
		t.Errorf("%s: the error does not name it: %v", name, err)
	}
	if f.State == nil {
		return
	}
	want := f.whole
	if err != nil {
		want = "none"
		if f.Before != nil {
			want, _ = f.State(filepath.Join(f.root, "old", "x.khop"))
		}
	}
	if is, _ := f.State(dir); is != want {
		t.Errorf("%s: %v, and there is %s, not %s", name, err, is, want)
	}
	if err == nil || testing.Short() && number%8 > 0 {
		return
	}
	if err := f.Do(dir); err != nil {
		t.Errorf("%s: then: %v", name, err)
	}
	if is, beside := f.State(dir); is != f.whole || beside != f.beside {
		t.Errorf("%s: then there is %s beside %d, not %s beside %d", name, is, beside, f.whole, f.beside)
	}
}
