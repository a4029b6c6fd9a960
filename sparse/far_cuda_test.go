//go:build cuda

package sparse

import (
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// TestMatricesReachBeyondFourBillionElements multiplies by a matrix whose last rows begin beyond 2^32 elements, and
// takes products with them. Its other rows are never touched.
func TestMatricesReachBeyondFourBillionElements(t *testing.T) {
	cudatest.NeedSimulator(t)
	cudatest.SetMemory(t, 64<<30)
	const rows, width = 70_000, 1 << 16
	b, r, pool := onBench(t), rand.New(rand.NewPCG(81, 0)), open(t, 2)
	memory := expect.Must(b.dev.Alloc(rows * width * 4))(t)
	defer memory.Close()
	x, err := unified.NewPlaced(pinned.Device, unified.Float32, at(memory.Address(), rows*width*4), rows, width)
	expect.OK(t, err)
	near := numbers(r, 3*width) // the rows that are read, together
	ids := []int32{69_999, 0, 40_000}
	for i, id := range ids {
		row := unified.FromSlice(near[i*width : (i+1)*width]).Bytes()
		expect.OK(t, b.stream.CopyToDevice(x.Address()+device.Address(int64(id)*width*4), row))
	}
	indptr := unified.FromSlice([]int64{0, 3})
	a := DeviceMatrix{Cols: rows, Indptr: b.put(indptr), Indices: b.put(unified.FromSlice(ids))}
	same := expect.Must(New(3, indptr, unified.FromSlice([]int32{0, 1, 2})))(t)
	of := matrixOf(t, near, 3, width)
	y, u, out := matrixOf(t, make([]float32, width), 1, width), matrixOf(t, numbers(r, width), 1, width),
		unified.FromSlice(make([]float32, 3))
	sum, dots := b.put(y), b.put(out)
	expect.OK(t, errors.Join(pool.SpMM(y, Sum, same, unified.Tensor{}, of), pool.SDDMM(out, same, u, of),
		b.kernels.SpMM(b.stream, sum, Sum, a, unified.Tensor{}, x), b.kernels.SDDMM(b.stream, dots, a, b.put(u), x)))
	b.same("SpMM", sum, y)
	b.same("SDDMM", dots, out)
}

// at views memory of the device.
func at(a device.Address, n int64) []byte {
	p := uintptr(a)
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}
