package lsc

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/source"
	"github.com/khop-gnn/khop/formats/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestLargeDatasetsAreWhatTheirReadersRead: testdata/make.py wrote them, and what ogb.lsc and numpy.memmap read.
func TestLargeDatasetsAreWhatTheirReadersRead(t *testing.T) {
	for _, name := range []string{"mag", "igb"} {
		tree, err := source.OpenTree(filepath.Join("testdata", name), nil)
		if err != nil {
			t.Fatal(err)
		}
		found := (Reader{}).Find(tree)
		if len(found) != 1 {
			t.Fatalf("%s: found %v", name, found)
		}
		g, err := Reader{}.Read(context.Background(), tree.At(found[0]), &source.Request{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if got := sourcetest.Spell(t, g); got != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsWrongWithALargeDatasetIsNamed(t *testing.T) {
	edges := string(expect.NPY([]int64{0, 1, 1, 0}, 2, 2))
	for _, c := range []struct{ name, text, says string }{
		{"paper/node_feat.npy", strings.Repeat("x", 5000), "5000 bytes are no rows of 1024 float32"},
		{"paper/node_label_19.npy", strings.Repeat("x", 6), "6 bytes are no rows of 1 float32"},
		{"a__b__a/edge_index.npy", "none", "write it by numpy.save"},
	} {
		at := sourcetest.Folder(t, "x", map[string]string{"paper__cites__paper/edge_index.npy": edges, c.name: c.text})
		sourcetest.Refuses(t, Reader{}, at, c.name, c.says)
	}
}
