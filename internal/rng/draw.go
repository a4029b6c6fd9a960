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
