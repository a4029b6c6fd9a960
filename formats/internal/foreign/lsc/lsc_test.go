package lsc

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestLargeDatasetsAreWhatTheirReadersRead: testdata/make.py wrote them, and what ogb.lsc and numpy.memmap read.
func TestLargeDatasetsAreWhatTheirReadersRead(t *testing.T) {
	for _, name := range []string{"mag", "igb"} {
		tree := expect.Must(source.OpenTree(filepath.Join("testdata", name), nil))(t)
		found := Reader.Find(tree)
		expect.Ensure(t, len(found) == 1, "%s: found %v", name, found)
		g := expect.Must(Reader.Read(context.Background(), tree.At(found[0]), &source.Request{}))(t)
		want := expect.Must(os.ReadFile(filepath.Join("testdata", name+".txt")))(t)
		got := expect.Brief(sourcetest.Spell(t, g)) // as make.py does
		expect.That(t, got == string(want), "%s:\n%s\nwant\n%s", name, got, want)
		expect.OK(t, g.Close())
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
		sourcetest.Refuses(t, Reader, at, c.name, c.says)
	}
}

// FuzzRead damages each file of a folder: a fuzzed one takes its place.
func FuzzRead(f *testing.F) {
	files := []string{"meta.pt", "split_dict.pt", "processed/paper___cites___paper/edge_index.npy",
		"processed/paper/node_feat.npy", "processed/paper/node_label.npy"}
	from, dir := filepath.Join("testdata", "mag", "mag240m_kddcup2021"), f.TempDir()
	expect.OK(f, os.CopyFS(dir, os.DirFS(from)))
	var whole [][]byte
	for i, name := range files {
		b := expect.Must(os.ReadFile(filepath.Join(from, name)))(f)
		f.Add(byte(i), b)
		whole = append(whole, b)
	}
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		i := int(which) % len(files)
		path := filepath.Join(dir, files[i])
		expect.OK(t, os.WriteFile(path, b, 0o600))
		tree := expect.Must(source.OpenTree(dir, nil))(t)
		sourcetest.SurvivesAt(t, Reader, t.TempDir(), files[i], tree.At("processed"))
		expect.OK(t, os.WriteFile(path, whole[i], 0o600))
	})
}

// TestWhatComesOfAnyLargeDataset: see sourcetest.Outcomes.
func TestWhatComesOfAnyLargeDataset(t *testing.T) {
	sourcetest.Outcomes(t, sourcetest.Case{Name: "mag", Reader: Reader, At: "processed",
		Files: sourcetest.Within(t, "testdata/mag/mag240m_kddcup2021")},
		sourcetest.Case{Name: "igb", Reader: Reader, At: "processed", Files: sourcetest.Within(t, "testdata/igb"),
			Keep: []string{"processed/paper/node_feat.npy"}})
}

var _ source.Reader = Reader
