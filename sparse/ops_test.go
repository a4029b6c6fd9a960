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

// numbers returns moderate random numbers, for sums and differences.
func numbers(r *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(r.NormFloat64())
	}
	return s
}

// small is a problem for gradients.
func small(r *rand.Rand) *problem {
	p := &problem{rows: 5, cols: 6, width: 6, indptr: []int64{0, 3, 3, 4, 9, 12}}
	for range 12 {
		p.indices = append(p.indices, r.Int64N(6))
	}
	p.values, p.x = numbers(r, 12), numbers(r, 36)
	return p
}

// checkGradient compares a gradient with differences of a loss. Each step changes one element.
func checkGradient(t *testing.T, what string, at, gradient []float32, loss func() float64) {
	t.Helper()
	const step = 1e-2
	for i := range at {
		have := at[i]
		at[i] = have + step
		up := loss()
		at[i] = have - step
		down := loss()
		at[i] = have
		if want := (up - down) / (2 * step); math.Abs(want-float64(gradient[i])) > 2e-2*(1+math.Abs(want)) {
			t.Fatalf("%s: element %d: the gradient is %g, differences say %g", what, i, gradient[i], want)
		}
	}
}

func inner(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestGradientsOfSpMM(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	pool := open(t, 2)
	for _, reduce := range []Reduce{Sum, Mean} {
		for heads := range 3 { // 0: no values
			p := small(r)
			a := p.matrix(t, false, false)
			y, dy, dx := make([]float32, 30), numbers(r, 30), make([]float32, 36)
			p.values = numbers(r, heads*12)
			var values, dvalues unified.Tensor
			if heads > 0 {
				values, dvalues = matrixOf(t, p.values, heads, 12), matrixOf(t, make([]float32, heads*12), heads, 12)
			}
			x := matrixOf(t, p.x, 6, 6)
			loss := func() float64 {
				expect.OK(t, pool.SpMM(matrixOf(t, y, 5, 6), reduce, a, values, x))
				return inner(y, dy)
			}
			err := pool.SpMMBackward(matrixOf(t, dx, 6, 6), reduce, a, values, matrixOf(t, dy, 5, 6), unified.Tensor{})
			expect.OK(t, err)
			checkGradient(t, reduce.String()+" x", p.x, dx, loss)
			if heads > 0 && reduce == Sum {
				expect.OK(t, pool.SDDMM(dvalues, a, matrixOf(t, dy, 5, 6), x))
				checkGradient(t, "values", p.values, floats(dvalues), loss)
			}
		}
	}
}

func TestGradientOfSoftmax(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	pool, p := open(t, 2), small(r)
	a, scores, dout := p.matrix(t, true, true), numbers(r, 24), numbers(r, 24)
	out, d := matrixOf(t, make([]float32, 24), 2, 12), matrixOf(t, make([]float32, 24), 2, 12)
	loss := func() float64 {
		expect.OK(t, pool.Softmax(out, a, matrixOf(t, scores, 2, 12)))
		return inner(floats(out), dout)
	}
	loss()
	expect.OK(t, pool.SoftmaxBackward(d, a, out, matrixOf(t, dout, 2, 12)))
	checkGradient(t, "softmax", scores, floats(d), loss)
}

func TestDotProductsAreTheSameInEveryVariant(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	pool := open(t, 3)
	for _, width := range []int{0, 1, 5, 7, 8, 9, 15, 16, 17, 24, 47, 64, 100} {
		for _, heads := range []int{1, 3} {
			p := drawn(r, 30, 20, heads*width)
			u := matrixOf(t, numbers(r, 30*heads*width), 30, heads*width)
			v := matrixOf(t, p.x, 20, heads*width)
			var want []float32
			for h := range heads {
				for i := range 30 {
					for e := p.indptr[i]; e < p.indptr[i+1]; e++ {
						at, to := (i*heads+h)*width, (int(p.indices[e])*heads+h)*width
						want = append(want, dot(floats(u)[at:at+width], p.x[to:to+width]))
					}
				}
			}
			for _, variant := range variants() {
				a := p.matrix(t, r.IntN(2) == 0, r.IntN(2) == 0)
				got := matrixOf(t, slices.Repeat([]float32{-5}, heads*len(p.indices)), heads, len(p.indices))
				expect.OK(t, pool.sddmm(variant, got, a, u, v))
				expect.Is(t, sameBits(floats(got), want), nil, "%v, width %d, %d heads", variant, width, heads)
			}
		}
	}
	got := dot([]float32{1, 2, 3}, []float32{4, 5, 6})
	expect.That(t, got == 32, "a dot product of %g, not 32", got)
}

func TestEdgeSoftmaxSumsToOneAndPassesOnNaN(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	p := &problem{rows: 6, cols: 1, indptr: []int64{0, 3, 3, 4, 6, 8, 10}, indices: make([]int64, 10)}
	scores := []float32{1, 2, 3, -1e30, nan, 1, inf, 1, -inf, -inf}
	s := unified.FromSlice(scores)
	expect.OK(t, open(t, 1).Softmax(s, p.matrix(t, false, false), s))
	e1, e2 := math.Exp(-1), math.Exp(-2)
	for i, want := range []float64{e2 / (1 + e1 + e2), e1 / (1 + e1 + e2), 1 / (1 + e1 + e2), 1} {
		expect.That(t, math.Abs(float64(scores[i])-want) <= 1e-7, "edge %d: %g, not %g", i, scores[i], want)
	}
	expect.OK(t, sameBits(scores[4:], []float32{nan, nan, nan, nan, nan, nan}))
}

func TestExtremesKnowTheirEdge(t *testing.T) {
	nan := float32(math.NaN())
	p := &problem{rows: 4, cols: 4, width: 1, indptr: []int64{0, 3, 3, 6, 7}, indices: []int64{0, 1, 2, 1, 3, 0, 2},
		x: []float32{2, 7, 7, nan}}
	y, arg := make([]float32, 4), make([]int32, 4)
	err := open(t, 2).SpMMExtreme(unified.FromSlice(y), unified.FromSlice(arg), Max, p.matrix(t, false, false),
		unified.Tensor{}, unified.FromSlice(p.x))
	expect.That(t, err == nil && slices.Equal(arg, []int32{1, -1, 4, 6}), "edges %v, %v", arg, err)
	expect.OK(t, sameBits(y, []float32{7, 0, nan, 7}))
}

func TestScatterReducesRows(t *testing.T) {
	x, pool := unified.FromSlice([]float32{1, 2, 4, 8, 16}), open(t, 1)
	scatter := expect.Must(Scatter(3, unified.FromSlice([]int64{2, 0, 2, 2, 0})))(t)
	for _, c := range []struct {
		r    Reduce
		want []float32
	}{{Sum, []float32{18, 0, 13}}, {Mean, []float32{9, 0, 13 * (1 / float32(3))}}} {
		y := make([]float32, 3)
		err := pool.SpMM(unified.FromSlice(y), c.r, scatter, unified.Tensor{}, x)
		expect.That(t, err == nil && slices.Equal(y, c.want), "%v: %v, not %v, %v", c.r, y, c.want, err)
	}
	expect.Is(t, expect.Err(Scatter(2, unified.FromSlice([]int64{0, 2}))), ErrMatrix, "a target out of range")
}

func TestTransposesAreKeptAndTurnBack(t *testing.T) {
	p := drawn(rand.New(rand.NewPCG(10, 10)), 40, 30, 0)
	a := p.matrix(t, false, false)
	b := a.Transpose()
	expect.That(t, b == a.Transpose() && b.Transpose() == a, "a transpose was built twice")
	numbered, transposed, back := make([]float32, a.edges), make([]float32, a.edges), make([]float32, a.edges)
	for e := range numbered {
		numbered[e] = float32(e)
	}
	pool := open(t, 2)
	err := errors.Join(pool.TransposeValues(unified.FromSlice(transposed), a, unified.FromSlice(numbered)),
		pool.TransposeValues(unified.FromSlice(back), b, unified.FromSlice(transposed)))
	expect.That(t, err == nil && slices.Equal(back, numbered), "values do not turn back: %v", err)
	last := int64(-1)
	for j := range b.rows {
		for at := b.start(j); at < b.start(j+1); at++ {
			e := int64(transposed[at])
			i := b.column(at)
			if a.column(e) != j || e < a.start(i) || e >= a.start(i+1) || at > b.start(j) && e <= last {
				t.Fatalf("edge %d of the transpose, of column %d and row %d, is edge %d", at, j, i, e)
			}
			last = e
		}
	}
}

func TestGCNNormOfAMatrixWithLoops(t *testing.T) {
	p := &problem{rows: 3, cols: 3, indptr: []int64{0, 1, 3, 4}, indices: []int64{1, 0, 2, 1}}
	a := expect.Must(p.matrix(t, false, false).WithLoops())(t)
	s := float32(1 / math.Sqrt(6))
	got := floats(a.GCNNorm())
	expect.That(t, slices.Equal(got, []float32{s, .5, s, s, float32(1. / 3), s, .5}), "%v", got)
	again, err := a.WithLoops()
	expect.That(t, err == nil && again.edges == a.edges, "%d edges after a second time, not %d; %v", again.edges,
		a.edges, err)
}

func TestDenseProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	pool := open(t, 3)
	for _, c := range []struct{ n, k, m int }{{1, 1, 1}, {70, 33, 7}, {1100, 20, 40}, {3, 0, 2}, {0, 4, 3},
		{40, 50, 300}} {
		x, w, d := numbers(r, c.n*c.k), numbers(r, c.k*c.m), numbers(r, c.n*c.m)
		y, dw := matrixOf(t, numbers(r, c.n*c.m), c.n, c.m), matrixOf(t, numbers(r, c.k*c.m), c.k, c.m)
		expect.OK(t, errors.Join(pool.MatMul(y, matrixOf(t, x, c.n, c.k), matrixOf(t, w, c.k, c.m)),
			pool.MatMulTransposed(dw, matrixOf(t, x, c.n, c.k), matrixOf(t, d, c.n, c.m))))
		for i := range c.n * c.m {
			sum := 0.0
			for k := range c.k {
				sum += float64(x[i/c.m*c.k+k]) * float64(w[k*c.m+i%c.m])
			}
			expect.Ensure(t, math.Abs(sum-float64(floats(y)[i])) <= 1e-4, "%+v: element %d is %g, not %g", c, i,
				floats(y)[i], sum)
		}
		for i := range c.k * c.m {
			sum := 0.0
			for n := range c.n {
				sum += float64(x[n*c.k+i/c.m]) * float64(d[n*c.m+i%c.m])
			}
			expect.Ensure(t, math.Abs(sum-float64(floats(dw)[i])) <= 1e-3, "%+v: element %d of x^T w is %g, not %g", c,
				i, floats(dw)[i], sum)
		}
	}
}

// TestTheTransposedProductTakesNoMemoryByItsRows: of which there is one a node where a model is trained.
func TestTheTransposedProductTakesNoMemoryByItsRows(t *testing.T) {
	const rows = 1 << 20
	pool := open(t, 1)
	y, x, w := matrixOf(t, make([]float32, 2), 2, 1), matrixOf(t, make([]float32, 2*rows), rows, 2),
		matrixOf(t, make([]float32, rows), rows, 1)
	if err := pool.MatMulTransposed(y, x, w); err != nil || len(pool.product.sums) > 2*maxStrips {
		t.Errorf("%d sums beside a product of 2, %v", len(pool.product.sums), err)
	}
}

// TestDenseProductsAreTheSameInEveryVariant compares with sums that are made element by element in the order that the
// doc comments say, at all widths of tiles, and over several blocks and shares of rows.
func TestDenseProductsAreTheSameInEveryVariant(t *testing.T) {
	r, pool := rand.New(rand.NewPCG(13, 13)), open(t, 2)
	for _, c := range []struct{ n, k, m int }{{25, 5, 1}, {13, 3, 15}, {14, 2, 16}, {7, 9, 17}, {31, 4, 47}, {6, 7, 64},
		{5, 6, 65}, {130, 3, 130}, {9000, 50, 3}, {17000, 7, 20}, {300000, 1, 2}} {
		x, w, d := numbers(r, c.n*c.k), numbers(r, c.k*c.m), numbers(r, c.n*c.m)
		want, wantTransposed := make([]float32, c.n*c.m), make([]float32, c.k*c.m)
		for i := range want {
			for k := range c.k {
				want[i] += float32(x[i/c.m*c.k+k] * w[k*c.m+i%c.m])
			}
		}
		share := max(16, (c.n+32*512-1)/(32*512)) * 512
		for i := range wantTransposed {
			for first := 0; first < c.n; first += share {
				of := float32(0)
				for from := first; from < min(first+share, c.n); from += 512 {
					sum := float32(0)
					for n := from; n < min(from+512, first+share, c.n); n++ {
						sum += float32(x[n*c.k+i/c.m] * d[n*c.m+i%c.m])
					}
					of += sum
				}
				wantTransposed[i] += of
			}
		}
		for _, v := range variants() {
			y, dw := slices.Repeat([]float32{7}, c.n*c.m), slices.Repeat([]float32{7}, c.k*c.m)
			at := denseTask{variant: v, rows: int64(c.n), inner: int64(c.k), out: int64(c.m)}
			transposed := denseTask{variant: v, rows: int64(c.k), inner: int64(c.n), out: int64(c.m), transposed: true}
			if err := errors.Join(
				pool.dense(at, matrixOf(t, y, c.n, c.m), matrixOf(t, x, c.n, c.k), matrixOf(t, w, c.k, c.m)),
				pool.dense(transposed, matrixOf(t, dw, c.k, c.m), matrixOf(t, x, c.n, c.k), matrixOf(t, d, c.n, c.m)),
				sameBits(y, want), sameBits(dw, wantTransposed)); err != nil {
				t.Errorf("%v, %+v: %v", v, c, err)
			}
		}
	}
}
