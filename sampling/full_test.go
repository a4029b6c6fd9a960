package sampling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// An epoch has every in-edge of every node once, in order; nodes that are no hubs come whole.
func TestFullHasEveryEdgeOnce(t *testing.T) {
	const seed = 20261127
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(100, 5000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
		g := sizedGraph(t, r, types[0], types[1], 30, func() int {
			return []int{0, 1, r.IntN(5), r.IntN(80)}[r.IntN(4)]
		})
		s := g.Schema()
		k := Full{Work: []int{2, 3, 10, 50, 100, 1000, 0}[r.IntN(7)]}
		if s.NumEdges() > 500 {
			k.Work = max(k.Work, 10)
		}
		w := expect.Must(k.Open(Env{Graph: g, BatchSize: 1, EdgePos: true}))(t)
		checkFull(t, fmt.Sprintf("seed %d round %d: %s", seed, round, k.Fingerprint()), g, k, w)
		expect.OK(t, w.Close())
	}
}

// checkFull goes over an epoch.
func checkFull(t *testing.T, what string, g *graph.Graph, k Full, w Worker) {
	t.Helper()
	s := g.Schema()
	got, came := edgeRuns{}, map[int64]int{}
	all, count := s.NumNodes()+s.NumEdges(), descriptionOf(t, k, s).Items.Count
	expect.That(t, count*k.work() >= all && (count-1)*k.work() < all, "%s: %d batches for %d", what, count, all)
	for i := range count {
		out := sampleFor(t, what, g, k, w, &Request{Items: []int64{i}})
		edges := int64(0)
		for ty, n := range out.NumNodes[0] {
			for _, v := range widen(t, out.Nodes[ty])[:n] {
				came[v+g.Offset(ty)]++
			}
		}
		for e := range s.Edges {
			b, dst, src := &out.Blocks[0][e], s.Edges[e].Dst, s.Edges[e].Src
			ends, pos := widen(t, b.Indptr), widen(t, b.EdgePos)
			degree, _ := unified.View[int64](out.Arrays[e].Rows)
			for j, v := range widen(t, out.Nodes[dst])[:b.NumDst] {
				key := [2]int64{v + g.Offset(dst), int64(e)}
				got[key] = append(got[key], pos[ends[j]:ends[j+1]]...)
				if all := int64(len(newRun(g, key))); degree[j] != all {
					t.Fatalf("%s: node %d has degree %d, want %d", what, v, degree[j], all)
				}
			}
			for j, at := range widen(t, b.Indices) {
				if u := widen(t, out.Nodes[src])[at] + g.Offset(src); u != indexAt(g, pos[j]) {
					t.Fatalf("%s: edge %d leads from node %d", what, pos[j], u)
				}
			}
			edges += b.NumEdges()
		}
		expect.Ensure(t, edges <= 2*k.work(), "%s: %d edges", what, edges)
		out.Close()
	}
	for v := range g.NumNodes() {
		in := g.Indptr()[v+1] - g.Indptr()[v]
		if n := came[v]; n < 1 || n > 1 && in < k.work() {
			t.Fatalf("%s: node %d of %d in-edges came %d times", what, v, in, n)
		}
		for e := range s.Edges {
			key := [2]int64{v, int64(e)}
			if want := newRun(g, key); !slices.Equal(got[key], want) {
				t.Fatalf("%s: node %d has edges %v, want %v", what, v, got[key], want)
			}
		}
	}
}

func TestBatchesOfPartsEqualTheOracle(t *testing.T) {
	const seed = 20261128
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(60, 5000) {
		types := [][2]int{{1, 1}, {1, 3}, {3, 5}}[r.IntN(3)]
		g := sizedGraph(t, r, types[0], types[1], 40, func() int { return r.IntN(5) })
		parts := 1 + r.IntN(9)
		of := make([]int32, g.NumNodes())
		for v := range of {
			of[v] = int32(r.IntN(parts))
		}
		p := expect.Must(graph.NewPartition(of, parts))(t)
		k := Cluster{Partition: p, PerBatch: 2}
		w := expect.Must(k.Open(Env{Graph: g, BatchSize: 1, EdgePos: true}))(t)
		items := []int64{r.Int64N(int64(parts)), r.Int64N(int64(parts))}
		if items[0] == items[1] {
			items = items[:1]
		}
		var ids []int64
		for _, part := range items {
			for v := range of {
				if int64(of[v]) == part {
					ids = append(ids, int64(v))
				}
			}
		}
		what := fmt.Sprintf("seed %d round %d", seed, round)
		out := sampleFor(t, what, g, k, w, &Request{Items: items})
		o := placeAll(g, ids)
		for ty := range o.nodes {
			if !slices.Equal(widen(t, out.Nodes[ty]), o.nodes[ty]) {
				t.Fatalf("%s: nodes %v, want %v", what, widen(t, out.Nodes[ty]), o.nodes[ty])
			}
		}
		checkBlocks(t, what, out, oracleInduced(g, o.nodes, zeros(o.nodes)))
		expect.OK(t, w.Close())
		n := boundOf(k, g.Schema(), 1).Nodes
		expect.Ensure(t, int64(len(ids)) <= n, "%s: %d nodes, bound %d", what, len(ids), n)
	}
}

// newRun returns the positions of a node's in-edges of a type.
func newRun(g *graph.Graph, key [2]int64) (run []int64) {
	for pos := g.Indptr()[key[0]]; pos < g.Indptr()[key[0]+1]; pos++ {
		if int64(typeAt(g, pos)) == key[1] {
			run = append(run, pos)
		}
	}
	return run
}
