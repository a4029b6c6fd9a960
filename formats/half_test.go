package formats

import (
	"math"
	"testing"
)

func TestHalvesAreWidened(t *testing.T) {
	for h, want := range map[uint16]float64{0: 0, 0x8000: math.Copysign(0, -1), 0x3C00: 1, 0xBC00: -1, 0xC000: -2,
		0x3555: 0.333251953125, 0x7BFF: 65504, 0xFBFF: -65504, 1: 0x1p-24, 0x8001: -0x1p-24, 0x3FF: 0x1.FF8p-15,
		0x400: 0x1p-14, 0x7C00: math.Inf(1), 0xFC00: math.Inf(-1)} {
		if got := halfToFloat(h); math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%#04x is %g, want %g", h, got, want)
		}
	}
	for _, h := range []uint16{0x7C01, 0x7E00, 0xFFFF} {
		if got := halfToFloat(h); !math.IsNaN(got) {
			t.Errorf("%#04x is %g", h, got)
		}
	}
}
