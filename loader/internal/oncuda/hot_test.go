package oncuda

import (
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
