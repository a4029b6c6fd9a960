package sampling

import (
	"math"
	"sort"

	"github.com/khop-gnn/khop/internal/rng"
)

// chunkEdges is how many edges of a destination are looked at together: few enough for what is made of them to stay in
// the first-level cache.
const chunkEdges = 512

// racer finds the winners of exponential races: of weighted edges the k with the smallest -log(u)/weight.
//
// Method: P. S. Efraimidis and P. G. Spirakis, "Weighted random sampling with a reservoir", Information Processing
// Letters 97(5), 2006.
type racer struct {
	best smallest[float64]
	at   [chunkEdges]int64   // the edges of a chunk that may win
	unit [chunkEdges]float64 // u of these
}

// run adds a chunk of edges: those from position `first` of the column on, which draw from the stream's draw `from` on.
// An edge of weight 0 never wins. sum is about the sum of the weights.
func (r *racer) run(weights []float64, first int64, stream, from uint64, sum float64) {
	b := &r.best
	if !b.bound && len(weights) > 2*b.k+16 && b.n == 0 {
		// As many as this are likely to be below the limit: more than k, so that it seldom has to be lifted.
		expect := float64(b.k) + 2*math.Sqrt(float64(b.k)) + 2
		b.bound, b.limit = true, expect/sum
		r.chunk(weights, first, stream, from)
		if b.n >= b.k {
			b.drop()
			return
		}
		b.bound, b.n = false, 0
	}
	r.chunk(weights, first, stream, from)
	if b.n > b.k && b.n-b.k >= b.k/8 { // dropping looks at all: not for a few edges of many
		b.drop()
	}
}

func (r *racer) chunk(weights []float64, first int64, stream, from uint64) {
	b := &r.best
	limit := math.Inf(1)
	if b.bound {
		limit = b.limit
	}
	n := r.scan(weights, stream+from*rng.Golden, limit*(1+0x1p-40))
	for j, i := range r.at[:n] {
		if w := weights[i]; w > 0 {
			b.add(-rng.Log(r.unit[j])/w, first+i)
		}
	}
}

// scan notes the edges whose key may be up to a limit, and returns how many. Since -log(u) >= 1-u, a key is above the
// limit where 1-u > limit * weight. state is that of the draw before the first.
func (r *racer) scan(weights []float64, state uint64, limit float64) int {
	n := 0
	for i, w := range weights {
		state += rng.Golden
		u := rng.Unit(rng.Mix64(state))
		r.at[n&(chunkEdges-1)], r.unit[n&(chunkEdges-1)] = int64(i), u
		// Both are not negative, so that their bits compare as they do; NaN, which is 0 of infinity, is great.
		if math.Float64bits(1-u) <= math.Float64bits(limit*w) {
			n++
		}
	}
	return n
}

// age returns how much time lies between two times, negative where the second is the later.
func age(asOf, time int64) float64 {
	if time > asOf {
		return -float64(uint64(time) - uint64(asOf))
	}
	return float64(uint64(asOf) - uint64(time))
}

// addRecent adds an edge whose weight counts 2^-halvings, where late is halvings * log 2, unless it cannot win: the
// logarithm of its key in the race is log(-log(u)) - log(weight) + late.
func addRecent(best *smallest[float64], u, weight, late float64, at int64) {
	if best.bound {
		// -log(u) >= 1-u, and logarithms to base 2 are at least the exponents. Sums keep the order when rounded.
		if least := math.Ln2*float64(exponent(1-u)-exponent(weight)-1) - 1e-6; 1-u > 0 && least+late > best.limit {
			return
		}
	}
	key := -rng.Log(u)
	switch {
	case !(key > 0):
		key = math.Inf(-1)
	case weight == 1:
		key = rng.Log(key) + late
	default:
		key = (rng.Log(key) - logOf(weight)) + late
	}
	best.add(key, at)
	if best.n == best.room() || !best.bound && best.n == best.k {
		best.drop()
	}
}

// hopeless returns the least exponent, as its bits in 1-u, with which no edge that is so late or later can win: what
// addRecent finds of each.
func hopeless(best *smallest[float64], late float64) uint64 {
	const least, bias = -54, 1023 // u is a multiple of 2^-54, if not 1
	e := sort.Search(1-least, func(i int) bool {
		return best.bound && math.Ln2*float64(least+i-1)-1e-6+late > best.limit
	})
	return uint64(least + e + bias)
}

// logOf is rng.Log for weights, which may be below 2^-1022: these are multiplied by 2^54 first.
func logOf(w float64) float64 {
	if w < 0x1p-1022 {
		return rng.Log(w*0x1p54) - 54*math.Ln2
	}
	return rng.Log(w)
}
