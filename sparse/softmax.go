package sparse

import (
	"fmt"

	"github.com/khop-gnn/khop/internal/vector"
	"github.com/khop-gnn/khop/unified"
)

// Softmax makes the scores of the edges of each row a distribution, for each head: out = exp(s - m) / sum of all
// exp(s - m), where m is the row's greatest score. out may be scores itself.
//
// Shapes: out and scores float32 [a.Edges()] or [heads, a.Edges()], of equal shapes. ErrShape otherwise. Result: sums
// are in the order of edges. The exponential is khop's own, exact to an ulp or two and the same on every processor. A
// row with NaN or +Inf, or with only -Inf, becomes NaN.
func (p *Pool) Softmax(out unified.Tensor, a *Matrix, scores unified.Tensor) error {
	if !perEdge(out, a) || !perEdge(scores, a) || headsOf(out) != headsOf(scores) {
		return fmt.Errorf("%w: scores %v, result %v of %d edges", ErrShape, scores, out, a.edges)
	}
	to, from := floats(out), floats(scores)
	return p.Split(a.rows, 512, func(lo, hi int64) {
		for h := int64(0); h < int64(len(to)); h += a.edges {
			for i := lo; i < hi; i++ {
				vector.Softmax(to[h+a.start(i):h+a.start(i+1)], from[h+a.start(i):h+a.start(i+1)])
			}
		}
	})
}

// SoftmaxBackward is the gradient of Softmax with respect to the scores: d = s * (dout - sum of s * dout over the row),
// where s is Softmax's result. d may be dout. Shapes are as in Softmax.
func (p *Pool) SoftmaxBackward(d unified.Tensor, a *Matrix, s, dout unified.Tensor) error {
	heads := headsOf(d)
	if !perEdge(d, a) || !perEdge(s, a) || !perEdge(dout, a) || headsOf(s) != heads || headsOf(dout) != heads {
		return fmt.Errorf("%w: %v, %v and %v of %d edges", ErrShape, d, s, dout, a.edges)
	}
	to, soft, from := floats(d), floats(s), floats(dout)
	return p.Split(a.rows, 512, func(lo, hi int64) {
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
