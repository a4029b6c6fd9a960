package unified

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/pinned"
)

// Buffer is growable memory for the elements of one tensor: a pinned.Buffer that can be viewed. Set Options before the
// first use, to count the bytes or to take them on a device.
type Buffer struct{ pinned.Buffer }

// Grow makes room for n elements of T, keeps the first keep of them, and returns the whole room. The slice is valid
// until the next call of Grow, Claim, Reserve or Close. pinned.ErrPlacement for a buffer of device memory.
func Grow[T Element](b *Buffer, n, keep int64) ([]T, error) {
	var z T
	size := int64(unsafe.Sizeof(z))
	if b.Options.Placement() == pinned.Device {
		return nil, fmt.Errorf("view %d elements on the host: %w", n, pinned.ErrPlacement)
	}
	if n < 0 || n > (1<<62)/size {
		return nil, fmt.Errorf("%w: %d elements", ErrShape, n)
	}
	if err := b.Grow(n*size, keep*size); err != nil {
		return nil, err
	}
	mem := b.Bytes()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), int64(len(mem))/size), nil
}

// Tensor returns the first elements as a tensor of the given shape; ErrShape if there is less room. It is valid as long
// as the slice that Grow returned, and its placement is that of the buffer.
func (b *Buffer) Tensor(dtype DType, shape ...int64) (Tensor, error) {
	return NewPlaced(b.Options.Placement(), dtype, b.Bytes(), shape...)
}
