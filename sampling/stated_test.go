package sampling

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
)

var statedSamplers = []struct {
	name    string
	sampler Sampler
}{
	{"weighted", Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Weight: "w"}},
	{"weighted, replaced", Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Weight: "w", Replace: true}},
	{"masked share", Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Mask: "m", Share: 0.5}},
	{"temporal", Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Time: Temporal{Edge: "t", Recent: true}}},
	{"together", Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Together: true}},
	{"induced", Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Induced: true}},
	{"labor", Labor{Fanouts: []int{3, 2}, Frontier: AllNodes}},
	{"labor, poisson", Labor{Fanouts: []int{3, 2}, Frontier: AllNodes, Poisson: true}},
	{"hgt", HGT{Nodes: []int{30, 20}}},
	{"fastgcn", FastGCN{Nodes: []int{30, 20}}},
	{"ladies", Ladies{Nodes: []int{30, 20}}},
	{"shadow", Shadow{Fanouts: []int{3, 2}}},
	{"induced nodes", Induced{}},
	{"saint nodes", Saint{Kind: SaintNodes, Budget: 40}},
	{"saint edges", Saint{Kind: SaintEdges, Budget: 40}},
	{"saint walks", Saint{Kind: SaintWalks, Budget: 40, Length: 3}},
	{"walk", Walk{Length: 4, PerSeed: 2, Edges: true}},
	{"node2vec", Node2Vec{Length: 4, P: 0.5, Q: 2}},
	{"pinsage", PinSage{Neighbors: 5, Length: 3}},
	{"pinsage, two hops", PinSage{Neighbors: 5, Length: 3, Hops: 2, Walks: 20}},
	{"ppr", PPR{Neighbors: 5}},
	{"ppr, coarse", PPR{Neighbors: 5, Alpha: 0.5, Epsilon: 0.05}},
	{"full", Full{}},
	{"clusters", Cluster{PerBatch: 2}},
}

// The memory that a sampler states is what loaders plan by and refuse by, so it changes only on purpose. (A worker that
// takes more than was stated fails: the loader's tests see to that.)
func TestStatedMemoryOfSamplers(t *testing.T) {
	large := &graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: 1_000_000}},
		Edges: []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: 20_000_000}}}
	small := &graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: 50}},
		Edges: []graph.EdgeType{{Source: "n", Relation: "e", Target: "n", Count: 60}}}
	two := &graph.Schema{Nodes: []graph.NodeType{{Name: "user", Count: 2_000}, {Name: "item", Count: 300}},
		Edges: []graph.EdgeType{{Source: "item", Relation: "rated", Target: "user", Count: 9_000},
			{Source: "user", Relation: "rates", Target: "item", Count: 40_000}}}
	for _, s := range []*graph.Schema{large, small, two} {
		expect.OK(t, s.Init())
	}
	var got bytes.Buffer
	for _, c := range statedSamplers {
		for _, s := range []*graph.Schema{large, small, two} {
			if validate(c.sampler, s) == nil || s != two {
				fmt.Fprintf(&got, "%s, %d nodes: %s\n", c.name, s.NumNodes(), stated(c.sampler, s))
			}
		}
	}
	expect.Golden(t, "testdata/stated.txt", got.String())
}

func stated(sampler Sampler, s *graph.Schema) string {
	b := boundOf(sampler, s, 10)
	rows := int64(0)
	for _, a := range b.Arrays {
		rows += a.Rows
	}
	return fmt.Sprintf("%d layers, %d nodes %v, %d edges %v, %d rows, scratch %d, shared %d",
		b.Layers, b.Nodes, b.Lists, b.Edges, b.Blocks, rows, b.Scratch, b.Shared)
}
