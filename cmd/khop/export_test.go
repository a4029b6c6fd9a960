package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestExportsAreConvertedToEqualDatasets exports a dataset and converts that.
func TestExportsAreConvertedToEqualDatasets(t *testing.T) {
	first, data := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "data.khop")
	must(t, "export", small(t), first, "--to", "numpy")
	must(t, "convert", first, data) // so that its types have the names that conversion gives
	id := object(t, "info", data, "--json")["id"]
	for _, c := range []struct{ to, target string }{{"numpy", "arrays"}, {"npz", "x.npz"}} {
		target, again := filepath.Join(t.TempDir(), c.target), filepath.Join(t.TempDir(), "again.khop")
		must(t, "export", data, target, "--to", c.to)
		fails(t, exitFailed, "target exists", "export", data, target, "--to", c.to)
		must(t, "export", data, target, "--to", c.to, "--force")
		must(t, "convert", target, again)
		got := object(t, "info", again, "--json")["id"]
		expect.That(t, got == id, "%s: the dataset %v, not %v", c.to, got, id)
		left, _ := filepath.Glob(filepath.Dir(target) + "/*.khop-export")
		expect.That(t, len(left) <= 0, "left behind: %v", left)
	}
	mine := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(mine, "thesis.txt"), nil, 0o600))
	fails(t, exitFailed, "was not written by khop export", "export", data, mine, "--to", "numpy", "--force")
	_, err := os.Stat(filepath.Join(mine, "thesis.txt"))
	expect.That(t, err == nil, "%v", err)
}
