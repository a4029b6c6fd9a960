package rng

import (
	"fmt"
	"testing"
)

// Each result feeds the next input, so that it measures latency, which overlapping calls in a real loop hide in
// part.

func BenchmarkDraw(b *testing.B) {
	x := uint64(1)
	for b.Loop() {
		x = Draw(x, 7)
	}
	sink = x
}

func BenchmarkStageKey(b *testing.B) {
	x := uint64(1)
	for b.Loop() {
		x = StageKey(x, 2, Pick, 3)
	}
	sink = x
}

func BenchmarkBatchKey(b *testing.B) {
	x := uint64(1)
	for b.Loop() {
		x = BatchKey(x, 2, 3, 4)
	}
	sink = x
}

func BenchmarkPermutationAt(b *testing.B) {
	for _, n := range []uint64{1 << 16, 1<<16 + 1, 1 << 18, 1 << 40} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			p := NewPermutation(1, n)
			x := uint64(0)
			for b.Loop() {
				x = p.At(x)
			}
			sink = x
		})
	}
}

func BenchmarkNewPermutation(b *testing.B) {
	for _, n := range []uint64{1 << 10, 1 << 16, 1 << 40} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			x := uint64(0)
			for b.Loop() {
				p := NewPermutation(x, n)
				x = p.At(0)
			}
			sink = x
		})
	}
}

func BenchmarkFloyd(b *testing.B) {
	for _, k := range []uint64{5, 15, 100} {
		b.Run(fmt.Sprintf("n=1000/k=%d", k), func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]uint64, 0, k)
			x := uint64(0)
			for b.Loop() {
				x += Floyd(dst, x, 1000, k)[0]
			}
			sink = x
		})
	}
}

// sink keeps results alive.
var sink uint64
