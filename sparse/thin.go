package sparse

import (
	"fmt"
	"math"

	"github.com/khop-gnn/khop/unified"
)

// TurnedMeans returns 1/degree of the row of each edge of a, in the order of the edges of a.Transpose(): the values
// with which the gradient of a mean is a sum. It is computed at the first call, and belongs to a.
func (a *Matrix) TurnedMeans() unified.Tensor { return a.turnedMeans() }

// ColumnNorms returns the Euclidean norm of the values of each column's edges; without values each counts 1. values
// are as in SpMM, with one head.
func (a *Matrix) ColumnNorms(values unified.Tensor) ([]float64, error) {
	if values.Valid() && (!perEdge(values, a) || headsOf(values) != 1) {
		return nil, fmt.Errorf("%w: the values are %v, not float32[%d] on the host", ErrShape, values, a.edges)
	}
	norms, w := make([]float64, a.cols), floats(values)
	for e := range a.edges {
		v := 1.0
		if w != nil {
			v = float64(w[e])
		}
		norms[a.column(e)] += float64(v * v)
	}
	for j, v := range norms {
		norms[j] = math.Sqrt(v)
	}
	return norms, nil
}

// Degree returns the number of edges of row i.
func (a *Matrix) Degree(i int64) int64 { return a.start(i+1) - a.start(i) }

// Thin returns a matrix of the same shape with the edges alone whose columns are kept, in their order, and the values
// of those edges; no tensor where values is none. keep has an element a column. Nothing in it is shared with a.
func (a *Matrix) Thin(keep []bool, values unified.Tensor) (*Matrix, unified.Tensor, error) {
	if int64(len(keep)) != a.cols || values.Valid() && (!perEdge(values, a) || headsOf(values) != 1) {
		return nil, unified.Tensor{}, fmt.Errorf("%w: %d columns of %d, values %v of %d edges", ErrShape, len(keep),
			a.cols, values, a.edges)
	}
	n := 0
	for e := range a.edges {
		if keep[a.column(e)] {
			n++
		}
	}
	w, left := floats(values), []float32(nil)
	t := &Matrix{rows: a.rows, cols: a.cols, edges: int64(n), indptr64: make([]int64, a.rows+1)}
	if a.indices64 != nil {
		t.indices64 = make([]int64, 0, n)
	} else {
		t.indices32 = make([]int32, 0, n)
	}
	if w != nil {
		left = make([]float32, 0, n)
	}
	for i := range a.rows {
		for e := a.start(i); e < a.start(i+1); e++ {
			j := a.column(e)
			if !keep[j] {
				continue
			}
			if a.indices64 != nil {
				t.indices64 = append(t.indices64, j)
			} else {
				t.indices32 = append(t.indices32, int32(j))
			}
			if w != nil {
				left = append(left, w[e])
			}
		}
		t.indptr64[i+1] = int64(max(len(t.indices32), len(t.indices64)))
	}
	if w == nil {
		return t, unified.Tensor{}, nil
	}
	return t, unified.FromSlice(left), nil
}
