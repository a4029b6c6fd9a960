package sparse

import (
	"fmt"
	"math"

	"github.com/khop-gnn/khop/unified"
)

// Floats returns the elements of a tensor on the host as float32: a view where they are float32, a copy where they are
// float16 or bfloat16, all of whose values float32 has. ErrShape for other tensors.
func Floats(t unified.Tensor) ([]float32, error) {
	if dense(t) {
		return floats(t), nil
	}
	if halves, err := unified.View[unified.Half](t); err == nil {
		return widened(halves, fromHalf), nil
	}
	if halves, err := unified.View[unified.BHalf](t); err == nil {
		return widened(halves, fromBHalf), nil
	}
	return nil, fmt.Errorf("%w: %v is not float32, float16 or bfloat16 on the host", ErrShape, t)
}

func widened[H unified.Half | unified.BHalf](from []H, f func(H) float32) []float32 {
	to := make([]float32, len(from))
	for i, h := range from {
		to[i] = f(h)
	}
	return to
}

// fromBHalf is the float32 of which a bfloat16 is the upper half.
func fromBHalf(h unified.BHalf) float32 { return math.Float32frombits(uint32(h) << 16) }

// fromHalf widens an IEEE 754 binary16. As processors do, it makes a signalling NaN a quiet one.
func fromHalf(h unified.Half) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exponent {
	case 0: // zero and subnormals: fraction * 2^-24, which float32 has exactly
		f := float32(fraction) * 0x1p-24
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f:
		if fraction != 0 {
			fraction |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}
