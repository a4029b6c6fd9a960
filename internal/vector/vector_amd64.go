//go:build !purego

package vector

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// bytes is the size of the vectors that this processor has: 64, 32, or 0 for none. Tests change it.
var bytes = func() int {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ:
		return 64
	case cpu.X86.HasAVX2:
		return 32
	}
	return 0
}()

func keep(bits []byte, stream, limit uint64) {
	switch bytes {
	case 64:
		keepAVX512(&bits[0], stream, limit, len(bits)/2)
	case 32:
		keepAVX2(&bits[0], stream, limit, len(bits)/2)
	default:
		keepPlain(bits, stream, limit)
	}
}

func scale(y, x []float32, bits []byte, factor float32) {
	switch bytes {
	case 64:
		scaleAVX512(&y[0], &x[0], &bits[0], len(x), factor)
	case 32:
		scaleAVX2(&y[0], &x[0], &bits[0], len(x), factor)
	default:
		scalePlain(y, x, bits, factor)
	}
}

func add(y, x []float32, factor float32) {
	switch bytes {
	case 64:
		addAVX512(&y[0], &x[0], len(x), factor)
	case 32:
		addAVX2(&y[0], &x[0], len(x), factor)
	default:
		addPlain(y, x, factor)
	}
}

func relu(x []float32) {
	switch bytes {
	case 64:
		reluAVX512(&x[0], len(x))
	case 32:
		reluAVX2(&x[0], len(x))
	default:
		reluPlain(x)
	}
}

func slope(d, y []float32, factor float32) {
	switch bytes {
	case 64:
		slopeAVX512(&d[0], &y[0], len(y), factor)
	case 32:
		slopeAVX2(&d[0], &y[0], len(y), factor)
	default:
		slopePlain(d, y, factor)
	}
}

func elu(x []float32) {
	switch bytes {
	case 64:
		eluAVX512(&x[0], len(x))
	case 32:
		eluAVX2(&x[0], len(x))
	default:
		eluPlain(x)
	}
}

func eluSlope(d, y []float32, factor float32) {
	switch bytes {
	case 64:
		eluSlopeAVX512(&d[0], &y[0], len(y), factor)
	case 32:
		eluSlopeAVX2(&d[0], &y[0], len(y), factor)
	default:
		eluSlopePlain(d, y, factor)
	}
}

func leaky(d, y []float32, factor float32) {
	switch bytes {
	case 64:
		leakyAVX512(&d[0], &y[0], len(y), factor)
	case 32:
		leakyAVX2(&d[0], &y[0], len(y), factor)
	default:
		leakyPlain(d, y, factor)
	}
}

func softmax(to, from []float32) (greatest, sum float32) {
	switch bytes {
	case 64:
		return softmaxAVX512(&to[0], &from[0], len(from))
	case 32:
		return softmaxAVX2(&to[0], &from[0], len(from))
	}
	return softmaxPlain(to, from)
}

// extremeRun is what a kernel of extremes reads. Its layout is known to tools/asm.
type extremeRun struct {
	y, arg, x, indices, weights                unsafe.Pointer
	step, index, stride, edges, first, columns int
}

// one is the weight of edges without weights.
var one float32 = 1

func extreme(y []float32, arg []int32, least bool, r Edges) {
	if bytes == 0 {
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
	for k := 0; k < len(y); k += bytes / 4 {
		run.y, run.arg, run.x = unsafe.Pointer(&y[k]), unsafe.Pointer(&arg[k]), unsafe.Add(r.X, 4*k)
		run.columns = min(len(y)-k, bytes/4)
		run.compute(least)
	}
}

func (r *extremeRun) compute(least bool) {
	run := unsafe.Pointer(r)
	switch {
	case bytes == 64 && least:
		extremeMinAVX512(run)
	case bytes == 64:
		extremeMaxAVX512(run)
	case least:
		extremeMinAVX2(run)
	default:
		extremeMaxAVX2(run)
	}
}
