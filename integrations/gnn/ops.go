package gnn

import (
	"fmt"
	"math"

	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// Linear returns x w + b. b, 1 x the columns of w, may be nil.
func (t *Tape) Linear(x, w, b *Value) *Value {
	y := t.made(x.Rows, w.Cols, x, w)
	t.do("linear", func() error { return t.pool.MatMul(y.tensor(), x.tensor(), w.tensor()) }, func() error {
		dw := t.room(len(w.Data))
		if err := t.pool.MatMulTurned(tensor(dw, w.Rows, w.Cols), x.tensor(), y.grad()); err != nil {
			return err
		}
		add(w.Grad, dw)
		if x.Grad == nil {
			return nil
		}
		turned, dx := t.room(len(w.Data)), t.room(len(x.Data))
		for i := range w.Rows {
			for k := range w.Cols {
				turned[k*w.Rows+i] = w.Data[i*w.Cols+k]
			}
		}
		if err := t.pool.MatMul(tensor(dx, x.Rows, x.Cols), y.grad(), tensor(turned, w.Cols, w.Rows)); err != nil {
			return err
		}
		add(x.Grad, dx)
		return nil
	})
	return t.Bias(y, b)
}

// Bias adds a row b to each row of x, which it changes. b may be nil.
func (t *Tape) Bias(x, b *Value) *Value {
	if b == nil {
		return x
	}
	t.do("bias", func() error {
		for i := range x.Rows {
			add(x.Data[i*x.Cols:(i+1)*x.Cols], b.Data)
		}
		return nil
	}, func() error {
		for i := range x.Rows {
			add(b.Grad, x.Grad[i*x.Cols:(i+1)*x.Cols])
		}
		return nil
	})
	return x
}

// Sparse is a matrix with values that are not trained, such as features that are mostly zero.
type Sparse struct {
	Matrix *sparse.Matrix
	Values []float32
}

// SparseLinear is Linear of a sparse x, with its values dropped with probability p where the tape trains.
func (t *Tape) SparseLinear(x *Sparse, p float32, w *Value) *Value {
	values := unified.FromSlice(t.dropped(x.Values, p))
	y := t.made(int(x.Matrix.Rows()), w.Cols, w)
	t.do("linear", func() error { return t.pool.SpMM(y.tensor(), sparse.Sum, x.Matrix, values, w.tensor()) },
		func() error {
			dw := t.room(len(w.Data))
			err := t.pool.SpMMBackward(tensor(dw, w.Rows, w.Cols), sparse.Sum, x.Matrix, values, y.grad(),
				unified.FromSlice(t.room(len(x.Values))))
			add(w.Grad, dw)
			return err
		})
	return y
}

// dropped returns what dropout leaves of data.
func (t *Tape) dropped(data []float32, p float32) []float32 {
	if !t.Training || p == 0 {
		return data
	}
	left, stream, scale := t.room(len(data)), t.chance(), 1/(1-p)
	for i, v := range data {
		if rng.Float32(rng.Draw(stream, uint64(i))) >= p {
			left[i] = v * scale
		}
	}
	return left
}

// Aggregate returns the sum or mean over the sources of each destination, without values of edges.
func (t *Tape) Aggregate(a *sparse.Matrix, r sparse.Reduce, x *Value) *Value {
	turned := func() unified.Tensor { return unified.Tensor{} }
	if r == sparse.Mean {
		turned = a.TurnedMeans
	}
	return t.aggregate(a, r, x, unified.Tensor{}, turned)
}

// Normalised is Aggregate with GCN's symmetric norm: the sum of x[j] / sqrt(degrees of i and j).
func (t *Tape) Normalised(a *sparse.Matrix, x *Value) *Value {
	return t.aggregate(a, sparse.Sum, x, a.GCNNorm(), func() unified.Tensor { return a.Transpose().GCNNorm() })
}

// multiply computes a layer's product; linear multiplies its input x with a weight.
func (t *Tape) multiply(a *sparse.Matrix, p *product, x, w *Value, linear func(w *Value) *Value) *Value {
	switch {
	case p.name == "X":
		return x
	case p.name == "(X W)":
		return linear(w)
	case p.left.kind == dense:
		return t.Linear(t.multiply(a, p.left, x, w, linear), w, nil)
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
func (t *Tape) Scale(x *Value, by []float32) *Value {
	y := t.made(x.Rows, x.Cols, x)
	t.do("scale", func() error {
		for i := range x.Rows {
			for k, v := range x.Data[i*x.Cols : (i+1)*x.Cols] {
				y.Data[i*x.Cols+k] = by[i] * v
			}
		}
		return nil
	}, func() error {
		if x.Grad == nil {
			return nil
		}
		for i := range x.Rows {
			for k, d := range y.Grad[i*x.Cols : (i+1)*x.Cols] {
				x.Grad[i*x.Cols+k] += float32(by[i] * d)
			}
		}
		return nil
	})
	return y
}

func (t *Tape) aggregate(a *sparse.Matrix, r sparse.Reduce, x *Value, values unified.Tensor,
	turned func() unified.Tensor) *Value {
	y, number := t.made(int(a.Rows()), x.Cols, x), t.aggregates
	if x.Grad != nil {
		t.aggregates++
	}
	t.do("aggregate", func() error { return t.pool.SpMM(y.tensor(), r, a, values, x.tensor()) }, func() error {
		if x.Grad == nil {
			return nil
		}
		dx := t.room(len(x.Data))
		to := tensor(dx, x.Rows, x.Cols)
		err := t.approximate.product(number, t.pool, to, a.Transpose(), turned(), y.grad())
		add(x.Grad, dx)
		return err
	})
	return y
}

// First returns the first rows of x: the destinations of a block among its sources.
func (t *Tape) First(x *Value, rows int) *Value {
	y := &Value{Rows: rows, Cols: x.Cols, Data: x.Data[:rows*x.Cols]}
	if x.Grad != nil {
		y.Grad = x.Grad[:rows*x.Cols]
	}
	return y
}

// Add returns x + scale y.
func (t *Tape) Add(x, y *Value, scale float32) *Value {
	z := t.made(x.Rows, x.Cols, x, y)
	t.do("add", func() error {
		if len(x.Data) != len(y.Data) {
			return fmt.Errorf("%d x %d and %d x %d", x.Rows, x.Cols, y.Rows, y.Cols)
		}
		for i := range z.Data {
			z.Data[i] = x.Data[i] + float32(scale*y.Data[i])
		}
		return nil
	}, func() error {
		if x.Grad != nil {
			add(x.Grad, z.Grad)
		}
		if y.Grad != nil {
			for i, d := range z.Grad {
				y.Grad[i] += float32(scale * d)
			}
		}
		return nil
	})
	return z
}

// ReLU returns x where it is positive, else 0.
func (t *Tape) ReLU(x *Value) *Value {
	return t.each("relu", x, func(v float32) float32 { return max(v, 0) }, func(v, _ float32) float32 {
		if v > 0 {
			return 1
		}
		return 0
	})
}

// ELU returns x where it is positive, else e^x - 1.
func (t *Tape) ELU(x *Value) *Value {
	return t.each("elu", x, func(v float32) float32 {
		if v > 0 {
			return v
		}
		return float32(math.Expm1(float64(v)))
	}, func(v, y float32) float32 {
		if v > 0 {
			return 1
		}
		return y + 1
	})
}

// each applies a function and its derivative, which is given x and y.
func (t *Tape) each(what string, x *Value, f func(float32) float32, slope func(x, y float32) float32) *Value {
	y := t.made(x.Rows, x.Cols, x)
	t.do(what, func() error {
		for i, v := range x.Data {
			y.Data[i] = f(v)
		}
		return nil
	}, func() error {
		if x.Grad != nil {
			for i, d := range y.Grad {
				x.Grad[i] += float32(d * slope(x.Data[i], y.Data[i]))
			}
		}
		return nil
	})
	return y
}

// Dropout sets elements to 0 with probability p and scales the others by 1/(1-p), where the tape trains.
func (t *Tape) Dropout(x *Value, p float32) *Value {
	if !t.Training || p == 0 {
		return x
	}
	y := t.made(x.Rows, x.Cols, x)
	stream, scale := t.chance(), 1/(1-p)
	kept := func(i int) bool { return rng.Float32(rng.Draw(stream, uint64(i))) >= p }
	t.do("dropout", func() error {
		for i, v := range x.Data {
			if kept(i) {
				y.Data[i] = v * scale
			}
		}
		return nil
	}, func() error {
		if x.Grad != nil {
			for i, d := range y.Grad {
				if kept(i) {
					x.Grad[i] += float32(d * scale)
				}
			}
		}
		return nil
	})
	return y
}

// CrossEntropy returns the mean over rows of -log softmax(x)[label], and how many labels have the greatest score, and
// sets the gradient of x to that of the mean. rows are rows of x, labels one each, below the columns of x.
func (t *Tape) CrossEntropy(x *Value, rows []int64, labels []int64) (loss float64, right int) {
	if t.err != nil {
		return 0, 0
	}
	for n, i := range rows {
		scores := x.Data[i*int64(x.Cols) : (i+1)*int64(x.Cols)]
		best := 0
		for k, s := range scores {
			if s > scores[best] {
				best = k
			}
		}
		sum := 0.0
		for _, s := range scores {
			sum += math.Exp(float64(s - scores[best]))
		}
		label := labels[n]
		if uint64(label) >= uint64(x.Cols) {
			t.err = fmt.Errorf("row %d: label %d is not below %d classes", i, label, x.Cols)
			return 0, 0
		}
		loss += math.Log(sum) - float64(scores[label]-scores[best])
		if int64(best) == label {
			right++
		}
		if x.Grad == nil {
			continue
		}
		for k, s := range scores {
			d := math.Exp(float64(s-scores[best])) / sum
			if int64(k) == label {
				d--
			}
			x.Grad[i*int64(x.Cols)+int64(k)] += float32(d / float64(len(rows)))
		}
	}
	return loss / float64(max(len(rows), 1)), right
}
