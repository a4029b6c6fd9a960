//go:build !purego

package vector

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// available returns the kernels that this processor runs, the widest first.
func available() []*kernels {
	all := []*kernels{plain}
	if cpu.X86.HasAVX2 {
		all = append([]*kernels{{"avx2", 32, keepAVX2, scaleAVX2, addAVX2, reluAVX2, eluAVX2, slopeAVX2, eluSlopeAVX2,
			leakyAVX2, softmaxAVX2}}, all...)
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ {
		all = append([]*kernels{{"avx512", 64, keepAVX512, scaleAVX512, addAVX512, reluAVX512, eluAVX512, slopeAVX512,
			eluSlopeAVX512, leakyAVX512, softmaxAVX512}}, all...)
	}
	return all
}

// extremeRun is what a kernel of extremes reads. Its layout is known to tools/asm.
type extremeRun struct {
	y, arg, x, indices, weights                unsafe.Pointer
	step, index, stride, edges, first, columns int
}

// one is the weight of edges without weights.
var one float32 = 1

func extreme(y []float32, arg []int32, least bool, r Edges) {
	if best.bytes == 0 {
		extremePlain(y, arg, least, r)
		return
	}
	run := extremeRun{indices: r.Indices, weights: unsafe.Pointer(&one), index: 4, stride: r.Stride, edges: r.Count,
		first: r.First}
	if r.Weights != nil {
		run.weights, run.step = unsafe.Pointer(&r.Weights[0]), 4
	}
	if r.Wide {
		run.index = 8
	}
	for k := 0; k < len(y); k += best.bytes / 4 {
		run.y, run.arg, run.x = unsafe.Pointer(&y[k]), unsafe.Pointer(&arg[k]), unsafe.Add(r.X, 4*k)
		run.columns = min(len(y)-k, best.bytes/4)
		run.compute(least)
	}
}

// compute calls the kernel by its name: through a table of functions r would have to be allocated.
func (r *extremeRun) compute(least bool) {
	run := unsafe.Pointer(r)
	switch {
	case best.bytes == 64 && least:
		extremeMinAVX512(run)
	case best.bytes == 64:
		extremeMaxAVX512(run)
	case least:
		extremeMinAVX2(run)
	default:
		extremeMaxAVX2(run)
	}
}
