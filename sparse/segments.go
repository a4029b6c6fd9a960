package sparse

import (
	"fmt"
	"math"

	"github.com/khop-gnn/khop/unified"
)

// Segments returns the matrix that reduces consecutive rows: row i of a product is made of rows indptr[i] ..
// indptr[i+1]-1 of x. indptr is int32 or int64, from 0 on, never descending. So segment sums and means are SpMM,
// segment extremes SpMMExtreme.
func Segments(indptr unified.Tensor) (*Matrix, error) {
	a := &Matrix{rows: indptr.Len() - 1}
	if err := views(indptr, &a.indptr32, &a.indptr64); err != nil || a.rows < 0 {
		return nil, fmt.Errorf("%w: indptr is %v: %w", ErrShape, indptr, errIntegers)
	}
	n := a.start(a.rows)
	if n < 0 || n > math.MaxInt32 {
		return nil, fmt.Errorf("%w: segments end at row %d", ErrMatrix, n)
	}
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return New(n, indptr, unified.FromSlice(rows))
}

// Scatter returns the matrix that reduces rows by target: row i of a product is made of the rows k of x with
// targets[k] = i, in ascending order, so that a result does not depend on workers. targets are int32 or int64, below
// rows. Scatter sums and means are SpMM, scatter extremes SpMMExtreme; gathering rows is SpMM of the transpose.
func Scatter(rows int64, targets unified.Tensor) (*Matrix, error) {
	n := targets.Len()
	indptr := make([]int64, n+1)
	for i := range indptr {
		indptr[i] = int64(i)
	}
	gather, err := New(rows, unified.FromSlice(indptr), targets)
	if err != nil {
		return nil, err
	}
	return gather.Transpose(), nil
}
