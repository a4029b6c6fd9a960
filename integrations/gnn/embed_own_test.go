package gnn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/embed"
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
		data.Edges = append(data.Edges, one)
	}
	return onDisk(t, graphs.New(t, data))
}

// mixed is what the functions of the test make of a node's rows: each element a mean of some of them.
func mixed(own []float64, sums [][]float64, width int) []float64 {
	y := make([]float64, width)
	for k := range y {
		y[k] = own[k%len(own)] / 2
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

// typedReference computes layers of means and greatest elements in float64, edge by edge.
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
	for l, width := range widths {
		next := make([][][]float64, len(x))
		for v := range x {
			for i := range x[v] {
				var sums [][]float64
				for e := range s.Edges {
					if s.Edges[e].Dst != v {
						continue
					}
					from := s.Edges[e].Src
					var rows [][]float64
					at := g.Offset(v) + int64(i)
					for k := g.Indptr()[at]; k < g.Indptr()[at+1]; k++ {
						if len(s.Edges) == 1 || expect.Must(unified.View[uint8](g.Types()))(t)[k] == uint8(e) {
							rows = append(rows, x[from][int64(sources[k])-g.Offset(from)])
						}
					}
					sums = append(sums, reducedRows(reductions[l], rows, len(x[from][0])))
				}
				next[v] = append(next[v], mixed(x[v][i], sums, width))
			}
		}
		x = next
	}
	return x
}

func reducedRows(how string, rows [][]float64, width int) []float64 {
	y := make([]float64, width)
	for n, row := range rows {
		for k, v := range row {
			if how == "max" && n > 0 {
				y[k] = math.Max(y[k], v)
			} else if how == "max" {
				y[k] = v
			} else {
				y[k] += v / float64(len(rows))
			}
		}
	}
	return y
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
			var first []byte
			for n, way := range ways {
				name := fmt.Sprintf("%v, %d, way %d", edges, of, n)
				got := ownRowsOf(t, g, opt, of, nil, way)
				rows := make([]float32, len(got)/4)
				unified.Float32.Floats(rows, got)
				for i := range want[of] {
					for k, v := range want[of][i] {
						near := math.Abs(v-float64(rows[i*5+k])) < 1e-5
						expect.Ensure(t, near, "%s: node %d: %v", name, i, rows[i*5:i*5+5])
					}
				}
				if first == nil {
					first = got
				}
				expect.Same(t, string(got), string(first), name)
				some := ownRowsOf(t, g, opt, of, []int32{3, 7, 8, 450}, way)
				for _, v := range []int{3, 7, 8, 450} {
					expect.Same(t, string(some[v*20:v*20+20]), string(first[v*20:v*20+20]), name)
				}
			}
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

// TestOwnLayersHaveNormsAndAttention computes GCN and GAT by layers of one's own, and compares them with float64.
func TestOwnLayersHaveNormsAndAttention(t *testing.T) {
	g := onDisk(t, communities(t, 700, false))
	for _, model := range []string{"gcn", "gat"} {
		of := Options{Model: model, Hidden: 12, Heads: 3, Layers: 1, Seed: 4}.withDefaults()
		m := expect.Must(newNetwork(40, 4, of, &budget{}))(t)
		l := &m.layers[0]
		weight, bias := l.w["weight"], l.w["bias"]
		opt := &EmbedOptions{Layers: "gcn:4", Rows: func(_ int, _ string, _ []float32, sums map[string][]float32,
			y []float32) error {
			rows(y, sums["node:edge:node"], 4, func(x []float64) []float64 {
				return plus(doubled(x, weight), doubles(bias.Data))
			})
			return nil
		}}
		if model == "gat" {
			opt = gatOptions(l)
		}
		for _, way := range ways {
			got := ownRowsOf(t, g, opt, 0, nil, way)
			numbers := make([]float32, len(got)/4)
			unified.Float32.Floats(numbers, got)
			near(t, numbers, inFloat64(t, g, m), 1e-4)
		}
	}
	nothing := ownOptions(g.Schema(), "", nil)
	for _, wrong := range []string{"median:3", "mean:", "mean:0", "attend0:4", "attend3:4", "rows:80000000"} {
		nothing.Layers = wrong
		_, _, _, err := (&embedding{opt: *nothing}).layers(g)
		expect.Is(t, err, ErrOptions, wrong)
	}
}

// rows makes rows of others by f.
func rows(y, x []float32, width int, f func([]float64) []float64) {
	n := len(y) / width
	for i := range n {
		for k, v := range f(doubles(x[i*(len(x)/n) : (i+1)*(len(x)/n)])) {
			y[i*width+k] = float32(v)
		}
	}
}

// gatOptions are a GAT of a layer: rows of products and scores, which the next layer attends with.
func gatOptions(l *layer) *EmbedOptions {
	width, heads := l.out, l.heads
	dots := func(z []float64, w *variable) (all []float64) {
		for h := range heads {
			sum := 0.0
			for k := h * width / heads; k < (h+1)*width/heads; k++ {
				sum += z[k] * float64(w.Data[k])
			}
			all = append(all, sum)
		}
		return all
	}
	return &EmbedOptions{Layers: fmt.Sprintf("rows:%d,attend%d:%d", width+2*heads, heads, width),
		Rows: func(layer int, _ string, own []float32, sums map[string][]float32, y []float32) error {
			if layer == 0 {
				rows(y, own, width+2*heads, func(x []float64) []float64 {
					z := doubled(x, l.w["weight"])
					return slices.Concat(z, dots(z, l.w["source"]), dots(z, l.w["target"]))
				})
				return nil
			}
			rows(y, sums["node:edge:node"], width, func(x []float64) []float64 {
				return plus(x, doubles(l.w["bias"].Data))
			})
			return nil
		}}
}
