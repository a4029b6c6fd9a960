package sparse

import (
	"fmt"
	"math"

	"github.com/khop-gnn/khop/unified"
)

// Floats returns the elements of a tensor on the host as float32: a view of float32, an exact copy of floats of 16
// bits. ErrShape for other tensors.
func Floats(t unified.Tensor) ([]float32, error) {
	if dense(t) {
		return floats(t), nil
	}
	if !half(t) {
		return nil, fmt.Errorf("%w: %v is not float32 or floats of 16 bits on the host", ErrShape, t)
	}
	to := make([]float32, t.Len()*t.Width())
	if t.DType().Floats(to, t.Bytes()); t.DType() == unified.Float16 {
		for i := range to {
			to[i] = quiet(to[i])
		}
	}
	return to, nil
}

// fromHalf widens a float16. As processors do, it makes a signalling NaN a quiet one.
func fromHalf(h unified.Half) float32 { return quiet(h.Float32()) }

func quiet(x float32) float32 {
	if x != x {
		return math.Float32frombits(math.Float32bits(x) | 1<<22)
	}
	return x
}
