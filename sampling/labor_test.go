package sampling

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/rng"
)

// keyOf is a batch's key by docs/sampling.md.
type keyOf struct {
	seed            uint64
	epoch, instance uint32
}

func (k keyOf) at(batch uint64) uint64 { return rng.BatchKey(k.seed, k.epoch, k.instance, batch) }

// laborVariate is the variate of a source by docs/sampling.md.
func laborVariate(l Labor, keys keyOf, batch uint64, typeKey uint64, hop int, id uint64) uint64 {
	if l.LayerDependent {
		hop = 0
	}
	if stays := uint64(max(l.BatchDependency, 1)); stays > 1 {
		s := rng.Stream(rng.StageKey(keys.at(0), typeKey, 8, 0), id)
		batch = (batch + rng.Bounded(rng.Draw(s, 0), stays)) / stays
	}
	return rng.Draw(rng.Stream(rng.StageKey(keys.at(batch), typeKey, 4, uint8(hop)), id), 0)
}

// laborPicks are the picks of a destination by docs/sampling.md, with the variates of its in-edges: by sorting, and by
// numbers of any size.
func laborPicks(variates []uint64, k int, poisson bool) (picks []int) {
	for i := range variates {
		picks = append(picks, i)
	}
	n := int64(len(variates))
	switch {
	case k < 0 || n <= int64(k):
		return picks
	case poisson:
		limit := new(big.Int).Lsh(big.NewInt(int64(k)), 64) // of variate * n
		return slices.DeleteFunc(picks, func(i int) bool {
			u := new(big.Int).SetUint64(variates[i])
			return u.Mul(u, big.NewInt(n)).Cmp(limit) >= 0
		})
	}
	slices.SortStableFunc(picks, func(a, b int) int { return cmp.Compare(variates[a], variates[b]) })
	picks = picks[:k]
	slices.Sort(picks)
	return picks
}

func laborOracle(g *graph.Graph, runs edgeRuns, l Labor, keys keyOf, batch uint64, req *Request) *oracleSample {
	n := Neighbor{Fanouts: l.Fanouts, PerType: l.PerType, Frontier: l.Frontier}
	variates := map[[2]int][]uint64{} // by hop and node type, of fused ids
	return oracleBy(g, n, req, func(h, e int, v rooted) (picks []int64) {
		et := &g.Schema().Edges[e]
		all := variates[[2]int{h, et.Src}]
		for id := int64(len(all)); id < g.NumNodes(); id++ {
			own := uint64(id - g.Offset(et.Src))
			all = append(all, laborVariate(l, keys, batch, g.Schema().Nodes[et.Src].Key, h, own))
		}
		variates[[2]int{h, et.Src}] = all
		run := runs[[2]int64{v.id + g.Offset(et.Dst), int64(e)}]
		var of []uint64
		for _, pos := range run {
			of = append(of, all[indexAt(g, pos)])
		}
		for _, i := range laborPicks(of, oracleFanout(n, et, h), l.Poisson) {
			picks = append(picks, run[i])
		}
		return picks
	})
}

func randomLabor(r *rand.Rand, s *graph.Schema) Labor {
	n := randomOptions(r, s)
	return Labor{Fanouts: n.Fanouts, PerType: n.PerType, Frontier: n.Frontier, Poisson: r.IntN(3) == 0,
		LayerDependent: r.IntN(3) == 0, BatchDependency: []int{0, 0, 1, 2, 3, 64}[r.IntN(6)]}
}

func openLaborVariants(t *testing.T, g *graph.Graph, l Labor) map[string]Worker {
	t.Helper()
	return openEach(t, g, l, l.check, openLabor, openLabor)
}

// TestLaborEqualsTheOracle goes over many small graphs, which meet more kinds of chance than a few large ones, and some
// where a destination has far more edges than it takes.
func TestLaborEqualsTheOracle(t *testing.T) {
	const seed = 20261123
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range roundsOrHeavy(600, 5000) {
		types := [][2]int{{1, 1}, {1, 1}, {1, 3}, {3, 5}}[r.IntN(4)]
		var g *graph.Graph
		switch {
		case round%200 == 0:
			g = randomGraph(t, r, 2, 300)
		case round%30 == 0:
			g = randomGraph(t, r, types[0], types[1])
		default:
			degree := func() int { return []int{0, r.IntN(4), r.IntN(30)}[r.IntN(3)] }
			g = sizedGraph(t, r, types[0], types[1], 9, degree)
		}
		l := randomLabor(r, g.Schema())
		workers, runs := openLaborVariants(t, g, l), newEdgeRuns(g)
		keys := keyOf{r.Uint64(), r.Uint32(), r.Uint32N(3)}
		batch := r.Uint64N(200)
		req := randomRequest(r, g.Schema(), 0)
		req.Rand = NewRand(keys.seed, keys.epoch, keys.instance, batch)
		want := laborOracle(g, runs, l, keys, batch, req)
		for name, w := range workers {
			compare(t, fmt.Sprintf("seed %d round %d batch %d: %s: %s", seed, round, batch, l.Fingerprint(), name), g,
				w, req, want)
			expect.OK(t, w.Close())
		}
	}
}

// TestLaborOfHubsEqualsTheOracle has destinations with more edges than are in view at once, and fan-outs beyond a
// chunk; among them one all of whose edges have the same source, so that all variates are the same.
func TestLaborOfHubsEqualsTheOracle(t *testing.T) {
	plain := hubs(t, 3000, map[int]int{0: 5000, 1: 513, 2: 512, 3: 1024, 4: 1025, 5: 40_000, 6: 3000})
	indptr, indices := plain.Indptr(), mustView(t, plain.Indices())
	for pos := indptr[6]; pos < indptr[7]; pos++ {
		indices[pos] = 7
	}
	g := graphs.CSC(t, indptr, indices)
	runs, keys := newEdgeRuns(g), keyOf{seed: 7}
	req := &Request{Seeds: [][]int64{{5, 0, 9, 1, 6, 2, 3, 4}}, Rand: NewRand(7, 0, 0, 5)}
	for _, l := range []Labor{
		{Fanouts: []int{1, 2}}, {Fanouts: []int{15, 2}}, {Fanouts: []int{512, 2}}, {Fanouts: []int{513, 2}},
		{Fanouts: []int{1023, 1024}}, {Fanouts: []int{4000}, BatchDependency: 4}, {Fanouts: []int{1 << 30, 600}},
		{Fanouts: []int{700}, Poisson: true}, {Fanouts: []int{600, 700}, Frontier: NewNodes},
	} {
		want := laborOracle(g, runs, l, keys, 5, req)
		for name, w := range openLaborVariants(t, g, l) {
			for range 2 {
				compare(t, fmt.Sprintf("%s: %s", l.Fingerprint(), name), g, w, req, want)
			}
			expect.OK(t, w.Close())
		}
	}
}

// TestSharesOfVariatesAreExact compares the greatest variate of a share with docs/sampling.md, "LABOR": u counts if
// floor(u * n / 2^64) < k. Where n divides k * 2^64 the bound itself does not count.
func TestSharesOfVariatesAreExact(t *testing.T) {
	counts := func(u uint64, k, n int64) bool {
		hi, _ := bits.Mul64(u, uint64(n))
		return hi < uint64(k)
	}
	for _, c := range []struct{ k, n int64 }{
		{1, 2}, {1, 3}, {2, 3}, {1, 4}, {3, 4}, {2, 4}, {5, 8}, {6, 9}, {10, 10_007},
		{1, 1 << 40}, {1<<40 - 1, 1 << 40}, {1 << 20, 1 << 40},
		{1, math.MaxInt64}, {math.MaxInt64 - 1, math.MaxInt64},
	} {
		u := shareOf(c.k, c.n)
		expect.That(t, counts(u, c.k, c.n) && !counts(u+1, c.k, c.n), "%d of %d: %d is not the greatest", c.k, c.n, u)
	}
}
