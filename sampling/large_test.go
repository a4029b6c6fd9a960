package sampling

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Batches of thousands of nodes, whose tables grow, and nodes with more picks than go through the steps together.
func TestLargeBatchesEqualTheOracle(t *testing.T) {
	const seed = 20261123
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 24 {
		types := [][2]int{{1, 1}, {2, 3}}[r.IntN(2)]
		g := sizedGraph(t, r, types[0], types[1], 8000, func() int {
			if r.IntN(100) > 0 {
				return r.IntN(3)
			}
			return r.IntN(1500)
		})
		n := Neighbor{Replace: r.IntN(3) == 0, Frontier: Frontier(r.IntN(2)), Disjoint: r.IntN(2) == 0}
		for range 1 + r.IntN(2) {
			n.Fanouts = append(n.Fanouts, []int{All, 2, 511, 512, 513, 700}[r.IntN(6)])
		}
		req := &Request{Rand: NewRand(seed, 0, 0, uint64(round)), Seeds: make([][]int64, types[0])}
		for t := range req.Seeds {
			for range []int{0, 511, 512, 513, 1024, 1500}[r.IntN(6)] {
				req.Seeds[t] = append(req.Seeds[t], r.Int64N(g.Schema().Nodes[t].Count))
			}
		}
		want := oracle(g, newEdgeRuns(g), n, req)
		for name, w := range openVariants(t, g, n) {
			compare(t, fmt.Sprintf("seed %d round %d: %s: %s", seed, round, n.Fingerprint(), name), g, w, req, want)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
