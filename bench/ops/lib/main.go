// Command lib is a shared library of package sparse for the benchmark of operations, which calls it beside its peers in
// one process, on the same arrays:
//
//	go build -buildmode=c-shared -o libkhop.so ./ops/lib
package main

// #include <stdint.h>
import "C"

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

var (
	pool     *sparse.Pool
	matrices []*sparse.Matrix
)

func main() {}

// khop_open sets the number of threads.
//
//export khop_open
func khop_open(threads C.int) {
	if pool != nil {
		_ = pool.Close()
	}
	pool = sparse.Open(sparse.Options{Workers: int(threads)})
}

// khop_matrix returns the number of a matrix over arrays that stay where they are, or -1.
//
//export khop_matrix
func khop_matrix(rows, cols, edges C.int64_t, indptr unsafe.Pointer, wide C.int, indices unsafe.Pointer,
	wideIndices C.int) C.int {
	a, err := sparse.New(int64(cols), integers(indptr, int64(rows)+1, wide), integers(indices, int64(edges),
		wideIndices))
	if err != nil {
		return fail(err)
	}
	matrices = append(matrices, a)
	return C.int(len(matrices) - 1)
}

// khop_spmm is Pool.SpMM; values may be NULL. It returns 0, or -1 for an error.
//
//export khop_spmm
func khop_spmm(matrix, reduce C.int, values, x, y unsafe.Pointer, width C.int64_t) C.int {
	a := matrices[matrix]
	var v unified.Tensor
	if values != nil {
		v = unified.FromSlice(unsafe.Slice((*float32)(values), a.Edges()))
	}
	if err := pool.SpMM(floats(y, a.Rows(), int64(width)), sparse.Reduce(reduce), a, v, floats(x, a.Cols(),
		int64(width))); err != nil {
		return fail(err)
	}
	return 0
}

// khop_scatter returns the number of the matrix that sums n rows by target, or -1.
//
//export khop_scatter
func khop_scatter(rows, n C.int64_t, targets unsafe.Pointer) C.int {
	a, err := sparse.Scatter(int64(rows), integers(targets, int64(n), 1))
	if err != nil {
		return fail(err)
	}
	matrices = append(matrices, a)
	return C.int(len(matrices) - 1)
}

// khop_drop forgets a matrix.
//
//export khop_drop
func khop_drop(matrix C.int) { matrices[matrix] = nil }

// khop_extreme is Pool.SpMMExtreme without values; least is 1 for the least.
//
//export khop_extreme
func khop_extreme(matrix, least C.int, x, y, arg unsafe.Pointer, width C.int64_t) C.int {
	a := matrices[matrix]
	bytes := unsafe.Slice((*byte)(arg), 4*a.Rows()*int64(width))
	edges, err := unified.New(unified.Int32, bytes, a.Rows(), int64(width))
	if err == nil {
		err = pool.SpMMExtreme(floats(y, a.Rows(), int64(width)), edges, sparse.Max+sparse.Reduce(least), a,
			unified.Tensor{}, floats(x, a.Cols(), int64(width)))
	}
	if err != nil {
		return fail(err)
	}
	return 0
}

// khop_transpose makes the transpose of a matrix, which keeps it.
//
//export khop_transpose
func khop_transpose(matrix C.int) C.int {
	matrices[matrix].Transpose()
	return 0
}

// khop_matmul is Pool.MatMul: y [rows, cols] = x [rows, inner] w [inner, cols].
//
//export khop_matmul
func khop_matmul(y, x, w unsafe.Pointer, rows, inner, cols C.int64_t) C.int {
	if err := pool.MatMul(floats(y, int64(rows), int64(cols)), floats(x, int64(rows), int64(inner)),
		floats(w, int64(inner), int64(cols))); err != nil {
		return fail(err)
	}
	return 0
}

func integers(p unsafe.Pointer, n int64, wide C.int) unified.Tensor {
	if wide != 0 {
		return unified.FromSlice(unsafe.Slice((*int64)(p), n))
	}
	return unified.FromSlice(unsafe.Slice((*int32)(p), n))
}

func floats(p unsafe.Pointer, rows, width int64) unified.Tensor {
	t, err := unified.New(unified.Float32, unsafe.Slice((*byte)(p), 4*rows*width), rows, width)
	if err != nil {
		fail(err)
	}
	return t
}

func fail(err error) C.int {
	fmt.Fprintln(os.Stderr, err)
	return -1
}
