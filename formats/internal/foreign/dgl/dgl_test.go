package dgl

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

// TestACSVDatasetIsWhatDGLReads: testdata/make.py wrote it and what DGL reads of it.
func TestACSVDatasetIsWhatDGLReads(t *testing.T) {
	want := expect.Must(os.ReadFile(filepath.Join("testdata", "csv.txt")))(t)
	tree := expect.Must(source.OpenTree(filepath.Join("testdata", "csv"), nil))(t)
	found := Reader.Find(tree)
	expect.Ensure(t, len(found) == 1, "found %v", found)
	g := expect.Must(Reader.Read(context.Background(), tree.At(found[0]), &source.Request{}))(t)
	defer g.Close()
	got := sourcetest.Spell(t, g)
	expect.That(t, got == string(want), "got\n%s\nwant\n%s", got, want)
}

func TestWhatIsNotOneGraphIsRefused(t *testing.T) {
	const edges = "edge_data: [{file_name: e.csv}]\nnode_data: [{file_name: n.csv}]\n"
	for _, c := range []struct{ meta, nodes, says string }{
		{edges + "graph_data: {file_name: g.csv}\n", "node_id\n0\n", `of many graphs, by "g.csv"`},
		{edges, "graph_id,node_id\n0,0\n1,0\n", `row 3: the id "0" is there twice`},
		{edges + "version: 2.0.0\n", "node_id\n0\n", `version "2.0.0" is not supported`},
		{edges, "id\n0\n", `there is no column "node_id"`},
		{"edge_data: [{file_name: e.csv, etype: [a, b]}]\n", "", `["a" "b"] is not source, relation and target`},
	} {
		at := sourcetest.Folder(t, "x", map[string]string{"meta.yaml": c.meta, "n.csv": c.nodes,
			"e.csv": "src_id,dst_id\n0,0\n"})
		sourcetest.Refuses(t, Reader, at.In("meta.yaml"), strings.TrimSpace(c.meta), c.says)
	}
}

func FuzzRead(f *testing.F) {
	b := expect.Must(os.ReadFile(filepath.Join("testdata", "csv", "meta.yaml")))(f)
	f.Add(string(b), "node_id,label\n0,1\n", "src_id,dst_id\n0,0\n")
	f.Fuzz(func(t *testing.T, meta, nodes, edges string) {
		at := sourcetest.Folder(t, "x", map[string]string{"meta.yaml": meta, "users.csv": nodes, "items.csv": nodes,
			"bought.csv": edges, "follows.csv": edges})
		if g, err := Reader.Read(context.Background(), at.In("meta.yaml"), &source.Request{}); err == nil {
			_ = g.Close()
		}
	})
}
