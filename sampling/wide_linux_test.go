package sampling

import (
	"context"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// Positions beyond 2^31 are int64. The sources are pages that are never written, so they take no memory.
func TestEdgesBeyondTheRangeOfInt32AreDelivered(t *testing.T) {
	const first, edges = 1<<31 - 10, 1<<31 + 1000
	zeros, err := unix.Mmap(-1, 0, 4*edges, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	expect.OK(t, err)
	defer unix.Munmap(zeros)
	indices := expect.Must(unified.New(unified.Int32, zeros, edges))(t)
	g := graphs.Of(t, graph.Arrays{
		Schema: graph.Schema{Nodes: []graph.NodeType{{Name: "node", Count: 2}},
			Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: edges}}},
		Indptr: unified.FromSlice([]int64{0, first, edges}), Indices: indices,
	})
	runs := edgeRuns{}
	for pos := int64(first); pos < edges; pos++ {
		runs[[2]int64{1, 0}] = append(runs[[2]int64{1, 0}], pos)
	}
	walksOverWideEdges(t, g)
	for _, n := range []Neighbor{{Fanouts: []int{All}}, {Fanouts: []int{600}}, {Fanouts: []int{7}, Replace: true},
		{Fanouts: []int{5, 0}, Frontier: NewNodes}, {Fanouts: []int{5}, Disjoint: true}} {
		w := expect.Must(n.Open(Env{Graph: g, BatchSize: 2, EdgePos: true}))(t)
		req := &Request{Seeds: [][]int64{{1, 1}}, Rand: NewRand(3, 0, 0, 0)}
		compare(t, n.Fingerprint(), g, w, req, oracle(g, runs, n, req))
		expect.OK(t, w.Close())
	}
}

// walksOverWideEdges compares the positions of walks' edges, which are int64 there.
func walksOverWideEdges(t *testing.T, g *graph.Graph) {
	t.Helper()
	k := Walk{Length: 3, Edges: true}
	w := expect.Must(k.Open(Env{Graph: g, BatchSize: 2}))(t)
	defer w.Close()
	out := sampleOf(g, k, 2)
	defer out.Close()
	req := &Request{Seeds: [][]int64{{1}}, Rand: NewRand(3, 0, 0, 0)}
	expect.OK(t, w.Sample(context.Background(), req, out))
	var want []int64
	draws := rng.Stream(rng.StageKey(req.Rand.key, 0, rng.Walk, 0), 1)
	for i := range uint64(3) { // from node 1 to node 0, and around there
		from := g.Indptr()[max(0, 1-int64(i))]
		degree := g.Indptr()[max(0, 1-int64(i))+1] - from
		want = append(want, from+int64(rng.Bounded(rng.Draw(draws, i), uint64(degree))))
	}
	got, err := unified.View[int64](out.Arrays[1].Rows)
	expect.That(t, err == nil && slices.Equal(got, want), "edges %v, want %v: %v", got, want, err)
}
