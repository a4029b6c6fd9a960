package sampling

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/unified"
)

// moreSamplers are options that statedSamplers leave out, and that take memory of their own.
var moreSamplers = map[string]Sampler{
	"trees":            Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Disjoint: true, Weight: "w"},
	"many":             Neighbor{Fanouts: []int{All, 40}, Frontier: AllNodes, Replace: true},
	"new nodes":        Neighbor{Fanouts: []int{3, 2}, Frontier: NewNodes},
	"out":              Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Direction: Out},
	"both":             Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Direction: Both, Weight: "w"},
	"together, chosen": Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Together: true, Weight: "w"},
	"together, many":   Neighbor{Fanouts: []int{300}, Frontier: AllNodes, Together: true, Replace: true},
	"times of trees":   Neighbor{Fanouts: []int{3, 2}, Frontier: AllNodes, Time: Temporal{Edge: "t"}, Disjoint: true},
	"labor, shared":    Labor{Fanouts: []int{3, 2}, Frontier: AllNodes, LayerDependent: true, BatchDependency: 3},
	"shadow, replaced": Shadow{Fanouts: []int{3, 2}, Replace: true},
	"sequence, hops":   Sequence{Of: Neighbor{Fanouts: []int{4, 3}}, Length: 9},
	"sequence, latest": Sequence{Of: Neighbor{Fanouts: []int{5}, Time: Temporal{Edge: "t", Recent: true}}, Length: 4},
}

// allSamplers are moreSamplers and statedSamplers.
func allSamplers() map[string]Sampler {
	list := maps.Clone(moreSamplers)
	for _, c := range statedSamplers {
		list[c.name] = c.sampler
	}
	return list
}

// knownBeside are options that statedSamplers and moreSamplers leave out.
var knownBeside = map[string]Sampler{
	"all":            Neighbor{Fanouts: []int{All, 3}, Frontier: AllNodes},
	"hubs":           Neighbor{Fanouts: []int{70, 8}, Frontier: AllNodes},
	"hubs, replaced": Neighbor{Fanouts: []int{70, 40}, Frontier: AllNodes, Replace: true},
	"hubs, weighted": Neighbor{Fanouts: []int{40, 33}, Frontier: AllNodes, Weight: "w"},
	"hubs, labor":    Labor{Fanouts: []int{40, 12}, Frontier: AllNodes},
	"share":          Neighbor{Fanouts: []int{30, 9}, Frontier: AllNodes, Share: 0.3, Weight: "w"},
	"per type": Neighbor{PerType: map[string][]int{"r1": {3, 2}, "r4": {20}, "c:r3:a": {3, All}},
		Frontier: AllNodes},
	"per type, twice": Neighbor{PerType: map[string][]int{"r3": {2}, "c:r3:a": {3}}, Frontier: AllNodes},
	"in a window": Neighbor{Fanouts: []int{4, 3}, Frontier: AllNodes, Time: Temporal{Edge: "t", Window: []int64{10},
		Chain: true}},
	"before": Neighbor{Fanouts: []int{4, 3}, Frontier: AllNodes, Time: Temporal{Edge: "t",
		Rules: []TimeRule{Before, NotAfter}}},
	"half life":        Neighbor{Fanouts: []int{4, 3}, Frontier: AllNodes, Time: Temporal{Edge: "t", HalfLife: 5}},
	"trees, induced":   Neighbor{Fanouts: []int{4, 3}, Frontier: AllNodes, Disjoint: true, Induced: true},
	"together, masked": Neighbor{Fanouts: []int{9, 3}, Frontier: AllNodes, Together: true, Mask: "m"},
	"together, chain": Neighbor{Fanouts: []int{4, 3}, Frontier: AllNodes, Together: true, Time: Temporal{Edge: "t",
		Chain: true}},
	"out, new":        Neighbor{Fanouts: []int{4, 3}, Direction: Out, Frontier: NewNodes, Mask: "m"},
	"both, replaced":  Neighbor{Fanouts: []int{4, 3}, Frontier: AllNodes, Direction: Both, Replace: true},
	"labor, new":      Labor{Fanouts: []int{5, 5, 5}, Frontier: NewNodes, BatchDependency: 4},
	"saint, measured": Saint{Kind: SaintWalks, Budget: 30, Length: 2, Coverage: 5},
	"clusters of one": Cluster{PerBatch: 1},
	"walk, stopped":   Walk{Length: 5, PerSeed: 3, Restart: 0.2, Stop: 0.1},
	"node2vec, far":   Node2Vec{Length: 6, P: 4, Q: 0.25, PerSeed: 2},
	"node2vec, tries": Node2Vec{Length: 6, P: 1, Q: 1e6, PerSeed: 2}, // in vain, mostly
	"pinsage, again":  PinSage{Neighbors: 3, Length: 4, Restart: 0.3},
	"pinsage, as":     PinSage{Neighbors: 3, Length: 4, Metapath: []string{"r1", "r2"}, As: "r0"},
	"hgt, three hops": HGT{Nodes: []int{9, 40, 7}},
	"fastgcn, all":    FastGCN{Nodes: []int{All, 5}},
	"hgt, all":        HGT{Nodes: []int{2, All}},
	"walk, path":      Walk{Length: 4, Metapath: []string{"r1", "r2"}, Edges: true},
	"sequence, out":   Sequence{Of: Neighbor{Fanouts: []int{4, 3}, Direction: Out}, Length: 9},
	"sequence, both":  Sequence{Of: Neighbor{Fanouts: []int{4}, Direction: Both, Replace: true}, Length: 9},
	"sequence, first": Sequence{Of: Neighbor{Fanouts: []int{All}, Time: Temporal{Edge: "t"}}, Length: 7,
		SeedFirst: true},
	"sequence, chain": Sequence{Of: Neighbor{Fanouts: []int{4, 3, 2}, Time: Temporal{Edge: "t", Chain: true}},
		Length: 20, SeedFirst: true},
	"sequence, walks": Sequence{Of: PinSage{Walks: 5, Length: 3, As: "r0"}, Length: 4},
	"sequence, ppr":   Sequence{Of: PPR{As: "r0"}, Length: 8, SeedFirst: true},
}

// knownRequest is batch number n of a sampler on a graph: seeds of every type, with times; or an item.
func knownRequest(g *graph.Graph, s Sampler, n, seeds int) *Request {
	schema := g.Schema()
	req := &Request{Rand: NewRand(20261123, 3, 1, uint64(n)), Seeds: make([][]int64, len(schema.Nodes))}
	if d, _ := s.Describe(schema, seeds); d.Items != nil && n < 3 {
		req.Items = []int64{int64(n) % d.Items.Count}
		return req
	}
	if k, ok := s.(Sequence); ok {
		s = k.Of
	}
	if n == 2 {
		req.Edges = make([]SeedEdges, len(schema.Edges))
		for e := range schema.Edges {
			source, target := schema.Nodes[schema.Edges[e].Src].Count, schema.Nodes[schema.Edges[e].Dst].Count
			req.Edges[e] = SeedEdges{Sources: []int64{3 % source, 50 % source},
				Targets: []int64{60 % target, 2 % target}, Times: []int64{30, 20}}
		}
	}
	for of := range req.Seeds {
		p, _ := s.(PinSage)
		if w, _ := s.(Walk); of > 0 && len(p.Metapath)+len(w.Metapath) > 0 {
			break
		}
		for i := range seeds {
			if count := schema.Nodes[of].Count; count > 0 {
				req.Seeds[of] = append(req.Seeds[of], int64(n*7+i*11)%count)
			}
		}
	}
	if of, ok := s.(Neighbor); ok && of.Time.Edge != "" {
		for _, list := range req.Seeds {
			req.Times = append(req.Times, slices.Repeat([]int64{30}, len(list)))
		}
	}
	return req
}

// typedGraph has three types of nodes and five of edges with the columns of steadyGraph. One type has few nodes, and
// many edges lead to them.
func typedGraph(t *testing.T) *graph.Graph {
	r := rand.New(rand.NewPCG(20261123, 0))
	data := graph.Data{Nodes: []graph.NodeData{{Name: "a", Count: 200}, {Name: "b", Count: 80}, {Name: "c", Count: 6}}}
	for i, ends := range [][2]int{{0, 0}, {1, 0}, {0, 1}, {2, 0}, {0, 2}} {
		source, target := data.Nodes[ends[0]], data.Nodes[ends[1]]
		e := steadyEdges(r, source.Count, target.Count, 9+100*(i/4))
		e.Source, e.Target, e.Relation = source.Name, target.Name, fmt.Sprint("r", i)
		data.Edges = append(data.Edges, e)
	}
	return graphs.New(t, data)
}

// steadyGraph has 300 nodes of 0 to 11 in-edges with the columns that statedSamplers read.
func steadyGraph(t *testing.T) *graph.Graph {
	r := rand.New(rand.NewPCG(20261130, 0))
	e := steadyEdges(r, 300, 300, 12)
	return graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Count: 300}}, Edges: []graph.EdgeData{e}})
}

// steadyEdges are edges of each target, fewer than most, with columns.
func steadyEdges(r *rand.Rand, sources, targets int64, most int) (e graph.EdgeData) {
	var w []float32
	var m []uint8
	var times []int64
	for v := range targets {
		for range r.IntN(most) {
			e.Src, e.Dst = append(e.Src, r.Int64N(sources)), append(e.Dst, v)
			w, m, times = append(w, r.Float32()), append(m, uint8(r.IntN(4))), append(times, r.Int64N(50))
		}
	}
	e.Columns = map[string]unified.Tensor{"w": unified.FromSlice(w), "m": unified.FromSlice(m),
		"t": unified.FromSlice(times)}
	return e
}

// knownSamplers are those of the tables that the CPU is held to.
func knownSamplers() map[string]Sampler {
	all := maps.Clone(moreSamplers)
	maps.Copy(all, knownBeside)
	for _, c := range statedSamplers {
		all[c.name] = c.sampler
	}
	return all
}
