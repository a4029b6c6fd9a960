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
		return widened(halves, unified.BHalf.Float32), nil
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

// fromHalf widens a float16. As processors do, it makes a signalling NaN a quiet one.
func fromHalf(h unified.Half) float32 {
	x := h.Float32()
	if x != x {
		return math.Float32frombits(math.Float32bits(x) | 1<<22)
	}
	return x
}
