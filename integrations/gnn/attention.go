package gnn

import (
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// slope is that of attention's leaky ReLU below 0.
const slope = 0.2

// Attend returns, for each destination and head, the sum of its sources' parts of x weighted by attention: the softmax
// over the edges of LeakyReLU(target . x[i] + source . x[j]), dropped with probability p where the tape trains. x has
// heads parts of equal width; source and target are 1 x the columns of x. Destination i is row i of x.
//
// Source: Veličković et al., "Graph Attention Networks", ICLR 2018.
func (t *Tape) Attend(a *sparse.Matrix, heads int, x, source, target *Value, p float32) *Value {
	m, edges, width := int(a.Rows()), int(a.Edges()), x.Cols/heads
	y := t.made(m, x.Cols, x, source, target)
	u, v := t.room(m*heads), t.room(x.Rows*heads)
	raw, soft := t.room(heads*edges), t.room(heads*edges)
	perEdge := func(s []float32) unified.Tensor { return tensor(s, heads, edges) }
	var weights []float32
	forward := func() error {
		project(u, x.Data, target.Data, heads, width)
		project(v, x.Data, source.Data, heads, width)
		if err := t.pool.SDDMMAdd(perEdge(raw), a, tensor(u, m, heads), tensor(v, x.Rows, heads)); err != nil {
			return err
		}
		for e, s := range raw {
			soft[e] = max(s, slope*s)
		}
		if err := t.pool.Softmax(perEdge(soft), a, perEdge(soft)); err != nil {
			return err
		}
		weights = t.dropped(soft, p)
		return t.pool.SpMM(y.tensor(), sparse.Sum, a, perEdge(weights), x.tensor())
	}
	t.do("attention", forward, func() error {
		d, dx := t.room(heads*edges), t.room(len(x.Data))
		if err := t.pool.SDDMM(perEdge(d), a, y.grad(), x.tensor()); err != nil {
			return err
		}
		err := t.pool.SpMMBackward(tensor(dx, x.Rows, x.Cols), sparse.Sum, a, perEdge(weights), y.grad(),
			perEdge(t.room(heads*edges)))
		if err != nil {
			return err
		}
		add(x.Grad, dx)
		if t.Training && p > 0 { // what was dropped has no gradient, the rest was scaled
			for e, w := range weights {
				if w == 0 {
					d[e] = 0
				} else {
					d[e] *= 1 / (1 - p)
				}
			}
		}
		if err := t.pool.SoftmaxBackward(perEdge(d), a, perEdge(soft), perEdge(d)); err != nil {
			return err
		}
		for e, s := range raw {
			if s < 0 {
				d[e] *= slope
			}
		}
		return t.attendEnds(a, heads, x, source, target, d)
	})
	return y
}

// attendEnds adds the gradients of scores at edges to what they were made of.
func (t *Tape) attendEnds(a *sparse.Matrix, heads int, x, source, target *Value, d []float32) error {
	m, edges, width := int(a.Rows()), int(a.Edges()), x.Cols/heads
	ones, turned, one := t.room(m), t.room(heads*edges), t.room(x.Rows)
	for i := range ones {
		ones[i] = 1
	}
	for i := range one {
		one[i] = 1
	}
	if err := t.pool.Turn(tensor(turned, heads, edges), a, tensor(d, heads, edges)); err != nil {
		return err
	}
	for h := range heads { // sums over the edges of rows, and of columns
		du, dv := t.room(m), t.room(x.Rows)
		if err := t.pool.SpMM(tensor(du, m, 1), sparse.Sum, a, unified.FromSlice(d[h*edges:(h+1)*edges]),
			tensor(one, x.Rows, 1)); err != nil {
			return err
		}
		if err := t.pool.SpMM(tensor(dv, x.Rows, 1), sparse.Sum, a.Transpose(),
			unified.FromSlice(turned[h*edges:(h+1)*edges]), tensor(ones, m, 1)); err != nil {
			return err
		}
		unproject(du, x, target, heads, width, h)
		unproject(dv, x, source, heads, width, h)
	}
	return nil
}

// project writes the dot products of each head's part of the rows of x with its part of w.
func project(to, x, w []float32, heads, width int) {
	for i := range len(to) / heads {
		for h := range heads {
			sum := float32(0)
			for k := h * width; k < (h+1)*width; k++ {
				sum += float32(x[i*heads*width+k] * w[k])
			}
			to[i*heads+h] = sum
		}
	}
}

// unproject adds the gradients of one head of project, d a row.
func unproject(d []float32, x, w *Value, heads, width, h int) {
	for i, d := range d {
		for k := h * width; k < (h+1)*width; k++ {
			x.Grad[i*heads*width+k] += float32(d * w.Data[k])
			w.Grad[k] += float32(d * x.Data[i*heads*width+k])
		}
	}
}
