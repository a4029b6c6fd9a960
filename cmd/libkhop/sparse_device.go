//go:build libkhop && cgo

package libkhop

/*
#include "khop.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// kernels are a device's, and the device. They stay until the process ends, as do the contexts of frameworks.
type kernels struct {
	*sparse.DeviceKernels
	device *device.Device
}

var opened struct {
	sync.Mutex
	kernels map[int]kernels
}

// kernelsOn returns those of a device, which it loads at the first call.
func kernelsOn(ordinal int) (kernels, error) {
	opened.Lock()
	defer opened.Unlock()
	if k, ok := opened.kernels[ordinal]; ok {
		return k, nil
	}
	d, err := device.Open(ordinal)
	if err != nil {
		return kernels{}, err
	}
	k, err := sparse.OpenDevice(d)
	if err != nil {
		return kernels{}, errors.Join(fmt.Errorf("cuda:%d: %w", ordinal, err), d.Close())
	}
	if opened.kernels == nil {
		opened.kernels = map[int]kernels{}
	}
	opened.kernels[ordinal] = kernels{k, d}
	return opened.kernels[ordinal], nil
}

//export khop_sparse_device
func khop_sparse_device(ordinal C.int32_t, e *C.khop_error) C.int32_t {
	return call(e, func() error {
		_, err := kernelsOn(int(ordinal))
		return err
	})
}

//export khop_sparse_placed
func khop_sparse_placed(p *C.khop_placed, e *C.khop_error) C.int32_t {
	return call(e, func() error {
		k, err := kernelsOn(int(p.device))
		if err != nil {
			return err
		}
		operations.Add(1)
		return argued(k.put(p))
	})
}

// arrays makes device tensors of a caller's arrays. It stops at the first nil.
type arrays struct{ err error }

func (a *arrays) of(t unified.Tensor, err error) unified.Tensor {
	if err == nil {
		t, err = placed(t)
	}
	a.err = errors.Join(a.err, err)
	return t
}

func (a *arrays) floats(p *C.float, rows, width C.int64_t) unified.Tensor {
	return a.of(tensor(unified.Float32, unsafe.Pointer(p), int64(rows), int64(width)))
}

// put puts an operation on its stream.
func (k kernels) put(p *C.khop_placed) error {
	if p.rows < 0 || p.edges < 0 || p.heads < 1 {
		return argument("a matrix of %d x %d with %d edges of %d heads", p.rows, p.cols, p.edges, p.heads)
	}
	var all arrays
	a := sparse.DeviceMatrix{Cols: int64(p.cols), Indptr: all.of(integers(p.indptr, int64(p.rows)+1, p.indptr_bytes)),
		Indices: all.of(integers(p.indices, int64(p.edges), p.index_bytes))}
	perEdge := func(f *C.float) unified.Tensor { return all.floats(f, p.heads, p.edges) }
	stream := k.device.BorrowStream(uintptr(p.stream))
	put := func(f func() error) error {
		if all.err != nil {
			return all.err
		}
		return f()
	}
	switch p.operation {
	case C.KHOP_SUM, C.KHOP_MEAN:
		y, x := all.floats(p.out, p.rows, p.width), all.floats(p.x, p.cols, p.width)
		var values unified.Tensor
		if p.values != nil {
			values = perEdge(p.values)
		}
		return put(func() error { return k.SpMM(stream, y, sparse.Reduce(p.operation), a, values, x) })
	case C.KHOP_SAMPLE:
		out, u, v := perEdge(p.out), all.floats(p.u, p.rows, p.width), all.floats(p.x, p.cols, p.width)
		return put(func() error { return k.SDDMM(stream, out, a, u, v) })
	case C.KHOP_SOFTMAX:
		out, scores := perEdge(p.out), perEdge(p.values)
		return put(func() error { return k.Softmax(stream, out, a, scores) })
	case C.KHOP_SOFTMAX_BACKWARD:
		out, soft, given := perEdge(p.out), perEdge(p.values), perEdge(p.u)
		return put(func() error { return k.SoftmaxBackward(stream, out, a, soft, given) })
	}
	return argument("operation %d", p.operation)
}
