//go:build cuda

package sampling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/unified"
)

// everyNode is all fused ids in a random order.
func everyNode(r *rand.Rand, g *graph.Graph) (order []int64) {
	for _, v := range r.Perm(int(g.NumNodes())) {
		order = append(order, int64(v))
	}
	return order
}

// keepHot copies the in-edges of nodes to the device, in an order, up to so many edges, and has samplers use the
// copies. It returns how many edges these have.
func (d *deviceUnderTest) keepHot(g *graph.Graph, order []int64, most int64, to *Topology) (edges int64) {
	d.t.Helper()
	start := slices.Repeat([]uint32{math.MaxUint32}, int(g.NumNodes()))
	idBytes, typeBytes := g.Indices().DType().Size(), g.Types().DType().Size()
	var indices, types []byte
	for _, v := range order {
		first, end := g.Indptr()[v], g.Indptr()[v+1]
		if first == end || end-first > most-edges {
			continue
		}
		start[v] = uint32(edges)
		edges += end - first
		indices = append(indices, g.Indices().Bytes()[first*idBytes:end*idBytes]...)
		types = append(types, g.Types().Bytes()[first*typeBytes:end*typeBytes]...)
	}
	if edges > 0 {
		to.HotStart, to.HotIndices = d.upload(unified.FromSlice(start).Bytes()), d.upload(indices)
	}
	if len(types) > 0 {
		to.HotTypes = d.upload(types)
	}
	return edges
}

func TestHotInEdgesChangeNoSample(t *testing.T) {
	const seed = 51
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	for round := range 16 {
		types := [][2]int{{1, 1}, {3, 5}}[round%2]
		g := randomGraph(t, r, types[0], types[1])
		n, runs := randomOptions(r, g.Schema()), newEdgeRuns(g)
		env := d.env(g, 8)
		hot := d.keepHot(g, everyNode(r, g), r.Int64N(g.NumEdges()+g.NumEdges()/4), &env.Topology)
		w := d.open(n, env)
		req := &Request{Rand: NewRand(r.Uint64(), 0, 0, 0), Seeds: randomSeeds(r, g)}
		compare(t, fmt.Sprintf("seed %d round %d: %s: %d of %d edges are hot", seed, round, n.Fingerprint(), hot,
			g.NumEdges()), g, w, req, oracle(g, runs, n, req))
	}
}

func TestHotInEdgesSpareTheBus(t *testing.T) {
	cudatest.Checks(t, "lines")
	r := rand.New(rand.NewPCG(3, 3))
	for _, types := range []int{1, 3} {
		d := openDevice(t)
		g := skewedGraph(t, r, 5000, types)
		n := Neighbor{Fanouts: []int{5, 5}, Frontier: AllNodes}
		_, _, cold := d.overTheBus(g, n, 100, false)
		picks, _, hot := d.overTheBus(g, n, 100, true)
		if cold["neighbor_pick"] == 0 || hot["neighbor_pick"] != 0 || types > 1 &&
			hot["neighbor_count"] >= cold["neighbor_count"] {
			t.Errorf("%d types, %d picks: %v sectors over the bus with everything hot, %v with nothing", types, picks,
				hot, cold)
		}
	}
}
