package sparse

import (
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// BenchmarkBackward measures the gradient of a mean over a matrix that keeps its transpose, and over one that is new
// each time.
func BenchmarkBackward(b *testing.B) {
	const rows, degree, width = 50000, 10, 64
	r := rand.New(rand.NewPCG(1, 1))
	indptr, indices := make([]int64, rows+1), make([]int32, rows*degree)
	for i := range rows {
		indptr[i+1] = indptr[i] + degree
	}
	for e := range indices {
		indices[e] = r.Int32N(rows)
	}
	matrix := func() *Matrix {
		return expect.Must(New(rows, unified.FromSlice(indptr), unified.FromSlice(indices)))(b)
	}
	dy, dx := matrixOf(b, numbers(r, rows*width), rows, width), matrixOf(b, make([]float32, rows*width), rows, width)
	pool := open(b, 1)
	for _, kept := range []bool{true, false} {
		b.Run(map[bool]string{true: "kept", false: "rebuilt"}[kept], func(b *testing.B) {
			a := matrix()
			a.Transpose()
			a.TransposedMeans()
			for b.Loop() {
				if !kept {
					a = matrix()
				}
				expect.OK(b, pool.SpMMBackward(dx, Mean, a, unified.Tensor{}, dy, unified.Tensor{}))
			}
		})
	}
}
