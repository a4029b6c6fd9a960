//go:build cuda

package sampling

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/invariants"
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

// compareExclusion compares three batches of a device with the oracle: with edges left out, without, and with others.
// oracle is for the edges that are left. It returns how many were left out.
func (d *deviceUnderTest) compareExclusion(what string, r *rand.Rand, g *graph.Graph, n DeviceSampler,
	request func(batch uint64) *Request, oracle func(left edgeRuns, req *Request) *oracleSample) (gone int) {
	d.t.Helper()
	names := []string{"as opened", []string{"small", "small hash", "int64", "int64 hash", "hash"}[r.IntN(5)]}
	runs := newEdgeRuns(g)
	for name, w := range d.openSome(n, g, 1+r.IntN(3), names) {
		for batch := range uint64(3) {
			req := request(batch)
			if req.Exclude = make([]EdgePairs, len(g.Schema().Edges)); batch != 1 {
				randomExclusion(r, g, req)
			}
			left, some := runs.without(g, req)
			gone += some
			compare(d.t, fmt.Sprintf("%s batch %d: %s: %s", what, batch, n.Fingerprint(), name), g, w, req,
				oracle(left, req))
		}
	}
	return gone
}

func TestDeviceLeavesEdgesOut(t *testing.T) {
	const seed = 20261127
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	gone := 0
	for round := range roundsOrHeavy(16, 1000) {
		g, n := choiceOnDevice(t, r)
		n.Disjoint = r.IntN(4) == 0
		asOf := r.Int64N(20) // of seeds that are added
		if round%2 == 1 {
			n = randomTimes(r, g.Schema(), randomChoice(r, n))
			n.Time.AsOf = &asOf
		}
		gone += d.compareExclusion(fmt.Sprintf("seed %d round %d", seed, round), r, g, n, func(batch uint64) *Request {
			if !n.Time.on() {
				return randomRequest(r, g.Schema(), batch)
			}
			req := randomTimedRequest(r, g, n, batch)
			req.Times, req.From = nil, nil
			return req
		}, func(left edgeRuns, req *Request) *oracleSample { return oracle(g, left, n, req) })
	}
	expect.That(t, gone >= 100, "%d edges were left out: the test says little", gone)
}

func TestLaborOnADeviceLeavesEdgesOut(t *testing.T) {
	const seed = 20261128
	r := rand.New(rand.NewPCG(seed, 0))
	d := openDevice(t)
	cudatest.ResetStats(t)
	gone := 0
	for round := range roundsOrHeavy(12, 500) {
		types := [][2]int{{1, 1}, {1, 3}, {3, 5}}[round%3]
		degree := func() int { return []int{0, r.IntN(4), r.IntN(60), 40}[r.IntN(4)] }
		g := sizedGraph(t, r, types[0], types[1], 20, degree)
		l := randomLabor(r, g.Schema())
		keys, batch := keyOf{r.Uint64(), r.Uint32(), r.Uint32N(3)}, r.Uint64N(200)
		gone += d.compareExclusion(fmt.Sprintf("seed %d round %d", seed, round), r, g, l, func(uint64) *Request {
			req := randomRequest(r, g.Schema(), 0)
			req.Rand = NewRand(keys.seed, keys.epoch, keys.instance, batch)
			return req
		}, func(left edgeRuns, req *Request) *oracleSample { return laborOracle(g, left, l, keys, batch, req) })
	}
	expect.That(t, gone >= roundsOf(100), "%d edges were left out: the test says little", gone)
	expect.That(t, invariants.Enabled || cudatest.Launches("neighbor_expand") != 0, "no fan-out took all edges")
}
