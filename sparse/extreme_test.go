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
