package sparse

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// TestExtremesAndTheirWinners compares both dtypes and both widths of indices with a loop over all edges. Elements are
// small integers, so that there are ties and sums are exact.
func TestExtremesAndTheirWinners(t *testing.T) {
	seed := expect.Seed(t)
	for n := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, n))
		p := drawn(r, 1+r.IntN(30), 1+r.IntN(20), 1+r.IntN(9))
		a := p.matrix(t, n%2 == 0, n%3 == 0)
		least, weighted := r.IntN(2) == 0, r.IntN(2) == 0
		extremesAgree[float32](t, r, p, a, least, weighted)
		extremesAgree[float64](t, r, p, a, least, weighted)
	}
}

// tied is a problem whose elements are small integers, and what a loop over all edges makes of it.
type tied[F float32 | float64] struct {
	*problem
	w, x, dy, u, y       []F
	arg                  []int32
	least                bool
	dx, collected, count []F
}

func extremesAgree[F float32 | float64](t *testing.T, r *rand.Rand, p *problem, a *Matrix, least, weighted bool) {
	t.Helper()
	whole := func(n int) []F {
		s := make([]F, n)
		for i := range s {
			s[i] = F(r.IntN(4) - 2)
		}
		return s
	}
	want := tied[F]{problem: p, least: least, x: whole(p.cols * p.width), dy: whole(p.rows * p.width),
		u: whole(p.cols * p.width), w: slices.Repeat([]F{1}, len(p.indices))}
	want.x[0] = F(math.NaN())
	values := unified.Tensor{}
	if weighted {
		want.w = whole(len(want.w))
		values = unified.FromSlice(want.w)
	}
	want.compute()
	dense := func(s []F, rows int) unified.Tensor {
		return expect.Must(unified.FromSlice(s).Reshape(int64(rows), int64(p.width)))(t)
	}
	reduce, pool := Max, open(t, 2)
	if least {
		reduce = Min
	}
	x, y, arg := dense(want.x, p.cols), make([]F, len(want.y)), make([]int32, len(want.arg))
	expect.OK(t, pool.SpMMExtreme(dense(y, p.rows), matrixOf32(t, arg, p.rows, p.width), reduce, a, values, x))
	same := func(what string, got, want []F) {
		t.Helper()
		expect.That(t, slices.EqualFunc(got, want, func(a, b F) bool { return a == b || a != a && b != b }),
			"%v, %s: %v, not %v", reduce, what, got, want)
	}
	same("extremes", y, want.y)
	expect.That(t, slices.Equal(arg, want.arg), "%v: edges %v, not %v", reduce, arg, want.arg)
	out := func(rows int, back bool, of unified.Tensor) []F {
		t.Helper()
		got := make([]F, rows*p.width)
		expect.OK(t, pool.SpMMWinners(dense(got, rows), back, a, values, dense(y, p.rows), x, of))
		return got
	}
	same("gradient", out(p.cols, true, dense(want.dy, p.rows)), want.dx)
	same("winners", out(p.rows, false, dense(want.u, p.cols)), want.collected)
	same("counts", out(p.rows, false, unified.Tensor{}), want.count)
}

func (p *tied[F]) compute() {
	n := p.rows * p.width
	p.y, p.arg, p.collected, p.count, p.dx = make([]F, n), make([]int32, n), make([]F, n), make([]F, n),
		make([]F, p.cols*p.width)
	each := func(f func(at, from int, e int64)) {
		for at := range p.y {
			i, k := at/p.width, at%p.width
			for e := p.indptr[i]; e < p.indptr[i+1]; e++ {
				f(at, int(p.indices[e])*p.width+k, e)
			}
		}
	}
	for at := range p.arg {
		p.arg[at] = -1
	}
	each(func(at, from int, e int64) {
		v, have := p.w[e]*p.x[from], p.y[at]
		if p.arg[at] < 0 || have == have && (v != v || !p.least && v > have || p.least && v < have) {
			p.y[at], p.arg[at] = v, int32(e)
		}
	})
	each(func(at, from int, e int64) {
		if p.w[e]*p.x[from] == p.y[at] || p.y[at] != p.y[at] {
			p.dx[from] += p.w[e] * p.dy[at]
			p.collected[at] += p.w[e] * p.u[from]
			p.count[at]++
		}
	})
}

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
