package gnn

import (
	"github.com/khop-gnn/khop/internal/vector"
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
	at := &attention{Tape: t, a: a, heads: heads, width: x.Cols / heads, edges: int(a.Edges()), x: x, source: source,
		target: target, p: p}
	at.y = t.made(int(a.Rows()), x.Cols, x, source, target)
	t.do("attention", at.forward, at.backward)
	return at.y
}

// attention is that of a layer, in one step.
type attention struct {
	*Tape
	a                    *sparse.Matrix
	heads, width, edges  int
	x, source, target, y *Value
	p                    float32
	raw, soft, weights   []float32 // of each head and edge: scores, their softmax, and what dropout left of it
	kept                 []byte
}

func (t *attention) perEdge(s []float32) unified.Tensor { return tensor(s, t.heads, t.edges) }

func (t *attention) forward() (err error) {
	m := int(t.a.Rows())
	u, v := t.room(m*t.heads), t.room(t.x.Rows*t.heads)
	t.raw, t.soft = t.room(t.heads*t.edges), t.room(t.heads*t.edges)
	if err := t.rowSpans(t.x.Rows, t.x.Cols, func(lo, hi int) {
		t.project(u[:min(hi, m)*t.heads], t.target, lo)
		t.project(v[:hi*t.heads], t.source, lo)
	}); err != nil {
		return err
	}
	if err := t.pool.SDDMMAdd(t.perEdge(t.raw), t.a, tensor(u, m, t.heads), tensor(v, t.x.Rows, t.heads)); err != nil {
		return err
	}
	if err := t.spans(len(t.raw), func(lo, hi int) {
		copy(t.soft[lo:hi], t.raw[lo:hi])
		vector.Leaky(t.soft[lo:hi], t.raw[lo:hi], slope)
	}); err != nil {
		return err
	}
	if err := t.pool.Softmax(t.perEdge(t.soft), t.a, t.perEdge(t.soft)); err != nil {
		return err
	}
	if t.weights, t.kept, err = t.dropped(t.soft, t.p); err != nil {
		return err
	}
	return t.pool.SpMM(t.y.tensor(), sparse.Sum, t.a, t.perEdge(t.weights), t.x.tensor())
}

func (t *attention) backward() error {
	dy, d := t.y.grad(), t.room(t.heads*t.edges)
	if err := t.pool.SDDMM(t.perEdge(d), t.a, dy, t.x.tensor()); err != nil {
		return err
	}
	if err := t.flow(t.x, func(to []float32) error {
		return t.pool.SpMMBackward(tensor(to, t.x.Rows, t.x.Cols), sparse.Sum, t.a, t.perEdge(t.weights), dy,
			t.perEdge(t.room(t.heads*t.edges)))
	}); err != nil {
		return err
	}
	if t.kept != nil {
		if err := t.undrop(d, d, t.kept, t.p); err != nil {
			return err
		}
	}
	if err := t.pool.SoftmaxBackward(t.perEdge(d), t.a, t.perEdge(t.soft), t.perEdge(d)); err != nil {
		return err
	}
	if err := t.spans(len(d), func(lo, hi int) { vector.Leaky(d[lo:hi], t.raw[lo:hi], slope) }); err != nil {
		return err
	}
	return t.ends(d)
}

// ends adds the gradients of scores at edges to what they were made of.
func (t *attention) ends(d []float32) error {
	m, n := int(t.a.Rows()), t.x.Rows
	turned, one := t.room(t.heads*t.edges), t.room(max(m, n))
	for i := range one {
		one[i] = 1
	}
	if err := t.pool.Turn(t.perEdge(turned), t.a, t.perEdge(d)); err != nil {
		return err
	}
	du, dv := t.room(t.heads*m), t.room(t.heads*n)
	for h := range t.heads { // sums over the edges of rows, and of columns
		of := func(s []float32) unified.Tensor { return unified.FromSlice(s[h*t.edges : (h+1)*t.edges]) }
		if err := t.pool.SpMM(tensor(du[h*m:(h+1)*m], m, 1), sparse.Sum, t.a, of(d),
			tensor(one[:n], n, 1)); err != nil {
			return err
		}
		if err := t.pool.SpMM(tensor(dv[h*n:(h+1)*n], n, 1), sparse.Sum, t.a.Transpose(), of(turned),
			tensor(one[:m], m, 1)); err != nil {
			return err
		}
	}
	return t.unproject(du, dv)
}

// project writes the dot products of each head's part of the rows of x, from row lo on, with its part of w to the rows
// of to.
func (t *attention) project(to []float32, w *Value, lo int) {
	for i := lo; i < len(to)/t.heads; i++ {
		for h := range t.heads {
			at, sum := i*t.x.Cols, float32(0)
			for k := h * t.width; k < (h+1)*t.width; k++ {
				sum += float32(t.x.Data[at+k] * w.Data[k])
			}
			to[i*t.heads+h] = sum
		}
	}
}

// unproject adds the gradients of both projections, du and dv of each head and row.
func (t *attention) unproject(du, dv []float32) error {
	cols, m, n := t.x.Cols, int(t.a.Rows()), t.x.Rows
	step := rowSpan(cols)
	sums := t.room((n + step - 1) / step * 2 * cols) // of each part of rows: the gradients of target and source
	dx := t.x.Grad
	if dx != nil {
		t.x.gradient()
	}
	if err := t.rowSpans(n, cols, func(lo, hi int) {
		part := sums[lo/step*2*cols:][:2*cols]
		clear(part)
		for i := lo; i < hi; i++ {
			for h := range t.heads {
				from, to := i*cols+h*t.width, i*cols+(h+1)*t.width
				if i < m {
					vector.Add(part[h*t.width:(h+1)*t.width], t.x.Data[from:to], du[h*m+i])
					vector.Add(dx[from:to], t.target.Data[h*t.width:(h+1)*t.width], du[h*m+i])
				}
				vector.Add(part[cols+h*t.width:cols+(h+1)*t.width], t.x.Data[from:to], dv[h*n+i])
				vector.Add(dx[from:to], t.source.Data[h*t.width:(h+1)*t.width], dv[h*n+i])
			}
		}
	}); err != nil {
		return err
	}
	for at, w := range []*Value{t.target, t.source} {
		if err := t.flow(w, func(to []float32) error {
			clear(to)
			for i := at * cols; i < len(sums); i += 2 * cols {
				vector.Add(to, sums[i:i+cols], 1)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
