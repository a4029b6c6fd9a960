package vector

import (
	"math"
	"unsafe"

	"github.com/khop-gnn/khop/internal/rng"
)

func keepPlain(to *byte, stream, limit uint64, groups int) {
	bits := unsafe.Slice(to, groups*Group/8)
	for i := range bits {
		b := byte(0)
		for k := range 8 {
			if rng.Draw(stream, uint64(8*i+k))>>40 >= limit {
				b |= 1 << k
			}
		}
		bits[i] = b
	}
}

func scalePlain(y, x *float32, bits *byte, n int, factor float32) {
	to, keep := unsafe.Slice(y, n), unsafe.Slice(bits, Bits(n))
	for i, v := range unsafe.Slice(x, n) {
		if keep[i/8]>>(i%8)&1 == 1 {
			to[i] = v * factor
		} else {
			to[i] = 0
		}
	}
}

func addPlain(y, x *float32, n int, factor float32) {
	to := unsafe.Slice(y, n)
	for i, v := range unsafe.Slice(x, n) {
		to[i] += float32(v * factor)
	}
}

func reluPlain(x *float32, n int) {
	for i, v := range unsafe.Slice(x, n) {
		if v <= 0 {
			unsafe.Slice(x, n)[i] = 0
		}
	}
}

func slopePlain(d, y *float32, n int, factor float32) {
	to := unsafe.Slice(d, n)
	for i, v := range unsafe.Slice(y, n) {
		if v > 0 {
			to[i] *= factor
		} else {
			to[i] = 0
		}
	}
}

func eluPlain(x *float32, n int) {
	for i, v := range unsafe.Slice(x, n) {
		if !(v > 0) {
			unsafe.Slice(x, n)[i] = float32(exp(v) - 1)
		}
	}
}

func eluSlopePlain(d, y *float32, n int, factor float32) {
	to := unsafe.Slice(d, n)
	for i, v := range unsafe.Slice(y, n) {
		if !(v > 0) {
			to[i] *= float32(v*factor) + 1
		}
	}
}

func leakyPlain(d, y *float32, n int, factor float32) {
	to := unsafe.Slice(d, n)
	for i, v := range unsafe.Slice(y, n) {
		if !(v > 0) {
			to[i] *= factor
		}
	}
}

func softmaxPlain(y, x *float32, n int) (greatest, sum float32) {
	to, from := unsafe.Slice(y, n), unsafe.Slice(x, n)
	greatest = float32(math.Inf(-1))
	for _, s := range from {
		greatest = max(greatest, s)
	}
	for e, s := range from {
		to[e] = float32(exp(s - greatest))
		sum += to[e]
	}
	for e := range to {
		to[e] /= sum
	}
	return greatest, sum
}

// exp is e^x for x up to 88, by a polynomial in float64 without fused operations: the same on every processor.
func exp(x float32) float64 {
	if x < -104 { // whose power is below half of the least float32
		x = -104
	}
	const log2e, ln2 = 1.4426950408889634, 0.6931471805599453
	k := math.RoundToEven(float64(x) * log2e)
	r := float64(x) - float64(k*ln2)
	p := float64(r*(1.0/362880)) + 1.0/40320
	p = float64(p*r) + 1.0/5040
	p = float64(p*r) + 1.0/720
	p = float64(p*r) + 1.0/120
	p = float64(p*r) + 1.0/24
	p = float64(p*r) + 1.0/6
	p = float64(p*r) + 0.5
	p = float64(p*r) + 1
	p = float64(p*r) + 1
	return float64(p * math.Float64frombits(uint64(int64(k)+1023)<<52)) // times 2^k, a normal number
}

// extremePlain goes over the edges of a row, 1 or more; see Extreme.
func extremePlain(y []float32, arg []int32, least bool, r Edges) {
	for e := range r.Count {
		row := r.row(e, len(y))
		for k, v := range row {
			if r.Weights != nil {
				v *= r.Weights[e]
			}
			if have := y[k]; e == 0 || have == have && (v != v || !least && v > have || least && v < have) {
				y[k], arg[k] = v, int32(r.First)+int32(e)
			}
		}
	}
}
