package sparse

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/internal/vector"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Extreme says which of several numbers is taken.
type Extreme uint8

// The extremes.
const (
	Max Extreme = iota
	Min
)

// SpMMExtreme is SpMM with the greatest or the least instead of the sum: y[i, k] is that of values[e] * x[j, k] over
// the edges e = (i, j) of a, and arg[i, k] the first edge that has it. A row without edges becomes zeros, and its edges
// -1. NaN passes on: a row with NaN in column k becomes NaN there, and arg is its first edge.
//
// Shapes: y and x as in SpMM; arg int32 (int64 from 2^31 edges on), of the shape of y; values float32 [a.Edges()] or no
// tensor. ErrShape names what does not fit.
func (p *Pool) SpMMExtreme(y, arg unified.Tensor, which Extreme, a *Matrix, values, x unified.Tensor) error {
	if err := checkExtreme(y, arg, a, values, x); err != nil {
		return err
	}
	if arg.DType() == unified.Int64 {
		to, _ := unified.View[int64](arg)
		return extreme(p, to, y, which, a, values, x)
	}
	to, _ := unified.View[int32](arg)
	return extreme(p, to, y, which, a, values, x)
}

func checkExtreme(y, arg unified.Tensor, a *Matrix, values, x unified.Tensor) error {
	if err := checkSpMM(y, Sum, a, values, x); err != nil {
		return err
	}
	want := unified.Int32
	if a.edges > 1<<31-1 {
		want = unified.Int64
	}
	if arg.DType() != want || arg.Placement() == pinned.Device || arg.Len() != a.rows || arg.Width() != y.Width() {
		return fmt.Errorf("%w: the edges are %v, not %v on the host with %d rows of %d", ErrShape, arg, want, a.rows,
			y.Width())
	}
	if values.Valid() && headsOf(values) != 1 || a.cols > 1<<32 {
		return fmt.Errorf("%w: %d columns and values %v: extremes have up to 2^32 columns and one head", ErrShape,
			a.cols, values)
	}
	return nil
}

func extreme[I int32 | int64](p *Pool, arg []I, y unified.Tensor, which Extreme, a *Matrix, values,
	x unified.Tensor) error {
	from, err := Floats(x)
	if err != nil {
		return err
	}
	to, w, width := floats(y), floats(values), x.Width()
	base, size := a.indexBase(), a.indexBytes()
	return p.Split(a.rows, 256, func(lo, hi int64) {
		nth := make([]int32, width) // edge of the row
		for i := lo; i < hi; i++ {
			first := a.start(i)
			edges := vector.Edges{Count: int(a.Degree(i)), X: unsafe.Pointer(unsafe.SliceData(from)),
				Stride: int(4 * width), Indices: unsafe.Add(base, first*int64(size)), Wide: size == 8}
			if len(w) > 0 {
				edges.Weights = w[first:]
			}
			vector.Extreme(to[i*width:(i+1)*width], nth, which == Min, edges)
			for k, n := range nth {
				arg[i*width+int64(k)] = I(n)
				if n >= 0 {
					arg[i*width+int64(k)] = I(first) + I(n)
				}
			}
		}
	})
}
