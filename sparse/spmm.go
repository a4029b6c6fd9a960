package sparse

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Reduce says how the rows of a destination's sources are combined into one.
type Reduce uint8

// The reductions. A row without edges becomes zeros. SpMM has the first two, SpMMExtreme the others.
const (
	Sum  Reduce = iota
	Mean        // the sum times 1/degree, in float32, weighted or not
	Max
	Min
)

// String returns the reduction's name.
func (r Reduce) String() string {
	if r > Min {
		return fmt.Sprintf("reduce(%d)", uint8(r))
	}
	return [...]string{"sum", "mean", "max", "min"}[r]
}

// SpMM multiplies a sparse matrix with a dense one: row i of y becomes the sum, or mean, of rows j of x, each times the
// value of its edge, over the edges (i, j) of a.
//
// Shapes: y float32 [a.Rows(), ...], written; x float32 or floats of 16 bits [a.Cols(), ...] of the same width, which
// count as float32; values float32 [a.Edges()], or no tensor, which means 1 everywhere. Values [heads, a.Edges()] cut
// the columns of x into as many equal parts, one a head, each with a row of values. ErrShape names what does not fit,
// also where y shares memory with x or values. The width may be 0.
// Result: each element is summed in the order of the edges, from +0 on; products round to float32 before they are added
// (no fused multiply-add). So it depends neither on workers, nor on the processor, nor on tuning. NaN and
// infinity follow IEEE 754; an edge whose value is 0 still passes them on.
// Cost: Edges x width; reads x once an edge, and writes y once.
func (p *Pool) SpMM(y unified.Tensor, r Reduce, a *Matrix, values, x unified.Tensor) error {
	if err := checkSpMM(y, r, a, values, x); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	width := x.Width()
	if a.rows == 0 || width == 0 {
		return nil
	}
	t := &p.spmm
	t.set(y, r, a, values, x)
	t.strategy = p.tuning.find(keyOf(p.workers, a, values, x), defaultStrategy(a, width))
	return p.run(t, t.prepare(p.workers))
}

func checkSpMM(y unified.Tensor, r Reduce, a *Matrix, values, x unified.Tensor) error {
	switch {
	case r > Mean:
		return fmt.Errorf("%w: SpMM has no %v", ErrShape, r)
	case !dense(x) && !half(x) || x.Len() != a.cols:
		return fmt.Errorf("%w: x is %v, not float32 or floats of 16 bits on the host with %d rows", ErrShape, x, a.cols)
	case !dense(y) || y.Len() != a.rows || y.Width() != x.Width():
		return fmt.Errorf("%w: y is %v, not float32 on the host with %d rows of %d", ErrShape, y, a.rows, x.Width())
	case values.Valid() && !perEdge(values, a) || values.Valid() && x.Width()%headsOf(values) != 0:
		return fmt.Errorf("%w: the values are %v, not float32[%d] on the host, nor a row for each head of %d columns",
			ErrShape, values, a.edges, x.Width())
	case overlap(y, x) || overlap(y, values):
		return fmt.Errorf("%w: y shares memory with x or the values", ErrShape)
	}
	return nil
}

// perEdge reports whether a tensor has a number for each edge of a, [edges] or [heads, edges].
func perEdge(t unified.Tensor, a *Matrix) bool {
	switch {
	case !dense(t):
		return false
	case t.Rank() == 2:
		return t.Dim(0) > 0 && t.Dim(1) == a.edges
	}
	return t.Rank() == 1 && t.Len() == a.edges
}

// headsOf returns the heads of a tensor that has numbers for each edge.
func headsOf(t unified.Tensor) int64 {
	if t.Rank() == 2 {
		return max(t.Dim(0), 1)
	}
	return 1
}

// dense reports whether the CPU can compute with a tensor.
func dense(t unified.Tensor) bool {
	return onHost(t, unified.Float32)
}

// half reports whether a tensor has elements of 16 bits that the CPU can widen.
func half(t unified.Tensor) bool {
	return t.DType().IsHalf() && t.Placement() != pinned.Device
}

func overlap(a, b unified.Tensor) bool {
	x, y := a.Bytes(), b.Bytes()
	if len(x) == 0 || len(y) == 0 {
		return false
	}
	p, q := uintptr(unsafe.Pointer(&x[0])), uintptr(unsafe.Pointer(&y[0]))
	return p < q+uintptr(len(y)) && q < p+uintptr(len(x))
}

func address(t unified.Tensor) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(t.Bytes())) }
