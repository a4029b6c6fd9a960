//go:build !race

package sampling

import (
	"fmt"
	"testing"

	"github.com/khop-gnn/khop/graph"
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
		if err := s.Init(); err != nil {
			t.Fatal(err)
		}
		if err := sampler.Validate(&s); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPicksByWeightOfAHubCostNoMoreThanItsEdges(t *testing.T) {
	growth.Linear(t, 1<<16, func(n int) {
		weights := make([]float64, n)
		for i := range weights {
			weights[i] = 1
		}
		var r racer
		if err := r.best.begin(n/2, int64(n)); err != nil {
			t.Fatal(err)
		}
		for from := 0; from < n; from += chunkEdges {
			r.run(weights[from:min(from+chunkEdges, n)], int64(from), 1, uint64(from), chunkEdges)
		}
		if kept := len(r.best.end()); kept != n/2 {
			t.Fatalf("%d edges, want %d", kept, n/2)
		}
		for _, b := range r.best.buffers() {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
