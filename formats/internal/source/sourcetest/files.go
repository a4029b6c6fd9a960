package sourcetest

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"testing"
)

// Within returns the files within a folder, by their paths there.
func Within(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	tree := os.DirFS(dir)
	if err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(tree, path)
		files[path] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// Members returns the members of a zip archive.
func Members(t testing.TB, path string) map[string]string {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	files := map[string]string{}
	for _, m := range z.File {
		r, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil || r.Close() != nil {
			t.Fatal(err)
		}
		files[m.Name] = string(b)
	}
	return files
}

// Zip returns a zip archive of files, in the order of their names, that are not compressed.
func Zip(t testing.TB, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = io.WriteString(w, files[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Zipped packs the files of a Case into one archive.
func Zipped(t testing.TB, name string) func(map[string]string) map[string]string {
	return func(files map[string]string) map[string]string { return map[string]string{name: Zip(t, files)} }
}
