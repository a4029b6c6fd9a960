package unified

import (
	"math"
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
