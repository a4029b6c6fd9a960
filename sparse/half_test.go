package sparse

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func TestHalvesAreTheNumbersThatTheyStandFor(t *testing.T) {
	for bits := range 1 << 16 {
		h := unified.Half(bits)
		sign, exponent, fraction := 1-2*float64(h>>15), int(h>>10)&31, float64(h&1023)
		want := sign * math.Ldexp(1024+fraction, exponent-25)
		switch {
		case exponent == 0:
			want = sign * math.Ldexp(fraction, -24)
		case exponent == 31 && fraction == 0:
			want = math.Inf(int(sign))
		case exponent == 31:
			want = math.NaN()
		}
		got := float64(fromHalf(h))
		if got != want && !(got != got && want != want) || math.Signbit(got) != (h>>15 == 1) {
			t.Fatalf("float16 %#x is %v, not %v", bits, got, want)
		}
		if got := unified.BHalf(bits).Float32(); math.Float32bits(got) != uint32(bits)<<16 {
			t.Fatalf("bfloat16 %#x is %v", bits, got)
		}
	}
}

// halved returns the problem's x in 16 bits, and rounds p.x to what it holds.
func (p *problem) halved(t *testing.T, brain bool) unified.Tensor {
	t.Helper()
	halves, brains := make([]unified.Half, len(p.x)), make([]unified.BHalf, len(p.x))
	for i, v := range p.x {
		brains[i] = unified.BHalf(math.Float32bits(v) >> 16)
		halves[i] = unified.Half(math.Float32bits(v)>>31<<15 | uint32(i*37)%0x7c00) // any finite number
		if p.x[i] = fromHalf(halves[i]); brain {
			p.x[i] = brains[i].Float32()
		}
	}
	flat := unified.FromSlice(halves)
	if brain {
		flat = unified.FromSlice(brains)
	}
	return expect.Must(flat.Reshape(int64(p.cols), int64(p.width)))(t)
}

// TestRowsOfSixteenBitsGiveTheSumsOfTheirFloat32, to the bit, however they are computed.
func TestRowsOfSixteenBitsGiveTheSumsOfTheirFloat32(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 0))
	pool := open(t, 2)
	for _, width := range []int{1, 7, 8, 9, 15, 16, 17, 31, 33, 47, 64, 100, 129, 257} {
		p := drawn(r, 1+r.IntN(50), 1+r.IntN(50), width)
		for i := range 4 {
			x, weighted, reduce := p.halved(t, i%2 == 0), i < 2, Reduce(r.IntN(2))
			want := p.want(reduce, weighted)
			for _, v := range variants() {
				pl := strategy{variant: v, tile: 1 + r.IntN(max(v.tile(), 1)), ahead: r.IntN(70),
					part: 1 + r.Int64N(300), group: 1 + r.Int64N(100), stream: r.IntN(2) == 0}
				got := p.computeOf(t, pool, p.matrix(t, r.IntN(2) == 0, r.IntN(2) == 0), reduce, weighted, pl, x)
				if err := sameBits(got, want); err != nil {
					t.Fatalf("width %d, %v, %v, weighted %v, %+v: %v", width, x.DType(), reduce, weighted, pl, err)
				}
			}
		}
	}
}

func TestOperationsOnSixteenBitsSayWhatTheyTake(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	p := drawn(r, 20, 30, 24)
	x := p.halved(t, true)
	a, pool, y := p.matrix(t, false, false), open(t, 2), matrixOf(t, make([]float32, 20*24), 20, 24)
	heads := expect.Must(unified.FromSlice(append(p.values, p.values...)).Reshape(2, a.Edges()))(t)
	if err := pool.SpMM(y, Sum, a, heads, x); err != nil {
		t.Error(err)
	} else if err := sameBits(floats(y), p.want(Sum, true)); err != nil {
		t.Errorf("two heads: %v", err)
	}
	arg, _ := unified.FromSlice(make([]int32, 20*24)).Reshape(20, 24)
	expect.OK(t, pool.SpMMExtreme(y, arg, Max, a, unified.Tensor{}, x))
	got := append([]float32(nil), floats(y)...)
	if err := pool.SpMMExtreme(y, arg, Max, a, unified.Tensor{}, matrixOf(t, p.x, 30, 24)); err != nil {
		t.Error(err)
	} else if err := sameBits(got, floats(y)); err != nil {
		t.Errorf("the greatest: %v", err)
	}
	tuning := NewTuning()
	if _, err := pool.Tune(tuning, y, a, unified.Tensor{}, x, 1); err != nil {
		t.Error(err)
	} else if _, has := tuning.choices[keyOf(2, a, unified.Tensor{}, x)]; !has {
		t.Error("no choice for 16 bits")
	}
	expect.Is(t, pool.SDDMM(unified.FromSlice(make([]float32, a.Edges())), a, y, x), ErrShape,
		"dot products of 16 bits")
}
