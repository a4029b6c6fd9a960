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
