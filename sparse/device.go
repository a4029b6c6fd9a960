package sparse

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/unified"
)

// DeviceMatrix is a Matrix whose arrays a device addresses: indptr int32 or int64 [rows+1] and indices int32 or int64
// [edges], as in New. The host cannot read them, so they are not checked: indptr must not descend and must end with the
// number of indices. An edge whose column is out of range is ignored.
type DeviceMatrix struct {
	Cols            int64
	Indptr, Indices unified.Tensor
}

// Rows returns the number of rows.
func (a DeviceMatrix) Rows() int64 { return a.Indptr.Len() - 1 }

// DeviceKernels compute on a CUDA device the same results, to the bit, as a Pool on the CPU: SpMM, SDDMM, Softmax and
// its gradient, in float32. Calls put work on a stream and return; results are complete when the stream has passed the
// work. Operands are in memory that the device addresses. They are safe for concurrent use. Close them before the
// device.
type DeviceKernels struct {
	device  *device.Device
	kernels *deviceKernels
}

var sharedDeviceKernels device.PerDevice[*deviceKernels]

const (
	deviceThreads = 256
	deviceBlocks  = 16 // a multiprocessor, at most
)

// OpenDevice loads the kernels on a device, which stays the caller's. device.ErrNoDevice for a nil device; errors of
// the driver.
func OpenDevice(dev *device.Device) (*DeviceKernels, error) {
	if dev == nil {
		return nil, device.ErrNoDevice
	}
	kernels, err := sharedDeviceKernels.Hold(dev, loadDeviceKernels)
	if err != nil {
		return nil, err
	}
	return &DeviceKernels{device: dev, kernels: kernels}, nil
}

// Close releases the kernels. The streams must have passed them by then. Later calls do nothing.
func (d *DeviceKernels) Close() error {
	if d.kernels == nil {
		return nil
	}
	d.kernels = nil
	return sharedDeviceKernels.LetGo(d.device)
}

// SpMM puts the computation of Pool.SpMM on the stream: y = a x, the sum or the mean. x is float32; heads are as in
// Pool.SpMM. ErrShape names what does not fit.
func (d *DeviceKernels) SpMM(s *device.Stream, y unified.Tensor, r Reduce, a DeviceMatrix, values,
	x unified.Tensor) error {
	m, err := a.layout()
	if err != nil {
		return err
	}
	heads := int64(1)
	if values.Valid() {
		heads = headsOf(values)
	}
	width := x.Width()
	switch {
	case r > Mean:
		return fmt.Errorf("%w: there is no %v", ErrShape, r)
	case !onDevice(x) || x.Len() != a.Cols || !onDevice(y) || y.Len() != a.Rows() || y.Width() != width:
		return fmt.Errorf("%w: a product of %d x %d with %v cannot be %v, both float32 for the device", ErrShape,
			a.Rows(), a.Cols, x, y)
	case values.Valid() && (!onDevice(values) || !ofEdges(values, m.edges) || width%heads != 0):
		return fmt.Errorf("%w: the values are %v for %d edges and %d columns", ErrShape, values, m.edges, width)
	case aliased(y, x) || aliased(y, values):
		return fmt.Errorf("%w: y shares memory with x or the values", ErrShape)
	case width == 0 || a.Rows() == 0:
		return nil
	}
	shift := min(bits.Len64(uint64(width-1)), 5)
	arg := deviceMultiply{a: m, values: values.Address(), x: x.Address(), y: y.Address(), width: width,
		part: width / heads, shift: int64(shift)}
	if r == Mean {
		arg.mean = 1
	}
	return d.kernels.sparseMultiply.Launch(s, d.grid(a.Rows(), shift), deviceThreads, 0, arg)
}

// SDDMM puts the computation of Pool.SDDMM on the stream: out [edges] or [heads, edges] becomes the dot product of row
// i of u and row j of v for each edge (i, j), 0 for an edge out of range. ErrShape names what does not fit.
func (d *DeviceKernels) SDDMM(s *device.Stream, out unified.Tensor, a DeviceMatrix, u, v unified.Tensor) error {
	m, err := a.layout()
	if err != nil {
		return err
	}
	heads, width := headsOf(out), u.Width()
	switch {
	case !onDevice(out) || !ofEdges(out, m.edges):
		return fmt.Errorf("%w: the result is %v, not float32 of %d edges for the device", ErrShape, out, m.edges)
	case !onDevice(u) || u.Len() != a.Rows() || !onDevice(v) || v.Len() != a.Cols || v.Width() != width ||
		width%heads != 0:
		return fmt.Errorf("%w: %d heads over rows of %v and %v", ErrShape, heads, u, v)
	case aliased(out, u) || aliased(out, v):
		return fmt.Errorf("%w: the result shares memory with u or v", ErrShape)
	case m.edges == 0:
		return nil
	case width == 0:
		return s.Fill32(out.Address(), 0, heads*m.edges)
	}
	arg := deviceSampled{a: m, u: u.Address(), v: v.Address(), out: out.Address(), width: width, part: width / heads}
	return d.kernels.sparseSample.Launch(s, d.grid(a.Rows(), 5), deviceThreads, 0, arg)
}

// Softmax puts the computation of Pool.Softmax on the stream: the scores of the edges of each row become a
// distribution, for each head. out may be scores itself. ErrShape names what does not fit.
func (d *DeviceKernels) Softmax(s *device.Stream, out unified.Tensor, a DeviceMatrix, scores unified.Tensor) error {
	return d.softmax(s, d.kernels.sparseSoftmax, out, a, scores, unified.Tensor{})
}

// SoftmaxBackward puts the computation of Pool.SoftmaxBackward on the stream: the gradient of Softmax with respect to
// the scores, from its result and the gradient with respect to that. to may be dout itself. ErrShape names what does
// not fit.
func (d *DeviceKernels) SoftmaxBackward(s *device.Stream, to unified.Tensor, a DeviceMatrix, soft,
	dout unified.Tensor) error {
	if !onDevice(dout) || headsOf(dout) != headsOf(soft) || aliased(to, dout) && to.Address() != dout.Address() {
		return fmt.Errorf("%w: the gradient of %v is %v, and the result %v", ErrShape, soft, dout, to)
	}
	return d.softmax(s, d.kernels.sparseSoftmaxBackward, to, a, soft, dout)
}

// softmax checks what both have, and launches one.
func (d *DeviceKernels) softmax(s *device.Stream, kernel device.Launcher[deviceSoftmax], out unified.Tensor,
	a DeviceMatrix, scores, given unified.Tensor) error {
	m, err := a.layout()
	if err != nil {
		return err
	}
	if !onDevice(out) || !onDevice(scores) || !ofEdges(out, m.edges) || !ofEdges(scores, m.edges) ||
		headsOf(out) != headsOf(scores) || given.Valid() && !ofEdges(given, m.edges) ||
		aliased(out, scores) && out.Address() != scores.Address() {
		return fmt.Errorf("%w: scores %v, result %v of %d edges for the device", ErrShape, scores, out, m.edges)
	}
	if m.edges == 0 {
		return nil
	}
	arg := deviceSoftmax{a: m, scores: scores.Address(), given: given.Address(), out: out.Address(),
		heads: headsOf(out)}
	return kernel.Launch(s, d.grid(a.Rows(), 5), deviceThreads, 0, arg)
}

// grid returns how many blocks take n rows with 1<<shift lanes each.
func (d *DeviceKernels) grid(rows int64, shift int) int {
	per := int64(deviceThreads >> shift)
	return int(min((rows+per-1)/per, int64(deviceBlocks*max(d.device.SMs(), 1))))
}

// layout checks a matrix and returns it as kernels read it.
func (a DeviceMatrix) layout() (deviceSparse, error) {
	for _, t := range []unified.Tensor{a.Indptr, a.Indices} {
		integers := t.DType() == unified.Int32 || t.DType() == unified.Int64
		if t.Rank() != 1 || !integers || t.Len() > 0 && t.Address() == 0 {
			return deviceSparse{}, fmt.Errorf("%w: the matrix has %v, not integers for the device", ErrShape, t)
		}
	}
	if a.Rows() < 0 || a.Cols < 0 || a.Rows() > math.MaxInt64/32 {
		return deviceSparse{}, fmt.Errorf("%w: indptr is %v, and there are %d columns", ErrShape, a.Indptr, a.Cols)
	}
	m := deviceSparse{indptr: a.Indptr.Address(), indices: a.Indices.Address(), rows: a.Rows(), cols: a.Cols,
		edges: a.Indices.Len()}
	if a.Indptr.DType() == unified.Int64 {
		m.wideIndptr = 1
	}
	if a.Indices.DType() == unified.Int64 {
		m.wideIndices = 1
	}
	return m, nil
}

// onDevice reports whether a device can compute with a tensor.
func onDevice(t unified.Tensor) bool {
	return t.DType() == unified.Float32 && (t.Address() != 0 || t.Len()*t.Width() == 0)
}

// ofEdges reports whether a tensor has a number for each edge, [edges] or [heads, edges].
func ofEdges(t unified.Tensor, edges int64) bool {
	return t.Rank() == 1 && t.Len() == edges || t.Rank() == 2 && t.Dim(0) > 0 && t.Dim(1) == edges
}

// aliased reports whether two tensors share memory of a device.
func aliased(a, b unified.Tensor) bool {
	n, m := uint64(a.Len()*a.RowBytes()), uint64(b.Len()*b.RowBytes())
	p, q := uint64(a.Address()), uint64(b.Address())
	return n > 0 && m > 0 && p < q+m && q < p+n
}
