//go:build cuda

package sparse

import (
	"errors"
	"math"
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

// bench is a device with the kernels and a stream.
type bench struct {
	*testing.T
	dev     *device.Device
	stream  *device.Stream
	kernels *DeviceKernels
}

func onBench(t *testing.T) *bench {
	b := &bench{T: t, dev: cudatest.Open(t)}
	b.stream = expect.Must(b.dev.NewStream())(t)
	b.kernels = expect.Must(OpenDevice(b.dev))(t)
	t.Cleanup(func() {
		expect.OK(t, errors.Join(b.stream.Close(), b.kernels.Close(), b.kernels.Close()))
	})
	return b
}

// put returns a copy of a tensor in memory of the device, exactly as large.
func (b *bench) put(from unified.Tensor) unified.Tensor {
	b.Helper()
	if !from.Valid() {
		return from
	}
	region := expect.Must(pinned.Allocate(int64(max(len(from.Bytes()), 1)), pinned.Options{Device: b.dev}))(b)
	b.Cleanup(func() { _ = region.Close() })
	t, err := unified.NewPlaced(pinned.Device, from.DType(), region.Bytes()[:len(from.Bytes())], from.Shape()...)
	if err == nil && t.Address() != 0 {
		err = b.stream.CopyToDevice(t.Address(), from.Bytes())
	}
	expect.OK(b, err)
	return t
}

// same fails where a tensor of the device has other bits than one of the host; any NaN is as good as another.
func (b *bench) same(what string, have, want unified.Tensor) {
	b.Helper()
	got := make([]byte, len(want.Bytes()))
	if len(got) == 0 {
		return
	}
	expect.OK(b, errors.Join(b.stream.CopyToHost(got, have.Address()), b.stream.Synchronize()))
	t, _ := unified.New(unified.Float32, got, want.Shape()...)
	for i, w := range floats(want) {
		if h := floats(t)[i]; math.Float32bits(h) != math.Float32bits(w) && (h == h || w == w) {
			b.Fatalf("%s: element %d of %v is %g, on the CPU %g", what, i, want, h, w)
		}
	}
}

func (b *bench) matrix(a *Matrix) DeviceMatrix {
	m := DeviceMatrix{Cols: a.cols}
	if a.indptr64 != nil {
		m.Indptr = b.put(unified.FromSlice(a.indptr64))
	} else {
		m.Indptr = b.put(unified.FromSlice(a.indptr32))
	}
	if a.indices64 != nil {
		m.Indices = b.put(unified.FromSlice(a.indices64))
	} else {
		m.Indices = b.put(unified.FromSlice(a.indices32))
	}
	return m
}

func TestDeviceComputesWhatTheCPUDoes(t *testing.T) {
	b, r, pool := onBench(t), rand.New(rand.NewPCG(3, 9)), open(t, 2)
	for i, width := range []int{1, 3, 16, 33, 70, 132} {
		p := drawn(r, 30, 20, width)
		a := p.matrix(t, i%2 == 0, i%3 == 0)
		on, n, heads := b.matrix(a), len(p.indices), 1
		if width%2 == 1 && width%3 == 0 {
			heads = 3
		}
		x := matrixOf(t, p.x, 20, width)
		values := matrixOf(t, numbers(r, heads*n), heads, n)
		for _, v := range []unified.Tensor{{}, values} {
			for _, reduce := range []Reduce{Sum, Mean} {
				y := matrixOf(t, make([]float32, 30*width), 30, width)
				have := b.put(y)
				expect.OK(t, pool.SpMM(y, reduce, a, v, x))
				expect.OK(t, b.kernels.SpMM(b.stream, have, reduce, on, b.put(v), b.put(x)))
				b.same("SpMM "+reduce.String(), have, y)
			}
		}
		u, out := matrixOf(t, numbers(r, 30*width), 30, width), matrixOf(t, make([]float32, heads*n), heads, n)
		have := b.put(out)
		expect.OK(t, errors.Join(pool.SDDMM(out, a, u, x), b.kernels.SDDMM(b.stream, have, on, b.put(u), b.put(x))))
		b.same("SDDMM", have, out)
		b.softmax(pool, r, a, on, heads)
	}
}

// softmax compares softmax over the edges of scores that have NaN, infinities and large differences, in place too.
func (b *bench) softmax(pool *Pool, r *rand.Rand, a *Matrix, on DeviceMatrix, heads int) {
	n := int(a.edges)
	scores := numbers(r, heads*n)
	for e := range scores {
		scores[e] *= 40
		if r.IntN(200) == 0 {
			scores[e] = [...]float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[r.IntN(3)]
		}
	}
	from, out := matrixOf(b.T, scores, heads, n), matrixOf(b.T, make([]float32, heads*n), heads, n)
	there := b.put(from)
	expect.OK(b, errors.Join(pool.Softmax(out, a, from), b.kernels.Softmax(b.stream, there, on, there)))
	b.same("Softmax", there, out)
	given, d := matrixOf(b.T, numbers(r, heads*n), heads, n), matrixOf(b.T, make([]float32, heads*n), heads, n)
	to := b.put(given)
	expect.OK(b, errors.Join(pool.SoftmaxBackward(d, a, out, given),
		b.kernels.SoftmaxBackward(b.stream, to, on, there, to)))
	b.same("SoftmaxBackward", to, d)
}

func TestDeviceLeavesOutEdgesOutOfRange(t *testing.T) {
	b := onBench(t)
	indptr, x := b.put(unified.FromSlice([]int64{0, 3})), b.put(matrixOf(t, []float32{5, 7}, 2, 1))
	a := DeviceMatrix{Cols: 2, Indptr: indptr, Indices: b.put(unified.FromSlice([]int32{1, 2, -1}))}
	y, out := b.put(matrixOf(t, []float32{0}, 1, 1)), b.put(unified.FromSlice([]float32{9, 9, 9}))
	k := b.kernels
	expect.OK(t, errors.Join(k.SpMM(b.stream, y, Sum, a, unified.Tensor{}, x), k.SDDMM(b.stream, out, a, y, x)))
	b.same("SpMM", y, unified.FromSlice([]float32{7}))
	b.same("SDDMM", out, unified.FromSlice([]float32{49, 0, 0}))
}

func TestDeviceRefusesWhatDoesNotFit(t *testing.T) {
	b := onBench(t)
	host := matrixOf(t, make([]float32, 4), 2, 2)
	x, y, none := b.put(host), b.put(host), unified.Tensor{}
	edges := b.put(unified.FromSlice([]float32{1, 2}))
	a := DeviceMatrix{Cols: 2, Indptr: b.put(unified.FromSlice([]int32{0, 1, 2})),
		Indices: b.put(unified.FromSlice([]int32{0, 1}))}
	one := b.put(unified.FromSlice([]float32{1}))
	wide := DeviceMatrix{Cols: 3, Indptr: a.Indptr, Indices: a.Indices}
	onHost := DeviceMatrix{Cols: 2, Indptr: unified.FromSlice([]int32{0, 1, 2}), Indices: a.Indices}
	for name, err := range map[string]error{
		"a matrix of the host": b.kernels.SpMM(b.stream, y, Sum, onHost, none, x),
		"x of the host":        b.kernels.SpMM(b.stream, y, Sum, a, none, host),
		"y is x":               b.kernels.SpMM(b.stream, x, Sum, a, none, x),
		"too many columns":     b.kernels.SpMM(b.stream, y, Sum, wide, none, x),
		"no such reduction":    b.kernels.SpMM(b.stream, y, 7, a, none, x),
		"values":               b.kernels.SpMM(b.stream, y, Sum, a, one, x),
		"no edges":             b.kernels.SDDMM(b.stream, x, a, x, y),
		"ends":                 b.kernels.SDDMM(b.stream, edges, a, edges, y),
		"scores":               b.kernels.Softmax(b.stream, edges, a, x),
		"a gradient":           b.kernels.SoftmaxBackward(b.stream, edges, a, edges, x),
		"a host's gradient":    b.kernels.SoftmaxBackward(b.stream, edges, a, edges, host),
	} {
		expect.Is(t, err, ErrShape, name)
	}
	expect.Is(t, expect.Err(OpenDevice(nil)), device.ErrNoDevice, "no device")
}
