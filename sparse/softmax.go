package sparse

import (
	"fmt"
	"math"

	"github.com/khop-gnn/khop/unified"
)

// Softmax makes the scores of the edges of each row a distribution, for each head: out = exp(s - m) / sum of all
// exp(s - m), where m is the row's greatest score. out may be scores itself.
//
// Shapes: out and scores float32 [a.Edges()] or [heads, a.Edges()], alike. ErrShape where they are not.
// Result: sums go in the order of edges. The exponential is khop's own, right to an ulp or two and the same on every
// processor. A row with NaN or +Inf, or with nothing but -Inf, becomes NaN.
func (p *Pool) Softmax(out unified.Tensor, a *Matrix, scores unified.Tensor) error {
	if !perEdge(out, a) || !perEdge(scores, a) || headsOf(out) != headsOf(scores) {
		return fmt.Errorf("%w: scores %v, result %v of %d edges", ErrShape, scores, out, a.edges)
	}
	to, from := floats(out), floats(scores)
	return p.split(a.rows, 512, func(lo, hi int64) {
		for h := int64(0); h < int64(len(to)); h += a.edges {
			for i := lo; i < hi; i++ {
				softmax(to[h+a.start(i):h+a.start(i+1)], from[h+a.start(i):h+a.start(i+1)])
			}
		}
	})
}

func softmax(to, from []float32) {
	greatest, sum := float32(math.Inf(-1)), float32(0)
	for _, s := range from {
		greatest = max(greatest, s)
	}
	for e, s := range from {
		to[e] = exp(s - greatest)
		sum += to[e]
	}
	for e := range to {
		to[e] /= sum
	}
}

// SoftmaxBackward is the gradient of Softmax with respect to the scores: d = s * (dout - sum of s * dout over the row),
// where s is Softmax's result. d may be dout. Shapes as there.
func (p *Pool) SoftmaxBackward(d unified.Tensor, a *Matrix, s, dout unified.Tensor) error {
	heads := headsOf(d)
	if !perEdge(d, a) || !perEdge(s, a) || !perEdge(dout, a) || headsOf(s) != heads || headsOf(dout) != heads {
		return fmt.Errorf("%w: %v, %v and %v of %d edges", ErrShape, d, s, dout, a.edges)
	}
	to, soft, from := floats(d), floats(s), floats(dout)
	return p.split(a.rows, 512, func(lo, hi int64) {
		for h := int64(0); h < int64(len(to)); h += a.edges {
			for i := lo; i < hi; i++ {
				sum := float32(0)
				for e := h + a.start(i); e < h+a.start(i+1); e++ {
					sum += float32(soft[e] * from[e])
				}
				for e := h + a.start(i); e < h+a.start(i+1); e++ {
					to[e] = soft[e] * (from[e] - sum)
				}
			}
		}
	})
}

// exp is e^x for x up to 0, by a polynomial in float64 without fused operations: the same on every processor.
func exp(x float32) float32 {
	switch {
	case x != x:
		return x
	case x < -104: // below half of the least float32
		return 0
	case x > 88: // only where x is not what the doc comment says
		return float32(math.Inf(1))
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
	return float32(p * math.Float64frombits(uint64(int64(k)+1023)<<52)) // times 2^k, a normal number
}
