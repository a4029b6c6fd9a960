package unified

import (
	"fmt"

	"github.com/khop-gnn/khop/pinned"
)

// Integers returns a function that reads element i of a tensor of integers of any width, one a row; ErrShape for other
// tensors, for uint64, which int64 does not hold, and for those that the host cannot read.
func Integers(t Tensor) (func(i int64) int64, error) {
	if err := onHost(t); err != nil {
		return nil, err
	}
	if t.Width() == 1 {
		switch t.DType() {
		case Int8:
			return reader[int8, int64](t), nil
		case Uint8:
			return reader[uint8, int64](t), nil
		case Int16:
			return reader[int16, int64](t), nil
		case Uint16:
			return reader[uint16, int64](t), nil
		case Int32:
			return reader[int32, int64](t), nil
		case Uint32:
			return reader[uint32, int64](t), nil
		case Int64:
			return reader[int64, int64](t), nil
		}
	}
	return nil, fmt.Errorf("%w: %v is not one integer a row", ErrShape, t)
}

// Numbers is Integers for floating point as well: float32, float64, and integers, rounded to float64.
func Numbers(t Tensor) (func(i int64) float64, error) {
	if err := onHost(t); err != nil {
		return nil, err
	}
	if t.Width() == 1 {
		switch t.DType() {
		case Float32:
			return reader[float32, float64](t), nil
		case Float64:
			return reader[float64, float64](t), nil
		}
	}
	read, err := Integers(t)
	if err != nil {
		return nil, fmt.Errorf("%w: %v is not one number a row", ErrShape, t)
	}
	return func(i int64) float64 { return float64(read(i)) }, nil
}

// onHost refuses elements that the host cannot read.
func onHost(t Tensor) error {
	if t.placement != pinned.Device {
		return nil
	}
	t.data = nil
	return &viewError{t, t.dtype}
}

func reader[From, To int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | float32 | float64](t Tensor) func(
	int64) To {
	v := viewUnchecked[From](t)
	return func(i int64) To { return To(v[i]) }
}
