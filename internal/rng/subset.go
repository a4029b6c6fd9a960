package rng

import "slices"

// Floyd appends to dst a k-subset of 0 .. n-1, ascending, drawn from the stream with state s, and returns the extended
// slice. If k >= n it is all of 0 .. n-1 and no draw is taken.
//
// Distribution: every subset of size k with equal probability, up to k·n·2⁻⁶⁴ (relative). Draws: 0 .. k-1. Cost: O(k
// log k) comparisons and O(k²) moves. This is the oracle, meant to be read; kernels may keep the set in any form,
// because the result does not show it. Method: R. W. Floyd, in J. Bentley, "Programming pearls: a sample of
// brilliance", CACM 30(9), 1987.
func Floyd(dst []uint64, s uint64, n, k uint64) []uint64 {
	if k >= n {
		for i := range n {
			dst = append(dst, i)
		}
		return dst
	}
	start := len(dst)
	for j := range k {
		i := n - k + j
		t := Bounded(Draw(s, j), i+1)
		at, found := slices.BinarySearch(dst[start:], t)
		if found {
			dst = append(dst, i) // i exceeds all that was added before
		} else {
			dst = slices.Insert(dst, start+at, t)
		}
	}
	return dst
}

// WithReplacement appends to dst k independent picks of 0 .. n-1, in draw order with repeats kept, drawn from the
// stream with state s, and returns the extended slice. If n = 0 there are no picks.
//
// Draws: 0 .. k-1, one a pick.
func WithReplacement(dst []uint64, s, n, k uint64) []uint64 {
	if n == 0 {
		return dst
	}
	for i := range k {
		dst = append(dst, Bounded(Draw(s, i), n))
	}
	return dst
}
