//go:build !race

package sampling

import (
	"fmt"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/growth"
)

func TestFanoutsOfManyEdgeTypesCostNoMoreThanTheirNumber(t *testing.T) {
	growth.Linear(t, 1000, func(n int) {
		s := graph.Schema{Nodes: []graph.NodeType{{Name: "a"}}}
		sampler := Neighbor{PerType: map[string][]int{}}
		for i := range n {
			s.Edges = append(s.Edges, graph.EdgeType{Source: "a", Relation: fmt.Sprint("r", i), Target: "a"})
			sampler.PerType[s.Edges[i].String()] = []int{1}
		}
		expect.OK(t, s.Init())
		expect.OK(t, validate(sampler, &s))
	})
}

func TestPicksByWeightOfAHubCostNoMoreThanItsEdges(t *testing.T) {
	growth.Linear(t, 1<<16, func(n int) {
		weights := make([]float64, n)
		for i := range weights {
			weights[i] = 1
		}
		var r racer
		expect.OK(t, r.best.begin(n/2, int64(n)))
		for from := 0; from < n; from += chunkEdges {
			r.run(weights[from:min(from+chunkEdges, n)], int64(from), 1, uint64(from), chunkEdges)
		}
		kept := len(r.best.end())
		expect.Ensure(t, kept == n/2, "%d edges, want %d", kept, n/2)
		for _, b := range r.best.buffers() {
			expect.OK(t, b.Close())
		}
	})
}
