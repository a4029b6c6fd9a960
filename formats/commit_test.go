package formats

import (
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// unfitting change a schema, or what is written, of a dataset that fits.
func unfitting(t *testing.T) map[string]func(w *Writer, s *graph.Schema) error {
	return map[string]func(w *Writer, s *graph.Schema) error{
		"fits": func(*Writer, *graph.Schema) error { return nil },
		"other dtype": func(_ *Writer, s *graph.Schema) error {
			s.Nodes[0].Columns[0].DType = unified.Int8
			return nil
		},
		"other shape": func(_ *Writer, s *graph.Schema) error {
			s.Nodes[0].Columns[0].Shape = []int64{1, 3}
			return nil
		},
		"more nodes": func(_ *Writer, s *graph.Schema) error { s.Nodes[0].Count = 1234; return nil },
		"more edges": func(_ *Writer, s *graph.Schema) error { s.Edges[0].Count = 12345; return nil },
		"not there": func(_ *Writer, s *graph.Schema) error {
			s.Nodes[0].Columns = append(s.Nodes[0].Columns, graph.Column{Name: "y", DType: unified.Int64})
			return nil
		},
		"not asked for": func(_ *Writer, s *graph.Schema) error { s.Nodes[0].Columns = nil; return nil },
		"an edge column that is not there": func(_ *Writer, s *graph.Schema) error {
			s.EdgeColumns = append(s.EdgeColumns, graph.Column{Name: "w", DType: unified.Float64, Shape: []int64{2}})
			return nil
		},
		"types that are not there": func(_ *Writer, s *graph.Schema) error {
			s.Edges = append(s.Edges, graph.EdgeType{Source: "node", Relation: "more", Target: "node"})
			return nil
		},
		"strings of a column": func(w *Writer, s *graph.Schema) error {
			s.Nodes[0].Columns = append(s.Nodes[0].Columns, graph.Column{Name: "z", DType: unified.Int8})
			z := expect.Must(w.NodeStrings(0, "z", 2))(t)
			expect.OK(t, z.Write("a"), z.Write("b"))
			return z.Close()
		},
		"strings of other nodes": func(w *Writer, s *graph.Schema) error {
			z := expect.Must(w.NodeStrings(3, "z", 2))(t)
			expect.OK(t, z.Write("a"), z.Write("b"))
			return z.Close()
		},
		"not closed": func(w *Writer, s *graph.Schema) error {
			_, err := w.NodeStrings(0, "z", 2)
			return err
		},
	}
}

// TestWhatDoesNotFitTheSchemaIsNamed: what was written, and what was expected.
func TestWhatDoesNotFitTheSchemaIsNamed(t *testing.T) {
	x := graph.Column{Name: "x", DType: unified.Float32, Shape: []int64{3}}
	lines := map[string]string{}
	for name, change := range unfitting(t) {
		dir := filepath.Join(scratchDir(t), "x.khop")
		w := expect.Must(Create(dir, WriterOptions{}))(t)
		s := plainSchema(2, 0)
		s.Nodes[0].Columns = []graph.Column{x}
		indptr := expect.Must(w.Topology("indptr", unified.Int64, 3))(t)
		feed(t, indptr, 24)
		indices := expect.Must(w.Topology("indices", unified.Int32, 0))(t)
		cw := expect.Must(w.NodeColumn(0, x, 2))(t)
		feed(t, cw, 24)
		expect.OK(t, indptr.Close(), indices.Close(), cw.Close(), change(w, &s))
		lines[name] = expect.Line(t, w.Commit(s), dir)
		expect.OK(t, w.Abort())
	}
	said(t, "commit", lines)
}
