//go:build !purego

package sparse

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// variants returns those that this processor runs, the best first.
func variants() []variant { return available[:] }

var available = func() []variant {
	vs := []variant{plain}
	if cpu.X86.HasAVX2 && cpu.X86.HasBMI2 {
		vs = []variant{avx2, plain}
		if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ {
			vs = []variant{avx512, avx2, plain}
		}
	}
	return vs
}()

// sum sums rows lo to hi by a variant that is not plain.
func (r *spmmRun) sum(v variant, halves bool, lo, hi int) {
	run := unsafe.Pointer(r)
	switch {
	case v == avx512 && halves:
		spmmHalfAVX512(run, lo, hi)
	case v == avx512:
		spmmAVX512(run, lo, hi)
	case halves:
		spmmHalfAVX2(run, lo, hi)
	default:
		spmmAVX2(run, lo, hi)
	}
}

// multiply multiplies by a variant that is not plain.
func (r *denseRun) multiply(v variant) {
	if v == avx512 {
		denseAVX512(unsafe.Pointer(r))
	} else {
		denseAVX2(unsafe.Pointer(r))
	}
}

// lanes8 are masks of AVX2: lane i is all ones if it is below n, in the words from 8-n on.
var lanes8 = [16]int32{-1, -1, -1, -1, -1, -1, -1, -1}

// maskOf returns the mask of the first columns of a vector, up to all of them.
func maskOf(v variant, width int) uint64 {
	if v == avx512 {
		return 1<<width - 1
	}
	return uint64(uintptr(unsafe.Pointer(&lanes8[8-width])))
}

// streamLines copies n bytes, a multiple of a line and not 0, past the caches. dst begins with a line.
func streamLines(v variant, dst, src unsafe.Pointer, n int) {
	if v == avx512 {
		streamLinesAVX512(dst, src, n)
	} else {
		streamLinesAVX2(dst, src, n)
	}
}

// lanes16 are masks of AVX2 for two vectors, as lanes8.
var lanes16 = [32]int32{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

// vectors computes dot products by a variant that is not plain.
func (r *sddmmRun) vectors(v variant, lo, hi int64) {
	left := r.width % lanes
	run := unsafe.Pointer(r)
	if v == avx512 {
		r.mask = 1<<left - 1
		dotAVX512(run, int(lo), int(hi))
		return
	}
	r.mask = uint64(uintptr(unsafe.Pointer(&lanes16[lanes-left])))
	dotAVX2(run, int(lo), int(hi))
}
