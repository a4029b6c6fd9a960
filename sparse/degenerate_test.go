package sparse

import (
	"errors"
	"math"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// TestEveryOperationHasAnAnswerForDegenerateOperands runs all operations with more workers than rows, on matrices
// without rows, columns or edges, at widths 0 and 1, and with NaN in each operand.
func TestEveryOperationHasAnAnswerForDegenerateOperands(t *testing.T) {
	pool, nan := open(t, 16), float32(math.NaN())
	for name, c := range map[string]struct {
		rows, cols      int
		indptr, indices []int64
	}{
		"nothing":    {0, 0, []int64{0}, nil},
		"no rows":    {0, 3, []int64{0}, nil},
		"no columns": {2, 0, []int64{0, 0, 0}, nil},
		"no edges":   {3, 2, []int64{0, 0, 0, 0}, nil},
		"one row":    {1, 2, []int64{0, 3}, []int64{1, 0, 1}},
		"two rows":   {2, 2, []int64{0, 0, 2}, []int64{1, 1}},
	} {
		for _, width := range []int{0, 1} {
			p := &problem{rows: c.rows, cols: c.cols, width: width, indptr: c.indptr, indices: c.indices}
			a, edges := p.matrix(t, false, false), len(c.indices)
			made := func(rows, width int) unified.Tensor {
				s := make([]float32, rows*width)
				for i := range s {
					s[i] = nan
				}
				return matrixOf(t, s, rows, width)
			}
			y, most, x := made(c.rows, width), made(c.rows, width), made(c.cols, width)
			scores, out := unified.FromSlice(make([]float32, edges)), unified.FromSlice(make([]float32, edges))
			arg := matrixOf32(t, make([]int32, c.rows*width), c.rows, width)
			err := errors.Join(pool.SpMM(y, Mean, a, scores, x),
				pool.SpMMBackward(made(c.cols, width), Mean, a, scores, y, unified.Tensor{}),
				pool.SpMMExtreme(most, arg, Max, a, unified.Tensor{}, x),
				pool.SDDMM(out, a, y, x), pool.Softmax(out, a, scores), pool.SoftmaxBackward(scores, a, out, scores))
			expect.Ensure(t, err == nil, "%s, width %d: %v", name, width, err)
			for what, result := range map[string]unified.Tensor{"mean": y, "maximum": most} {
				for i, v := range floats(result) {
					if has := a.Degree(int64(i/width)) > 0; has != (v != v) || !has && v != 0 {
						t.Errorf("%s: the %s of row %d, with edges to NaN: %v, is %g", name, what, i/width, has, v)
					}
				}
			}
			for e, v := range floats(out) {
				want := 1 / float32(edges)
				expect.That(t, v == want, "%s: edge %d of equal scores has %g, not %g", name, e, v, want)
			}
		}
	}
}

func matrixOf32(t *testing.T, s []int32, rows, width int) unified.Tensor {
	t.Helper()
	return expect.Must(unified.FromSlice(s).Reshape(int64(rows), int64(width)))(t)
}

// TestOperationsRefuseShapesThatDoNotFit, and change nothing.
func TestOperationsRefuseShapesThatDoNotFit(t *testing.T) {
	p := &problem{rows: 2, cols: 3, width: 2, indptr: []int64{0, 1, 3}, indices: []int64{2, 0, 1}}
	pool, a := open(t, 2), p.matrix(t, false, false)
	made := func(rows, width int) unified.Tensor { return matrixOf(t, make([]float32, rows*width), rows, width) }
	edges, few, none := unified.FromSlice(make([]float32, 3)), unified.FromSlice(make([]float32, 2)), unified.Tensor{}
	y, x, arg := made(2, 2), made(3, 2), matrixOf32(t, make([]int32, 4), 2, 2)
	for what, err := range map[string]error{
		"SpMMBackward":               pool.SpMMBackward(made(2, 2), Sum, a, none, y, none),
		"SpMMBackward, values":       pool.SpMMBackward(x, Sum, a, few, y, none),
		"SDDMM, edges":               pool.SDDMM(few, a, y, x),
		"SDDMM, widths":              pool.SDDMM(edges, a, y, made(3, 1)),
		"SDDMM, rows":                pool.SDDMM(edges, a, x, x),
		"SDDMMAdd, heads":            pool.SDDMMAdd(edges, a, y, x),
		"Softmax":                    pool.Softmax(edges, a, few),
		"SoftmaxBackward":            pool.SoftmaxBackward(edges, a, edges, few),
		"SpMMExtreme, result":        pool.SpMMExtreme(made(3, 2), arg, Max, a, none, x),
		"SpMMExtreme, edges":         pool.SpMMExtreme(y, matrixOf32(t, make([]int32, 2), 2, 1), Max, a, none, x),
		"SpMMExtreme, type":          pool.SpMMExtreme(y, made(2, 2), Max, a, none, x),
		"SpMMExtreme, heads":         pool.SpMMExtreme(y, arg, Max, a, made(2, 3), x),
		"SpMMExtreme, a sum":         pool.SpMMExtreme(y, arg, Sum, a, none, x),
		"SpMMWinners, result":        pool.SpMMWinners(made(3, 2), false, a, none, y, x, none),
		"SpMMWinners, operand":       pool.SpMMWinners(made(3, 2), true, a, none, y, x, x),
		"SpMMWinners, shared":        pool.SpMMWinners(x, true, a, none, y, x, y),
		"Turn":                       pool.TransposeValues(few, a, edges),
		"MatMul, inner":              pool.MatMul(made(2, 3), y, x),
		"MatMul, result":             pool.MatMul(made(3, 3), y, made(2, 3)),
		"MatMul, shared memory":      pool.MatMul(y, y, made(2, 2)),
		"MatMulTransposed, inner":    pool.MatMulTransposed(made(2, 2), y, x),
		"MatMulTransposed, of int32": pool.MatMulTransposed(made(2, 2), y, arg),
	} {
		expect.Is(t, err, ErrShape, what)
	}
}
