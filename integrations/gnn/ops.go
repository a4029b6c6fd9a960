package gnn

import (
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/internal/vector"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// Linear returns x w.
func (t *autodiff) Linear(x, w *variable) *variable {
	y := t.made(x.Rows, w.Cols, x, w)
	t.do("linear", func() error { return t.pool.MatMul(y.tensor(), x.tensor(), w.tensor()) }, func() error {
		dy := y.grad()
		if err := t.flow(w, func(to []float32) error {
			return t.pool.MatMulTransposed(tensor(to, w.Rows, w.Cols), x.tensor(), dy)
		}); err != nil {
			return err
		}
		return t.flow(x, func(to []float32) error {
			transposed := t.room(len(w.Data))
			for i := range w.Rows {
				for k := range w.Cols {
					transposed[k*w.Rows+i] = w.Data[i*w.Cols+k]
				}
			}
			return t.pool.MatMul(tensor(to, x.Rows, x.Cols), dy, tensor(transposed, w.Cols, w.Rows))
		})
	})
	return y
}

// sparseFeatures is a matrix with values that are not trained, such as features that are mostly zero.
type sparseFeatures struct {
	Matrix *sparse.Matrix
	Values []float32
}

// SparseDropout is Dropout of the values of x.
func (t *autodiff) SparseDropout(x *sparseFeatures, p float32) *sparseFeatures {
	y := &sparseFeatures{Matrix: x.Matrix}
	t.do("dropout", func() (err error) {
		y.Values, _, err = t.dropped(x.Values, p)
		return err
	}, func() error { return nil })
	return y
}

// SparseLinear is Linear of a sparse x.
func (t *autodiff) SparseLinear(x *sparseFeatures, w *variable) *variable {
	values := unified.FromSlice(x.Values)
	y := t.made(int(x.Matrix.Rows()), w.Cols, w)
	t.do("linear", func() error { return t.pool.SpMM(y.tensor(), sparse.Sum, x.Matrix, values, w.tensor()) },
		func() error {
			dy := y.grad()
			return t.flow(w, func(to []float32) error {
				return t.pool.SpMMBackward(tensor(to, w.Rows, w.Cols), sparse.Sum, x.Matrix, values, dy,
					unified.FromSlice(t.room(len(x.Values))))
			})
		})
	return y
}

// Aggregate returns the sum or mean over the sources of each destination, without values of edges.
func (t *autodiff) Aggregate(a *sparse.Matrix, r sparse.Reduce, x *variable) *variable {
	transposed := func() unified.Tensor { return unified.Tensor{} }
	if r == sparse.Mean {
		transposed = a.TransposedMeans
	}
	return t.aggregate(a, r, x, unified.Tensor{}, transposed)
}

// Normalised is Aggregate with GCN's symmetric norm: the sum of x[j] / sqrt(degrees of i and j).
func (t *autodiff) Normalised(a *sparse.Matrix, x *variable) *variable {
	return t.aggregate(a, sparse.Sum, x, a.GCNNorm(), func() unified.Tensor { return a.Transpose().GCNNorm() })
}

// multiply computes a layer's product; linear multiplies its input x with a weight.
func (t *autodiff) multiply(a *sparse.Matrix, p *product, x, w *variable,
	linear func(w *variable) *variable) *variable {
	switch {
	case p.name == "X":
		return x
	case p.name == "(X W)":
		return linear(w)
	case p.left.kind == dense:
		return t.Linear(t.multiply(a, p.left, x, w, linear), w)
	}
	right := t.multiply(a, p.right, x, w, linear)
	switch p.left.name {
	case "A":
		return t.Aggregate(a, sparse.Sum, right)
	case "L":
		return t.Scale(right, a.InverseRoots())
	case "R":
		return t.Scale(right, a.Transpose().InverseRoots())
	}
	return t.Normalised(a, right) // of "LAR", the only one with norms that candidates have
}

// Scale returns the rows of x, each times a number.
func (t *autodiff) Scale(x *variable, by []float32) *variable {
	y := t.made(x.Rows, x.Cols, x)
	scaled := func(to, from []float32) error {
		return t.rowSpans(x.Rows, x.Cols, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				row := to[i*x.Cols : (i+1)*x.Cols]
				for k, v := range from[i*x.Cols : (i+1)*x.Cols] {
					row[k] = by[i] * v
				}
			}
		})
	}
	t.do("scale", func() error { return scaled(y.Data, x.Data) }, func() error {
		dy := y.gradient()
		return t.flow(x, func(to []float32) error { return scaled(to, dy) })
	})
	return y
}

func (t *autodiff) aggregate(a *sparse.Matrix, r sparse.Reduce, x *variable, values unified.Tensor,
	transposed func() unified.Tensor) *variable {
	y, number := t.made(int(a.Rows()), x.Cols, x), t.aggregates
	if x.Grad != nil {
		t.aggregates++
	}
	t.do("aggregate", func() error { return t.pool.SpMM(y.tensor(), r, a, values, x.tensor()) }, func() error {
		if x.Grad == nil {
			return nil
		}
		dy := y.grad()
		return t.flow(x, func(to []float32) error {
			return t.approximate.product(number, t.pool, gradient{a: a, values: values, transposed: transposed(),
				mean: r == sparse.Mean, dx: tensor(to, x.Rows, x.Cols), dy: dy})
		})
	})
	return y
}

// First returns the first rows of x: the destinations of a block among its sources.
func (t *autodiff) First(x *variable, rows int) *variable {
	if rows == x.Rows {
		return x
	}
	y := &variable{Rows: rows, Cols: x.Cols, Data: x.Data[:rows*x.Cols], whole: x}
	if x.whole != nil {
		y.whole = x.whole
	}
	if x.Grad != nil {
		y.Grad = x.Grad[:rows*x.Cols]
	}
	return y
}

// Add returns x + y.
func (t *autodiff) Add(x, y *variable) *variable {
	z := t.made(x.Rows, x.Cols, x, y)
	t.do("add", func() error {
		if len(x.Data) != len(y.Data) {
			return fmt.Errorf("%d x %d and %d x %d", x.Rows, x.Cols, y.Rows, y.Cols)
		}
		return t.spans(len(z.Data), func(lo, hi int) {
			copy(z.Data[lo:hi], x.Data[lo:hi])
			vector.Add(z.Data[lo:hi], y.Data[lo:hi], 1)
		})
	}, func() error {
		dz := z.gradient()
		pass := func(to []float32) error {
			return t.spans(len(to), func(lo, hi int) { copy(to[lo:hi], dz[lo:hi]) })
		}
		return errors.Join(t.flow(x, pass), t.flow(y, pass))
	})
	return z
}
