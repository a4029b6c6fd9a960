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
func (t *autodiff) Attend(a *sparse.Matrix, heads int, x, source, target *variable, p float32) *variable {
	width := x.Cols / heads
	at := &attention{autodiff: t, a: a, heads: heads, width: width, stride: width, edges: int(a.Edges()), x: x,
		source: source, target: target, p: p}
	at.y = t.made(int(a.Rows()), x.Cols, x, source, target)
	t.do("attention", at.forward, at.backward)
	return at.y
}

// AttendFirst is Attend of x w, which sums rows of x before they are multiplied with w. The scores come of x times the
// products of w with source and target: target . (x w) = x . (w target).
func (t *autodiff) AttendFirst(a *sparse.Matrix, heads int, x, w, source, target *variable, p float32) *variable {
	at := &attention{autodiff: t, a: a, heads: heads, width: x.Cols, edges: int(a.Edges()), x: x, p: p,
		source: t.through(w, source, heads), target: t.through(w, target, heads)}
	at.y = t.made(heads*int(a.Rows()), x.Cols, x, source, target)
	t.do("attention", at.forward, at.backward)
	return t.headsLinear(at.y, w, heads)
}

// attention is that of a layer, in one step. Head h reads width columns of x, from stride * h on. Where heads read the
// same columns (stride 0), y has a matrix for each of them, one below the other.
type attention struct {
	*autodiff
	a                    *sparse.Matrix
	heads, width, stride int
	edges                int
	x, source, target, y *variable
	p                    float32
	raw, soft, weights   []float32 // of each head and edge: scores, their softmax, and what dropout left of it
	kept                 []byte
}

func (t *attention) perEdge(s []float32) unified.Tensor { return tensor(s, t.heads, t.edges) }

// of returns a head's part of numbers at edges.
func (t *attention) of(s []float32, head int) unified.Tensor {
	return unified.FromSlice(s[head*t.edges : (head+1)*t.edges])
}

// part returns a head's matrix in y.
func (t *attention) part(s []float32, head int) unified.Tensor {
	n := int(t.a.Rows()) * t.width
	return tensor(s[head*n:(head+1)*n], int(t.a.Rows()), t.width)
}

func (t *attention) forward() error {
	if err := t.weigh(); err != nil {
		return err
	}
	if t.stride > 0 {
		return t.pool.SpMM(t.y.tensor(), sparse.Sum, t.a, t.perEdge(t.weights), t.x.tensor())
	}
	for h := range t.heads {
		err := t.pool.SpMM(t.part(t.y.Data, h), sparse.Sum, t.a, t.of(t.weights, h), t.x.tensor())
		if err != nil {
			return err
		}
	}
	return nil
}

// weigh makes the weights of edges.
func (t *attention) weigh() (err error) {
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
	t.weights, t.kept, err = t.dropped(t.soft, t.p)
	return err
}

func (t *attention) backward() error {
	t.y.gradient()
	d := t.room(t.heads * t.edges)
	if err := t.sums(d); err != nil {
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

// sums writes the gradient of the weights to d, and adds that of the sums' operand.
func (t *attention) sums(d []float32) error {
	room := t.room(t.heads * t.edges)
	if t.stride > 0 {
		dy := t.y.grad()
		if err := t.pool.SDDMM(t.perEdge(d), t.a, dy, t.x.tensor()); err != nil {
			return err
		}
		return t.flow(t.x, func(to []float32) error {
			return t.pool.SpMMBackward(tensor(to, t.x.Rows, t.x.Cols), sparse.Sum, t.a, t.perEdge(t.weights), dy,
				t.perEdge(room))
		})
	}
	for h := range t.heads {
		dy := t.part(t.y.Grad, h)
		if err := t.pool.SDDMM(t.of(d, h), t.a, dy, t.x.tensor()); err != nil {
			return err
		}
		if err := t.flow(t.x, func(to []float32) error {
			return t.pool.SpMMBackward(tensor(to, t.x.Rows, t.x.Cols), sparse.Sum, t.a, t.of(t.weights, h), dy,
				t.of(room, h))
		}); err != nil {
			return err
		}
	}
	return nil
}

// ends adds the gradients of scores at edges to what they were made of.
func (t *attention) ends(d []float32) error {
	m, n := int(t.a.Rows()), t.x.Rows
	transposed, one := t.room(t.heads*t.edges), t.room(max(m, n))
	for i := range one {
		one[i] = 1
	}
	if err := t.pool.TransposeValues(t.perEdge(transposed), t.a, t.perEdge(d)); err != nil {
		return err
	}
	du, dv := t.room(t.heads*m), t.room(t.heads*n)
	for h := range t.heads { // sums over the edges of rows, and of columns
		if err := t.pool.SpMM(tensor(du[h*m:(h+1)*m], m, 1), sparse.Sum, t.a, t.of(d, h),
			tensor(one[:n], n, 1)); err != nil {
			return err
		}
		if err := t.pool.SpMM(tensor(dv[h*n:(h+1)*n], n, 1), sparse.Sum, t.a.Transpose(), t.of(transposed, h),
			tensor(one[:m], m, 1)); err != nil {
			return err
		}
	}
	return t.unproject(du, dv)
}

// project writes the dot products of each head's columns of x, from row lo on, with its part of w to the rows of to.
func (t *attention) project(to []float32, w *variable, lo int) {
	for i := lo; i < len(to)/t.heads; i++ {
		for h := range t.heads {
			sum, row := float32(0), t.x.Data[i*t.x.Cols+h*t.stride:][:t.width]
			for k, v := range w.Data[h*t.width : (h+1)*t.width] {
				sum += float32(row[k] * v)
			}
			to[i*t.heads+h] = sum
		}
	}
}

// unproject adds the gradients of both projections, du and dv of each head and row.
func (t *attention) unproject(du, dv []float32) error {
	cols, m, n := t.heads*t.width, int(t.a.Rows()), t.x.Rows
	step := rowSpan(t.x.Cols)
	sums := t.room((n + step - 1) / step * 2 * cols) // of each part of rows: the gradients of target and source
	var dx []float32
	if t.x.Grad != nil {
		dx = t.x.gradient()
	}
	one := func(sum []float32, w *variable, i, h int, d float32) {
		from := i*t.x.Cols + h*t.stride
		vector.Add(sum[h*t.width:(h+1)*t.width], t.x.Data[from:from+t.width], d)
		if dx != nil {
			vector.Add(dx[from:from+t.width], w.Data[h*t.width:(h+1)*t.width], d)
		}
	}
	if err := t.rowSpans(n, t.x.Cols, func(lo, hi int) {
		part := sums[lo/step*2*cols:][:2*cols]
		clear(part)
		for i := lo; i < hi; i++ {
			for h := range t.heads {
				if i < m {
					one(part[:cols], t.target, i, h, du[h*m+i])
				}
				one(part[cols:], t.source, i, h, dv[h*n+i])
			}
		}
	}); err != nil {
		return err
	}
	for at, w := range []*variable{t.target, t.source} {
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

// through returns w times each head's part of v, 1 x the heads times the rows of w.
func (t *autodiff) through(w, v *variable, heads int) *variable {
	y, width := t.made(1, heads*w.Rows, w, v), w.Cols/heads
	each := func(f func(at, row, column int)) {
		for h := range heads {
			for k := range w.Rows {
				for c := h * width; c < (h+1)*width; c++ {
					f(h*w.Rows+k, k*w.Cols+c, c)
				}
			}
		}
	}
	t.do("attention", func() error {
		clear(y.Data)
		each(func(at, row, column int) { y.Data[at] += float32(w.Data[row] * v.Data[column]) })
		return nil
	}, func() error {
		dy, dw, dv := y.gradient(), w.gradient(), v.gradient()
		each(func(at, row, column int) {
			dw[row] += float32(dy[at] * v.Data[column])
			dv[column] += float32(dy[at] * w.Data[row])
		})
		return nil
	})
	return y
}

// headsLinear multiplies each head's matrix in x, which are one below the other, with its columns of w. The products
// are side by side.
func (t *autodiff) headsLinear(x, w *variable, heads int) *variable {
	if heads == 1 {
		return t.Linear(x, w)
	}
	rows, width := x.Rows/heads, w.Cols/heads
	var parts []*variable
	for h := range heads {
		n := rows * x.Cols
		part := &variable{Rows: rows, Cols: x.Cols, Data: x.Data[h*n : (h+1)*n], Grad: x.Grad[h*n : (h+1)*n], whole: x}
		parts = append(parts, t.Linear(part, t.columns(w, h*width, width)))
	}
	return t.beside(parts)
}

// columns returns some columns of w.
func (t *autodiff) columns(w *variable, from, width int) *variable {
	y := t.made(w.Rows, width, w)
	t.do("columns", func() error {
		for i := range w.Rows {
			copy(y.Data[i*width:(i+1)*width], w.Data[i*w.Cols+from:])
		}
		return nil
	}, func() error {
		dy, dw := y.gradient(), w.gradient()
		for i := range w.Rows {
			vector.Add(dw[i*w.Cols+from:][:width], dy[i*width:(i+1)*width], 1)
		}
		return nil
	})
	return y
}

// beside returns matrices of one shape side by side.
func (t *autodiff) beside(parts []*variable) *variable {
	rows, width := parts[0].Rows, parts[0].Cols
	y := t.made(rows, len(parts)*width, parts...)
	t.do("heads", func() error {
		return t.rowSpans(rows, y.Cols, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				for h, part := range parts {
					copy(y.Data[i*y.Cols+h*width:], part.Data[i*width:(i+1)*width])
				}
			}
		})
	}, func() error {
		dy := y.gradient()
		for h, part := range parts {
			if err := t.flow(part, func(to []float32) error {
				return t.rowSpans(rows, y.Cols, func(lo, hi int) {
					for i := lo; i < hi; i++ {
						copy(to[i*width:(i+1)*width], dy[i*y.Cols+h*width:])
					}
				})
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return y
}
