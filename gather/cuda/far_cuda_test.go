//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather/internal/columns"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// sparse returns n bytes of device memory, which the simulator backs only where they are touched.
func (r *rig) sparse(n int64) device.Address {
	r.t.Helper()
	memory := must(r.dev.Alloc(n))(r.t)
	r.t.Cleanup(func() { r.check(memory.Close()) })
	return memory.Address()
}

// bytesAt is device memory in the form of a region: an address and a length.
func bytesAt(a device.Address, n int64) []byte {
	at := uintptr(a)
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), n)
}

// farTensor is a tensor of device memory at an address.
func (r *rig) farTensor(dtype unified.DType, at device.Address, shape ...int64) unified.Tensor {
	r.t.Helper()
	n := dtype.Size()
	for _, d := range shape {
		n *= d
	}
	return r.tensor(pinned.Device, dtype, bytesAt(at, n), shape...)
}

// TestColdAndHotRowsLieBeyondFourGiB gathers from a column whose last rows alone are in memory, with one of them in a
// cache, and then from a cache whose last rows alone are.
func TestColdAndHotRowsLieBeyondFourGiB(t *testing.T) {
	const n, held, width = 70_000, 6, 1 << 14
	cudatest.NeedSimulator(t)
	cudatest.SetMemory(t, 64<<30)
	r := newRig(t)
	src := columns.Random(rand.New(rand.NewPCG(72, 0)), held*4*width)
	onHost, onDevice := r.host(src, 0), r.sparse(n*4*width)
	r.upload(bytesAt(onDevice+(n-held)*4*width, held*4*width), src)
	at := addressOf(onHost) - (n-held)*4*width
	s := must(NewStore(r.dev, r.farTensor(unified.Float32, at, n, width), at))(t)
	list := []int64{n - 1, n - held, n - 2}
	want := slices.Concat(src[(held-1)*4*width:], src[:4*width], src[(held-2)*4*width:(held-1)*4*width])
	r.check(s.Cache(context.Background(), []int64{n - 2}, pinned.Options{}))
	expect.That(t, bytes.Equal(r.gather(s, r.idsOnDevice(unified.Int32, list), 0), want),
		"rows beside the cache: other rows")
	r.check(s.cache.close())
	s.cache.hot = onDevice // as a cache of the whole column
	expect.That(t, bytes.Equal(r.gather(s, r.idsOnDevice(unified.Int64, list), 0), want),
		"rows of the cache: other rows")
	got := must(s.Traffic())(t)
	expect.That(t, got.Rows == 6 && got.Hits == 1+3, "%+v, want 4 hits of 6", got)
	r.check(s.Close())
}

// TestRowsLieBeyondFourGiB gathers from and to places whose offset in bytes, row or id needs more than 32 bits. Ids
// that are no row are left out, so that most of the result is never touched.
func TestRowsLieBeyondFourGiB(t *testing.T) {
	cudatest.NeedSimulator(t)
	cudatest.SetMemory(t, 64<<30)
	for _, c := range []struct {
		name     string
		dtype    unified.DType
		n, width int64
		ids      []int64
		result   int64 // rows of the result before those that are gathered
	}{
		{"whole rows", unified.Float32, 5000, 1 << 18, []int64{4999, 0, 2048}, 4100},
		{"bytes", unified.Uint8, 1<<32 + 10, 1, []int64{1<<32 + 9, 1<<31 + 1, 0, 1 << 32}, 0},
		{"ragged rows", unified.Uint8, 70_000, 1<<16 + 1, []int64{69_999, 65_536, 32_768}, 65_600},
	} {
		r, rnd := newRig(t), rand.New(rand.NewPCG(71, 0))
		row := c.width * c.dtype.Size()
		at := r.sparse(c.n * row)
		s := must(NewStore(r.dev, r.farTensor(c.dtype, at, c.n, c.width), at))(t)
		list := make([]int64, c.result, c.result+int64(len(c.ids)))
		for i := range list {
			list[i] = -1
		}
		list = append(list, c.ids...)
		out := r.sparse(int64(len(list)) * row)
		var want []byte
		for _, id := range c.ids {
			b := columns.Random(rnd, int(row))
			r.upload(bytesAt(at+device.Address(id*row), row), b)
			want = append(want, b...)
		}
		result := bytesAt(out+device.Address(c.result*row), int64(len(want)))
		for _, hot := range []device.Address{0, at} { // then as a cache of the whole column
			if s.cache.hot = hot; hot != 0 && c.width > 1 {
				continue
			}
			r.upload(result, make([]byte, len(want)))
			r.check(s.EnqueueInto(r.stream, r.farTensor(c.dtype, out, int64(len(list)), c.width),
				r.idsOnDevice(unified.Int64, list), 0))
			expect.That(t, bytes.Equal(r.download(result), want), "%s, cached %t: other rows", c.name, hot != 0)
		}
		r.check(s.Close())
	}
}
