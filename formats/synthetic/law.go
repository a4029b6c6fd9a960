package synthetic

import "math"

// shape is the tail of a degree law: the share of slots that the first x·n ranks hold grows as the inverse of the
// shape's power.
type shape uint8

const (
	heavy shape = iota // survival of degrees ~ k^-1.8: rank ~ share^(9/4)
	light              // survival of degrees ~ k^-3: rank ~ share^(3/2)
)

// shift flattens the head of a law a little: it is added to every rank. With it the greatest degree of the default
// products graph is that of the graph which it stands in for.
const shift = 1.0 / 64

// law deals slots 0 .. slots-1 (ends of edges) to ranks 0 .. n-1, the first ranks getting the most, with nothing
// stored: the rank of slot j is a monotone function of j, so the slots of a rank are a run, and all runs together are
// exactly the slots.
//
// Only operations that IEEE 754 rounds exactly are used (+ - * and sqrt, with float64() around products so that none is
// fused): every machine computes the same ranks. Each is monotone also after rounding, and so is their composition.
type law struct {
	n, slots uint64
	shape    shape
	scale    float64 // n + shift
	start    float64 // where the power of the shape, scaled, is shift
	step     float64 // (1 - start) / slots
}

func newLaw(n, slots uint64, s shape) law {
	l := law{n: n, slots: slots, shape: s, scale: float64(n) + shift}
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
	if slots > 0 {
		l.step = (1 - l.start) / float64(slots)
	}
	return l
}

func (l *law) power(t float64) float64 {
	if l.shape == light {
		return float64(t * math.Sqrt(t))
	}
	return float64(float64(t*t) * math.Sqrt(math.Sqrt(t)))
}

// rank returns the rank that holds slot j < slots.
func (l *law) rank(j uint64) uint64 {
	t := l.start + float64((float64(j)+0.5)*l.step)
	r := float64(l.scale*l.power(t)) - shift
	if r < 0 {
		return 0
	}
	return min(uint64(r), l.n-1)
}

// first returns the first slot of rank r, and slots for r >= n: rank r holds first(r) .. first(r+1)-1.
func (l *law) first(r uint64) uint64 {
	if r >= l.n {
		return l.slots
	}
	low, high := uint64(0), l.slots
	for low < high {
		if mid := (low + high) / 2; l.rank(mid) < r {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
