//go:build cuda

package loader_test

import (
	"fmt"
	"testing"

	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// TestADeviceWidensRowsWhereverTheyLie compares with the CPU: rows in its memory, over the bus with hot ones in its
// memory, brought by copies, and read from disk. Those on disk are not kept on the device.
func TestADeviceWidensRowsWhereverTheyLie(t *testing.T) {
	cudatest.Open(t)
	for _, stored := range []string{"float16", "bfloat16", "int8", "int4"} {
		data := codedData(t, convert.Options{FeatureDType: []string{stored}})
		opt := loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2, 3}}, BatchSize: 7,
			Columns: loader.ColumnOptions{Nodes: []string{"feature"}, Widen: []string{"float32"}},
			Seeds:   loader.AllNodes(), Device: loader.DeviceOptions{Name: "cpu"}}
		want := digests(t, open(t, data, opt).Epoch(t.Context(), 0))
		for _, c := range []struct {
			cache     int64
			carry     loader.Carry
			residence loader.Residence
		}{{}, {cache: loader.NoDeviceCache}, {cache: 3500}, {cache: 3500, residence: loader.Resident},
			{cache: loader.NoDeviceCache, carry: loader.CarryCopies}, {residence: loader.Disk}} {
			on := opt
			on.Device, on.Tuning.Carry = loader.DeviceOptions{Name: "cuda:0", Cache: c.cache}, c.carry
			on.Residence, on.Disk.CacheBytes = c.residence, 100
			launches := cudatest.Launches("gather_widen")
			got := digests(t, open(t, data, on).Epoch(t.Context(), 0))
			expect.Ensure(t, fmt.Sprint(got) == fmt.Sprint(want), "%s, %+v: other batches", stored, c)
			byKernel := c.carry == loader.CarryKernels && c.residence != loader.Disk
			expect.That(t, (cudatest.Launches("gather_widen") > launches) == byKernel, "%s, %+v: by a kernel, or not",
				stored, c)
		}
	}
}
