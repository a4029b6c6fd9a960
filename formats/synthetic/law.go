package synthetic

import (
	"math"
)

// shape is the tail of a law of degrees: the share of stubs that the first x·n ranks hold grows as the inverse of the
// shape's power.
type shape uint8

const (
	heavy shape = iota // survival of degrees ~ k^-1.8: rank ~ share^(9/4)
	light              // survival of degrees ~ k^-3: rank ~ share^(3/2)
)

// shift is added to every rank, which flattens the head of a law a little. With it the greatest degree of the default
// products graph equals that of ogbn-products.
const shift = 1.0 / 64

// law deals stubs 0 .. stubs-1 to ranks 0 .. n-1, the most to the first ranks. It stores nothing: the rank of stub j is
// a monotone function of j, so each rank has a range of stubs.
//
// Only operations that IEEE 754 rounds exactly are used (+ - * and sqrt, with float64() around products so that none is
// fused), so every machine computes the same ranks. Each operation stays monotone when rounded.
type law struct {
	n, stubs uint64
	shape    shape
	scale    float64 // n + shift
	start    float64 // where the power of the shape, scaled, is shift
	step     float64 // (1 - start) / stubs
}

func newLaw(n, stubs uint64, s shape) law {
	l := law{n: n, stubs: stubs, shape: s, scale: float64(n) + shift}
	low, high := uint64(0), uint64(1)<<53
	for low < high {
		mid := (low + high) / 2
		if float64(l.scale*l.power(float64(mid)*0x1p-53)) < shift {
			low = mid + 1
		} else {
			high = mid
		}
	}
	l.start = float64(low) * 0x1p-53
	if stubs > 0 {
		l.step = (1 - l.start) / float64(stubs)
	}
	return l
}

func (l *law) power(t float64) float64 {
	if l.shape == light {
		return float64(t * math.Sqrt(t))
	}
	return float64(float64(t*t) * math.Sqrt(math.Sqrt(t)))
}

// rank returns the rank that holds stub j < stubs.
func (l *law) rank(j uint64) uint64 {
	t := l.start + float64((float64(j)+0.5)*l.step)
	r := float64(l.scale*l.power(t)) - shift
	if r < 0 {
		return 0
	}
	return min(uint64(r), l.n-1)
}

// first returns the first stub of rank r, and stubs for r >= n: rank r holds first(r) .. first(r+1)-1.
func (l *law) first(r uint64) uint64 {
	if r >= l.n {
		return l.stubs
	}
	low, high := uint64(0), l.stubs
	for low < high {
		if mid := (low + high) / 2; l.rank(mid) < r {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
