package unified

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestElementsAreReadAsTheyWereWritten, of each dtype: the least and the greatest numbers that float32 has, too.
func TestElementsAreReadAsTheyWereWritten(t *testing.T) {
	for d := Invalid + 1; d < numDTypes; d++ {
		numbers := []float64{0, 1, 100}
		bits := float64(8 * d.Size())
		switch d.Kind() {
		case Signed:
			numbers = append(numbers, -1, -math.Exp2(bits-1))
		case Unsigned:
			numbers = append(numbers, math.Exp2(bits-1))
		default:
			numbers = append(numbers, -1.5, math.Inf(1), math.NaN())
		}
		for _, x := range numbers {
			b, wide := make([]byte, d.Size()), make([]float32, 1)
			d.Put(b, x)
			if y := d.Float(b); math.Float64bits(x) != math.Float64bits(y) && (x == x || y == y) {
				t.Errorf("%v: %v is read as %v", d, x, y)
			}
			if d.Floats(wide, b); float64(wide[0]) != x && (x == x || wide[0] == wide[0]) {
				t.Errorf("%v: %v is read as the float32 %v", d, x, wide[0])
			}
			n := d.Integer(b)
			expect.That(t, d.IsFloat() || uint64(n) == uint64(int64(x)) || d == Uint64, "%v: %v is read as %d", d, x, n)
		}
		if !d.IsFloat() {
			b := []byte{1, 1, 1, 1, 1, 1, 1, 1}
			d.Put(b, math.NaN())
			expect.That(t, d.Float(b) == 0, "%v: NaN is read as %v", d, d.Float(b))
		}
	}
}

// TestNumbersBeyondARangeAreTold: the first of them, and no infinity.
func TestNumbersBeyondARangeAreTold(t *testing.T) {
	inf := float32(math.Inf(-1))
	for d, want := range map[DType]int{Float16: 2, BFloat16: 3, Float32: -1, Float64: -1} {
		from := []float32{inf, 65504, 65520, math.MaxFloat32, 0}
		to := make([]byte, int64(len(from))*d.Size())
		got := d.PutFloats(to, from)
		expect.That(t, got == want, "%v: number %d does not fit, not %d", d, got, want)
		if got := d.Float(to[d.Size():]); d != BFloat16 && got != 65504 {
			t.Errorf("%v: 65504 is %v", d, got)
		}
	}
}

func TestDTypesAreKnownToOthers(t *testing.T) {
	for d, want := range map[DType][2]string{Invalid: {}, Int8: {"|i1", "CharStorage"},
		Uint8: {"|u1", "ByteStorage"}, Uint16: {"<u2", ""}, Int64: {"<i8", "LongStorage"},
		Float16: {"<f2", "HalfStorage"}, BFloat16: {"", "BFloat16Storage"}, Float64: {"<f8", "DoubleStorage"},
		200: {}} {
		if d.NumPy() != want[0] || want[1] != "" && ParseTorch(want[1]) != d {
			t.Errorf("%v is %q in NumPy; %q is %v in PyTorch", d, d.NumPy(), want[1], ParseTorch(want[1]))
		}
		if code := d.NumPy(); code != "" && ParseNumPy(code[1:]) != d || ParseNumPy("") != Invalid ||
			ParseTorch("") != Invalid {
			t.Errorf("%v is %v by its name in NumPy", d, ParseNumPy(code[1:]))
		}
		if d.IsHalf() != (d == Float16 || d == BFloat16) || d.IsFloat() != (d >= Float16 && d < numDTypes) {
			t.Errorf("%v: floating point: %t, of 16 bits: %t", d, d.IsFloat(), d.IsHalf())
		}
		if s := d.Stored(); s.Size() != d.Size() || (s == d) != (d.NumPy() != "" || d.Size() == 0) && d.Size() > 0 {
			t.Errorf("%v is stored as %v", d, s)
		}
	}
}

func TestHalvesAreWidened(t *testing.T) {
	for h, want := range map[Half]float32{0: 0, 0x8000: float32(math.Copysign(0, -1)), 0x3C00: 1, 0xBC00: -1,
		0xC000: -2,
		0x3555: 0.333251953125, 0x7BFF: 65504, 0xFBFF: -65504, 1: 0x1p-24, 0x8001: -0x1p-24, 0x3FF: 0x1.FF8p-15,
		0x400: 0x1p-14, 0x7C00: float32(math.Inf(1)), 0xFC00: float32(math.Inf(-1))} {
		got := h.Float32()
		expect.That(t, math.Float32bits(got) == math.Float32bits(want), "%#04x is %g, want %g", h, got, want)
	}
	for _, h := range []Half{0x7C01, 0x7E00, 0xFFFF} {
		got := h.Float32()
		expect.That(t, got != got, "%#04x is %g", h, got)
	}
}

// TestNumbersBecomeTheNearestHalf looks at each half, at what lies in the middle of two, and beside the middle.
func TestNumbersBecomeTheNearestHalf(t *testing.T) {
	for h := range Half(0x7C00) {
		x, next := float64(h.Float32()), float64((h + 1).Float32())
		if h == 0x7BFF {
			next = 65536
		}
		middle := float32((x + next) / 2)
		even := h + h&1
		for _, c := range []struct {
			x    float32
			want Half
		}{{float32(x), h}, {middle, even},
			{math.Nextafter32(middle, 0), h}, {math.Nextafter32(middle, 1e9), h + 1}} {
			for sign, bit := range map[float32]Half{1: 0, -1: 0x8000} {
				got := HalfOf(sign * c.x)
				expect.Ensure(t, got == c.want|bit, "%g becomes %#04x, want %#04x", sign*c.x, got, c.want|bit)
			}
		}
	}
	got := HalfOf(float32(math.NaN()))
	expect.That(t, got&0x7C00 == 0x7C00 && got&0x3FF != 0, "NaN becomes %#04x", got)
}

func TestNumbersBecomeTheNearestBFloat16(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		x := math.Float32frombits(r.Uint32())
		h := BHalfOf(x)
		if x != x {
			y := h.Float32()
			expect.Ensure(t, y != y, "NaN becomes %g", y)
			continue
		}
		low := BHalf(math.Float32bits(x) >> 16)
		rest := math.Float32bits(x) & 0xFFFF
		want := low
		if rest > 0x8000 || rest == 0x8000 && low&1 == 1 {
			want++
		}
		expect.Ensure(t, h == want && BHalfOf(h.Float32()) == h, "%g becomes %#04x, want %#04x", x, h, want)
	}
}
