package source

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// sumOf opens all files of a folder and returns their checksum.
func sumOf(t *testing.T, dir string, others ...string) [16]byte {
	t.Helper()
	tree := expect.Must(OpenTree(dir, nil))(t)
	for _, name := range tree.Files() {
		expect.OK(t, expect.Must(tree.At(name).Raw())(t).Close())
	}
	sum := expect.Must(Checksum(context.Background(), tree, others...))(t)
	expect.OK(t, tree.Close())
	return sum
}

// TestAnEditedSourceHasAnotherChecksum, and a copy elsewhere the same.
func TestAnEditedSourceHasAnotherChecksum(t *testing.T) {
	put := func(dir, name string, text []byte) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600))
		return path
	}
	beside := put(t.TempDir(), "x.npy", []byte("rows"))
	folder := func() string {
		dir := t.TempDir()
		put(dir, "edges/a.txt", bytes.Repeat([]byte("0 1\n"), 100_000))
		put(dir, "b.txt", []byte("1 2\n"))
		return dir
	}
	want := sumOf(t, folder(), beside)
	expect.That(t, sumOf(t, folder(), beside) == want, "a copy is another source")
	for name, change := range map[string]func(dir string) (other string){
		"a byte": func(dir string) string {
			return put(dir, "edges/../edges/a.txt", append(bytes.Repeat([]byte("0 1\n"), 99_999), "0 2\n"...))
		},
		"a name": func(dir string) string {
			expect.OK(t, os.Rename(filepath.Join(dir, "b.txt"), filepath.Join(dir, "c.txt")))
			return ""
		},
		"the border of files": func(dir string) string {
			put(dir, "edges/a.txt", bytes.Repeat([]byte("0 1\n"), 100_001))
			return put(dir, "b.txt", nil)
		},
		"one more file":           func(dir string) string { return put(dir, "c.txt", nil) },
		"another of its name":     func(string) string { return put(t.TempDir(), "x.npy", []byte("Rows")) },
		"another of another name": func(string) string { return put(t.TempDir(), "y.npy", []byte("rows")) },
	} {
		dir := folder()
		other := change(dir)
		if filepath.Ext(other) != ".npy" {
			other = beside
		}
		expect.That(t, sumOf(t, dir, other) != want, "%s: the same checksum", name)
	}
	expect.That(t, sumOf(t, folder()) != want, "without the other file: the same checksum")
}

// TestBlocksOfALargeSourceAreRead: its ends, and as much as is said between.
func TestBlocksOfALargeSourceAreRead(t *testing.T) {
	was, block := wholeBytes, blockBytes
	defer func() { wholeBytes, blockBytes = was, block }()
	wholeBytes, blockBytes = 100, 10
	dir := t.TempDir()
	text := make([]byte, 405)
	path, small := filepath.Join(dir, "large"), filepath.Join(dir, "small")
	expect.OK(t, os.WriteFile(path, text, 0o600), os.WriteFile(small, text[:25], 0o600))
	want, seen := sumOf(t, dir), 0
	for i := range text {
		text[i] = 1
		expect.OK(t, os.WriteFile(path, text, 0o600))
		found := sumOf(t, dir) != want
		if found {
			seen++
		}
		expect.That(t, found || i >= 10 && i < len(text)-10, "byte %d of the first or last block is not read", i)
		text[i] = 0
	}
	expect.That(t, seen >= 75 && seen <= 100, "%d bytes of %d are read", seen, len(text))
	expect.OK(t, os.WriteFile(path, text, 0o600), os.WriteFile(small, append(make([]byte, 24), 1), 0o600))
	expect.That(t, sumOf(t, dir) != want, "the last byte of a small file is not read")
}
