// Package sourcetest helps the tests of readers of foreign formats.
package sourcetest

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
)

// Folder writes files, named by paths within a folder of that name, and returns the folder's place.
func Folder[B ~string | ~[]byte](t testing.TB, name string, files map[string]B) source.Place {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	tree, err := source.OpenTree(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tree.At(".")
}

// File writes a file of that name and returns its place.
func File(t testing.TB, name, text string) source.Place {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return source.Local(path)
}

// Refuses fails the test unless the reader refuses a source with an error that says something. what names the source.
func Refuses(t testing.TB, r source.Reader, at source.Place, what, says string) {
	t.Helper()
	g, err := r.Read(context.Background(), at, &source.Request{})
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%q: %v, %v; want %q", what, g, err, says)
	}
}

// Survives fails the test unless a reader can read a file of these bytes, in folder dir, in little memory, or says in
// an error that names the file what is wrong with it.
func Survives(t testing.TB, r source.Reader, dir, name string, b []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	SurvivesAt(t, r, dir, name, source.Local(path))
}

// SurvivesAt is Survives for what is at a place already. Temporary files go to dir.
func SurvivesAt(t testing.TB, r source.Reader, dir, name string, at source.Place) {
	t.Helper()
	ledger := &pinned.Ledger{}
	ledger.SetLimit(8 << 20)
	budget := &source.Budget{Memory: ledger, Dir: dir, Disk: 64 << 20}
	g, err := r.Read(context.Background(), at, &source.Request{Budget: budget})
	if err == nil {
		err = g.Edges.Each(func(source.Batch) error { return nil })
		for _, n := range g.Nodes {
			for _, c := range n.Columns {
				err = errors.Join(err, c.Write(context.Background(), io.Discard))
			}
		}
		err = errors.Join(err, g.Close())
	}
	var within *formats.Error
	if err != nil && !errors.As(err, &within) {
		t.Fatalf("%s: %v", name, err)
	}
}
