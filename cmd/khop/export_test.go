package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestExportsAreConvertedToEqualDatasets exports a dataset and converts that. Masks, which PyG's files have, lose the
// order of splits.
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

func TestAnExportSaysThatRowsAreCoded(t *testing.T) {
	x := textFile(t, "x.npy", string(expect.NPY([]float32{1, 2, 3, 4, 5, 6}, 3, 2)))
	data := filepath.Join(t.TempDir(), "g.khop")
	must(t, "convert", textFile(t, "edges.txt", "0 1\n2 1\n"), data, "--features", x, "--feature-dtype", "int4")
	for _, to := range []string{"numpy", "npz", "pyg", "graphbolt", "parquet", "graphar"} {
		r := object(t, "export", data, filepath.Join(t.TempDir(), "to"), "--to", to, "--json")
		notes := fmt.Sprint(r["notes"])
		expect.That(t, strings.Contains(notes, `"feature" of "node" is written as it is stored: bytes of the code `+
			`int4 of [2] numbers a row`), "%s: %s", to, notes)
	}
}
