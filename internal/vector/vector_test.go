package vector

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/rng"
)

// mixed returns numbers of all kinds: of both signs and many sizes, zeros, infinity and NaN.
func mixed(r *rand.Rand, n int) []float32 {
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)),
		float32(math.NaN()), 1e-45, -1e-45, math.MaxFloat32, -104, -103.97, -200}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Ldexp(r.Float64()-0.5, r.IntN(16)-6))
		if r.IntN(12) == 0 {
			x[i] = special[r.IntN(len(special))]
		}
	}
	return x
}

// same reports whether two results are equal to the bit; any NaN equals any other.
func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	})
}

// inEveryVariant runs a test by all instruction sets that there are, and by plain Go.
func inEveryVariant(t *testing.T, f func(t *testing.T)) {
	for _, k := range available() {
		t.Run(k.name, func(t *testing.T) { by(k, func() { f(t) }) })
	}
}

// by calls f while some kernels are in use.
func by(k *kernels, f func()) {
	defer func(before *kernels) { best = before }(best)
	best = k
	f()
}

// TestFunctionsGiveTheBitsOfPlainGo runs all functions over all lengths up to several vectors, in memory whose
// surroundings must stay.
func TestFunctionsGiveTheBitsOfPlainGo(t *testing.T) {
	inEveryVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		for n := range 70 {
			x, y, bits := mixed(r, n+2), mixed(r, n+2), make([]byte, Bits(n))
			for i := range bits {
				bits[i] = byte(r.Uint32())
			}
			for name, f := range map[string]func(y, x []float32){
				"scale":    func(y, x []float32) { Scale(y, x, bits, 1.3) },
				"add":      func(y, x []float32) { Add(y, x, 1.3) },
				"relu":     func(y, _ []float32) { ReLU(y) },
				"slope":    func(y, x []float32) { Slope(y, x, 2) },
				"elu":      func(y, _ []float32) { ELU(y) },
				"eluSlope": func(y, x []float32) { ELUSlope(y, x, .7) },
				"leaky":    func(y, x []float32) { Leaky(y, x, .2) },
				"softmax":  func(y, x []float32) { Softmax(y, x) },
			} {
				got, want, from := slices.Clone(y), slices.Clone(y), slices.Clone(x)
				f(got[1:n+1], from[1:n+1])
				by(plain, func() { f(want[1:n+1], x[1:n+1]) })
				expect.That(t, same(got, want) && same(from, x), "%s of %d elements: %v, not %v", name, n, got, want)
			}
		}
	})
}

func TestElementsAreKeptByTheirOwnDraws(t *testing.T) {
	inEveryVariant(t, func(t *testing.T) {
		for _, p := range []float32{0, 1e-9, 0.2, 0.5, 0.999, 1 - 1.0/(1<<24)} {
			const n, first = 200, 1 << 40
			bits := make([]byte, Bits(n))
			Keep(bits, 7, first, p)
			for i := range n {
				want := rng.Float32(rng.Draw(7, first+uint64(i))) >= p
				got := bits[i/8]>>(i%8)&1 == 1
				expect.Ensure(t, got == want, "p = %g: element %d is kept: %v, not %v", p, i, got, want)
			}
		}
	})
}

// TestSoftmaxReturnsWhatItDividedBy: a loss is made of it.
func TestSoftmaxReturnsWhatItDividedBy(t *testing.T) {
	inEveryVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 2))
		for n := range 40 {
			x, to := make([]float32, n), make([]float32, n)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			greatest, sum := Softmax(to, x)
			var wantGreatest, wantSum float32
			by(plain, func() { wantGreatest, wantSum = Softmax(make([]float32, n), x) })
			expect.That(t, greatest == wantGreatest && sum == wantSum,
				"%d numbers: greatest %g and sum %g, not %g and %g", n, greatest, sum, wantGreatest, wantSum)
		}
	})
}

func TestExpIsRightToAnUlp(t *testing.T) {
	for x := float32(0); x > -104; x -= 0.00317 {
		want := float32(math.Exp(float64(x)))
		if got := Exp(x); math.Abs(float64(got-want)) > math.Max(1e-7*float64(want), 1e-45) {
			t.Fatalf("exp(%g) is %g, not %g", x, got, want)
		}
	}
}

func TestExtremesGiveTheBitsOfPlainGo(t *testing.T) {
	inEveryVariant(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 3))
		for n := range 40 {
			const rows = 9
			x, weights := mixed(r, rows*n), mixed(r, 30)
			for _, count := range []int{0, 1, 2, 30} {
				narrow, wide := make([]int32, count), make([]int64, count)
				for e := range count {
					wide[e] = r.Int64N(rows)
					narrow[e] = int32(wide[e])
				}
				edges := Edges{Count: count, First: 1000, X: unsafe.Pointer(unsafe.SliceData(x)), Stride: 4 * n,
					Indices: unsafe.Pointer(unsafe.SliceData(narrow))}
				if r.IntN(2) == 0 {
					edges.Indices, edges.Wide = unsafe.Pointer(unsafe.SliceData(wide)), true
				}
				if r.IntN(2) == 0 {
					edges.Weights = weights[:count]
				}
				for _, least := range []bool{false, true} {
					got, gotArg, want, wantArg := mixed(r, n), make([]int32, n), make([]float32, n), make([]int32, n)
					Extreme(got, gotArg, least, edges)
					if count > 0 {
						extremePlain(want, wantArg, least, edges)
					} else {
						copy(wantArg, slices.Repeat([]int32{-1}, n))
					}
					expect.That(t, same(got, want) && slices.Equal(gotArg, wantArg),
						"%d columns, %d edges, least %v: %v of %v, not %v of %v", n, count, least, got, gotArg, want,
						wantArg)
				}
			}
		}
	})
}

func BenchmarkKeepAndScale(b *testing.B) {
	x, bits := make([]float32, 8192), make([]byte, Bits(8192))
	b.SetBytes(4 * 8192)
	for b.Loop() {
		Keep(bits, 1, 0, 0.5)
		Scale(x, x, bits, 2)
	}
}

func BenchmarkSoftmaxOf16(b *testing.B) {
	x, to := make([]float32, 16), make([]float32, 16)
	for b.Loop() {
		Softmax(to, x)
	}
}

func BenchmarkAddOf16(b *testing.B) {
	x, y := make([]float32, 16), make([]float32, 16)
	for b.Loop() {
		Add(y, x, 2)
	}
}
