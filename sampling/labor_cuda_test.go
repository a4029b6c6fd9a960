//go:build cuda

package sampling

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
)

func TestLaborOnADeviceEqualsTheOracle(t *testing.T) {
	const seed = 51
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	replays := 0
	cudatest.ResetStats(t)
	for round := range 7 {
		types := [][2]int{{1, 1}, {1, 3}, {3, 5}}[round%3]
		degree := func() int { return []int{0, r.IntN(4), r.IntN(60)}[r.IntN(3)] }
		g := sizedGraph(t, r, types[0], types[1], 30, degree)
		l := randomLabor(r, g.Schema())
		keys, batch := keyOf{r.Uint64(), r.Uint32(), r.Uint32N(3)}, r.Uint64N(200)
		req := randomRequest(r, g.Schema(), 0)
		req.Rand = NewRand(keys.seed, keys.epoch, keys.instance, batch)
		want := laborOracle(g, newEdgeRuns(g), l, keys, batch, req)
		for name, w := range d.openVariants(l, g, 1+r.IntN(4)) {
			compare(t, fmt.Sprintf("seed %d round %d batch %d: %s: %s", seed, round, batch, l.Fingerprint(), name), g,
				w, req, want)
			replays += w.replays
		}
	}
	expect.That(t, replays != 0, "no buffer was too small")
	for _, kernel := range []string{"labor_count", "labor_pick", "neighbor_expand"} {
		expect.That(t, cudatest.Launches(kernel) != 0, "%s never ran", kernel)
	}
}

// TestLaborOfHubsOnADevice has fan-outs below and above a warp's lanes, out of columns with few sources and many, so
// that variates are equal.
func TestLaborOfHubsOnADevice(t *testing.T) {
	const seed, nodes = 52, 40
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	indptr, indices := []int64{0}, []int32(nil)
	for v := range nodes {
		sources := []int{1, 2, 10, nodes}[v%4]
		for range 7 * v {
			indices = append(indices, int32(r.IntN(sources)))
		}
		indptr = append(indptr, int64(len(indices)))
	}
	g := graphs.CSC(t, indptr, indices)
	req := &Request{Seeds: [][]int64{nil}, Rand: NewRand(seed, 0, 0, 3)}
	for v := range int64(nodes) {
		req.Seeds[0] = append(req.Seeds[0], nodes-1-v)
	}
	for i, k := range []int{1, 7, 32, 33, 270} {
		for _, l := range []Labor{{}, {Poisson: true}, {BatchDependency: 2}} {
			l.Fanouts = []int{k}
			want := laborOracle(g, newEdgeRuns(g), l, keyOf{seed: seed}, 3, req)
			env := d.env(g, 40)
			env.MaxBlocks = 1 + 15*(i%2)
			compare(t, l.Fingerprint(), g, d.open(l, env), req, want)
		}
	}
}
