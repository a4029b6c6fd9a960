// Package graphs makes the graphs that tests of several packages load, each the same in every run. New and Of are for
// those of one test.
package graphs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// New is graph.New for a test, which ends where that fails.
func New(t testing.TB, d graph.Data) *graph.Graph {
	t.Helper()
	return expect.Must(graph.New(d))(t)
}

// Of is graph.FromArrays for a test, which ends where that fails.
func Of(t testing.TB, a graph.Arrays) *graph.Graph {
	t.Helper()
	return expect.Must(graph.FromArrays(a))(t)
}

// ArraysOf returns the arrays of a graph, to make another one of: its lists and maps are new, its tensors are not.
func ArraysOf(g *graph.Graph) graph.Arrays {
	s := *g.Schema()
	s.Nodes, s.Edges, s.EdgeColumns = slices.Clone(s.Nodes), slices.Clone(s.Edges), slices.Clone(s.EdgeColumns)
	a := graph.Arrays{Schema: s, ID: g.ID(), EdgeIDs: g.EdgeIDs(), Splits: g.Splits(),
		Indptr: unified.FromSlice(g.Indptr()), Indices: g.Indices(), Types: g.Types(),
		EdgeColumns: map[string]unified.Tensor{}}
	for i := range s.Nodes {
		columns := map[string]unified.Tensor{}
		s.Nodes[i].Columns = slices.Clone(s.Nodes[i].Columns)
		for _, c := range s.Nodes[i].Columns {
			columns[c.Name], _ = g.NodeColumn(i, c.Name)
		}
		a.NodeColumns = append(a.NodeColumns, columns)
	}
	for _, c := range s.EdgeColumns {
		a.EdgeColumns[c.Name], _ = g.EdgeColumn(c.Name)
	}
	return a
}

// Matrix has v in rows of width elements.
func Matrix[T unified.Element](t testing.TB, v []T, width int64) unified.Tensor {
	t.Helper()
	return expect.Must(unified.FromRows(v, width))(t)
}

// Counted has n numbers from 0 on, as elements of a type.
func Counted[T ~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~int64 | ~float32 | ~float64](n int) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = T(i)
	}
	return v
}

// CSC is a graph of one type of nodes and one of edges, of its two arrays.
func CSC(t testing.TB, indptr []int64, indices []int32) *graph.Graph {
	t.Helper()
	return Of(t, graph.Arrays{
		Schema: graph.Schema{
			Nodes: []graph.NodeType{{Name: "node", Count: int64(len(indptr) - 1)}},
			Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: int64(len(indices))}},
		},
		Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(indices),
	})
}

// PlainData is Plain without splits.
func PlainData(t testing.TB, n, deg int) graph.Data {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	e := graph.EdgeData{}
	feature, label := make([]float32, 0, 3*n), make([]int64, 0, n)
	var weight []float32
	for v := range n {
		for range deg {
			e.Src, e.Dst = append(e.Src, int64(r.IntN(n))), append(e.Dst, int64(v))
			weight = append(weight, r.Float32())
		}
		feature = append(feature, float32(v), float32(v)+0.25, float32(v)+0.5)
		label = append(label, int64(v)*10)
	}
	e.Columns = map[string]unified.Tensor{"weight": unified.FromSlice(weight)}
	return graph.Data{Edges: []graph.EdgeData{e}, Nodes: []graph.NodeData{{Count: int64(n),
		Columns: map[string]unified.Tensor{"feature": Matrix(t, feature, 3), "label": unified.FromSlice(label)}}}}
}

// Plain is a graph of n nodes with deg in-edges each, features [n, 3] float32 that say node and column, labels int64,
// edge weights, and the first half of the nodes, backwards, as train split.
func Plain(t testing.TB, n, deg int) *graph.Graph {
	t.Helper()
	d := PlainData(t, n, deg)
	var train []int32
	for v := n/2 - 1; v >= 0; v-- {
		train = append(train, int32(v))
	}
	d.Splits = []graph.Split{{Name: "train", Seeds: graph.NodeIDs(train)},
		{Name: "test", Seeds: graph.NodeIDs([]int32{})}}
	return New(t, d)
}

// Typed has users, items that users rate, and friends among users. Users have float64 features, items float16 ones.
func Typed(t testing.TB, users, items int) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(2, uint64(users)))
	rates := graph.EdgeData{Source: "user", Relation: "rates", Target: "item"}
	rated := graph.EdgeData{Source: "item", Relation: "rated_by", Target: "user"}
	friend := graph.EdgeData{Source: "user", Relation: "friend", Target: "user"}
	for range 5 * items {
		u, i := int64(r.IntN(users)), int64(r.IntN(items))
		rates.Src, rates.Dst = append(rates.Src, u), append(rates.Dst, i)
		rated.Src, rated.Dst = append(rated.Src, i), append(rated.Dst, u)
		friend.Src, friend.Dst = append(friend.Src, int64(r.IntN(users))), append(friend.Dst, u)
	}
	stars := make([]int8, len(rates.Src))
	for i := range stars {
		stars[i] = int8(r.IntN(5))
	}
	rates.Columns = map[string]unified.Tensor{"stars": unified.FromSlice(stars)}
	return New(t, graph.Data{
		Nodes: []graph.NodeData{
			{Name: "user", Count: int64(users), Columns: map[string]unified.Tensor{
				"feature": Matrix(t, Counted[float64](2*users), 2), "label": unified.FromSlice(Counted[int32](users))}},
			{Name: "item", Count: int64(items), Columns: map[string]unified.Tensor{
				"feature": Matrix(t, Counted[unified.Half](4*items), 4)}},
		},
		Edges: []graph.EdgeData{rates, rated, friend},
	})
}

// Columns is a graph whose edges have weights, a mask and times, and whose nodes have a time.
func Columns(t testing.TB, types, nodes, edges int) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(5, uint64(edges)))
	var d graph.Data
	for i := range types {
		born := make([]int64, nodes)
		for v := range born {
			born[v] = r.Int64N(40)
		}
		feature := make([]float32, 5*nodes)
		for v := range feature {
			feature[v] = r.Float32()
		}
		d.Nodes = append(d.Nodes, graph.NodeData{Name: fmt.Sprint("n", i), Count: int64(nodes),
			Columns: map[string]unified.Tensor{"born": unified.FromSlice(born), "feature": Matrix(t, feature, 5)}})
	}
	for i := range 2*types - 1 {
		e := graph.EdgeData{Source: fmt.Sprint("n", i%types), Relation: fmt.Sprint("r", i),
			Target: fmt.Sprint("n", i/2)}
		weight, mask, time := make([]float32, edges), make([]uint8, edges), make([]int64, edges)
		for k := range edges {
			e.Src = append(e.Src, r.Int64N(int64(nodes)))
			e.Dst = append(e.Dst, min(r.Int64N(int64(nodes)), r.Int64N(int64(nodes))))
			weight[k], mask[k], time[k] = max(0, r.Float32()-0.1), uint8(r.IntN(4)), r.Int64N(50)
		}
		e.Columns = map[string]unified.Tensor{"weight": unified.FromSlice(weight), "mask": unified.FromSlice(mask),
			"time": unified.FromSlice(time)}
		d.Edges = append(d.Edges, e)
	}
	return New(t, d)
}

// Wide has rows of 129 float32, labels int16, and times of its edges.
func Wide(t testing.TB, n, deg int) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(3, uint64(n)))
	e := graph.EdgeData{}
	for v := range n {
		for range r.IntN(2 * deg) {
			e.Src, e.Dst = append(e.Src, int64(r.IntN(n))), append(e.Dst, int64(v))
		}
	}
	e.Columns = map[string]unified.Tensor{"time": unified.FromSlice(Counted[int64](len(e.Src)))}
	return New(t, graph.Data{Edges: []graph.EdgeData{e}, Nodes: []graph.NodeData{{Count: int64(n),
		Columns: map[string]unified.Tensor{"feature": Matrix(t, Counted[float32](129*n), 129),
			"label": unified.FromSlice(Counted[int16](n))}}}})
}

// Hub has one node with edges from all others, many of them twice, and nodes without any.
func Hub(t testing.TB, n int) *graph.Graph {
	t.Helper()
	var e graph.EdgeData
	for v := range n {
		e.Src, e.Dst = append(e.Src, int64(v), int64(v), 0), append(e.Dst, 3, 3, int64(v/2))
	}
	return New(t, graph.Data{Edges: []graph.EdgeData{e}, Nodes: []graph.NodeData{{Count: int64(n),
		Columns: map[string]unified.Tensor{"feature": Matrix(t, Counted[uint8](5*n), 5)}}}})
}
