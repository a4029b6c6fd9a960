//go:build !race

package sampling

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// A reversed index has a node, a position and each column of every edge, its type if there are several, and offsets.
func TestTheBytesOfAReversedIndexAreThoseOfItsArrays(t *testing.T) {
	for _, c := range []struct {
		direction    Direction
		weight       string
		types, count int64
		want         int64
	}{
		{In, "w", 1, 100, 0},
		{Out, "", 1, 100, 100*(4+4) + 8*51},
		{Out, "w", 1, 100, 100*(4+4+8) + 8*51},
		{Both, "", 1, 100, 200*(4+4) + 8*51},
		{Out, "", 2, 100, 200*(4+4+2) + 8*51},
		{Both, "w", 3, 100, 600*(4+4+2+8) + 8*51},
		{Out, "", 1, 1 << 31, 1<<31*(4+8) + 8*51},
	} {
		s := &graph.Schema{Nodes: []graph.NodeType{{Name: "v", Count: 50}},
			EdgeColumns: []graph.Column{{Name: "w", DType: unified.Float64}, {Name: "x", DType: unified.Float32}}}
		for e := range c.types {
			et := graph.EdgeType{Source: "v", Relation: fmt.Sprint("r", e), Target: "v", Count: c.count}
			s.Edges = append(s.Edges, et)
		}
		expect.OK(t, s.Init())
		n := Neighbor{Fanouts: []int{3}, Frontier: AllNodes, Direction: c.direction, Weight: c.weight}
		got := boundOf(n, s, 4).Shared
		expect.That(t, got == c.want, "%v, weight %q, %d types of %d edges: %d bytes, want %d", c.direction, c.weight,
			c.types, c.count, got, c.want)
	}
}

// Turned edges of several types, and draws among edges of which a mask leaves some out, take memory of their own.
func TestTypesAndDrawsStandRefusedMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(20261123, 1))
	var edges []graph.EdgeData
	for e := range 2 {
		edges = append(edges, steadyEdges(r, 300, 300, 12))
		edges[e].Relation = fmt.Sprint("r", e)
	}
	g := graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: 300}}, Edges: edges})
	for name, s := range map[string]Sampler{
		"out, of two types": Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Direction: Out, Weight: "w"},
		"masked, replaced":  Neighbor{Fanouts: []int{5, 3}, Frontier: AllNodes, Mask: "m", Replace: true},
	} {
		t.Run(name, func(t *testing.T) { standsScarceMemory(t, g, s) })
	}
}
