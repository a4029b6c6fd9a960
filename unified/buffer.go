package unified

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/pinned"
)

// Buffer is growable memory for the elements of one tensor. It has one owner at a time and is not safe for concurrent
// use. Set Options before the first use, to count the bytes or to take them on a device. Claim sizes a buffer of device
// memory, which has no view as a Go slice. The owner calls Close when no device uses the memory any more.
type Buffer struct {
	Options pinned.Options
	mem     pinned.Buffer
}

// Grow makes room for n elements of T, keeps the first keep of them, and returns the whole room. The slice is valid
// until the next call of Grow, Claim, Reserve or Close. pinned.ErrPlacement for a buffer of device memory.
func Grow[T Element](b *Buffer, n, keep int64) ([]T, error) {
	var z T
	size := int64(unsafe.Sizeof(z))
	b.mem.Options = b.Options
	if b.Options.Placement() == Device {
		return nil, fmt.Errorf("view %d elements on the host: %w", n, pinned.ErrPlacement)
	}
	if n < 0 || n > (1<<62)/size {
		return nil, fmt.Errorf("%w: %d elements", ErrShape, n)
	}
	if err := b.mem.Grow(n*size, keep*size); err != nil {
		return nil, err
	}
	mem := b.mem.Bytes()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), int64(len(mem))/size), nil
}

// Tensor returns the first elements as a tensor of the given shape; ErrShape if there is less room. It is valid as long
// as the slice that Grow returned, and its placement is that of the buffer.
func (b *Buffer) Tensor(dtype DType, shape ...int64) (Tensor, error) {
	return NewPlaced(b.Options.Placement(), dtype, b.mem.Bytes(), shape...)
}

// Reserve takes and touches n bytes, so that the first batch is as fast as the hundredth. It keeps no contents.
func (b *Buffer) Reserve(n int64) error {
	b.mem.Options = b.Options
	return b.mem.Reserve(n)
}

// Claim takes n bytes without touching them, so that no batch within n bytes moves the buffer. It keeps no contents.
func (b *Buffer) Claim(n int64) error {
	b.mem.Options = b.Options
	return b.mem.Claim(n)
}

// Address returns what kernels address the first byte by; 0 for pageable host memory and an empty buffer.
func (b *Buffer) Address() device.Address { return b.mem.Address() }

// Cap returns the bytes held.
func (b *Buffer) Cap() int64 { return b.mem.Cap() }

// Close frees the memory; the buffer is then empty and may be used again.
func (b *Buffer) Close() error { return b.mem.Close() }
