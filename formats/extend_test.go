package formats

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// TestExtendKeepsTheFilesThatThereAre does so with links, and on a file system that has none.
func TestExtendKeepsTheFilesThatThereAre(t *testing.T) {
	for _, links := range []bool{true, false} {
		if !links {
			directories.Link = func(string, string) error { return errors.ErrUnsupported }
			defer func() { directories.Link = os.Link }()
		}
		dir := filepath.Join(t.TempDir(), "x.khop")
		expect.OK(t, copyTree(filepath.Join("testdata", "golden-v1-typed"), dir))
		ds := expect.Must(Open(dir))(t)
		schema, id, mode, was := ds.SchemaOf(), ds.ID(), modeOf(t, dir), ds.Manifest().Provenance
		expect.OK(t, ds.Close())
		w := expect.Must(Extend(dir, ExtendOptions{}))(t)
		expect.OK(t, w.Abort())
		w = expect.Must(Extend(dir, ExtendOptions{Provenance: map[string]string{"added": "more"}}))(t)
		col := graph.Column{Name: "more", DType: unified.Uint8}
		cw, err := w.NodeColumn(1, col, schema.Nodes[1].Count)
		if err == nil {
			_, err = cw.Write(make([]byte, schema.Nodes[1].Count))
		}
		err = errors.Join(err, cw.Close())
		expect.OK(t, err)
		schema.Nodes[1].Columns = append(schema.Nodes[1].Columns, col)
		expect.OK(t, w.Commit(schema))
		rep, err := Check(t.Context(), dir, CheckOptions{})
		expect.That(t, err == nil && rep.OK(), "links %v: %v, %v", links, rep, err)
		if ds, err = Open(dir); err != nil || ds.ID() == id || ds.Manifest().Generation != 2 ||
			ds.Manifest().Provenance["added"] != "more" || len(ds.Manifest().Provenance) != len(was)+1 {
			t.Errorf("links %v: %v, provenance %v, it was %v", links, err, ds.Manifest().Provenance, was)
		}
		expect.OK(t, ds.Close())
		requireMode(t, dir, links, mode)
		expect.That(t, !there(dir+transaction.WorkSuffix), "the workspace is still there")
	}
}

func copyTree(from, to string) error { return os.CopyFS(to, os.DirFS(from)) }

// requireMode wants the mode that files had; that of copies is as if they had been written.
func requireMode(t *testing.T, dir string, links bool, want os.FileMode) {
	t.Helper()
	if !links {
		want = modeOf(t, write(t, plainArrays(t), WriterOptions{}))
	}
	now := modeOf(t, dir)
	expect.That(t, now == want, "links %v: the files' mode is %v, not %v", links, now, want)
}

// modeOf is who may read and write a dataset's indices.
func modeOf(t *testing.T, dir string) os.FileMode {
	t.Helper()
	st := expect.Must(os.Stat(filepath.Join(dir, "graph/indices.arrow")))(t)
	return st.Mode()
}
