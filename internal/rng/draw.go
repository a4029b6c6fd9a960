package rng

import "math/bits"

// Draw returns draw i, counted from 0, of the stream with state s: 64 uniform bits. No draw needs the ones before it.
func Draw(s uint64, i uint64) uint64 {
	return Mix64(s + (i+1)*Golden)
}

// Bounded turns a draw into an integer of [0, n): floor(d·n / 2⁶⁴). No value's probability is off by more than 2⁻⁶⁴.
// Without rejection, each choice takes exactly one draw. For n = 0 the result is 0, which is not a valid choice.
//
// Method: the multiplication of D. Lemire, "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019,
// less its rejection step.
func Bounded(d, n uint64) uint64 {
	hi, _ := bits.Mul64(d, n)
	return hi
}

// Float64 turns a draw into a number of [0, 1), a multiple of 2⁻⁵³. An event of probability p happens when it is less
// than p.
func Float64(d uint64) float64 {
	return float64(d>>11) * 0x1p-53
}

// Float32 turns a draw into a number of [0, 1), a multiple of 2⁻²⁴. An event of probability p happens when it is less
// than p.
func Float32(d uint64) float32 {
	return float32(d>>40) * 0x1p-24
}

// Golden is 2^64 divided by the golden ratio, made odd: the step between consecutive states of a SplitMix sequence.
const Golden = 0x9E3779B97F4A7C15

// Mix64 returns z scrambled. It is a bijection on 64-bit numbers with Mix64(0) = 0.
//
// Method: the finaliser of SplitMix64 (G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014) with the constants of D. Stafford's variant 13.
func Mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Philox returns the block of Philox4x32-10 with counter c and key k.
//
// Method: J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011.
func Philox(c [4]uint32, k [2]uint32) [4]uint32 {
	c0, c1, c2, c3 := c[0], c[1], c[2], c[3]
	k0, k1 := k[0], k[1]
	for range 10 {
		hi0, lo0 := bits.Mul32(c0, 0xD2511F53)
		hi2, lo2 := bits.Mul32(c2, 0xCD9E8D57)
		c0, c1, c2, c3 = hi2^c1^k0, lo2, hi0^c3^k1, lo0
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return [4]uint32{c0, c1, c2, c3}
}
