package oncuda

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// In-edges of many small nodes go before those of a hub that is in more batches, unless its score makes up for its
// size, and all that fit are listed.
func TestHotInEdgesAreThoseThatSpareMostForTheirRoom(t *testing.T) {
	indptr, scores := []int64{0, 3200}, []float64{64}
	for range 99 {
		indptr, scores = append(indptr, indptr[len(indptr)-1]+8), append(scores, 1)
	}
	order := hottestInEdges(scores, indptr, 200)
	expect.That(t, len(order) >= 25 && order[0] == 1 && !slices.Contains(order, 0), "the hub comes first: %v", order)
	scores[0] = 800
	order = hottestInEdges(scores, indptr, 4000)
	expect.That(t, len(order) == 100 && order[0] == 0, "the hub does not come first, or not all are there: %v", order)
}

// The listed nodes fill the room, or there are no others, and each comes before those that spare less.
func TestHotInEdgesFillTheRoom(t *testing.T) {
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		indptr, scores := []int64{0}, []float64(nil)
		for range 1 + r.IntN(300) {
			indptr = append(indptr, indptr[len(indptr)-1]+r.Int64N(1<<r.IntN(8)))
			scores = append(scores, float64(r.IntN(5)))
		}
		room, edges, least := r.Int64N(2*indptr[len(scores)]+1), int64(0), 5.0
		order := hottestInEdges(scores, indptr, room)
		for _, v := range order {
			degree := indptr[v+1] - indptr[v]
			gain := scores[v] * float64(min(degree, picksOfANode)) / float64(max(degree, 1))
			expect.That(t, degree == 0 || gain <= least*(1+1e-9), "seed %d: %d spares %v after %v", seed, v, gain,
				least)
			if degree > 0 {
				least = gain
			}
			edges += degree
		}
		expect.That(t, edges >= room || len(order) == len(scores), "seed %d: %d of %d nodes with %d edges for %d", seed,
			len(order), len(scores), edges, room)
	}
}

// TestThePlanFollowsWhatReadsCost: the same rows and devices, other ways between them.
func TestThePlanFollowsWhatReadsCost(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	scores := make([]float64, 10_000) // few rows are most of what is gathered
	for i := range scores {
		scores[i] = math.Pow(r.Float64(), -0.5)
	}
	const room, k = 1600, 4
	for name, c := range map[string]struct {
		share      Share
		cost       readCost
		own, dealt int64 // -1: some
	}{
		"a peer is as near as the own memory":  {shareFastest, readCost{1, 1, 40}, 0, k * room},
		"a peer is as far as the host":         {shareFastest, readCost{1, 40, 40}, room, 0},
		"a peer is farther than the host":      {shareFastest, readCost{1, 60, 40}, room, 0},
		"between them, the hottest are on all": {shareFastest, readCost{1, 20, 40}, -1, -1},
		"none asked for":                       {ShareNone, readCost{1, 1, 40}, room, 0},
		"all asked for":                        {ShareAll, readCost{1, 60, 40}, 0, k * room},
	} {
		p := planSharing(c.share, scores, room, k, c.cost)
		if c.own >= 0 && (p.own != c.own || p.dealt != c.dealt) || c.own < 0 && (p.own == 0 || p.dealt == 0) {
			t.Errorf("%s: %+v, want %d on each and %d dealt", name, p, c.own, c.dealt)
		}
		expect.That(t, p.own+(p.dealt+k-1)/k <= room && p.own+p.dealt <= int64(len(scores)),
			"%s: %+v exceeds %d rows a device", name, p, room)
	}
	p := planSharing(shareFastest, scores, 3000, k, readCost{1, 1.5, 40})
	expect.That(t, p.own+p.dealt == 10_000 && p.hits >= 0.999, "all rows have room among the devices: %+v", p)
	p = planSharing(shareFastest, make([]float64, 100), 10, 2, fixedCost)
	expect.That(t, p.own+p.dealt > 0, "rows of which nothing is known: %+v", p)
}
