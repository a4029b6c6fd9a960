//go:build !race

package synthetic

import (
	"math"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/rng"
)

func TestShuffleIsABijectionWithItsInverse(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 4, 5, 7, 8, 31, 64, 100, 1023, 1024, 1025, 70_000} {
		s := newShuffle(rng.Mix64(n), n)
		seen := make([]bool, n)
		for i := range n {
			x := s.at(i)
			if x >= n || seen[x] {
				t.Fatalf("n = %d: position %d has item %d: out of range or there twice", n, i, x)
			}
			seen[x] = true
			back := s.inverse(x)
			expect.Ensure(t, back == i, "n = %d: inverse(at(%d)) = %d", n, i, back)
		}
	}
	s := newShuffle(1, 1<<50)
	if x := s.at(12345); x >= 1<<50 || s.inverse(x) != 12345 {
		t.Errorf("n = 2^50: position 12345 has item %d, whose position is %d", x, s.inverse(x))
	}
}

func TestShuffleSpreadsPairsOfNeighbours(t *testing.T) {
	// Where two neighbouring positions go, in twelfths of all, over many keys: every pair of items equally often.
	const parts, keys = 12, 50_000
	for _, n := range []uint64{12, 13, 100, shortest - 1, shortest, 1_000_000} {
		part := func(x uint64) uint64 { return x * parts / n }
		var size [parts]float64
		for x := range n {
			size[part(x)]++
		}
		var seen [parts][parts]float64
		for k := range uint64(keys) {
			s := newShuffle(rng.Mix64(k), n)
			seen[part(s.at(4))][part(s.at(5))]++
		}
		chi := 0.0
		for i := range parts {
			for j := range parts {
				other := size[j]
				if i == j {
					other--
				}
				if want := keys * size[i] / float64(n) * other / float64(n-1); want > 0 {
					chi += (seen[i][j] - want) * (seen[i][j] - want) / want
				}
			}
		}
		if chi > 143+5*17 { // at most 143 degrees of freedom: standard deviation 17
			t.Errorf("n = %d: chi-square over pairs is %.0f, want 143 or less", n, chi)
		}
	}
}

func TestLawDealsEverySlotOnce(t *testing.T) {
	for _, s := range []shape{heavy, light} {
		for _, c := range []struct{ n, stubs uint64 }{{1, 1}, {1, 100}, {10, 3}, {100, 5000}, {5000, 250_000}, {3, 0}} {
			l := newLaw(c.n, c.stubs, s)
			next := uint64(0)
			for r := range c.n {
				from, to := l.first(r), l.first(r+1)
				expect.Ensure(t, from == next && to >= from,
					"%+v: rank %d has stubs %d .. %d, but the next free one is %d", c, r, from, to, next)
				for j := from; j < to; j++ {
					got := l.rank(j)
					expect.Ensure(t, got == r, "%+v: stub %d is of rank %d, not %d", c, j, got, r)
				}
				next = to
			}
			expect.That(t, next == c.stubs, "%+v: %d stubs are dealt", c, next)
		}
	}
}

func TestLawHasItsTail(t *testing.T) {
	// Survival of degrees k^-alpha means degree(rank) ~ rank^(-1/alpha).
	for s, alpha := range map[shape]float64{heavy: 1.8, light: 3} {
		l := newLaw(1_000_000, 1_000_000_000, s)
		degree := func(r uint64) float64 { return float64(l.first(r+1) - l.first(r)) }
		slope := math.Log(degree(200_000)/degree(2_000)) / math.Log(100)
		expect.That(t, math.Abs(slope+1/alpha) <= 0.005, "shape %d: degrees fall as rank^%.3f, want %.3f", s, slope,
			-1/alpha)
	}
}

func TestBinomialFollowsItsDistribution(t *testing.T) {
	const runs = 40_000
	for _, c := range []struct {
		n uint64
		p float64
	}{{1, .5}, {3, .76}, {10, .3}, {64, .5}, {65, .24}, {1000, .76}, {1025, .24}, {5_000_000, .57}} {
		p := probability(c.p)
		sum, square := 0.0, 0.0
		hist := map[uint64]int{}
		for i := range uint64(runs) {
			x := binomial(rng.Stream(c.n, i), c.n, p)
			expect.Ensure(t, x <= c.n, "%+v: %d successes", c, x)
			hist[x]++
			sum += float64(x)
			square += float64(x) * float64(x)
		}
		mean, variance := float64(c.n)*c.p, float64(c.n)*c.p*(1-c.p)
		gotMean := sum / runs
		gotVar := square/runs - gotMean*gotMean
		expect.That(t, math.Abs(gotMean-mean) <= 4*math.Sqrt(variance/runs)+1e-9, "%+v: mean %.3f, want %.3f", c,
			gotMean, mean)
		expect.That(t, math.Abs(gotVar/variance-1) <= 4*math.Sqrt(2.0/runs), "%+v: variance %.3f, want %.3f", c, gotVar,
			variance)
		if c.n <= 10 {
			chi, pmf := 0.0, math.Pow(1-c.p, float64(c.n))
			for k := uint64(0); k <= c.n; k++ {
				d := float64(hist[k]) - runs*pmf
				chi += d * d / (runs * pmf)
				pmf *= float64(c.n-k) / float64(k+1) * c.p / (1 - c.p)
			}
			expect.That(t, chi <= float64(c.n)+5*math.Sqrt(2*float64(c.n))+5,
				"%+v: chi-square %.1f with %d degrees of freedom", c, chi, c.n)
		}
	}
}

func TestTreeCountsAddUpAnywhereTheyAreAskedFor(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 5, 64, 100, 129, 1000} {
		for _, zero := range []float64{0.5, 0.76} {
			tr := newTree(rng.Mix64(n), n, 50_000, zero)
			all := make([]uint64, n)
			tr.counts(0, all)
			total := uint64(0)
			for id, want := range all {
				total += want
				got := tr.count(uint64(id))
				expect.Ensure(t, got == want, "n = %d: id %d has %d edges alone, %d among all", n, id, got, want)
			}
			expect.Ensure(t, total == 50_000, "n = %d: %d edges in all", n, total)
			part := make([]uint64, n-n/3)
			tr.counts(n/3, part)
			for i := range part {
				if part[i] != all[n/3+uint64(i)] {
					t.Fatalf("n = %d: id %d has %d edges in a run, %d among all", n, n/3+uint64(i), part[i],
						all[n/3+uint64(i)])
				}
			}
		}
	}
}

func TestTreeFollowsItsDistributionWhereNCutsIt(t *testing.T) {
	// Ids below 11 with probability of 0 bits .76, given that they are below 11.
	const n, edges, zero = 11, 400, 0.76
	weight, sum := [n]float64{}, 0.0
	for id := range weight {
		weight[id] = 1
		for b := range 4 {
			if id>>b&1 == 0 {
				weight[id] *= zero
			} else {
				weight[id] *= 1 - zero
			}
		}
		sum += weight[id]
	}
	const runs = 3000
	var got [n]uint64
	for k := range uint64(runs) {
		tr := newTree(rng.Mix64(k), n, edges, zero)
		for id := range got {
			got[id] += tr.count(uint64(id))
		}
	}
	chi := 0.0
	for id := range got {
		want := runs * edges * weight[id] / sum
		chi += (float64(got[id]) - want) * (float64(got[id]) - want) / want
	}
	if chi > 35 { // 10 degrees of freedom
		t.Errorf("chi-square over ids is %.1f, want about 10: %v", chi, got)
	}
}
