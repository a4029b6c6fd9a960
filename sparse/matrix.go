package sparse

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// ErrShape is returned if tensors do not fit a matrix or each other, in shape, dtype or placement.
var ErrShape = errors.New("sparse: operands do not fit")

// ErrMatrix is returned for arrays that are not a sparse matrix: an index is out of range, or row ends descend.
var ErrMatrix = errors.New("sparse: not a matrix")

// Matrix is a sparse matrix in compressed rows, without values: row i is a destination, and its columns
// indices[indptr[i]] .. indices[indptr[i+1]-1] are its sources. Entries keep that order, may repeat, and are called
// edges. Values, if any, are passed to each operation, one an edge.
//
// A Matrix is a view: it copies nothing, and is valid as long as its arrays, which must not change. It keeps results
// that are computed from it, such as degrees. It is safe for concurrent use.
type Matrix struct {
	rows, cols, edges int64
	indptr32          []int32 // [rows+1], one of the two
	indptr64          []int64
	indices32         []int32 // [edges], one of the two
	indices64         []int64

	once    sync.Once
	inverse []float32 // 1/degree, 0 for a row without edges

	transposing sync.Once
	transposed  *Matrix
	orders      sync.Once
	from        []int64 // see order
	narrow      []int32 // the same of a transpose that was prepared

	means sync.Once
	mean  []float32 // see TransposedMeans

	norms sync.Once
	norm  []float32 // see GCNNorm

	rootsOnce sync.Once
	roots     []float32 // see InverseRoots
}

// New returns the matrix of the given arrays: indptr int32 or int64 [rows+1], from 0 on, never descending; indices
// int32 or int64 [edges], below cols. It reads every element once: ErrMatrix names the first invalid one, ErrShape says
// which dtype, shape or placement is wrong.
func New(cols int64, indptr, indices unified.Tensor) (*Matrix, error) {
	a := &Matrix{rows: indptr.Len() - 1, cols: cols, edges: indices.Len()}
	if err := views(indptr, &a.indptr32, &a.indptr64); err != nil {
		return nil, fmt.Errorf("%w: indptr is %v: %w", ErrShape, indptr, err)
	}
	if err := views(indices, &a.indices32, &a.indices64); err != nil {
		return nil, fmt.Errorf("%w: the indices are %v: %w", ErrShape, indices, err)
	}
	if a.rows < 0 || cols < 0 {
		return nil, fmt.Errorf("%w: indptr is %v, and there are %d columns", ErrShape, indptr, cols)
	}
	if err := errors.Join(checkIndptr(a.indptr32, a.edges), checkIndptr(a.indptr64, a.edges)); err != nil {
		return nil, err
	}
	if !inRange32(a.indices32, cols) || !inRange64(a.indices64, cols) {
		return nil, errors.Join(badIndex(a.indices32, cols), badIndex(a.indices64, cols))
	}
	return a, nil
}

var errIntegers = errors.New("it must be int32 or int64, of one dimension, on the host")

// views sets the slice of the tensor's dtype.
func views(t unified.Tensor, narrow *[]int32, wide *[]int64) (err error) {
	switch {
	case t.Rank() != 1:
		return errIntegers
	case t.DType() == unified.Int32:
		*narrow, err = unified.View[int32](t)
	case t.DType() == unified.Int64:
		*wide, err = unified.View[int64](t)
	default:
		return errIntegers
	}
	return err
}

// Block returns the matrix of a block: its rows are the destinations, its columns the sources. It is valid as long as
// the block is: until the sample is filled again.
func Block(b *graph.Block) (*Matrix, error) {
	a, err := New(b.NumSrc, b.Indptr, b.Indices)
	if err == nil && a.rows != b.NumDst {
		return nil, fmt.Errorf("%w: the block has %d destinations, its indptr %d", ErrShape, b.NumDst, a.rows)
	}
	return a, err
}

// Whole returns the matrix of a whole graph: rows and columns are its fused ids.
func Whole(g *graph.Graph) (*Matrix, error) {
	return New(g.NumNodes(), unified.FromSlice(g.Indptr()), g.Indices())
}

// Rows returns the number of rows: destinations.
func (a *Matrix) Rows() int64 { return a.rows }

// Cols returns the number of columns: sources.
func (a *Matrix) Cols() int64 { return a.cols }

// Edges returns the number of entries.
func (a *Matrix) Edges() int64 { return a.edges }

func checkIndptr[P int32 | int64](indptr []P, edges int64) error {
	if len(indptr) == 0 {
		return nil // the other width
	}
	if n := len(indptr) - 1; indptr[0] != 0 || int64(indptr[n]) != edges {
		return fmt.Errorf("%w: indptr runs from %d to %d, not from 0 to %d edges", ErrMatrix, indptr[0], indptr[n],
			edges)
	}
	for i := range len(indptr) - 1 {
		if indptr[i] > indptr[i+1] {
			return fmt.Errorf("%w: row %d begins at edge %d and ends at %d", ErrMatrix, i, indptr[i], indptr[i+1])
		}
	}
	return nil
}

// inRange32 reports whether every index is at least 0 and below n.
func inRange32(indices []int32, n int64) bool {
	n = min(n, 1<<31) // every index that is not negative is below
	in := int64(-1)
	for _, j := range indices {
		in &= int64(uint32(j)) - n // the sign bit stays set as long as the indices are below n
	}
	return in < 0
}

// inRange64 reports whether every index is at least 0 and below n.
func inRange64(indices []int64, n int64) bool {
	in := int64(-1)
	for _, j := range indices {
		in &= (j - n) &^ j // a negative index clears the sign bit as well
	}
	return in < 0
}

func badIndex[I int32 | int64](indices []I, cols int64) error {
	at := slices.IndexFunc(indices, func(j I) bool { return j < 0 || int64(j) >= cols })
	if at < 0 {
		return nil
	}
	return fmt.Errorf("%w: edge %d: column %d is not one of %d", ErrMatrix, at, indices[at], cols)
}

// pointers returns what kernels read: row 0 of indptr, 1 if it is int64, the first and the last index.
func (a *Matrix) pointers() (indptr unsafe.Pointer, wide uint64, first, last unsafe.Pointer) {
	if a.indptr64 != nil {
		indptr, wide = unsafe.Pointer(&a.indptr64[0]), 1
	} else {
		indptr = unsafe.Pointer(&a.indptr32[0])
	}
	switch {
	case a.edges == 0:
	case a.indices64 != nil:
		first, last = unsafe.Pointer(&a.indices64[0]), unsafe.Pointer(&a.indices64[a.edges-1])
	default:
		first, last = unsafe.Pointer(&a.indices32[0]), unsafe.Pointer(&a.indices32[a.edges-1])
	}
	return indptr, wide, first, last
}

// indexBase returns where the indices begin, or nil.
func (a *Matrix) indexBase() unsafe.Pointer {
	if a.indices64 != nil {
		return unsafe.Pointer(unsafe.SliceData(a.indices64))
	}
	return unsafe.Pointer(unsafe.SliceData(a.indices32))
}

func (a *Matrix) indexBytes() int {
	if a.indices64 != nil {
		return 8
	}
	return 4
}

// start returns where row i begins.
func (a *Matrix) start(i int64) int64 {
	if a.indptr32 != nil {
		return int64(a.indptr32[i])
	}
	return a.indptr64[i]
}

// inverseDegrees returns 1/degree of every row, 0 for rows without edges. It is computed once.
func (a *Matrix) inverseDegrees() []float32 {
	a.once.Do(func() {
		a.inverse = make([]float32, a.rows)
		invert(a.inverse, a.indptr32)
		invert(a.inverse, a.indptr64)
	})
	return a.inverse
}

func invert[P int32 | int64](inverse []float32, indptr []P) {
	if len(indptr) == 0 {
		return // the other width
	}
	for i := range inverse {
		if d := indptr[i+1] - indptr[i]; d > 0 {
			inverse[i] = 1 / float32(d)
		}
	}
}
