package gnn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// typedGraph returns a graph with two types of nodes, whose features have other widths, and the edges of some types.
func typedGraph(t testing.TB, of ...string) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(expect.Seed(t), 5))
	counts, widths := map[string]int{"a": 900, "b": 500}, map[string]int64{"a": 12, "b": 7}
	var data graph.Data
	for _, name := range []string{"a", "b"} {
		x := make([]float32, int64(counts[name])*widths[name])
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		data.Nodes = append(data.Nodes, graph.NodeData{Name: name, Columns: map[string]unified.Tensor{
			"feature": expect.Must(unified.FromRows(x, widths[name]))(t)}})
	}
	for _, e := range of {
		one := graph.EdgeData{Source: e[:1], Relation: e[1:2], Target: e[2:]}
		for range 4000 {
			one.Src = append(one.Src, int64(r.IntN(counts[one.Source])))
			one.Dst = append(one.Dst, int64(r.IntN(counts[one.Target]-1))) // the last one has no edges
		}
		for v := range int64(40) { // to themselves, twice
			one.Src, one.Dst = append(one.Src, v/2), append(one.Dst, v/2)
		}
		data.Edges = append(data.Edges, one)
	}
	return onDisk(t, graphs.New(t, data))
}

// mixed is what the functions of the test make of a node's rows: each element a mean of some of them.
func mixed(own []float64, sums [][]float64, width int) []float64 {
	y := make([]float64, width)
	for k := range y {
		if len(own) > 0 {
			y[k] = own[k%len(own)] / 2
		}
		for n, s := range sums {
			y[k] += s[k%len(s)] / float64(n+2)
		}
	}
	return y
}

// ownOptions has the function compute what mixed does, of sums in the order of the types of edges.
func ownOptions(s *graph.Schema, layers string, widths []int) *EmbedOptions {
	return &EmbedOptions{Layers: layers, Rows: func(layer int, nodes string, own []float32, sums map[string][]float32,
		y []float32) error {
		n := len(y) / widths[layer]
		part := func(x []float32, i int) []float64 { return doubles(x[i*(len(x)/n) : (i+1)*(len(x)/n)]) }
		for i := range n {
			var all [][]float64
			for e := range s.Edges {
				if x, ok := sums[s.Edges[e].String()]; ok && s.Nodes[s.Edges[e].Dst].Name == nodes {
					all = append(all, part(x, i))
				}
			}
			for k, v := range mixed(part(own, i), all, widths[layer]) {
				y[i*widths[layer]+k] = float32(v)
			}
		}
		return nil
	}}
}

// typedReference computes layers in float64, edge by edge.
func typedReference(t testing.TB, g *graph.Graph, reductions []string, widths []int) (x [][][]float64) {
	t.Helper()
	s := g.Schema()
	for v := range s.Nodes {
		f, _ := g.NodeRole(v, graph.Feature)
		var rows [][]float64
		for i, w := int64(0), f.Width(); i < f.Len(); i++ {
			rows = append(rows, doubles(expect.Must(unified.View[float32](f))(t)[i*w:(i+1)*w]))
		}
		x = append(x, rows)
	}
	sources := expect.Must(unified.View[int32](g.Indices()))(t)
	in := make([][][]int, len(s.Edges)) // [edge type][target] sources
	for e, of := range s.Edges {
		for i := range x[of.Dst] {
			var all []int
			at := g.Offset(of.Dst) + int64(i)
			for k := g.Indptr()[at]; k < g.Indptr()[at+1]; k++ {
				if len(s.Edges) == 1 || expect.Must(unified.View[uint8](g.Types()))(t)[k] == uint8(e) {
					all = append(all, int(int64(sources[k])-g.Offset(of.Src)))
				}
			}
			in[e] = append(in[e], all)
		}
	}
	for l, width := range widths {
		next := make([][][]float64, len(x))
		for v := range x {
			var sums [][][]float64
			for e := range s.Edges {
				if s.Edges[e].Dst == v && reductions[l] != "rows" {
					sums = append(sums, reducedRows(reductions[l], s, e, in[e], x))
				}
			}
			for i, own := range x[v] {
				var at [][]float64
				for _, sum := range sums {
					at = append(at, sum[i])
				}
				if strings.HasPrefix(reductions[l], "attend") {
					own = nil
				}
				next[v] = append(next[v], mixed(own, at, width))
			}
		}
		x = next
	}
	return x
}

// reducedRows returns the sums of all nodes over edges of a type.
func reducedRows(how string, s *graph.Schema, e int, in [][]int, x [][][]float64) (all [][]float64) {
	of := s.Edges[e]
	from, out := x[of.Src], make([]float64, len(x[of.Src]))
	in = slices.Clone(in)
	for i := range in {
		if of.Src == of.Dst && (how == "gcn" || how == "attend2") { // one loop each, as in PyG
			others := slices.DeleteFunc(slices.Clone(in[i]), func(j int) bool { return j == i })
			in[i] = append(others, i)
		}
		for _, j := range in[i] {
			out[j]++
		}
	}
	part := len(from[0])/len(s.Edges) - 4 // of attention, two heads
	for i, sources := range in {
		y, whole := make([]float64, len(from[0])), [2]float64{}
		for n, j := range sources {
			row := from[j]
			slot := row[e*(part+4):]
			for k, v := range row {
				switch {
				case how == "max" && n > 0:
					y[k] = math.Max(y[k], v)
				case how == "max":
					y[k] = v
				case how == "mean":
					y[k] += v / float64(len(sources))
				case how == "gcn" && of.Src == of.Dst:
					y[k] += v / math.Sqrt(float64(len(sources)*len(in[j])))
				case how == "gcn":
					y[k] += v / math.Sqrt(float64(len(sources))*out[j])
				case k < part: // attention
					h := k * 2 / part
					score := x[of.Dst][i][e*(part+4)+part+2+h] + slot[part+h]
					weight := math.Exp(max(score, 0.2*score))
					y[k] += slot[k] * weight
					whole[h] += weight / float64(part/2)
				}
			}
		}
		if strings.HasPrefix(how, "attend") {
			y = y[:part]
			for k := range y {
				y[k] /= max(whole[k*2/part], 1e-300)
			}
		}
		all = append(all, y)
	}
	return all
}

// TestRowsOfTypedGraphsHaveNormsAndAttention computes GCN's norm within a type of nodes and between two, and attention
// with loops and without, and compares them with float64.
func TestRowsOfTypedGraphsHaveNormsAndAttention(t *testing.T) {
	for _, edges := range [][]string{{"axb", "bya", "aza"}, {"aza", "awa"}} {
		g := typedGraph(t, edges...)
		slots := 8 * len(edges) // products of 4 numbers, and 2 heads
		for _, attends := range []string{"attend2", "attend2bare"} {
			reductions, widths := []string{"gcn", "rows", attends}, []int{6, slots, 3}
			layers := fmt.Sprintf("gcn:6,rows:%d,%s:3", slots, attends)
			opt := ownOptions(g.Schema(), layers, widths)
			sameAsIn64(t, g, opt, 0, typedReference(t, g, reductions, widths)[0], attends)
		}
	}
}

// sameAsIn64 compares rows of nodes of a type, in each way, with numbers in float64, and their bits.
func sameAsIn64(t *testing.T, g *graph.Graph, opt *EmbedOptions, of int, want [][]float64, name string) {
	t.Helper()
	var first []byte
	for n, way := range ways {
		got, width := ownRowsOf(t, g, opt, of, nil, way), len(want[0])
		rows := make([]float32, len(got)/4)
		unified.Float32.Floats(rows, got)
		for i := range want {
			for k, v := range want[i] {
				near := math.Abs(v-float64(rows[i*width+k])) < 1e-5
				expect.Ensure(t, near, "%s, way %d: node %d: %v, %v", name, n, i, rows[i*width:(i+1)*width], want[i])
			}
		}
		if first == nil {
			first = got
		}
		expect.Same(t, string(got), string(first), name)
		some := ownRowsOf(t, g, opt, of, []int32{3, 7, 8, 450}, way)
		for _, v := range []int{3, 7, 8, 450} {
			expect.Same(t, string(some[v*4*width:(v+1)*4*width]), string(first[v*4*width:(v+1)*4*width]), name)
		}
	}
}

// TestRowsOfTypedGraphsAreTheWholeProductInAnyWay: of two types of nodes, and of edges of several types or of one
// between both, rows of each type of nodes are near sums in float64, and have the same bits in all ways, also where
// they are those of some nodes.
func TestRowsOfTypedGraphsAreTheWholeProductInAnyWay(t *testing.T) {
	for _, edges := range [][]string{{"axb", "bya", "aza"}, {"axb"}, {"bya"}} {
		g, widths := typedGraph(t, edges...), []int{9, 5}
		opt := ownOptions(g.Schema(), "mean:9,max:5", widths)
		want := typedReference(t, g, []string{"mean", "max"}, widths)
		for of := range want {
			sameAsIn64(t, g, opt, of, want[of], fmt.Sprintf("%v, %d", edges, of))
		}
	}
}

// ownRowsOf returns the rows of nodes of a type, in a way.
func ownRowsOf(t testing.TB, g *graph.Graph, opt *EmbedOptions, of int, some []int32, way embed.Options) []byte {
	t.Helper()
	e := &embedding{opt: *opt, of: of}
	layers, x, _, err := e.layers(g)
	expect.OK(t, err)
	p := &embed.Program{Graph: g, Steps: steps(g, layers, x, of, unified.Float32), Name: t.Name()}
	if some != nil {
		p.Of = make([][]int32, len(x))
		p.Of[of] = some
	}
	way.Folder = filepath.Join(t.TempDir(), "work")
	expect.OK(t, expect.Err(embed.Run(t.Context(), p, way)))
	return expect.Must(os.ReadFile(filepath.Join(way.Folder, "0-rows")))(t)
}

func TestLayersOfOnesOwnThatCannotBeAreRefused(t *testing.T) {
	g := communities(t, 70, false)
	for _, wrong := range []string{"median:3", "mean:", "mean:0", "attend0:4", "attend3:4", "rows:80000000"} {
		_, _, _, err := (&embedding{opt: *ownOptions(g.Schema(), wrong, nil)}).layers(g)
		expect.Is(t, err, ErrOptions, wrong)
	}
}

// TestRowsGoToAParquetFileByAWriterThatIsGiven: without one it is an error before any work.
func TestRowsGoToAParquetFileByAWriterThatIsGiven(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	expect.OK(t, formats.WriteGraph(t.Context(), dir, communities(t, 70, false), formats.WriterOptions{}))
	opt := EmbedOptions{Layers: "mean:4", Out: filepath.Join(t.TempDir(), "rows.parquet")}
	err := expect.Err(Embed(t.Context(), dir, opt))
	expect.Is(t, err, ErrOptions, "without a writer")
	expect.That(t, strings.Contains(err.Error(), "EmbedOptions.Parquet"), "%v", err)
}
