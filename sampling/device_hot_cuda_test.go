//go:build cuda

package sampling

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
)

// everyNode is all fused ids in a random order.
func everyNode(r *rand.Rand, g *graph.Graph) (order []int64) {
	for _, v := range r.Perm(int(g.NumNodes())) {
		order = append(order, int64(v))
	}
	return order
}

func (d *deviceUnderTest) keepHot(g *graph.Graph, order []int64, bytes int64) *HotAdjacency {
	d.t.Helper()
	h, err := NewHotAdjacency(context.Background(), d.stream, g, order, bytes, pinned.Options{Device: d.device})
	expect.OK(d.t, err)
	d.t.Cleanup(func() {
		expect.OK(d.t, h.Close())
	})
	return h
}

func TestHotAdjacencyChangesNoSample(t *testing.T) {
	const seed = 51
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	for round := range 16 {
		types := [][2]int{{1, 1}, {3, 5}}[round%2]
		g := randomGraph(t, r, types[0], types[1])
		n, runs := randomOptions(r, g.Schema()), newEdgeRuns(g)
		env := d.env(g, 8)
		h := d.keepHot(g, everyNode(r, g), 4*g.NumNodes()+r.Int64N(6*g.NumEdges()))
		h.AddTo(&env.Topology)
		w := d.open(n, env)
		req := &Request{Rand: NewRand(r.Uint64(), 0, 0, 0), Seeds: randomSeeds(r, g)}
		compare(t, fmt.Sprintf("seed %d round %d: %s: %d of %d edges are hot", seed, round, n.Fingerprint(), h.Edges,
			g.NumEdges()), g, w, req, oracle(g, runs, n, req))
	}
}

func TestHotAdjacencyTakesWhatFits(t *testing.T) {
	const seed = 52
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	g := randomGraph(t, r, 2, 3)
	order := everyNode(r, g)
	edge := g.Indices().DType().Size() + g.Types().DType().Size()
	for _, bytes := range []int64{0, 4 * g.NumNodes(), 4*g.NumNodes() + edge*g.NumEdges()/2, 1 << 40} {
		h := d.keepHot(g, append(order, order...), bytes)
		expect.That(t, h.Bytes() <= bytes+int64(3*512) && h.Bytes() >= edge*h.Edges,
			"%d bytes: %d nodes with %d edges in %d bytes", bytes, h.Nodes, h.Edges, h.Bytes())
		expect.That(t, (bytes == 1<<40) == (h.Edges == g.NumEdges()) && (bytes <= 4*g.NumNodes()) == (h.Bytes() == 0),
			"%d bytes: %d of %d edges", bytes, h.Edges, g.NumEdges())
	}
	ctx, cancel := context.WithCancel(context.Background())
	expect.Is(t,
		expect.Err(NewHotAdjacency(ctx, d.stream, g, []int64{g.NumNodes()}, 1<<40, pinned.Options{Device: d.device})),
		graph.ErrSeed, "a node that is none")
	cancel()
	damaged := graphs.CSC(t, []int64{0, 9, 3}, []int32{0, 0, 0})
	expect.Is(t,
		expect.Err(NewHotAdjacency(ctx, d.stream, damaged, []int64{0}, 1<<40, pinned.Options{Device: d.device})),
		ErrGraph, "a damaged column")
}

func TestHotAdjacencySparesTheBus(t *testing.T) {
	cudatest.Checks(t, "lines")
	r := rand.New(rand.NewPCG(3, 3))
	for _, types := range []int{1, 3} {
		d := openDevice(t)
		g := skewedGraph(t, r, 5000, types)
		n := Neighbor{Fanouts: []int{5, 5}, Frontier: AllNodes}
		_, _, cold := d.overTheBus(g, n, 100, nil)
		picks, _, hot := d.overTheBus(g, n, 100, d.keepHot(g, everyNode(r, g), 1<<40))
		if cold["neighbor_pick"] == 0 || hot["neighbor_pick"] != 0 || types > 1 &&
			hot["neighbor_count"] >= cold["neighbor_count"] {
			t.Errorf("%d types, %d picks: %v sectors over the bus with everything hot, %v with nothing", types, picks,
				hot, cold)
		}
	}
}
