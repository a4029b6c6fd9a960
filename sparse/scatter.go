package sparse

import "github.com/khop-gnn/khop/unified"

// Scatter returns the matrix that reduces rows by target: row i of a product reduces the rows k of x with targets[k] =
// i, in ascending order, so a result does not depend on workers. targets are int32 or int64, below rows. Scatter sums
// and means are SpMM, scatter extremes SpMMExtreme; gathering rows is SpMM of the transpose.
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
