package sparse

import (
	"fmt"

	"github.com/khop-gnn/khop/unified"
)

// FromEdges returns the matrix of edges in any order: edge e leads from column sources[e] to row targets[e]. The edges
// of a row keep their order. order says which edge is at each place of the matrix; nil if edge e is at place e. Nothing
// in the matrix is shared with the arguments.
//
// Shapes: targets and sources int32 or int64 [edges], of the same dtype. ErrMatrix names the first edge that is out of
// range, ErrShape says which dtype, shape or placement is wrong.
func FromEdges(rows, cols int64, targets, sources unified.Tensor) (a *Matrix, order []int64, err error) {
	if rows < 0 || cols < 0 || targets.Len() != sources.Len() || targets.DType() != sources.DType() {
		return nil, nil, fmt.Errorf("%w: edges from %v to %v in a matrix of %d x %d", ErrShape, sources, targets, rows,
			cols)
	}
	var ends [2]struct {
		narrow []int32
		wide   []int64
	}
	for i, t := range []unified.Tensor{targets, sources} {
		if err := views(t, &ends[i].narrow, &ends[i].wide); err != nil {
			return nil, nil, fmt.Errorf("%w: an end of the edges is %v: %w", ErrShape, t, err)
		}
	}
	a = &Matrix{rows: rows, cols: cols, indptr64: make([]int64, rows+1)}
	a.makeIndices(targets.Len())
	if targets.DType() == unified.Int64 {
		order, err = byRow(a, ends[0].wide, ends[1].wide)
	} else {
		order, err = byRow(a, ends[0].narrow, ends[1].narrow)
	}
	if err != nil {
		return nil, nil, err
	}
	return a, order, nil
}

// byRow fills a with edges, and returns which stands where.
func byRow[I int32 | int64](a *Matrix, targets, sources []I) ([]int64, error) {
	next, last, sorted := a.indptr64, I(0), true
	for e, i := range targets {
		if j := sources[e]; i < 0 || int64(i) >= a.rows || j < 0 || int64(j) >= a.cols {
			return nil, fmt.Errorf("%w: edge %d leads from column %d to row %d of a matrix of %d x %d", ErrMatrix, e, j,
				i, a.rows, a.cols)
		}
		next[i+1]++
		sorted, last = sorted && i >= last, i
	}
	for i := range a.rows {
		next[i+1] += next[i]
	}
	if sorted {
		for e, j := range sources {
			a.setIndex(int64(e), int64(j))
		}
		return nil, nil
	}
	order := make([]int64, a.edges)
	for e, i := range targets {
		at := next[i]
		next[i]++
		order[at] = int64(e)
		a.setIndex(at, int64(sources[e]))
	}
	a.rewind()
	return order, nil
}

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
