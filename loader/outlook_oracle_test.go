package loader_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/outlook"
	"github.com/khop-gnn/khop/unified"
)

// broadRows is a graph whose features, in a file, are rows of a page each.
func broadRows(t *testing.T, n int) *graph.Graph {
	t.Helper()
	needDisk(t)
	a := graphs.ArraysOf(graphs.Plain(t, n, 5))
	a.Schema.Nodes[0].Columns = []graph.Column{{Name: "feature", DType: unified.Float32, Shape: []int64{1024}}}
	a.Schema.EdgeColumns, a.EdgeColumns = nil, nil
	a.NodeColumns[0] = map[string]unified.Tensor{"feature": zeroRows(t, unified.Float32, int64(n), 1024)}
	return onDisk(t, graphs.Of(t, a))
}

// traced is what a test finds of two epochs: which rows each batch asks for.
type traced struct {
	asks        [][]uint32
	trial, rows int64 // rows of the batches on trial, and of all
}

// traceOf loads two epochs with the columns in memory.
func traceOf(t *testing.T, g *graph.Graph, opt loader.Options) (x traced) {
	t.Helper()
	opt.Residence = loader.Mapped
	l := open(t, g, opt)
	n := l.NumBatches()
	tried := min(n, 4)
	for epoch := range uint64(2) {
		for b := range each(t, l.Epoch(background, epoch)) {
			var rows []uint32
			nodes := view[int32](t, b.Sample.Nodes[0])
			for _, part := range [][]int32{nodes, nodes[:b.Sample.NumNodes[0][0]]} { // of nodes, and of seeds
				for _, v := range part {
					rows = append(rows, uint32(v))
				}
			}
			for k := range tried {
				if epoch == 0 && b.Number == n*k/tried {
					x.trial += int64(len(rows))
				}
			}
			x.asks, x.rows = append(x.asks, rows), x.rows+int64(len(rows))
		}
	}
	return x
}

// share leaves those rows whose places are in a trace of one of so many, numbered anew, and says how many rows there
// are then.
func (x *traced) share(one uint32, place uint32, rows int64) (asks [][]uint32, of int64) {
	if one == 1 {
		return x.asks, rows
	}
	number := map[uint32]uint32{}
	for _, all := range x.asks {
		var kept []uint32
		for _, row := range all {
			at := row / place
			if (at*2654435761>>4)%one != 0 {
				continue
			}
			if _, ok := number[at]; !ok {
				number[at] = uint32(len(number))
			}
			kept = append(kept, 2*number[at]*place+row%place)
		}
		asks = append(asks, kept)
	}
	return asks, 2 * int64(len(number)) * int64(place)
}

// layoutOf returns how features are read, and where they lie.
func layoutOf(t *testing.T, g *graph.Graph, opt diskio.ReaderOptions) (disk.Probe, diskio.Layout) {
	t.Helper()
	column, _ := g.NodeColumn(0, "feature")
	reader, layouts := expect.Must2(diskio.Open(background,
		[]diskio.Mapped{{Bytes: column.Bytes(), RowBytes: column.RowBytes()}}, opt))(t)
	expect.OK(t, reader.Close())
	return reader.Probe(), layouts[0]
}

// TestAnOutlookIsWhatATraceOfTwoEpochsComesTo compares with a simulation of what batches were loaded with, in plain
// code, for all rows and for a share of them.
func TestAnOutlookIsWhatATraceOfTwoEpochsComesTo(t *testing.T) {
	const n, row, place = 800, 4096, 16
	g := broadRows(t, n)
	fixed := diskio.ReaderOptions{Depth: 4}
	loader.ReadWith(t, fixed)
	probe, layout := layoutOf(t, g, fixed)
	for _, c := range []struct {
		batch, lookahead int
		cache, pack      int64
		one              uint32
	}{
		{100, 3, 0, 0, 1}, {90, 64, 1 << 20, 1 << 20, 1}, {70, 5, 1, 0, 3}, {60, 9, 0, 2 << 20, 2},
		{170, 2, 1 << 20, 3 << 20, 5},
	} {
		opt := loader.Options{Sampler: neighbor, BatchSize: c.batch, Shuffle: true, Workers: 3,
			Disk: loader.DiskOptions{CacheBytes: c.cache, Lookahead: c.lookahead, PackBytes: c.pack}}
		opt.Device.Name, opt.Columns.Nodes, opt.Columns.Seeds = "cpu", []string{"feature"}, []string{"feature"}
		x := traceOf(t, g, opt)
		batches := int64(len(x.asks)) / 2
		what := fmt.Sprintf("%+v, %d rows", c, x.rows)
		loader.SimulateAbout(t, x.trial/min(batches, 4)*batches*2/int64(c.one)+1)
		last := map[string][3]int64{}
		opt.Hooks.Progress = func(stage string, done, total int64) {
			last[stage] = [3]int64{last[stage][0] + 1, done, total}
		}
		opt.Device.Name, opt.Residence = "cuda:9", loader.Residence(9) // which an outlook does not look at
		o := expect.Must(outlook.Look(background, g, opt))(t)
		expect.That(t,
			o.Share == 1/float64(c.one) && o.Rows == x.rows/2 && o.Batches == batches && o.ColumnBytes == n*row &&
				o.TopologyBytes == (n+1)*8+5*n*4 && o.Topology == nil, "%s: %+v", what, o)
		steps := int64(len(o.Caches))
		if want := map[string][3]int64{"sampling": {2 * batches, 2 * batches, 2 * batches},
			"simulating": {steps, steps, steps}}; !maps.Equal(last, want) {
			t.Errorf("%s: told %v, want %v", what, last, want)
		}
		var caches []int64
		layout := layout
		asks, rows := x.share(c.one, place, layout.Rows)
		layout.Rows = rows
		for _, cache := range o.Caches {
			caches = append(caches, cache.CacheBytes)
			want := x.policies(t, asks, layout, opt, cache.CacheBytes, int(c.one), probe)
			expect.Same(t, cache.Policies, want, "%s, cache %d", what, cache.CacheBytes)
		}
		want := []int64{n * row / 100, n * row / 50, n * row / 20, n * row / 10, n * row / 5, n * row / 5 * 2}
		if c.cache > 0 {
			want = append(want, c.cache)
			slices.Sort(want)
		}
		expect.That(t, slices.Equal(caches, want), "%s: caches of %d bytes, want %d", what, caches, want)
	}
}

// policies simulates what an outlook says of a cache.
func (x *traced) policies(t *testing.T, asks [][]uint32, layout diskio.Layout, opt loader.Options, cache int64, one int,
	probe disk.Probe) (list []outlook.Policy) {
	t.Helper()
	policies, window := disk.Policies(), max(16<<20, cache/4)/20
	if opt.Disk.PackBytes > 0 {
		policies, window = append(policies, disk.Packed), max(16<<20, cache)/20
	}
	most := int64(1)
	for most <= window/2 {
		most *= 2
	}
	sum := int64(0)
	for _, a := range asks {
		sum += int64(len(a))
	}
	perBatch := max(sum*int64(one)/int64(len(asks)), 1)
	pack := diskio.PackOptions{}
	if opt.Disk.PackBytes > 0 {
		pack = diskio.PackOptions{Bytes: opt.Disk.PackBytes, Memory: diskio.PackMemory}
	}
	for _, p := range policies {
		of := diskio.PlannerOptions{Slots: int(cache/layout.RowBytes) / one,
			Lookahead: int(min(int64(opt.Disk.Lookahead), most/perBatch+1)), Along: int(4<<20/layout.RowBytes) / one,
			Pack: pack.OfShare(int64(one))}
		counts := expect.Must(diskio.Simulate(p, layout, of, asks, len(asks)/2))(t)
		counts = counts.Times(int64(one))
		counts.Batches = int64(len(asks) / 2)
		list = append(list, outlook.Policy{Policy: p, Counts: counts,
			Seconds: probe.Seconds(counts.Requests+counts.Writes, counts.Bytes+counts.Written)})
	}
	return list
}
