//go:build !race

package formats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// attempt is something that a test does to a dataset while a system call of it fails.
type attempt struct {
	before  func(t *testing.T, dir string) // what is there; nil: nothing
	do      func(dir string) error
	changes bool // it makes a dataset, or changes one
}

// smallest is a graph of two nodes and one edge.
func smallest(t testing.TB) *graph.Graph {
	return newGraph(t, graph.Arrays{Schema: plainSchema(2, 1), Indptr: unified.FromSlice([]int64{0, 1, 1}),
		Indices: unified.FromSlice([]int32{1})})
}

// writeShort writes a dataset of two nodes, without edges, of which a thousand were announced at most, and with names.
func writeShort(dir string, opt WriterOptions) (err error) {
	w, err := Create(dir, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	indptr, err := w.Topology("indptr", unified.Int64, 3)
	if err != nil {
		return err
	}
	if _, err := indptr.Write(make([]byte, 24)); err != nil {
		return err
	}
	indices, err := w.Topology("indices", unified.Int32, largeArray)
	if err != nil {
		return err
	}
	indices.AtMost()
	names, err := w.NodeStrings(0, "id", 2)
	if err != nil {
		return err
	}
	for _, name := range []string{"ada", "bob"} {
		if err := names.Write(name); err != nil {
			return err
		}
	}
	for _, c := range []interface{ Close() error }{indptr, indices, names} {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return w.Commit(plainSchema(2, 0))
}

// addNames adds a list of names to a dataset.
func addNames(dir string) (err error) {
	w, err := Extend(dir, ExtendOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	names, err := w.NodeStrings(0, "more", 0)
	if err != nil {
		return err
	}
	if err := names.Close(); err != nil {
		return err
	}
	return w.Commit(plainSchema(2, 1))
}

// attempts are all that this package does to datasets on a disk.
func attempts(t *testing.T) map[string]attempt {
	g := smallest(t)
	there := func(t *testing.T, dir string) {
		must(t, WriteGraph(context.Background(), dir, g, WriterOptions{}))
	}
	return map[string]attempt{
		"write":   {nil, func(dir string) error { return writeShort(dir, WriterOptions{ExpectBytes: 1}) }, true},
		"replace": {there, func(dir string) error { return writeShort(dir, WriterOptions{Force: true}) }, true},
		"write what was left": {func(t *testing.T, dir string) {
			there(t, dir)
			leave(t, dir)
		}, func(dir string) error { return writeShort(dir, WriterOptions{}) }, true},
		"add":  {there, addNames, true},
		"open": {there, func(dir string) error { return openError(dir) }, false},
		"check": {there, func(dir string) error {
			r, err := Check(context.Background(), dir, CheckOptions{Workers: 1})
			if err == nil && !r.OK() {
				err = errors.Join(r.Problems...)
			}
			return err
		}, false},
	}
}

// TestEveryFailingSystemCallIsAnErrorAndHarmsNothing: each call about a file fails in turn. What was to be made is then
// there and as it would be, or there is an error that says so, the old dataset is as it was, and nothing else is open.
// Then the same works.
func TestEveryFailingSystemCallIsAnErrorAndHarmsNothing(t *testing.T) {
	for name, a := range attempts(t) {
		t.Run(name, func(t *testing.T) {
			f := &failing{attempt: a, root: scratchDir(t)}
			dir := f.begin(t, "whole")
			var err error
			calls := expect.FailingCall(t, filepath.Dir(dir), -1, nil, func() { err = a.do(dir) })
			must(t, err)
			f.whole, f.last = stateOf(t, dir), -1
			for i, c := range calls {
				if c.Name == "fsync" {
					f.last = i
				}
			}
			for i, c := range calls {
				if i+1 < len(calls) && (strings.HasPrefix(calls[i+1].Path, c.Path+"/") || calls[i+1] == c) {
					continue // of the way to a file, or the first of two ways to remove it: Go's, not ours
				}
				f.try(t, i, c)
			}
		})
	}
}

// failing is an attempt, and what it makes where nothing fails.
type failing struct {
	attempt
	root  string
	whole string
	last  int // the number of the last fsync: what is behind it tidies up
}

// begin makes a folder with what is there before.
func (f *failing) begin(t *testing.T, name string) (dir string) {
	t.Helper()
	dir, old := filepath.Join(f.root, name, "x.khop"), filepath.Join(f.root, "old", "x.khop")
	must(t, os.MkdirAll(filepath.Dir(dir), 0o777))
	if f.before == nil {
		return dir
	}
	if !exists(old) {
		must(t, os.Mkdir(filepath.Dir(old), 0o777))
		f.before(t, old)
	}
	must(t, os.CopyFS(dir, os.DirFS(old)))
	return dir
}

// stateOf says what is at dir: the id of a dataset, or why there is none; and what is beside it.
func stateOf(t *testing.T, dir string) string {
	t.Helper()
	beside, err := filepath.Glob(dir + "?*")
	must(t, err)
	d, err := Open(dir)
	if err != nil {
		if !errors.Is(err, ErrIncomplete) && !errors.Is(err, os.ErrNotExist) {
			return err.Error()
		}
		return fmt.Sprintf("none, %d", len(beside))
	}
	defer d.Close()
	return fmt.Sprintf("%x, %d, %d", d.ID(), d.Manifest().Generation, len(beside))
}

// unnoticed are calls of which khop does without the answer, or takes none for another one.
var unnoticed = map[string]bool{"newfstatat": true, "statx": true, "fstat": true, "statfs": true,
	"fallocate": true}

// try makes the attempt while a call fails.
func (f *failing) try(t *testing.T, number int, c expect.Call) {
	t.Helper()
	dir := f.begin(t, "now")
	defer os.RemoveAll(filepath.Dir(dir))
	name := c.Name + " " + filepath.ToSlash(strings.TrimPrefix(c.Path, f.root))
	before, opened := stateOf(t, dir), expect.OpenFiles(t)
	var err error
	expect.FailingCall(t, filepath.Dir(dir), number, unix.EIO, func() { err = f.do(dir) })
	if n := expect.OpenFiles(t); n != opened {
		t.Errorf("%s: %d files stay open", name, n-opened)
	}
	after := stateOf(t, dir)
	switch {
	case err == nil && !unnoticed[c.Name] && number < f.last && !strings.HasSuffix(c.Path, workSuffix+"/"+workOld):
		t.Errorf("%s: it fails, and nobody says so", name)
	case err == nil && f.changes && number < f.last && after != f.whole:
		t.Errorf("%s: no error, but there is %s, not %s", name, after, f.whole)
	case err != nil && !strings.Contains(err.Error(), "input/output error") && !unnoticed[c.Name]:
		t.Errorf("%s: %v", name, err)
	case err != nil && f.changes && strings.Split(after, ",")[0] != strings.Split(before, ",")[0]:
		t.Errorf("%s: %v, and there is %s, no longer %s", name, err, after, before)
	}
	if !f.changes || err == nil || testing.Short() && number%4 > 0 {
		return
	}
	if err := f.do(dir); err != nil {
		t.Errorf("%s: then: %v", name, err)
	}
	if now := stateOf(t, dir); now != f.whole {
		t.Errorf("%s: then there is %s, not %s", name, now, f.whole)
	}
}
