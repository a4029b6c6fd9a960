package expect

import (
	"io/fs"
	"os"
	"testing"
)

// Files reads all files below a folder, by their names there.
func Files(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	all, root := map[string][]byte{}, os.DirFS(dir)
	OK(t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[name], err = fs.ReadFile(root, name)
		}
		return err
	}))
	return all
}
