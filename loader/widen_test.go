package loader_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/narrow"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// narrowGraph has a column of each narrow type, all of the same numbers: -4, -3, .., 4.
func narrowGraph(t *testing.T) *graph.Graph {
	t.Helper()
	const n, width = 50, 9
	var halves []unified.Half
	var brains []unified.BHalf
	var bytes, bare []int8
	scales, label := make([]float32, n), make([]int64, n)
	for row := range n {
		scales[row] = 0.5
		for i := range width {
			x := float32((row+i)%9 - 4)
			halves, brains = append(halves, unified.HalfOf(x)), append(brains, unified.BHalfOf(x))
			bytes, bare = append(bytes, int8(2*x)), append(bare, int8(x))
		}
	}
	return graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: n, Columns: map[string]unified.Tensor{
		"feature": graphs.Matrix(t, bytes, width), "feature_scale": unified.FromSlice(scales),
		"half": graphs.Matrix(t, halves, width), "brain": graphs.Matrix(t, brains, width),
		"bare": graphs.Matrix(t, bare, width), "label": unified.FromSlice(label)}}},
		Edges: []graph.EdgeData{{Src: []int64{1, 2, 3}, Dst: []int64{0, 1, 2}}}})
}

func TestNarrowRowsAreDeliveredWide(t *testing.T) {
	data := storedGraph(t, narrowGraph(t))
	for _, c := range []struct {
		residence loader.Residence
		verify    bool
	}{{loader.Mapped, false}, {loader.Mapped, true}, {loader.Resident, true}, {loader.Disk, true}} {
		l := expect.Must(loader.New(data, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, BatchSize: 7,
			Columns: loader.ColumnOptions{Nodes: []string{"feature", "half", "brain", "bare"},
				Widen: []string{"float32"}},
			Device:    loader.DeviceOptions{Name: "cpu"},
			Residence: c.residence, Verify: c.verify, Disk: loader.DiskOptions{CacheBytes: 64}}))(t)
		for b := range each(t, l.Epoch(background, 0)) {
			ids := idsOf(t, b.Sample.Nodes[0])
			for _, name := range []string{"feature", "half", "brain"} {
				x := b.Node(0, name)
				v, err := unified.View[float32](x)
				expect.Ensure(t, err == nil && len(v) == 9*len(ids), "%s: %v, %v", name, x, err)
				for i, id := range ids {
					want := make([]float32, 9)
					for k := range want {
						want[k] = float32((int(id)+k)%9 - 4)
					}
					expect.Ensure(t, slices.Equal(v[9*i:9*i+9], want), "%s of node %d is %v, not %v", name, id,
						v[9*i:9*i+9], want)
				}
			}
			x := b.Node(0, "bare")
			expect.That(t, x.DType() == unified.Int8, "a column without scales is delivered as %v", x.DType())
		}
		expect.OK(t, l.Close())
	}
}

// A narrowWay is how features are stored and delivered: "" for float32, and for as they are stored.
type narrowWay struct{ stored, widen string }

var narrowWays = []narrowWay{{}, {"float16", ""}, {"float16", "float32"}, {"bfloat16", "float16"}, {"int8", ""},
	{"int8", "float32"}, {"int8", "bfloat16"}, {"int4", ""}, {"int4", "float32"}, {"int4", "float16"}}

// widenTo is the option that delivers features so.
func widenTo(dtype string) []string {
	if dtype == "" {
		return nil
	}
	return []string{"feature=" + dtype}
}

// narrowed returns a graph with features of 41 numbers for each node, stored as a type or code.
func narrowed(t testing.TB, g *graph.Graph, stored string) *graph.Graph {
	t.Helper()
	const width = 41
	r, a := rand.New(rand.NewPCG(9, uint64(g.NumNodes()))), graphs.ArraysOf(g)
	for i := range a.Schema.Nodes {
		n, columns := &a.Schema.Nodes[i], a.NodeColumns[i]
		c, scale := narrowSchema(t, stored, width), make([]float32, n.Count)
		b := unified.FromSlice(make([]uint64, (n.Count*c.RowBytes()+7)/8)).Bytes()[:n.Count*c.RowBytes()]
		for row := range n.Count {
			numbers := make([]float32, width)
			for k := range numbers {
				numbers[k] = float32(r.NormFloat64())
			}
			scale[row] = putNarrow(t, c, b[row*c.RowBytes():][:c.RowBytes()], numbers)
		}
		n.Columns = slices.DeleteFunc(n.Columns, func(of graph.Column) bool { return of.Name == "feature" })
		n.Columns = append(n.Columns, c)
		columns["feature"] = expect.Must(unified.New(c.DType, b, n.Count, c.Shape[0]))(t)
		if c.DType == unified.Int8 {
			n.Columns = append(n.Columns, graph.Column{Name: "feature_scale", DType: unified.Float32})
			columns["feature_scale"] = unified.FromSlice(scale)
		}
		slices.SortFunc(n.Columns, func(a, b graph.Column) int { return strings.Compare(a.Name, b.Name) })
	}
	return graphs.Of(t, a)
}

// narrowSchema is the column of features that are stored so.
func narrowSchema(t testing.TB, stored string, width int64) graph.Column {
	t.Helper()
	c := graph.Column{Name: "feature", DType: unified.Float32, Shape: []int64{width}}
	if narrow.Of(stored) != nil {
		return expect.Must(c.Coded(stored))(t)
	}
	c.DType = expect.Must(unified.ParseDType(stored))(t)
	return c
}

// putNarrow stores a row. It returns its scale where rows have one.
func putNarrow(t testing.TB, c graph.Column, to []byte, numbers []float32) float32 {
	t.Helper()
	switch {
	case c.Code != nil:
		expect.OK(t, narrow.Of(c.Code.Name).Encode(to, numbers))
	case c.DType == unified.Int8:
		scale := expect.Must(narrow.Greatest(numbers, "int8"))(t) / 127
		for k, x := range numbers {
			to[k] = byte(int8(math.RoundToEven(float64(x / scale))))
		}
		return scale
	default:
		c.DType.PutFloats(to, numbers)
	}
	return 0
}

// narrower makes graphs narrow, each once.
func narrower(t testing.TB, more func(testing.TB, *graph.Graph) *graph.Graph) func(*graph.Graph, string) *graph.Graph {
	type key struct {
		g      *graph.Graph
		stored string
	}
	made := map[key]*graph.Graph{}
	return func(g *graph.Graph, stored string) *graph.Graph {
		k := key{g, stored}
		if made[k] == nil {
			made[k] = more(t, narrowed(t, g, stored))
		}
		return made[k]
	}
}

// idsOf returns ids of either type.
func idsOf(t *testing.T, ids unified.Tensor) (list []int64) {
	t.Helper()
	at := expect.Must(unified.Numbers(ids))(t)
	for i := range ids.Len() {
		list = append(list, int64(at(i)))
	}
	return list
}
