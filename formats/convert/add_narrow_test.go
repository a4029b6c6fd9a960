package convert

import (
	"bytes"
	"errors"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestRowsOfADatasetAreStoredNarrow: as a conversion would have stored them, and those that are added with it.
func TestRowsOfADatasetAreStoredNarrow(t *testing.T) {
	src, values := write(t, "edges.txt", "0 1\n1 2\n"), make([]float64, 3*40)
	for i := range values {
		values[i] = float64(i*i%97) - 40
	}
	features := write(t, "x.npy", string(expect.NPY(values, 3, 40)))
	for _, to := range []string{"int4", "int8", "float16", "feature=int4"} {
		_, want := convert(t, src, Options{Features: features, FeatureDType: []string{to}})
		_, old := convert(t, src, Options{Features: features})
		dir := old.Path()
		s := expect.Must(Add(t.Context(), dir, AddOptions{FeatureDType: []string{to},
			Columns: []Addition{{Name: "more", Path: features}}}))(t)
		ds := expect.Must(formats.Open(dir))(t)
		for _, c := range want.Graph().Schema().Nodes[0].Columns {
			a, _ := ds.Graph().NodeColumn(0, c.Name)
			b, _ := want.Graph().NodeColumn(0, c.Name)
			expect.That(t, bytes.Equal(a.Bytes(), b.Bytes()) && len(b.Bytes()) > 0,
				"%s: %s is %v, not %v", to, c.Name, a,
				b)
		}
		kinds := map[string]string{}
		for _, c := range s.Nodes[0].Columns {
			kinds[c.Name] = c.TypeName()
		}
		more := map[string]string{"feature=int4": "float64"}[to]
		if more == "" {
			more = to
		}
		expect.That(t, kinds["more"] == more, "%s: %v", to, kinds)
		expect.OK(t, ds.Close())
	}
}

func TestNarrowRowsThatCannotBeAreRefused(t *testing.T) {
	_, ds := convert(t, write(t, "edges.txt", "0 1\n1 2\n"), Options{})
	dir := ds.Path()
	for to, says := range map[string]string{"int3": "is none of", "x=int4": `no nodes have a column "x"`} {
		_, err := Add(t.Context(), dir, AddOptions{FeatureDType: []string{to}})
		expect.That(t, errors.Is(err, ErrOptions) && bytes.Contains([]byte(err.Error()), []byte(says)), "%s: %v",
			to, err)
	}
	_, err := Add(t.Context(), dir, AddOptions{FeatureDType: []string{"int4"},
		Rows: []Addition{{Name: "t", Path: "x.csv"}}})
	expect.Is(t, err, ErrOptions, "with new rows")
}

// TestCodesThatDoNotFitTheirRowsAreRefused: what a manifest says of rows is checked before any is read.
func TestCodesThatDoNotFitTheirRowsAreRefused(t *testing.T) {
	good := expect.Must(graph.Column{Name: "x", Shape: []int64{100}}.Coded("int4"))(t)
	schema := func(change func(c *graph.Column)) error {
		c, code := good, *good.Code
		c.Code = &code
		change(&c)
		s := graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: 1, Columns: []graph.Column{c}}},
			Edges: []graph.EdgeType{{Source: "n", Relation: "r", Target: "n"}}}
		return s.Init()
	}
	expect.OK(t, schema(func(*graph.Column) {}))
	for name, change := range map[string]func(c *graph.Column){
		"too short":  func(c *graph.Column) { c.Shape = []int64{57} },
		"no width":   func(c *graph.Column) { c.Code.Shape = nil },
		"negative":   func(c *graph.Column) { c.Code.Shape = []int64{-100} },
		"immense":    func(c *graph.Column) { c.Code.Shape = []int64{1 << 40, 1 << 40} },
		"other type": func(c *graph.Column) { c.DType++ },
		"unknown":    func(c *graph.Column) { c.Code.Name = "int3" },
		"a matrix":   func(c *graph.Column) { c.Shape = []int64{8, 8} },
	} {
		expect.Is(t, schema(change), graph.ErrSchema, name)
	}
}
