package vector

import (
	"math"

	"github.com/khop-gnn/khop/internal/rng"
)

func keepPlain(bits []byte, stream, limit uint64) {
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

func scalePlain(y, x []float32, bits []byte, factor float32) {
	for i, v := range x {
		if bits[i/8]>>(i%8)&1 == 1 {
			y[i] = v * factor
		} else {
			y[i] = 0
		}
	}
}

func addPlain(y, x []float32, factor float32) {
	for i, v := range x {
		y[i] += float32(v * factor)
	}
}

func reluPlain(x []float32) {
	for i, v := range x {
		if v <= 0 {
			x[i] = 0
		}
	}
}

func slopePlain(d, y []float32, factor float32) {
	for i, v := range y {
		if v > 0 {
			d[i] *= factor
		} else {
			d[i] = 0
		}
	}
}

func eluPlain(x []float32) {
	for i, v := range x {
		if !(v > 0) {
			x[i] = float32(exp(v) - 1)
		}
	}
}

func eluSlopePlain(d, y []float32, factor float32) {
	for i, v := range y {
		if !(v > 0) {
			d[i] *= float32(v*factor) + 1
		}
	}
}

func leakyPlain(d, y []float32, factor float32) {
	for i, v := range y {
		if !(v > 0) {
			d[i] *= factor
		}
	}
}

func softmaxPlain(to, from []float32) (greatest, sum float32) {
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
