//go:build cuda

package cuda

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/gather/internal/columns"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// wideStore is a device's store of a column in page-locked memory, shift bytes after a line.
func (r *rig) wideStore(column unified.Tensor, code *graph.Code, scales unified.Tensor, to unified.DType,
	shift int) *Store {
	r.t.Helper()
	as := must(must(gather.NewStore(column))(r.t).Widened(to, code, scales))(r.t)
	s := r.store(column.DType(), r.host(column.Bytes(), shift), column.Len(), column.Width())
	at := device.Address(0)
	if scales.Valid() {
		at = addressOf(r.host(scales.Bytes(), 0))
	}
	r.check(s.Widen(as, at))
	return s
}

// TestDeviceWidensRowsAsTheSpecificationSays: of every type, to every type, wherever rows begin, with a cache and
// without.
func TestDeviceWidensRowsAsTheSpecificationSays(t *testing.T) {
	cudatest.EachOrder(t, func(t *testing.T) {
		r, rnd := newRig(t), rand.New(rand.NewPCG(8, 2))
		for _, kind := range columns.Kinds {
			for _, width := range []int{1, 3, 8, 31, 33, 100, 300} {
				column, code, scales := columns.Narrow(t, rnd, kind, 50, width)
				ids := make([]int64, 20)
				for i := range ids {
					ids[i] = rnd.Int64N(50)
				}
				for _, to := range []unified.DType{unified.Float32, unified.Float16, unified.BFloat16} {
					size := int(column.DType().Size())
					s := r.wideStore(column, code, scales, to, size*rnd.IntN(128/size))
					if rnd.IntN(2) == 0 {
						r.check(s.Cache(t.Context(), []int64{3, 4, 9, 20, 21, 40, 49}, pinned.Options{}))
					}
					var buf unified.Buffer
					buf.Options = pinned.Options{Device: r.dev}
					out := must(s.Enqueue(r.stream, &buf, r.idsOnDevice(idTypes[rnd.IntN(2)], ids)))(t)
					expect.Ensure(t, out.DType() == to && out.Dim(0) == 20 && out.Dim(1) == int64(width), "%v", out)
					got := must(unified.New(to, r.download(out.Bytes()), 20, int64(width)))(t)
					want := make([]byte, len(got.Bytes()))
					r.check(s.wide.as.GatherInto(want, unified.FromSlice(ids), 1))
					expect.Ensure(t, same(to, got.Bytes(), want), "%s as %v, %d wide", kind, to, width)
					r.check(buf.Close())
				}
			}
		}
	})
}

func TestDeviceRefusesWhatItCannotWiden(t *testing.T) {
	r := newRig(t)
	column, _, scales := columns.Narrow(t, rand.New(rand.NewPCG(1, 2)), "int8", 3, 4)
	as := must(must(gather.NewStore(column))(t).Widened(unified.Float32, nil, scales))(t)
	s := r.store(unified.Int8, r.host(column.Bytes(), 0), 3, 4)
	expect.Is(t, s.Widen(as, 0), unified.ErrShape, "no scales")
	other := r.store(unified.Int8, r.host(column.Bytes(), 0), 2, 6)
	expect.Is(t, other.Widen(as, addressOf(r.host(scales.Bytes(), 0))), unified.ErrShape, "another column")
}

// same reports whether rows have equal bits; of float32, where a NaN may be any.
func same(dtype unified.DType, x, y []byte) bool {
	if dtype != unified.Float32 {
		return bytes.Equal(x, y)
	}
	a, b := make([]float32, len(x)/4), make([]float32, len(y)/4)
	unified.Float32.Floats(a, x)
	unified.Float32.Floats(b, y)
	return slices.EqualFunc(a, b, func(a, b float32) bool {
		return a == b || math.IsNaN(float64(a)) && math.IsNaN(float64(b))
	})
}
