//go:build !race

package rng

import (
	"fmt"
	"math"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// A verdict is the outcome of one chi-square test.
//
// The statistic is X = sum of (observed - expected)² / expected over the cells. Under the hypothesis X/scale has the
// chi-square law with df degrees of freedom, where scale is 1 for independent trials that fall into one cell each. The
// law's tail is taken by the Wilson-Hilferty cube root, which is good to a few percent of the tail's probability here
// (df >= 30).
type verdict struct {
	stat, df, scale float64
	trials          int
}

// limit is the normal deviate beyond which a verdict rejects, on both sides: counts that are too even betray dependence
// as counts that are too uneven betray bias. A fair generator is rejected once in 3.5 million tests; with fixed seeds,
// once and for all or never.
const limit = 5.0

func (v verdict) deviate() float64 {
	spread := 2 / (9 * v.df)
	return (math.Cbrt(v.stat/v.scale/v.df) - (1 - spread)) / math.Sqrt(spread)
}

func (v verdict) rejects() bool { return !(math.Abs(v.deviate()) <= limit) }

// resolution is the smallest bias that the test finds with probability 0.999: the root mean square over the cells of (p
// - q)/q, for true probabilities p and supposed q. It follows from the noncentral chi-square law with noncentrality
// trials·bias²/scale, here by its first two moments.
func (v verdict) resolution() float64 {
	spread := 2 / (9 * v.df)
	critical := v.df * math.Pow(1-spread+limit*math.Sqrt(spread), 3)
	low, high := 0.0, 1e9
	for range 200 {
		nc := (low + high) / 2
		if v.df+nc-3.09*math.Sqrt(2*(v.df+2*nc)) > critical {
			high = nc
		} else {
			low = nc
		}
	}
	return math.Sqrt(high * v.scale / float64(v.trials))
}

func (v verdict) String() string {
	return fmt.Sprintf("chi-square %.1f at %.1f degrees of freedom (%.2f sigma) after %d trials, which find a bias of "+
		"%.2f %%",
		v.stat/v.scale, v.df, v.deviate(), v.trials, 100*v.resolution())
}

// equalCells tests that all cells are equally likely, for independent trials that fall into one cell each.
func equalCells(counts []int, trials int) verdict {
	expected := float64(trials) / float64(len(counts))
	return verdict{stat: distance(counts, expected), df: float64(len(counts) - 1), scale: 1, trials: trials}
}

func distance(counts []int, expected float64) float64 {
	sum := 0.0
	for _, c := range counts {
		d := float64(c) - expected
		sum += d * d / expected
	}
	return sum
}

// subsetCells tests that all k-subsets of 0 .. n-1 are equally likely; subset(i) is that of trial i, ascending.
func subsetCells(n, k uint64, trials int, subset func(i uint64) []uint64) verdict {
	counts := make([]int, choose(n, k))
	for i := range trials {
		counts[subsetRank(subset(uint64(i)))]++
	}
	return equalCells(counts, trials)
}

// pairCells tests that all pairs of 0 .. n-1 are equally likely to be in a k-subset.
//
// A trial adds to k(k-1)/2 cells at once, so that the counts are correlated. Their covariance depends only on how many
// elements two pairs have in common (the Johnson scheme); it has the eigenvalue a on n-1 dimensions, which tell
// elements apart, and b on n(n-3)/2, which tell pairs apart beyond that. X is a sum of two scaled chi-squares, for
// which one with the same mean and variance stands in.
func pairCells(n, k uint64, trials int, subset func(i uint64) []uint64) verdict {
	counts := make([]int, choose(n, 2))
	for i := range trials {
		s := subset(uint64(i))
		for j := range s {
			for l := range j {
				counts[subsetRank([]uint64{s[l], s[j]})]++
			}
		}
	}
	// m given elements are all in
	q := func(m uint64) float64 { return float64(choose(n-m, k-m)) / float64(choose(n, k)) }
	p := q(2)
	same, share, apart := p-p*p, q(3)-p*p, q(4)-p*p
	f := float64(n)
	a, da := (same+(f-4)*share-(f-3)*apart)/p, f-1
	b, db := (same-2*share+apart)/p, f*(f-3)/2
	scale := (a*a*da + b*b*db) / (a*da + b*db)
	return verdict{
		stat: distance(counts, p*float64(trials)), df: (a*da + b*db) / scale, scale: scale,
		trials: int(p * float64(trials) * float64(len(counts))),
	}
}

// positionCells tests that every item is equally likely at every position of a shuffle of n items; order(i) is that of
// trial i.
//
// The counts form a square with fixed sums of rows and columns: X (n-1)/n has the chi-square law with (n-1)² degrees of
// freedom.
func positionCells(n int, trials int, order func(i uint64) []uint64) verdict {
	counts := make([]int, n*n)
	for i := range trials {
		for position, item := range order(uint64(i)) {
			counts[position*n+int(item)]++
		}
	}
	m := float64(n)
	return verdict{stat: distance(counts, float64(trials)/m), df: (m - 1) * (m - 1), scale: m / (m - 1),
		trials: trials * n}
}

// orderCells tests that all n! orders of n items are equally likely.
func orderCells(n int, trials int, order func(i uint64) []uint64) verdict {
	cells := 1
	for i := range n {
		cells *= i + 1
	}
	counts := make([]int, cells)
	for i := range trials {
		o, rank := order(uint64(i)), 0
		for j, x := range o { // Lehmer code
			smaller := 0
			for _, y := range o[j+1:] {
				if y < x {
					smaller++
				}
			}
			rank = rank*(n-j) + smaller
		}
		counts[rank]++
	}
	return equalCells(counts, trials)
}

// jointCells tests that two numbers below b are uniform and independent.
func jointCells(b uint64, trials int, pair func(i uint64) (x, y uint64)) verdict {
	counts := make([]int, b*b)
	for i := range trials {
		x, y := pair(uint64(i))
		counts[x*b+y]++
	}
	return equalCells(counts, trials)
}

// subsetRank numbers the k-subsets of the natural numbers, those of 0 .. n-1 first for every n (the combinatorial
// number system).
func subsetRank(ascending []uint64) uint64 {
	rank := uint64(0)
	for j, x := range ascending {
		rank += choose(x, uint64(j+1))
	}
	return rank
}

func choose(n, k uint64) uint64 {
	if k > n {
		return 0
	}
	c := uint64(1)
	for i := range k {
		c = c * (n - i) / (i + 1)
	}
	return c
}

func TestChiSquareTailsAreRight(t *testing.T) {
	// Quantiles of the chi-square law from tables (NIST/SEMATECH e-Handbook, 1.3.6.7.4), and the normal deviates of
	// their tails.
	for _, c := range []struct{ df, quantile, deviate float64 }{
		{30, 59.703, 3.0902}, {100, 149.449, 3.0902}, {100, 124.342, 1.6449}, {100, 77.929, -1.6449},
		{30, 43.773, 1.6449},
	} {
		if got := (verdict{stat: c.quantile, df: c.df, scale: 1}).deviate(); math.Abs(got-c.deviate) > 0.01 {
			t.Errorf("the deviate of %v at %v degrees of freedom is %.4f, want %.4f", c.quantile, c.df, got, c.deviate)
		}
	}
	got := subsetRank([]uint64{4, 5, 6})
	expect.That(t, got == choose(7, 3)-1, "the last 3-subset of 7 has rank %d", got)
}
