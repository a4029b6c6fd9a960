package unified

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

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
