package sampling

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
)

// Laws are the exact probability of each set of things, by enumeration. docs/results/samplers.md, "Laws that are
// tested", says what bias the tests of law_*_test.go and *_chance_test.go find. go test -v -run Law prints figures.

// subsets is the law of k things of n, every set of them as likely.
func subsets(n, k int) []float64 { return successive(slices.Repeat([]float64{1}, n), k) }

// successive is the law of k things that are drawn one after the other, each in proportion to its weight among those
// that are left.
func successive(weights []float64, k int) []float64 {
	law := make([]float64, 1<<len(weights))
	var draw func(set, k int, chance float64)
	draw = func(set, k int, chance float64) {
		left := 0.0
		for i, w := range weights {
			left += w * float64(1-set>>i&1)
		}
		if k == 0 || left == 0 {
			law[set] += chance
			return
		}
		for i, w := range weights {
			if set>>i&1 == 0 && w > 0 {
				draw(set|1<<i, k-1, chance*w/left)
			}
		}
	}
	draw(0, k, 1)
	return law
}

// apart is the law of things that do not depend on each other; those of the first law come first.
func apart(laws ...[]float64) []float64 {
	law := []float64{1}
	for _, next := range laws {
		var both []float64
		for _, q := range next {
			for _, p := range law {
				both = append(both, p*q)
			}
		}
		law = both
	}
	return law
}

// union is the law of what k draws have together, by that of one draw.
func union(law []float64, k int) []float64 {
	sets := make([]float64, len(law))
	for set := range law { // that all draws are within a set, less that they are within less of it
		within := 0.0
		for s, p := range law {
			if s&^set == 0 {
				within += p
			}
		}
		sets[set] = math.Pow(within, float64(k))
		for s := range set {
			if s&^set == 0 {
				sets[set] -= sets[s]
			}
		}
		sets[set] = max(sets[set], 0)
	}
	return sets
}

// placed is a law whose things have other numbers.
func placed(law []float64, numbers ...int) []float64 {
	all := make([]float64, 1<<(slices.Max(numbers)+1))
	for set, p := range law {
		to := 0
		for i, number := range numbers {
			to |= set >> i & 1 << number
		}
		all[to] += p
	}
	return all
}

// drawBatches samples a request as one batch after the other, for as long as look says.
func drawBatches(t *testing.T, g *graph.Graph, of Sampler, req *Request, edgePos bool, look func(*graph.Sample) bool) {
	t.Helper()
	n := 1
	for _, seeds := range req.Seeds {
		n = max(n, len(seeds))
	}
	env := Env{Graph: g, BatchSize: n, EdgePos: edgePos}
	k := expect.Must(Prepare(t.Context(), of, env))(t)
	w := expect.Must(k.Open(env))(t)
	out := sampleOf(g, k, n)
	for batch, more := uint64(0), true; more; batch++ {
		req.Rand = NewRand(20261122, 0, 0, batch)
		expect.OK(t, w.Sample(context.Background(), req, out))
		more = look(out)
	}
	closeAll(t, w, out, k)
}

func TestLawsAreThoseOfTheirDefinitions(t *testing.T) {
	for set, p := range subsets(4, 2) {
		want := map[bool]float64{true: 1. / 6}[bits.OnesCount(uint(set)) == 2]
		expect.That(t, math.Abs(p-want) <= 1e-15, "set %04b has probability %v, want %v", set, p, want)
	}
	// By hand: 1 then 3, or 3 then 1, of weights 1, 2, 3.
	p, want := successive([]float64{1, 2, 3}, 2)[5], 1./6*3/5+3./6*1/3
	expect.That(t, math.Abs(p-want) <= 1e-15, "edges 0 and 2 have probability %v, want %v", p, want)
	// Two throws of a coin show both sides in half of all cases.
	if p := union([]float64{0, 0.5, 0.5, 0}, 2); math.Abs(p[3]-0.5) > 1e-15 || math.Abs(p[1]-0.25) > 1e-15 {
		t.Errorf("two throws of a coin: %v", p)
	}
}
