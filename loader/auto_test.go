package loader_test

import (
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// Auto reads from the disk from where graph and columns take nine tenths of memory on: unless nothing of them lies in a
// file, or rows are to be widened, which Disk refuses.
func TestAutoTakesTheDiskFromNineTenthsOfMemoryOn(t *testing.T) {
	needDisk(t)
	page, nodes := pinned.Options{}.Size, int64(900)
	need := func() int64 { return page(8*(nodes+1)) + page(24*nodes) + page(12*nodes) + page(8*nodes) }
	for need()%9 != 0 {
		nodes++
	}
	g := graphs.Plain(t, int(nodes), 6)
	stored := onDisk(t, g)
	border := need() / 9 * 10
	opt := loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 1, Residence: loader.Auto,
		Disk: loader.DiskOptions{CacheBytes: 8000}}
	for name, c := range map[string]struct {
		src   loader.Source
		room  int64
		limit int64 // MaxMemory
		widen []string
		want  loader.Residence
	}{
		"at the border": {stored, border, 0, nil, loader.Disk},
		"more":          {stored, border + 10, 0, nil, loader.Mapped},
		"less":          {stored, border - 10, 0, nil, loader.Disk}, "in no file": {g, 1000, 0, nil, loader.Mapped},
		"widened":    {stored, 1000, 0, []string{"float32"}, loader.Disk},
		"with limit": {stored, 1, 1 << 40, nil, loader.Mapped},
	} {
		loader.AvailableMemory(t, c.room)
		opt.MaxMemory, opt.Columns.Widen = c.limit, c.widen
		l := open(t, c.src, opt)
		if o := l.Answer(); o.Residence != c.want || o.CacheBytes != 8000 || (l.Stats().OnDisk != nil) !=
			(c.want == loader.Disk) {
			t.Errorf("%s: %v, a cache of %d", name, o.Residence, o.CacheBytes)
		}
	}
}

// The log says where batches are made, and why: a request, the machine, or work that no device does.
func TestADeviceIsChosenForAReason(t *testing.T) {
	none, prepared := "no CUDA device: "+device.Reason(), loader.Transpose
	for want, opt := range map[string]loader.Options{
		"cuda:7: it was asked for":                             {Device: loader.DeviceOptions{Name: "cuda:7"}},
		"cpu: it was asked for":                                {Device: loader.DeviceOptions{Name: "cpu"}},
		"cpu: a device prepares no blocks (Prepare)":           {Columns: loader.ColumnOptions{Prepare: prepared}},
		"cpu: the sampler sampling.Full runs on the CPU alone": {Sampler: sampling.Full{}},
		"": {},
	} {
		if opt.Sampler == nil {
			opt.Sampler = neighbor
		}
		if want == "" {
			if want = "cpu: " + none; device.Count() > 0 {
				want = "cuda:0: the first CUDA device"
			}
		}
		name, why := loader.ChooseDevice(opt)
		expect.That(t, name+": "+why == want, "%s: %s, want %s", name, why, want)
	}
}
