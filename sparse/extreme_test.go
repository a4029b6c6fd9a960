package sparse

import (
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

func extremesAgree[F float32 | float64](t *testing.T, r *rand.Rand, p *problem, a *Matrix, least, weighted bool) {
	t.Helper()
	whole := func(n int) []F {
		s := make([]F, n)
		for i := range s {
			s[i] = F(r.IntN(4) - 2)
		}
		return s
	}
	width := p.width
	x, dy, u, values := whole(p.cols*width), whole(p.rows*width), whole(p.cols*width), unified.Tensor{}
	x[0] = F(math.NaN())
	w := slices.Repeat([]F{1}, len(p.indices))
	if weighted {
		w = whole(len(w))
		values = unified.FromSlice(w)
	}
	wantY, wantArg := make([]F, p.rows*width), make([]int32, p.rows*width)
	for at := range wantY {
		i, k := at/width, at%width
		wantArg[at] = -1
		for e := p.indptr[i]; e < p.indptr[i+1]; e++ {
			v, have := w[e]*x[int(p.indices[e])*width+k], wantY[at]
			if wantArg[at] < 0 || have == have && (v != v || !least && v > have || least && v < have) {
				wantY[at], wantArg[at] = v, int32(e)
			}
		}
	}
	dense := func(s []F, rows int) unified.Tensor {
		return expect.Must(unified.FromSlice(s).Reshape(int64(rows), int64(width)))(t)
	}
	reduce, pool := Max, open(t, 2)
	if least {
		reduce = Min
	}
	y, arg := make([]F, len(wantY)), make([]int32, len(wantArg))
	expect.OK(t, pool.SpMMExtreme(dense(y, p.rows), matrixOf32(t, arg, p.rows, width), reduce, a, values,
		dense(x, p.cols)))
	same := func(what string, got, want []F) {
		t.Helper()
		expect.That(t, slices.EqualFunc(got, want, func(a, b F) bool { return a == b || a != a && b != b }),
			"%v, %s: %v, not %v", reduce, what, got, want)
	}
	same("extremes", y, wantY)
	expect.That(t, slices.Equal(arg, wantArg), "%v: edges %v, not %v", reduce, arg, wantArg)
	wantDX, wantU, wantCount := make([]F, len(x)), make([]F, len(y)), make([]F, len(y))
	for at := range y {
		i, k := at/width, at%width
		for e := p.indptr[i]; e < p.indptr[i+1]; e++ {
			from := int(p.indices[e])*width + k
			if w[e]*x[from] == y[at] || y[at] != y[at] {
				wantDX[from] += w[e] * dy[at]
				wantU[at] += w[e] * u[from]
				wantCount[at]++
			}
		}
	}
	out := func(rows int, back bool, of unified.Tensor) []F {
		t.Helper()
		got := make([]F, rows*width)
		expect.OK(t, pool.SpMMWinners(dense(got, rows), back, a, values, dense(y, p.rows), dense(x, p.cols), of))
		return got
	}
	same("gradient", out(p.cols, true, dense(dy, p.rows)), wantDX)
	same("winners", out(p.rows, false, dense(u, p.cols)), wantU)
	same("counts", out(p.rows, false, unified.Tensor{}), wantCount)
}
