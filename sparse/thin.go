package sparse

import (
	"fmt"
	"math"

	"github.com/khop-gnn/khop/unified"
)

// Degree returns the number of edges of row i.
func (a *Matrix) Degree(i int64) int64 { return a.start(i+1) - a.start(i) }

// RowNorms returns the Euclidean norm of the values of each row's edges; without values each counts 1. values are as in
// SpMM, with one head.
func (a *Matrix) RowNorms(values unified.Tensor) ([]float64, error) {
	if values.Valid() && (!perEdge(values, a) || headsOf(values) != 1) {
		return nil, fmt.Errorf("%w: the values are %v, not float32[%d] on the host", ErrShape, values, a.edges)
	}
	norms, w := make([]float64, a.rows), floats(values)
	for i := range a.rows {
		sum := float64(a.Degree(i))
		if w != nil {
			sum = 0
			for _, v := range w[a.start(i):a.start(i+1)] {
				sum += float64(v) * float64(v)
			}
		}
		norms[i] = math.Sqrt(sum)
	}
	return norms, nil
}

// ThinTranspose returns the transpose of some rows of a, and the values of its edges. scale has an element for each row
// of a: it multiplies the values of the row's edges (1 without values), and edges of rows with scale 0 are left out.
// Edges have the same order as in a.Transpose(), which need not exist. Nothing is shared with a. The time is that of
// the kept edges.
func (a *Matrix) ThinTranspose(scale []float32, values unified.Tensor) (*Matrix, unified.Tensor, error) {
	if int64(len(scale)) != a.rows || values.Valid() && (!perEdge(values, a) || headsOf(values) != 1) {
		return nil, unified.Tensor{}, fmt.Errorf("%w: %d scales of %d rows, values %v of %d edges", ErrShape,
			len(scale), a.rows, values, a.edges)
	}
	t := &Matrix{rows: a.cols, cols: a.rows, indptr64: make([]int64, a.cols+1)}
	var left []float32
	switch {
	case a.indices64 != nil:
		left = thinTranspose(t, a, a.indices64, scale, floats(values))
	default:
		left = thinTranspose(t, a, a.indices32, scale, floats(values))
	}
	return t, unified.FromSlice(left), nil
}

// thinTranspose fills t, and returns the values of its edges.
func thinTranspose[I int32 | int64](t, a *Matrix, columns []I, scale, values []float32) []float32 {
	next := t.indptr64
	for i := range a.rows {
		if scale[i] == 0 {
			continue
		}
		for _, j := range columns[a.start(i):a.start(i+1)] {
			next[j+1]++
		}
	}
	for j := range t.rows {
		next[j+1] += next[j]
	}
	t.makeIndices(next[t.rows])
	left := make([]float32, t.edges)
	for i := range a.rows {
		if scale[i] == 0 {
			continue
		}
		for e := a.start(i); e < a.start(i+1); e++ {
			to := next[columns[e]]
			next[columns[e]]++
			if left[to] = scale[i]; values != nil {
				left[to] *= values[e]
			}
			t.setIndex(to, i)
		}
	}
	t.rewind()
	return left
}
