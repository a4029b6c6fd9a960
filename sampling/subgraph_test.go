package sampling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
)

// oracleInduced is docs/sampling.md, "Subgraphs": the blocks between nodes, each in a tree.
func oracleInduced(g *graph.Graph, nodes, trees [][]int64) []oracleB {
	s := g.Schema()
	local := map[[3]int64]int64{}
	for t := range nodes {
		for i, v := range nodes[t] {
			local[[3]int64{int64(t), trees[t][i], v}] = int64(i)
		}
	}
	blocks := make([]oracleB, len(s.Edges))
	for e := range s.Edges {
		et := &s.Edges[e]
		b := oracleB{indptr: []int64{0}, numDst: int64(len(nodes[et.Dst])), numSrc: int64(len(nodes[et.Src]))}
		for i, v := range nodes[et.Dst] {
			fused := v + g.Offset(et.Dst)
			for pos := g.Indptr()[fused]; pos < g.Indptr()[fused+1]; pos++ {
				u := indexAt(g, pos) - g.Offset(et.Src)
				if at, ok := local[[3]int64{int64(et.Src), trees[et.Dst][i], u}]; ok && typeAt(g, pos) == e {
					b.local, b.edge = append(b.local, at), append(b.edge, pos)
				}
			}
			b.indptr = append(b.indptr, int64(len(b.local)))
		}
		blocks[e] = b
	}
	return blocks
}

func zeros(like [][]int64) [][]int64 {
	z := make([][]int64, len(like))
	for i := range like {
		z[i] = make([]int64, len(like[i]))
	}
	return z
}

// sampleFor samples a request with a sampler of one layer.
func sampleFor(t *testing.T, what string, g *graph.Graph, k Sampler, w Worker, req *Request) *graph.Sample {
	t.Helper()
	out := sampleOf(g, k, 40)
	t.Cleanup(func() { out.Close() })
	err := w.Sample(context.Background(), req, out)
	expect.Ensure(t, err == nil, "%s: %v", what, err)
	return out
}

func checkBlocks(t *testing.T, what string, got *graph.Sample, want []oracleB) {
	t.Helper()
	for e, b := range want {
		have := &got.Blocks[0][e]
		if have.NumSrc != b.numSrc || have.NumDst != b.numDst || !slices.Equal(widen(t, have.Indptr), b.indptr) ||
			!slices.Equal(widen(t, have.Indices), b.local) || !slices.Equal(widen(t, have.EdgePos), b.edge) {
			t.Fatalf("%s: type %d: %d x %d %v %v %v, want %+v", what, e, have.NumSrc, have.NumDst, have.Indptr,
				widen(t, have.Indices), widen(t, have.EdgePos), b)
		}
	}
}

func TestInducedSubgraphsEqualTheOracle(t *testing.T) {
	const seed = 20261124
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(150, 3000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
		g := randomGraph(t, r, types[0], types[1])
		s := g.Schema()
		near := randomOptions(r, s)
		around := near
		if r.IntN(3) == 0 {
			around.Share = 0.4
		}
		around.Induced, around.Disjoint = true, r.IntN(3) == 0
		around.Together = around.PerType == nil && r.IntN(3) == 0
		for _, k := range []Sampler{Induced{}, around, Shadow{Fanouts: near.Fanouts, PerType: near.PerType,
			Replace: near.Replace}} {
			w := expect.Must(k.Open(Env{Graph: g, BatchSize: 40, EdgePos: true}))(t)
			for batch := range 2 {
				what := fmt.Sprintf("seed %d round %d batch %d: %s", seed, round, batch, k.Fingerprint())
				req := randomRequest(r, s, uint64(batch))
				got := sampleFor(t, what, g, k, w, req)
				lists := newOracleLists(g, req)
				nodes, trees, seeds := lists.nodes, zeros(lists.nodes), lists.seeds
				if of, ok := reaches(k); ok {
					o := oracle(g, newEdgeRuns(g), of, req)
					nodes, trees, seeds = o.nodes, o.trees, o.seeds
				}
				for i := range nodes {
					if !slices.Equal(widen(t, got.Nodes[i]), nodes[i]) ||
						!slices.Equal(widen(t, got.SeedLocal[i]), seeds[i]) {
						t.Fatalf("%s: nodes %v, want %v", what, widen(t, got.Nodes[i]), nodes[i])
					}
					if len(got.Arrays) > 0 && !slices.Equal(widen(t, got.Arrays[i].Rows), trees[i]) {
						t.Fatalf("%s: trees %v, want %v", what, widen(t, got.Arrays[i].Rows), trees[i])
					}
				}
				checkBlocks(t, what, got, oracleInduced(g, nodes, trees))
			}
			expect.OK(t, w.Close())
		}
	}
}

// reaches returns what reaches the nodes of an induced subgraph, where not all are seeds.
func reaches(k Sampler) (Neighbor, bool) {
	switch k := k.(type) {
	case Shadow:
		return k.neighbor(), true
	case Neighbor:
		return k, true
	}
	return Neighbor{}, false
}

// A hub's column is searched where few nodes are looked for in it, and the block is the same.
func TestAHubsColumnIsSearched(t *testing.T) {
	n := int64(hubEdges * 4)
	src, dst := make([]int64, 0, n), make([]int64, 0, n)
	for v := range n {
		src, dst = append(src, v, v), append(dst, 0, 0)
	}
	g, err := graph.New(graph.Data{Nodes: []graph.NodeData{{Count: n}}, Edges: []graph.EdgeData{{Src: src, Dst: dst}}})
	expect.OK(t, err)
	w := expect.Must(Induced{}.Open(Env{Graph: g, BatchSize: 3, EdgePos: true}))(t)
	out := sampleFor(t, "hub", g, Induced{}, w, &Request{Seeds: [][]int64{{n - 1, 0, 7}}})
	checkBlocks(t, "hub", out, oracleInduced(g, [][]int64{{n - 1, 0, 7}}, [][]int64{{0, 0, 0}}))
	x := w.(*subgraphWorker[int32])
	expect.That(t, len(x.sorted[0]) == 3 && x.degree[1] == 2*n, "the column of %d edges was read from end to end",
		x.degree[1])
	k := Shadow{Fanouts: []int{3}}
	trees := expect.Must(k.Open(Env{Graph: g, BatchSize: 3, EdgePos: true}))(t)
	req := &Request{Seeds: [][]int64{{0, n - 1, 0}}, Rand: NewRand(1, 0, 0, 0)}
	o := oracle(g, newEdgeRuns(g), k.neighbor(), req)
	checkBlocks(t, "hub", sampleFor(t, "hub", g, k, trees, req), oracleInduced(g, o.nodes, o.trees))
	expect.OK(t, errors.Join(w.Close(), trees.Close()))
}
