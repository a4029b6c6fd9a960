package graph_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func tensor[T unified.Element](t *testing.T, v []T, shape ...int64) unified.Tensor {
	t.Helper()
	return expect.Must(unified.FromSlice(v).Reshape(shape...))(t)
}

func view[T unified.Element](t *testing.T, x unified.Tensor) []T {
	t.Helper()
	return expect.Must(unified.View[T](x))(t)
}

func ids(t *testing.T, x unified.Tensor) []int64 {
	t.Helper()
	switch x.DType() {
	case unified.Invalid:
		return nil
	case unified.Uint8:
		return widen(view[uint8](t, x))
	case unified.Uint16:
		return widen(view[uint16](t, x))
	case unified.Int32:
		return widen(view[int32](t, x))
	}
	return view[int64](t, x)
}

func widen[T uint8 | uint16 | int32](v []T) []int64 {
	w := make([]int64, len(v))
	for i, x := range v {
		w[i] = int64(x)
	}
	return w
}

// naiveEdge is what the oracle keeps of an edge.
type naiveEdge struct {
	typ, src, id, order int64 // src is fused
	weight              float32
	vec                 [3]int16
}

// naive is the oracle: a map from fused destination to its edges.
func naive(d graph.Data, offset map[string]int64) map[int64][]naiveEdge {
	m := map[int64][]naiveEdge{}
	for t, e := range d.Edges {
		w, _ := unified.View[float32](e.Columns["weight"])
		vec, _ := unified.View[int16](e.Columns["vec"])
		for i := range e.Src {
			n := naiveEdge{typ: int64(t), src: e.Src[i] + offset[e.Source], id: int64(i), order: int64(i)}
			if e.IDs != nil {
				n.id = e.IDs[i]
			}
			if w != nil {
				n.weight = w[i]
			}
			if vec != nil {
				copy(n.vec[:], vec[3*i:])
			}
			dst := e.Dst[i] + offset[e.Target]
			m[dst] = append(m[dst], n)
		}
	}
	for _, es := range m {
		slices.SortFunc(es, func(a, b naiveEdge) int {
			return cmp.Or(cmp.Compare(a.typ, b.typ), cmp.Compare(a.src, b.src), cmp.Compare(a.id, b.id),
				cmp.Compare(a.order, b.order))
		})
	}
	return m
}

func randomData(t *testing.T, r *rand.Rand, withIDs bool) (graph.Data, map[string]int64) {
	counts := map[string]int64{"paper": 1 + r.Int64N(60), "author": 1 + r.Int64N(9), "venue": r.Int64N(3)}
	var d graph.Data
	offset, sum := map[string]int64{}, int64(0)
	for _, name := range []string{"paper", "author", "venue"} {
		d.Nodes = append(d.Nodes, graph.NodeData{Name: name, Count: counts[name]})
		offset[name] = sum
		sum += counts[name]
	}
	for i, rel := range [][3]string{{"paper", "cites", "paper"}, {"author", "writes", "paper"},
		{"paper", "in", "venue"}, {"author", "knows", "author"}} {
		m := r.IntN(300)
		if counts[rel[0]] == 0 || counts[rel[2]] == 0 {
			m = 0
		}
		e := graph.EdgeData{Source: rel[0], Relation: rel[1], Target: rel[2], Columns: map[string]unified.Tensor{}}
		weight, vec := make([]float32, m), make([]int16, 3*m)
		for k := range m {
			e.Src, e.Dst = append(e.Src, r.Int64N(counts[rel[0]])), append(e.Dst, r.Int64N(counts[rel[2]]))
			if withIDs {
				e.IDs = append(e.IDs, 1000-r.Int64N(50))
			}
			weight[k] = r.Float32()
		}
		for k := range vec {
			vec[k] = int16(r.IntN(1 << 15))
		}
		if i%2 == 0 {
			e.Columns["weight"] = unified.FromSlice(weight)
		}
		if i > 0 {
			e.Columns["vec"] = tensor(t, vec, int64(m), 3)
		}
		if i == 1 {
			e.IDs = nil
		}
		d.Edges = append(d.Edges, e)
	}
	return d, offset
}

func TestNewEqualsANaiveBuilder(t *testing.T) {
	const seed = 20261121
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 40 {
		withIDs := round%2 == 1
		d, offset := randomData(t, r, withIDs)
		g, err := graph.New(d)
		expect.Ensure(t, err == nil, "seed %d round %d: %v", seed, round, err)
		want := naive(d, offset)
		src, typ := ids(t, g.Indices()), ids(t, g.Types())
		w, _ := g.EdgeColumn("weight")
		vec, _ := g.EdgeColumn("vec")
		weights, vecs := view[float32](t, w), view[int16](t, vec)
		expect.Ensure(t, g.EdgeIDs().Valid() == withIDs, "round %d: edge ids stored: %t, given: %t", round,
			g.EdgeIDs().Valid(), withIDs)
		edgeIDs := ids(t, g.EdgeIDs())
		for v := range g.NumNodes() {
			lo, hi := g.Indptr()[v], g.Indptr()[v+1]
			if int(hi-lo) != len(want[v]) {
				t.Fatalf("seed %d round %d: node %d has %d edges, want %d", seed, round, v, hi-lo, len(want[v]))
			}
			for k, n := range want[v] {
				p := lo + int64(k)
				got := naiveEdge{typ: typ[p], src: src[p], id: n.id, order: n.order, weight: weights[p],
					vec: [3]int16(vecs[3*p:])}
				if withIDs {
					got.id = edgeIDs[p]
				}
				expect.Ensure(t, got == n, "seed %d round %d: node %d edge %d: %+v, want %+v", seed, round, v, k, got,
					n)
			}
		}
	}
}

func TestNewDefaultsToOneType(t *testing.T) {
	feature := tensor(t, []float32{1, 2, 3, 4, 5, 6}, 3, 2)
	g := expect.Must(graph.New(graph.Data{
		Nodes: []graph.NodeData{{Columns: map[string]unified.Tensor{"feature": feature}}},
		// a self-loop, parallel edges; node 2 is isolated but for its out-edge
		Edges:  []graph.EdgeData{{Src: []int64{2, 0, 1, 0, 1}, Dst: []int64{1, 1, 1, 1, 0}}},
		Splits: []graph.Split{{Name: "train", Seeds: graph.NodeIDs([]int64{2, 0})}, {Name: "test"}},
	}))(t)
	if got := g.Schema().Edges[0].String(); got != "node:edge:node" || g.NumNodes() != 3 || g.NumEdges() != 5 {
		t.Errorf("got %s with %d nodes, %d edges", got, g.NumNodes(), g.NumEdges())
	}
	got := g.Indptr()
	expect.That(t, slices.Equal(got, []int64{0, 1, 5, 5}), "indptr %v", got)
	if got := view[int32](t, g.Indices()); !slices.Equal(got, []int32{1, 0, 0, 1, 2}) {
		t.Errorf("indices %v", got)
	}
	expect.That(t, !g.Types().Valid() && !g.EdgeIDs().Valid(), "a plain graph stores types or ids")
	col, ok := g.NodeColumn(0, "feature")
	expect.That(t, ok && col.String() == "float32[3,2] host", "feature is %v", col)
	s, err := g.Split("test", 0)
	expect.That(t, err == nil && s.Len() == 0, "the empty split: %v, %v", s, err)
}

func TestNewTakesTheSmallestGraphs(t *testing.T) {
	for _, c := range []struct {
		name         string
		data         graph.Data
		nodes, edges int64
	}{
		{"no nodes", graph.Data{Nodes: []graph.NodeData{{}}}, 0, 0},
		{"no edges", graph.Data{Nodes: []graph.NodeData{{Count: 5}}}, 5, 0},
		{"one node", graph.Data{Nodes: []graph.NodeData{{Count: 1}}}, 1, 0},
		{"one node, looped twice", graph.Data{Nodes: []graph.NodeData{{Count: 1}},
			Edges: []graph.EdgeData{{Src: []int64{0, 0}, Dst: []int64{0, 0}}}}, 1, 2},
		{"two types, no edges", graph.Data{Nodes: []graph.NodeData{{Name: "a", Count: 2}, {Name: "b"}},
			Edges: []graph.EdgeData{
				{Source: "a", Relation: "r", Target: "b"}, {Source: "b", Relation: "r", Target: "a"},
			}}, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := expect.Must(graph.New(c.data))(t)
			expect.That(t, g.NumNodes() == c.nodes && g.NumEdges() == c.edges && len(g.Indptr()) == int(c.nodes)+1,
				"%d nodes, %d edges, %d indptr entries", g.NumNodes(), g.NumEdges(), len(g.Indptr()))
		})
	}
}

func TestNewRefusesBadData(t *testing.T) {
	two := []graph.NodeData{{Name: "a", Count: 3}, {Name: "b", Count: 2}}
	one := []graph.NodeData{{Count: 3}}
	nan := []graph.EdgeData{{Src: []int64{0}, Dst: []int64{1},
		Columns: map[string]unified.Tensor{"weight": unified.FromSlice([]float32{float32(math.NaN())})}}}
	negative := []graph.EdgeData{{Src: []int64{0, 0}, Dst: []int64{1, 1},
		Columns: map[string]unified.Tensor{"weight": unified.FromSlice([]float64{0, -1})}}}
	for _, c := range []struct {
		name string
		data graph.Data
		is   error
		says string
	}{
		{"no node type", graph.Data{}, graph.ErrSchema, "no node type"},
		{"names missing", graph.Data{Nodes: two, Edges: []graph.EdgeData{{}}}, graph.ErrSchema, "node type"},
		{"no edge type for two", graph.Data{Nodes: two}, graph.ErrSchema, ""},
		{"lengths", graph.Data{Nodes: one, Edges: []graph.EdgeData{{Src: []int64{1}}}}, graph.ErrSchema,
			"1 sources, 0 destinations"},
		{"source", graph.Data{Nodes: one, Edges: []graph.EdgeData{{Src: []int64{0, 3}, Dst: []int64{0, 0}}}},
			graph.ErrEdge, "edge 1: source 3 is not below 3"},
		{"negative", graph.Data{Nodes: one, Edges: []graph.EdgeData{{Src: []int64{0}, Dst: []int64{-1}}}},
			graph.ErrEdge, "edge 0: destination -1"},
		{"id of another type", graph.Data{Nodes: two, Edges: []graph.EdgeData{{Source: "a", Relation: "r", Target: "b",
			Src: []int64{2}, Dst: []int64{2}}}}, graph.ErrEdge,
			`a:r:b: edge 0: destination 2 is not below 2 nodes of type "b"`},
		{"weight", graph.Data{Nodes: one, Edges: nan}, graph.ErrEdge, "edge 0: its weight"},
		{"negative weight", graph.Data{Nodes: one, Edges: negative}, graph.ErrEdge, "edge 1: its weight"},
		{"ids", graph.Data{Nodes: one, Edges: []graph.EdgeData{{Src: []int64{0}, Dst: []int64{0}, IDs: []int64{}}}},
			graph.ErrSchema, "0 ids for 1 edges"},
		{"column too short", graph.Data{Nodes: []graph.NodeData{{Count: 3,
			Columns: map[string]unified.Tensor{"label": unified.FromSlice([]int64{1})}}}}, graph.ErrSchema, "label"},
		{"column is nothing", graph.Data{Nodes: []graph.NodeData{{Count: 3,
			Columns: map[string]unified.Tensor{"label": {}}}}}, graph.ErrSchema, "label"},
		{"split", graph.Data{Nodes: one, Splits: []graph.Split{{Name: "train", Seeds: graph.NodeIDs([]int64{3})}}},
			graph.ErrSeed, "node 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := graph.New(c.data)
			expect.That(t, errors.Is(err, c.is) && strings.Contains(fmt.Sprint(err), c.says),
				"got %v, want %v saying %q", err, c.is, c.says)
		})
	}
}

func TestIDChangesWithEverythingInTheGraph(t *testing.T) {
	fresh := func() graph.Data {
		return graph.Data{
			Nodes: []graph.NodeData{{Count: 3, Columns: map[string]unified.Tensor{"label": unified.FromSlice([]int64{0,
				1, 2})}}},
			Edges: []graph.EdgeData{{Src: []int64{0, 1, 2}, Dst: []int64{1, 2, 0}, IDs: []int64{7, 8, 9},
				Columns: map[string]unified.Tensor{"weight": unified.FromSlice([]float32{1, 2, 3})}}},
			Splits: []graph.Split{{Name: "train", Seeds: graph.NodeIDs([]int64{0})}},
		}
	}
	seen := map[[16]byte]string{}
	for _, c := range []struct {
		name   string
		change func(*graph.Data)
	}{
		{"nothing", func(*graph.Data) {}},
		{"node name", func(d *graph.Data) { d.Nodes[0].Name = "page" }},
		{"relation", func(d *graph.Data) { d.Edges[0].Relation = "links" }},
		{"label", func(d *graph.Data) {
			d.Nodes[0].Columns["label"] = unified.FromSlice([]int64{0, 1, 3})
		}},
		{"label type", func(d *graph.Data) { d.Nodes[0].Columns["label"] = unified.FromSlice([]int32{0, 1, 2}) }},
		{"column name", func(d *graph.Data) {
			d.Nodes[0].Columns = map[string]unified.Tensor{"y": d.Nodes[0].Columns["label"]}
		}},
		{"source", func(d *graph.Data) { d.Edges[0].Src[0] = 2 }},
		{"edge id", func(d *graph.Data) { d.Edges[0].IDs[0] = 6 }},
		{"weight", func(d *graph.Data) { d.Edges[0].Columns["weight"] = unified.FromSlice([]float32{1, 2, 4}) }},
		{"seed", func(d *graph.Data) { d.Splits[0].Seeds = graph.NodeIDs([]int64{1}) }},
		{"split index", func(d *graph.Data) { d.Splits[0].Index = 1 }},
	} {
		d := fresh()
		c.change(&d)
		g := expect.Must(graph.New(d))(t)
		other, twice := seen[g.ID()]
		expect.That(t, !twice, "%q and %q have the same id", c.name, other)
		seen[g.ID()] = c.name
	}
	d := fresh()
	slices.Reverse(d.Edges[0].Src)
	slices.Reverse(d.Edges[0].Dst)
	slices.Reverse(d.Edges[0].IDs)
	d.Edges[0].Columns["weight"] = unified.FromSlice([]float32{3, 2, 1})
	g := expect.Must(graph.New(d))(t)
	expect.That(t, seen[g.ID()] == "nothing", "the order of the input changed the id of an equal graph")
}
