package sparse

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// problem is an SpMM to compute, in both widths of indices.
type problem struct {
	rows, cols, width int
	indptr, indices   []int64
	values, x         []float32
}

// drawn returns a problem with hubs, empty rows, repeated edges, and values of all sizes.
func drawn(r *rand.Rand, rows, cols, width int) *problem {
	p := &problem{rows: rows, cols: cols, width: width, indptr: make([]int64, 1, rows+1)}
	for range rows {
		degree := 0
		if cols > 0 {
			switch r.IntN(8) {
			case 0:
			case 1:
				degree = r.IntN(200)
			default:
				degree = r.IntN(12)
			}
		}
		for range degree {
			p.indices = append(p.indices, r.Int64N(int64(cols)))
		}
		p.indptr = append(p.indptr, int64(len(p.indices)))
	}
	number := func() float32 { return float32(math.Ldexp(r.Float64()-0.5, r.IntN(30)-15)) }
	for range p.indices {
		p.values = append(p.values, number())
	}
	for range cols * width {
		p.x = append(p.x, number())
	}
	return p
}

func narrow(s []int64) []int32 {
	n := make([]int32, len(s))
	for i, v := range s {
		n[i] = int32(v)
	}
	return n
}

// matrix returns the matrix with indptr and indices of 32 or 64 bits.
func (p *problem) matrix(t testing.TB, widePtr, wide bool) *Matrix {
	t.Helper()
	indptr, indices := unified.FromSlice(narrow(p.indptr)), unified.FromSlice(narrow(p.indices))
	if widePtr {
		indptr = unified.FromSlice(p.indptr)
	}
	if wide {
		indices = unified.FromSlice(p.indices)
	}
	return expect.Must(New(int64(p.cols), indptr, indices))(t)
}

// want computes y entry by entry, as the doc comment of SpMM says.
func (p *problem) want(reduce Reduce, weighted bool) []float32 {
	y := make([]float32, p.rows*p.width)
	for i := range p.rows {
		for k := range p.width {
			sum := float32(0)
			for e := p.indptr[i]; e < p.indptr[i+1]; e++ {
				v := p.x[int(p.indices[e])*p.width+k]
				if weighted {
					v = float32(p.values[e] * v)
				}
				sum += v
			}
			if degree := p.indptr[i+1] - p.indptr[i]; reduce == Mean && degree > 0 {
				sum *= 1 / float32(degree)
			}
			y[i*p.width+k] = sum
		}
	}
	return y
}

func matrixOf(t testing.TB, s []float32, rows, width int) unified.Tensor {
	t.Helper()
	return expect.Must(unified.FromSlice(s).Reshape(int64(rows), int64(width)))(t)
}

// open returns a pool that the test closes.
func open(t testing.TB, workers int) *Pool {
	p := Open(Options{Workers: workers})
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// sameBits says where two results differ; any NaN equals any other.
func sameBits(got, want []float32) error {
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
			return fmt.Errorf("element %d is %g (%#x), not %g (%#x)", i, got[i], math.Float32bits(got[i]), want[i],
				math.Float32bits(want[i]))
		}
	}
	return nil
}

// compute runs an SpMM by a strategy, into rows that hold rubbish, and looks that nothing around them was written.
func (p *problem) compute(t testing.TB, pool *Pool, a *Matrix, reduce Reduce, weighted bool, pl strategy) []float32 {
	t.Helper()
	return p.computeOf(t, pool, a, reduce, weighted, pl, matrixOf(t, p.x, p.cols, p.width))
}

// computeOf is compute with x of any dtype.
func (p *problem) computeOf(t testing.TB, pool *Pool, a *Matrix, reduce Reduce, weighted bool, pl strategy,
	x unified.Tensor) []float32 {
	t.Helper()
	const around, rubbish = 80, -77
	room := slices.Repeat([]float32{rubbish}, p.rows*p.width+2*around+16)
	at := around + rand.IntN(16) // anywhere in a line
	y := room[at:][:p.rows*p.width]
	var values unified.Tensor
	if weighted {
		values = unified.FromSlice(p.values)
	}
	task := &pool.spmm
	if len(y) > 0 {
		task.set(matrixOf(t, y, p.rows, p.width), reduce, a, values, x)
		task.strategy = pl
		expect.OK(t, pool.run(task, task.prepare(pool.workers)))
	}
	for i, v := range room {
		expect.Ensure(t, i >= at && i < at+len(y) || v == rubbish, "element %d of y was written", i-at)
	}
	return y
}

func TestEveryPlanGivesTheSameSums(t *testing.T) {
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	pools := []*Pool{open(t, 1), open(t, 3)}
	widths := []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 64, 100, 128, 129, 256, 257, 602}
	for _, width := range widths {
		p := drawn(r, 1+r.IntN(60), 1+r.IntN(50), width)
		for _, weighted := range []bool{false, true} {
			reduce := Reduce(r.IntN(2))
			want := p.want(reduce, weighted)
			for _, v := range variants() {
				for range 3 {
					pl := strategy{variant: v, tile: 1 + r.IntN(max(v.tile(), 1)), ahead: r.IntN(70),
						part: 1 + r.Int64N(300), group: 1 + r.Int64N(100), stream: r.IntN(2) == 0}
					a := p.matrix(t, r.IntN(2) == 0, r.IntN(2) == 0)
					got := p.compute(t, pools[r.IntN(len(pools))], a, reduce, weighted, pl)
					err := sameBits(got, want)
					expect.Ensure(t, err == nil, "width %d, %v, weighted %v, %+v: %v", width, reduce, weighted, pl, err)
				}
			}
		}
	}
}

func TestSpMMOfDegenerateOperands(t *testing.T) {
	pool := open(t, 5) // more than rows
	for _, c := range []struct{ rows, cols, width int }{{0, 0, 3}, {0, 4, 3}, {3, 0, 2}, {3, 4, 0}, {1, 1, 1},
		{2, 9, 1}, {4, 1, 600}} {
		p := drawn(rand.New(rand.NewPCG(1, 2)), c.rows, c.cols, c.width)
		y := slices.Repeat([]float32{5}, c.rows*c.width)
		x, to := matrixOf(t, p.x, c.cols, c.width), matrixOf(t, y, c.rows, c.width)
		if err := pool.SpMM(to, Mean, p.matrix(t, false, false), unified.Tensor{}, x); err != nil {
			t.Errorf("%+v: %v", c, err)
		} else if err := sameBits(y, p.want(Mean, false)); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestSpMMPassesOnWhatIsNoNumber(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	p := &problem{rows: 4, cols: 3, width: 20, indptr: []int64{0, 1, 3, 4, 4}, indices: []int64{0, 0, 1, 2},
		values: []float32{0, 1, 1, 2}}
	for j := range 3 {
		p.x = append(p.x, slices.Repeat([]float32{[]float32{inf, -inf, nan}[j]}, p.width)...)
	}
	pool := open(t, 1)
	for _, v := range variants() {
		pl := strategy{variant: v, tile: 4, ahead: 2, part: 100, group: 100}
		y := p.compute(t, pool, p.matrix(t, false, false), Sum, true, pl)
		for i, want := range []float32{nan, nan, nan, 0} { // 0 times infinity, infinity minus infinity, NaN, no edge
			expect.Is(t, sameBits(y[i*p.width:(i+1)*p.width], slices.Repeat([]float32{want}, p.width)), nil,
				"%v: row %d", v, i)
		}
	}
}

func TestSpMMRefusesWhatDoesNotFit(t *testing.T) {
	p := drawn(rand.New(rand.NewPCG(3, 3)), 5, 6, 4)
	a, pool := p.matrix(t, false, false), open(t, 2)
	f := func(rows, width int) unified.Tensor { return matrixOf(t, make([]float32, rows*width), rows, width) }
	x, values, memory := f(6, 4), unified.FromSlice(p.values), f(20, 4)
	part := func(lo, hi int64) unified.Tensor { r, _ := memory.Rows(lo, hi); return r }
	for what, c := range map[string]struct{ y, values, x unified.Tensor }{
		"x is":     {f(5, 4), values, f(5, 4)},
		"x is ":    {f(5, 4), values, unified.FromSlice(make([]int32, 6))},
		"x is n":   {f(5, 4), values, unified.Tensor{}},
		"y is":     {f(6, 4), values, x},
		"y is ":    {f(5, 3), values, x},
		"values":   {f(5, 4), f(len(p.values)+1, 1), x},
		"values ":  {f(5, 4), f(len(p.values), 2), x},
		"y shares": {part(0, 5), values, part(4, 10)},
	} {
		expect.Says(t, pool.SpMM(c.y, Sum, a, c.values, c.x), ErrShape, strings.TrimSpace(what), what)
	}
	expect.Is(t, pool.SpMM(f(5, 4), Mean+1, a, values, x), ErrShape, "an unknown reduction")
	_ = pool.Close()
	expect.Is(t, pool.SpMM(f(5, 4), Sum, a, values, x), ErrClosed, "a closed pool")
}

func TestSpMMAllocatesNothing(t *testing.T) {
	p := drawn(rand.New(rand.NewPCG(4, 4)), 3000, 500, 40)
	a, pool, y := p.matrix(t, false, false), open(t, 2), matrixOf(t, make([]float32, 3000*40), 3000, 40)
	x, values := matrixOf(t, p.x, 500, 40), unified.FromSlice(p.values)
	n := testing.AllocsPerRun(10, func() {
		expect.OK(t, pool.SpMM(y, Mean, a, values, x))
	})
	expect.That(t, n <= 0, "%g allocations a call", n)
}

// FuzzSpMM makes a small problem of any bytes and compares every variant with the definition.
func FuzzSpMM(f *testing.F) {
	f.Add(uint64(1), uint16(5), uint16(40), uint16(17), uint8(3))
	f.Add(uint64(2), uint16(1), uint16(1), uint16(300), uint8(255))
	f.Fuzz(func(t *testing.T, seed uint64, rows, cols, width uint16, options uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := drawn(r, int(rows%100), int(cols%100), int(width%700))
		reduce, weighted := Reduce(options&1), options&2 != 0
		want, pool := p.want(reduce, weighted), open(t, 1+int(options>>6))
		a := p.matrix(t, options&4 != 0, options&8 != 0)
		for _, v := range variants() {
			pl := strategy{variant: v, tile: 1 + r.IntN(max(v.tile(), 1)), ahead: r.IntN(40), part: 1 + r.Int64N(500),
				group: 1 + r.Int64N(100), stream: options&16 != 0}
			err := sameBits(p.compute(t, pool, a, reduce, weighted, pl), want)
			expect.Ensure(t, err == nil, "%+v: %v", pl, err)
		}
	})
}
