package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/edgesort"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// TestColumnsThatLieTogetherAreWrittenTogether has 70 columns of a table, of which as many are written at a time as a
// quarter of the memory allows, and one that lies elsewhere among them.
func TestColumnsThatLieTogetherAreWrittenTogether(t *testing.T) {
	row := func(number int) []byte { return []byte{byte(number), byte(number >> 8), 1, 2, 3, 4, 5, 6} }
	for _, c := range []struct {
		memory int64
		want   []int // columns of each reading
	}{{0, []int{60, 10}}, {4 * 20 * arrayfile.WriterMemory, []int{20, 20, 20, 10}}, {1, nil}} {
		conv := &conversion{graph: source.Plain()}
		conv.ledger.SetLimit(c.memory)
		var got []int
		table := &source.Together{Write: func(_ context.Context, numbers []int, to []io.Writer) error {
			got = append(got, len(numbers))
			for i, k := range numbers {
				if _, err := to[i].Write(row(k)); err != nil {
					return err
				}
			}
			return nil
		}}
		n := conv.graph.Node()
		n.Count = 1
		for i := range 70 {
			col := source.Bytes(graph.Column{Name: fmt.Sprintf("c%d", i), DType: unified.Int64}, row(i))
			col.Together, col.Number = table, i
			if n.Columns = append(n.Columns, col); i == 59 {
				n.Columns = append(n.Columns, source.Bytes(graph.Column{Name: "x", DType: unified.Int64}, row(7)))
			}
		}
		ds := conv.columnsAlone(t)
		expect.That(t, slices.Equal(got, c.want) && conv.ledger.Total() == 0,
			"within %d bytes: read %v times, not %v; %d bytes stay counted", c.memory, got, c.want, conv.ledger.Total())
		for i := range 70 {
			v, ok := ds.Graph().NodeColumn(0, fmt.Sprintf("c%d", i))
			expect.Ensure(t, ok && slices.Equal(v.Bytes(), row(i)), "column %d is %v", i, v.Bytes())
		}
	}
}

// columnsAlone writes a dataset of the columns, without edges, and opens it.
func (c *conversion) columnsAlone(t *testing.T) *formats.Dataset {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "x.khop")
	w, err := formats.Create(dst, formats.WriterOptions{})
	if err == nil {
		err = c.writeColumns(t.Context(), w, &graph.Schema{})
	}
	expect.OK(t, err)
	indptr, err := w.Topology("indptr", unified.Int64, c.graph.Node().Count+1)
	err = fill(indptr, err, func() error {
		_, err := indptr.Write(make([]byte, 8*(c.graph.Node().Count+1)))
		return err
	})
	indices, err2 := w.Topology("indices", unified.Int32, 0)
	err2 = fill(indices, err2, func() error { return nil })
	s, err3 := c.schema(&order{c: c, opt: edgesort.Options{ByTime: -1}})
	expect.OK(t, errors.Join(err, err2, err3))
	expect.OK(t, w.Commit(*s))
	return open(t, dst)
}

// TestColumnsNameThoseOfATableOfEdges: as of an edge list, in one task and in several.
func TestColumnsNameThoseOfATableOfEdges(t *testing.T) {
	dir := files(t, map[string]string{"e.csv": "who,what,w,extra\na,b,0.5,7\nb,c,2,8\n",
		"m.yaml": "edges: {knows: {file: e.csv, src: who, dst: what}}\n"})
	src, mapping := filepath.Join(dir, "e.csv"), filepath.Join(dir, "m.yaml")
	for columns, want := range map[string]string{
		"src,dst,weight,-": "node edge node weight", "dst,src,w,more": "node edge node w more",
		"src:user,dst:item,-,time": "user edge item time",
	} {
		dst := filepath.Join(t.TempDir(), "data")
		opt := Options{From: "tables", Columns: strings.Split(columns, ",")}
		expect.Must(Run(context.Background(), src, dst, opt))(t)
		ds := expect.Must(formats.Open(dst))(t)
		s := ds.Graph().Schema()
		said := []string{s.Nodes[s.Edges[0].Src].Name, s.Edges[0].Relation, s.Nodes[s.Edges[0].Dst].Name}
		for _, c := range s.EdgeColumns {
			said = append(said, c.Name)
		}
		expect.Same(t, strings.Join(said, " "), want)
		expect.OK(t, ds.Close())
	}
	for columns, says := range map[string]string{
		"src,dst":             `Columns names 2 of 4 columns, "who", "what", "w", "extra": name each; - leaves one out`,
		"src,a,b,c":           "Columns does not name src and dst",
		"src,dst,w:int8,-":    `Columns names the type "int8" of "w": the columns of a table have types`,
		"src:user,dst,w,-":    "Columns names the type of nodes at one end only",
		"src,dst,w,w":         `Columns names "w" twice`,
		"src,dst,weight,- ,-": "Columns names 5 of 4 columns",
	} {
		_, err := Run(context.Background(), src, filepath.Join(dir, "no"),
			Options{From: "tables", Columns: strings.Split(columns, ",")})
		expect.That(t, err != nil && strings.Contains(err.Error(), says), "%s: %v", columns, err)
	}
	_, err := Run(context.Background(), mapping, filepath.Join(dir, "no"), Options{Columns: []string{"src", "dst"}})
	expect.That(t, err != nil && strings.Contains(err.Error(), "Columns is for one table of edges"), "%v", err)
}

// Edges of datasets, by type, as tests compare them.

func sortPairs(p [][2]int64) {
	slices.SortFunc(p, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
}

// edgesByName returns source and target of the edges of each type, sorted.
func edgesByName(t *testing.T, ds *formats.Dataset) map[string][][2]int64 {
	t.Helper()
	g := ds.Graph()
	s, got := g.Schema(), map[string][][2]int64{}
	source := expect.Must(unified.Integers(g.Indices()))(t)
	types := func(int64) int64 { return 0 }
	if g.Types().Valid() {
		b := g.Types().Bytes()
		types = func(i int64) int64 { return int64(b[i]) }
	}
	for n := range s.Nodes {
		for v := range s.Nodes[n].Count {
			at := g.Offset(n) + v
			for e := g.Indptr()[at]; e < g.Indptr()[at+1]; e++ {
				typ := s.Edges[types(e)]
				got[typ.String()] = append(got[typ.String()], [2]int64{source(e) - g.Offset(typ.Src), v})
			}
		}
	}
	for _, p := range got {
		sortPairs(p)
	}
	return got
}
