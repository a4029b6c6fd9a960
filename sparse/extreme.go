package sparse

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/internal/vector"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// SpMMExtreme is SpMM with Max or Min: y[i, k] is the greatest or the least of values[e] * x[j, k] over the edges
// e = (i, j) of a, and arg[i, k] the first edge that has it. A row without edges becomes zeros, and its arg -1. NaN
// propagates: a row with NaN in column k becomes NaN there, and arg is its first edge.
//
// Shapes: y and x as in SpMM, or both float64; arg of the shape of y, int32 or int64 (from 2^31 edges on int64), or no
// tensor; values [a.Edges()] of y's dtype, or no tensor. ErrShape names what does not fit.
func (p *Pool) SpMMExtreme(y, arg unified.Tensor, r Reduce, a *Matrix, values, x unified.Tensor) error {
	if r != Max && r != Min {
		return fmt.Errorf("%w: %v is neither max nor min", ErrShape, r)
	}
	if err := checkExtreme(y, a, values, x); err != nil {
		return err
	}
	if err := checkEdges(arg, y, a); err != nil {
		return err
	}
	if arg.DType() == unified.Int64 {
		to, _ := unified.View[int64](arg)
		return extreme(p, to, y, r == Min, a, values, x)
	}
	to, _ := unified.View[int32](arg)
	return extreme(p, to, y, r == Min, a, values, x)
}

// checkExtreme sees that y [rows], x [columns] and values fit a and each other.
func checkExtreme(y unified.Tensor, a *Matrix, values, x unified.Tensor) error {
	narrow := dense(y) && (dense(x) || half(x))
	wide := onHost(y, unified.Float64) && onHost(x, unified.Float64)
	if !narrow && !wide || x.Len() != a.cols || y.Len() != a.rows || x.Width() != y.Width() {
		return fmt.Errorf("%w: x is %v and y %v, not floats of one dtype on the host with %d and %d rows of one width",
			ErrShape, x, y, a.cols, a.rows)
	}
	if values.Valid() && (!onHost(values, y.DType()) || values.Rank() != 1 || values.Len() != a.edges) {
		return fmt.Errorf("%w: the values are %v, not %v[%d] on the host", ErrShape, values, y.DType(), a.edges)
	}
	if overlap(y, x) || overlap(y, values) || a.cols > 1<<32 {
		return fmt.Errorf("%w: y shares memory with x or the values, or there are more than 2^32 columns", ErrShape)
	}
	return nil
}

// checkEdges sees that arg, where there is one, has room for an edge of a for each element of y.
func checkEdges(arg, y unified.Tensor, a *Matrix) error {
	fits := onHost(arg, unified.Int64) || onHost(arg, unified.Int32) && a.edges < 1<<31
	if arg.Valid() && (!fits || arg.Len() != a.rows || arg.Width() != y.Width()) {
		return fmt.Errorf("%w: the edges are %v, not int32 or int64 (from 2^31 edges on) with %d rows of %d", ErrShape,
			arg, a.rows, y.Width())
	}
	return nil
}

func onHost(t unified.Tensor, dtype unified.DType) bool {
	return t.DType() == dtype && t.Placement() != pinned.Device
}

func extreme[I int32 | int64](p *Pool, arg []I, y unified.Tensor, least bool, a *Matrix, values,
	x unified.Tensor) error {
	width := y.Width()
	row := func(i int64, nth []int32) { wideExtreme(y, i, nth, least, a, values, x) }
	if dense(y) {
		from, err := Floats(x)
		if err != nil {
			return err
		}
		row = func(i int64, nth []int32) {
			vector.Extreme(floats(y)[i*width:(i+1)*width], nth, least, a.edgesOf(i, from, width, floats(values)))
		}
	}
	return p.Split(a.rows, 256, func(lo, hi int64) {
		nth := make([]int32, width) // edge of the row
		for i := lo; i < hi; i++ {
			row(i, nth)
			if len(arg) == 0 {
				continue
			}
			for k, n := range nth {
				arg[i*width+int64(k)] = I(n)
				if n >= 0 {
					arg[i*width+int64(k)] = I(a.start(i)) + I(n)
				}
			}
		}
	})
}

// edgesOf returns the edges of row i as kernels read them, with the rows of x at their other ends.
func (a *Matrix) edgesOf(i int64, x []float32, width int64, values []float32) vector.Edges {
	first, size := a.start(i), a.indexBytes()
	edges := vector.Edges{Count: int(a.Degree(i)), X: unsafe.Pointer(unsafe.SliceData(x)), Stride: int(4 * width),
		Indices: unsafe.Add(a.indexBase(), first*int64(size)), Wide: size == 8}
	if len(values) > 0 {
		edges.Weights = values[first:]
	}
	return edges
}

// wideExtreme is vector.Extreme of float64.
func wideExtreme(y unified.Tensor, i int64, nth []int32, least bool, a *Matrix, values, x unified.Tensor) {
	width := x.Width()
	to, from, w := elements[float64](y)[i*width:(i+1)*width], elements[float64](x), elements[float64](values)
	for k := range to {
		to[k], nth[k] = 0, -1
	}
	first := a.start(i)
	for e := first; e < a.start(i+1); e++ {
		for k, v := range from[a.column(e)*width:][:width] {
			if w != nil {
				v *= w[e]
			}
			if have := to[k]; e == first || have == have && (v != v || !least && v > have || least && v < have) {
				to[k], nth[k] = v, int32(e-first)
			}
		}
	}
}

// SpMMWinners is SpMM over only the winners of SpMMExtreme: an edge e = (i, j) counts in those columns k in which
// values[e] * x[j, k] is y[i, k], or y is NaN. Several edges of a row may win one column. Forward (back is false) row i
// of out becomes the sum of values[e] * u[j, k]; back, it is the transpose, and row j of out becomes that of values[e]
// * u[i, k]: the gradient of an extreme with respect to x, where u is dy divided by the number of winners. Without u it
// counts winners.
//
// Shapes: y, x and values as in SpMMExtreme, but of one dtype, float32 or float64; out, written, and u are of that
// dtype and width. out has a.Rows() rows and u a.Cols(), back the other way round. ErrShape names what does not fit.
func (p *Pool) SpMMWinners(out unified.Tensor, back bool, a *Matrix, values, y, x, u unified.Tensor) error {
	if err := checkExtreme(y, a, values, x); err != nil {
		return err
	}
	rows, from := a.rows, a.cols
	if back {
		rows, from = from, rows
	}
	fits := func(t unified.Tensor, n int64) bool {
		return onHost(t, y.DType()) && t.Len() == n && t.Width() == y.Width()
	}
	if half(x) || !fits(out, rows) || u.Valid() && !fits(u, from) || overlap(out, u) || overlap(out, x) ||
		overlap(out, y) || overlap(out, values) {
		return fmt.Errorf("%w: x is %v, the result %v and the operand %v, not %v with %d and %d rows of %d", ErrShape,
			x, out, u, y.DType(), rows, from, y.Width())
	}
	if dense(y) {
		return winners[float32](p, out, back, a, values, y, x, u)
	}
	return winners[float64](p, out, back, a, values, y, x, u)
}

func winners[F float32 | float64](p *Pool, out unified.Tensor, back bool, a *Matrix, values, y, x,
	u unified.Tensor) error {
	t, order := a, []int64(nil)
	if back {
		t, order = a.Transpose(), a.TransposeOrder()
	}
	width := out.Width()
	to, w, from := elements[F](out), elements[F](values), elements[F](u)
	greatest, given := elements[F](y), elements[F](x)
	part := func(of []F, i int64) []F { return of[i*width:][:width] }
	return p.Split(t.rows, 64, func(lo, hi int64) {
		for r := lo; r < hi; r++ {
			sum := part(to, r)
			clear(sum)
			for at := t.start(r); at < t.start(r+1); at++ {
				c, value, e := t.column(at), F(1), at
				if order != nil {
					e = order[at]
				}
				if w != nil {
					value = w[e]
				}
				row, column := r, c
				if back {
					row, column = c, r
				}
				if from == nil {
					addWinners(sum, nil, 1, value, part(greatest, row), part(given, column))
				} else {
					addWinners(sum, part(from, c), value, value, part(greatest, row), part(given, column))
				}
			}
		}
	})
}

// addWinners adds by * u, or by without u, where value * x is y or y is NaN.
func addWinners[F float32 | float64](sum, u []F, by, value F, y, x []F) {
	sum, y = sum[:len(x)], y[:len(x)]
	for k, v := range x {
		if v *= value; v != y[k] && y[k] == y[k] {
			continue
		}
		if u == nil {
			sum[k] += by
		} else {
			sum[k] += F(by * u[k])
		}
	}
}

// elements returns those of a tensor on the host whose dtype they are of; nil of no tensor.
func elements[F float32 | float64](t unified.Tensor) []F {
	b := t.Bytes()
	return unsafe.Slice((*F)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(F(0))))
}
