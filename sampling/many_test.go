package sampling

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
)

// hubs is a graph of n nodes in which node v has the in-edges that degrees says, others 3.
func hubs(t *testing.T, n int, degrees map[int]int) *graph.Graph {
	r := rand.New(rand.NewPCG(5, 6))
	indptr, indices := []int64{0}, []int32{}
	for v := range n {
		d, hub := degrees[v]
		if !hub {
			d = 3
		}
		for range d {
			indices = append(indices, int32(r.IntN(n)))
		}
		indptr = append(indptr, int64(len(indices)))
	}
	return graphs.CSC(t, indptr, indices)
}

// TestFanoutsBeyondAChunkEqualTheOracle picks many edges of a destination at once, and of several one after another.
func TestFanoutsBeyondAChunkEqualTheOracle(t *testing.T) {
	g := hubs(t, 3000, map[int]int{0: 5000, 1: 513, 2: 512, 3: 1024, 4: 1025, 5: 4096})
	runs := newEdgeRuns(g)
	for _, n := range []Neighbor{
		{Fanouts: []int{512, 2}}, {Fanouts: []int{513, 2}}, {Fanouts: []int{1023, 1024}}, {Fanouts: []int{4000}},
		{Fanouts: []int{1 << 30, 600}}, {Fanouts: []int{700}, Replace: true},
		{Fanouts: []int{600, 700}, Frontier: NewNodes},
	} {
		req := &Request{Seeds: [][]int64{{5, 0, 9, 1, 2, 3, 4}}, Rand: NewRand(7, 0, 0, 0)}
		want := oracle(g, runs, n, req)
		for name, w := range openVariants(t, g, n) {
			for range 2 {
				compare(t, fmt.Sprintf("%s: %s", n.Fingerprint(), name), g, w, req, want)
			}
			expect.OK(t, w.Close())
		}
	}
}

// TestScratchDoesNotGrowWithTheFanout: what a worker takes depends on the picks that there are, and is counted.
func TestScratchDoesNotGrowWithTheFanout(t *testing.T) {
	g := hubs(t, 1000, map[int]int{0: 5000})
	peak := func(fanout int) int64 {
		ledger := &pinned.Ledger{}
		n := Neighbor{Fanouts: []int{fanout, fanout}}
		w := expect.Must(n.Open(Env{Graph: g, BatchSize: 2, EdgePos: true,
			Scratch: pinned.Options{Ledger: ledger, Purpose: pinned.Scratch}}))(t)
		req := &Request{Seeds: [][]int64{{0, 1}}, Rand: NewRand(7, 0, 0, 0)}
		compare(t, n.Fingerprint(), g, w, req, oracle(g, newEdgeRuns(g), n, req))
		bound := boundOf(n, g.Schema(), 2).Scratch
		expect.That(t, ledger.Peak() <= 2*bound, "fan-out %d: %d bytes, the bound is %d", fanout, ledger.Peak(), bound)
		if err := w.Close(); err != nil || ledger.Total() != 0 {
			t.Errorf("fan-out %d: closed: %v, %d bytes are counted", fanout, err, ledger.Total())
		}
		return ledger.Peak()
	}
	few, all := peak(512), peak(1<<30)
	expect.That(t, all <= 2*few, "a fan-out of 2^30 takes %d bytes, one of 512 %d", all, few)
	if few, many := peak(512), peak(4000); many < few+8*4000 {
		t.Errorf("4,000 picks at once take %d bytes, 512 %d: they are not counted", many, few)
	}
	schema := g.Schema()
	if got := boundOf((Neighbor{Fanouts: []int{1 << 30}}), schema, 2).Scratch; got > 1<<20 {
		t.Errorf("the bound of a fan-out of 2^30 over %d edges is %d bytes", g.NumEdges(), got)
	}
}
