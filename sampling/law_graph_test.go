//go:build !race

package sampling

import (
	"fmt"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// Each node, and each pair of nodes, is in a subgraph as often as the enumeration of all draws says.
func TestSubgraphsHaveTheNodesThatTheirLawsSay(t *testing.T) {
	src, dst := []int64{1, 2, 0, 2, 3, 0, 1, 3, 2, 4}, []int64{0, 0, 1, 1, 1, 2, 2, 2, 3, 3}
	g, err := graph.New(graph.Data{Nodes: []graph.NodeData{{Count: 5}}, Edges: []graph.EdgeData{{Src: src, Dst: dst}}})
	expect.OK(t, err)
	for _, k := range []Saint{{Kind: SaintNodes, Budget: 9}, {Kind: SaintEdges, Budget: 6},
		{Kind: SaintWalks, Budget: 3}} {
		one := map[uint32]float64{}
		saintDraws(g, k, one)
		draw := make([]float64, 1<<5)
		for set, p := range one {
			draw[set] = p
		}
		c := newChances(union(draw, k.Budget))
		trials := finding(c.law)
		drawBatches(t, g, k, &Request{Seeds: [][]int64{nil}}, false, func(out *graph.Sample) bool {
			c.add(setOf(t, out.Nodes[0], 0))
			return c.trials < trials
		})
		c.check(t, k.Fingerprint())
	}
}

// setOf is the set of the nodes from a first one on.
func setOf(t *testing.T, nodes unified.Tensor, first int32) (set int) {
	for _, v := range mustView(t, nodes) {
		if v >= first {
			set |= 1 << (v - first)
		}
	}
	return set
}

// A layer has each set of sources as often as its draws say, each in proportion to the squared weights of a source's
// edges.
func TestLayersHaveTheSetsOfNodesThatTheirLawSays(t *testing.T) {
	const k = 4
	g := graphs.Of(t, graph.Arrays{Schema: graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: 5}},
		Edges:       []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: 4}},
		EdgeColumns: []graph.Column{{Name: "w", DType: unified.Float64}}},
		Indptr: unified.FromSlice([]int64{0, 2, 4, 4, 4, 4}), Indices: unified.FromSlice([]int32{2, 3, 3, 4}),
		EdgeColumns: map[string]unified.Tensor{"w": unified.FromSlice([]float64{2, 1, 1.5, 1.75})}})
	one := successive([]float64{2 * 2, 1*1 + 1.5*1.5, 1.75 * 1.75}, 1)
	for _, near := range []bool{false, true} {
		_, s := layeredOf(near, []int{k}, "w")
		c := newChances(union(one, k))
		trials := finding(c.law)
		drawBatches(t, g, s, &Request{Seeds: [][]int64{{0, 1}}}, false, func(out *graph.Sample) bool {
			c.add(setOf(t, out.Nodes[0], 2))
			return c.trials < trials
		})
		c.check(t, s.Fingerprint())
	}
}

// Each of many types has three candidates, of which two are drawn in proportion to their squared budgets.
func TestNodesByBudgetAreDrawnAsTheirLawSays(t *testing.T) {
	const types, k = 50, 2
	d := graph.Data{Nodes: []graph.NodeData{{Name: "seed", Count: 3}}}
	for i := range types {
		name := fmt.Sprintf("t%02d", i)
		d.Nodes = append(d.Nodes, graph.NodeData{Name: name, Count: 3})
		d.Edges = append(d.Edges, graph.EdgeData{Source: name, Relation: "to", Target: "seed",
			Src: []int64{0, 1, 0, 2, 1, 2, 2}, Dst: []int64{0, 0, 1, 1, 2, 2, 2}})
	}
	g := graphs.New(t, d)
	var squares []float64
	for _, budget := range []float64{1./2 + 1./2, 1./2 + 1./3, 1./2 + 2./3} {
		squares = append(squares, budget*budget)
	}
	c, req := newChances(successive(squares, k)), &Request{Seeds: make([][]int64, types+1)}
	req.Seeds[0] = []int64{0, 1, 2}
	trials := finding(c.law)
	drawBatches(t, g, HGT{Nodes: []int{k}}, req, false, func(out *graph.Sample) bool {
		for i := range types {
			c.add(setOf(t, out.Nodes[i+1], 0))
		}
		return c.trials < trials
	})
	c.check(t, "budgets")
}
