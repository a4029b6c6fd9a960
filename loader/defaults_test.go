package loader_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// Options that are not set have the defaults that their comments say, and those that are set stay.
func TestDefaultsAreThoseOfTheComments(t *testing.T) {
	got := loader.Options{Sampler: neighbor}
	expect.That(t, got.EnsureDefaults() == &got, "other options are returned")
	want := loader.Options{Sampler: neighbor, BatchSize: 1024, WorldSize: 1, Workers: machine.Workers(),
		Tuning: loader.TuningOptions{Prefetch: 2, SlotTimeout: time.Minute},
		Disk:   loader.DiskOptions{Lookahead: 64}, Device: loader.DeviceOptions{Name: "auto"}}
	expect.That(t, reflect.DeepEqual(got, want), "%+v, want %+v", got, want)
	set := loader.Options{Sampler: neighbor, BatchSize: 1, WorldSize: 2, Workers: 3,
		Tuning: loader.TuningOptions{Prefetch: 4, SlotTimeout: 6}, Disk: loader.DiskOptions{Lookahead: 5},
		Device: loader.DeviceOptions{Name: "cpu"}, Rank: 1}
	if got := *(&set).EnsureDefaults(); !reflect.DeepEqual(got, set) || got.BatchSize != 1 ||
		got.Tuning.SlotTimeout != 6 {
		t.Errorf("%+v, want %+v", got, set)
	}
	expect.OK(t, got.Validate())
	if l := open(t, graphs.Plain(t, 60, 4), loader.Options{Sampler: neighbor}); l.Options().BatchSize != 1024 ||
		l.Options().Tuning.Prefetch != 2 || l.Options().Tuning.SlotTimeout != time.Minute {
		t.Errorf("%+v", l.Options())
	}
}

// Arrays that are read in place count as the pages that hold them, each column once, with its scales.
func TestBytesOfFilesAreThoseOfTheArraysThatAreRead(t *testing.T) {
	g := graphs.Columns(t, 2, 700, 1500) // types n0 and n1, with features of 20 bytes
	page := pinned.Options{}.Size
	edges := g.NumEdges()
	topology := page(1401*8) + page(4*edges) + page(edges)
	narrow := page(51*8) + page(3*4) + page(50*9) + page(50*4) + page(50*8)
	for name, c := range map[string]struct {
		src  loader.Source
		opt  loader.Options
		want int64
	}{
		"topology": {g, loader.Options{Columns: loader.ColumnOptions{Nodes: []string{}}}, topology},
		"features": {g, loader.Options{Columns: loader.ColumnOptions{Seeds: []string{"feature"}}},
			topology + 2*page(700*20)},
		"edges": {g, loader.Options{Columns: loader.ColumnOptions{Nodes: []string{"born"}, Edges: []string{"weight",
			"mask"}}},
			topology + 2*page(700*8) + page(4*edges) + page(edges)},
		"scales": {narrowGraph(t), loader.Options{Columns: loader.ColumnOptions{Widen: []string{"float32"}}}, narrow},
		"narrow": {narrowGraph(t), loader.Options{}, narrow - page(50*4)},
	} {
		c.opt.Sampler, c.opt.Seeds, c.opt.BatchSize = neighbor, loader.AllNodes(), 500
		if e := open(t, c.src, c.opt).Estimate(); e.FileBytes != c.want || e.Bound.Topology+e.Bound.Columns != 0 {
			t.Errorf("%s: %d bytes, want %d", name, e.FileBytes, c.want)
		}
	}
}

// What reading from a disk takes is counted, once for all loaders: as many bytes as who reads says.
func TestWhatReadsFromADiskIsCounted(t *testing.T) {
	needDisk(t)
	fixed := diskio.ReaderOptions{Depth: 4}
	loader.ReadWith(t, fixed)
	g, _ := inFiles(t, graphs.Plain(t, 2000, 6), true)
	column, _ := g.NodeColumn(0, "feature")
	var rows, pages pinned.Ledger
	fixed.Memory = pinned.Options{Ledger: &rows, Purpose: pinned.Scratch}
	reader, _ := expect.Must2(diskio.Open(background, []diskio.Mapped{{Bytes: column.Bytes(), RowBytes: 12}}, fixed))(t)
	fixed.Memory.Ledger = &pages
	of := expect.Must(diskio.OpenPages([]diskio.Mapped{diskio.Mapping(unified.FromSlice(g.Indptr())),
		diskio.Mapping(g.Indices())},
		diskio.PagesOptions{Bytes: 900, Reader: fixed}))(t)
	want := map[string]int64{"rows": rows.Total(), "topology": pages.Total(), "both": rows.Total() + pages.Total()}
	err := reader.Close()
	expect.Ensure(t, err == nil && of.Close() == nil && want["rows"] != 0 && want["topology"] != 0, "%v: %v", want, err)
	for what, n := range want {
		opt := pagedOptions
		opt.Disk.CacheBytes = 900
		if what != "topology" {
			opt.Columns.Nodes = []string{"feature"}
		}
		src := g
		if what == "rows" {
			src = onDisk(t, graphs.Plain(t, 2000, 6))
		}
		p := place(t, src, opt, 2)
		held := p.Ledger().Used(pinned.Scratch)
		expect.That(t, held == n && held == p.Ledger().Total(), "%s: %d bytes are counted, want %d", what, held, n)
	}
}

// A state of links names the columns of their labels and times, each as what it is.
func TestAStateNamesLabelsAndTimes(t *testing.T) {
	l := open(t, graphs.Columns(t, 1, 30, 150), loader.Options{Sampler: neighbor, Seeds: loader.AllEdges(),
		Times: loader.IgnoreTimes, Links: loader.LinkOptions{Label: "mask", Time: "time"}, BatchSize: 50})
	got := l.State(0, 0).Sampler
	expect.That(t, strings.Contains(got, ` links label="mask" time="time" exclude=none `), "%s", got)
}

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
