//go:build cuda

package cuda

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/gather/internal/columns"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// linesRead counts the 128-byte lines of the column that a gather reads for a row on average over random rows, and the
// least that any gather could read. The column begins shift bytes after a line.
func (r *rig) linesRead(rnd *rand.Rand, dtype unified.DType, width, shift int) (least, read float64) {
	r.t.Helper()
	const n, m = 500, 32
	rowBytes := width * int(dtype.Size())
	src := r.host(columns.Random(rnd, n*rowBytes), shift)
	s := r.store(dtype, src, n, int64(width))
	list, lines := make([]int64, m), 0
	for i := range list {
		list[i] = rnd.Int64N(n)
		first := (shift + int(list[i])*rowBytes) / 128
		last := (shift + int(list[i]+1)*rowBytes - 1) / 128
		lines += last - first + 1
	}
	ids := r.idsOnDevice(unified.Int64, list)
	want := make([]byte, m*rowBytes)
	copied(want, src, list, rowBytes)
	before := cudatest.LinesAt(addressOf(src))
	expect.Ensure(r.t, bytes.Equal(r.gather(s, ids, 0), want), "differs from copy()")
	return float64(lines) / m, float64(cudatest.LinesAt(addressOf(src))[3]-before[3]) / m
}

// TestGatherReadsFewestLines: within 2 % of the minimum, also where rows begin and end between words, and where several
// fit in a warp. bench/gpu does the same at every alignment of a float32 column.
func TestGatherReadsFewestLines(t *testing.T) {
	const seed = 32
	cudatest.Checks(t, "lines")
	for _, dtype := range sizedTypes {
		r, rnd := newRig(t), rand.New(rand.NewPCG(seed, 0))
		size := int(dtype.Size())
		for _, rowBytes := range []int{8, 40, 64, 104, 128, 136, 520, 1000} {
			for _, width := range []int{rowBytes / size, rowBytes/size + 1} {
				shift := size * rnd.IntN(128/size)
				least, read := r.linesRead(rnd, dtype, width, shift)
				if read > 1.02*least+0.1 { // words at the edges of the column are read in bytes
					t.Errorf("%v[%d] at %d: %.3f lines a row, %.3f would do; seed %d", dtype, width, shift, read, least,
						seed)
				}
			}
		}
	}
}
