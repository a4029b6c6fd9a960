package unified

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"unsafe"

	"github.com/khop-gnn/khop/pinned"
)

// ErrShape is returned if dtype, shape and bytes do not fit each other.
var ErrShape = errors.New("shape does not fit")

// MaxRank is the greatest number of dimensions.
const MaxRank = 4

// Tensor is a view of a dense array in row-major order, a value: copying it copies no element. The zero value is "no
// tensor" (Valid is false). Its maker says how long its bytes are valid and who may write them.
type Tensor struct {
	dtype     DType
	rank      uint8
	placement pinned.Placement
	shape     [MaxRank]int64
	data      []byte
}

// New returns a view of the first bytes of data, as dtype elements in the given shape. ErrShape if the bytes are too
// few or not aligned to the element size, or if the shape has no dimension, more than MaxRank, or a negative one.
func New(dtype DType, data []byte, shape ...int64) (Tensor, error) {
	t := Tensor{dtype: dtype, rank: uint8(len(shape))}
	if dtype == Invalid || dtype >= numDTypes || len(shape) == 0 || len(shape) > MaxRank {
		return Tensor{}, fmt.Errorf("%w: %v %v", ErrShape, dtype, append([]int64(nil), shape...))
	}
	n := uint64(dtype.Size())
	for i, d := range shape {
		hi, lo := bits.Mul64(n, uint64(d))
		if d < 0 || hi != 0 {
			return Tensor{}, fmt.Errorf("%w: %v", ErrShape, append([]int64(nil), shape...))
		}
		n = lo
		t.shape[i] = d
	}
	if n > uint64(len(data)) {
		return Tensor{}, fmt.Errorf("%w: %v of %v takes %d bytes, there are %d", ErrShape,
			append([]int64(nil), shape...), dtype, n, len(data))
	}
	if n > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(dtype.Size()) != 0 {
		return Tensor{}, fmt.Errorf("%w: data is not aligned to %d bytes", ErrShape, dtype.Size())
	}
	t.data = data[:n:n]
	return t, nil
}

// NewPlaced is New for memory at a placement, such as the bytes of a pinned.Region or a pinned.Attachment.
func NewPlaced(place pinned.Placement, dtype DType, data []byte, shape ...int64) (Tensor, error) {
	t, err := New(dtype, data, shape...)
	if err == nil {
		t.placement = place
	}
	return t, err
}

// FromSlice returns a one-dimensional view of a Go slice, which the caller must not resize in place while it is in use.
func FromSlice[T Element](s []T) Tensor {
	var z T
	n := len(s) * int(unsafe.Sizeof(z))
	t := Tensor{dtype: Of[T](), rank: 1}
	t.shape[0] = int64(len(s))
	t.data = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), n)
	return t
}

// FromRows is FromSlice for a matrix: rows of width elements, one after another. ErrShape if the last row is not whole.
func FromRows[T Element](s []T, width int64) (Tensor, error) {
	return FromSlice(s).Reshape(int64(len(s))/max(width, 1), width)
}

// Reshape returns the same elements in another shape; ErrShape if their number differs.
func (t Tensor) Reshape(shape ...int64) (Tensor, error) {
	r, err := NewPlaced(t.placement, t.dtype, t.data, shape...)
	if err == nil && len(r.data) != len(t.data) {
		return Tensor{}, fmt.Errorf("%w: %v reshaped to %v", ErrShape, t, append([]int64(nil), shape...))
	}
	return r, err
}

// Rows returns the view of rows lo <= i < hi of the first dimension; ErrShape if they are out of range.
func (t Tensor) Rows(lo, hi int64) (Tensor, error) {
	if lo < 0 || hi < lo || hi > t.Len() {
		return Tensor{}, fmt.Errorf("%w: rows %d..%d of %v", ErrShape, lo, hi, t)
	}
	w := t.RowBytes()
	t.shape[0] = hi - lo
	t.data = t.data[lo*w : hi*w : hi*w]
	return t, nil
}

// Valid reports whether t is a tensor at all.
func (t Tensor) Valid() bool { return t.dtype != Invalid }

// DType returns the type of the elements.
func (t Tensor) DType() DType { return t.dtype }

// Rank returns the number of dimensions.
func (t Tensor) Rank() int { return int(t.rank) }

// Dim returns the length of dimension i, which must be below Rank.
func (t Tensor) Dim(i int) int64 { return t.shape[i] }

// Shape returns a copy of the dimensions.
func (t Tensor) Shape() []int64 { return append([]int64(nil), t.shape[:t.rank]...) }

// Len returns the length of the first dimension; 0 for no tensor.
func (t Tensor) Len() int64 { return t.shape[0] }

// Width returns the number of elements of a row: the product of all dimensions but the first.
func (t Tensor) Width() int64 {
	w := int64(1)
	for _, d := range t.shape[min(1, t.rank):t.rank] {
		w *= d
	}
	return w
}

// RowBytes returns the bytes of a row.
func (t Tensor) RowBytes() int64 { return t.Width() * t.dtype.Size() }

// Bytes returns the elements' memory, in order. With placement Device the host must not read or write it.
func (t Tensor) Bytes() []byte { return t.data }

// Placement returns which memory holds the bytes.
func (t Tensor) Placement() pinned.Placement { return t.placement }

// String describes the tensor, not its elements: "float32[10,4] host".
func (t Tensor) String() string {
	if !t.Valid() {
		return "none"
	}
	shape := strings.ReplaceAll(fmt.Sprint(t.shape[:t.rank]), " ", ",")
	return t.dtype.String() + shape + " " + t.placement.String()
}

// View returns the elements as a Go slice over the same memory, valid as long as the tensor is. ErrShape if the
// tensor's dtype is not T's, or the host cannot read it.
func View[T Element](t Tensor) ([]T, error) {
	if t.dtype != Of[T]() || t.placement == pinned.Device {
		t.data = nil
		return nil, &viewError{t, Of[T]()}
	}
	return viewUnchecked[T](t), nil
}

// viewError is formatted only when it is read: callers that try one type after another drop it.
type viewError struct {
	tensor Tensor // without its bytes
	as     DType
}

func (e *viewError) Error() string {
	if e.tensor.dtype == e.as {
		return fmt.Sprintf("%v cannot be read by the host: copy it from the device", e.tensor)
	}
	return fmt.Sprintf("dtype does not fit: %v holds %v, not %v", e.tensor, e.tensor.dtype, e.as)
}

// Unwrap returns ErrShape.
func (e *viewError) Unwrap() error { return ErrShape }

func viewUnchecked[T Element](t Tensor) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(t.data))), len(t.data)/int(t.dtype.Size()))
}
