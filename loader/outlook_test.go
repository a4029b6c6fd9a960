package loader_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/outlook"
	"github.com/khop-gnn/khop/sampling"
)

// TestAnOutlookCountsWhatEpochsAskFor compares with the rows of batches, and policies with one another.
func TestAnOutlookCountsWhatEpochsAskFor(t *testing.T) {
	g := wideRows(t)
	opt := onDiskOptions
	opt.Columns.Nodes, opt.Columns.Seeds, opt.Disk.CacheBytes = []string{"feature"}, []string{}, 9001
	o := expect.Must(outlook.Look(background, g, opt))(t)
	l, asked := open(t, g, opt), int64(0)
	for epoch := range uint64(2) {
		for b := range each(t, l.Epoch(background, epoch)) {
			asked += b.X().Dim(0)
		}
	}
	column, _ := g.NodeColumn(0, "feature")
	total := int64(len(column.Bytes()))
	expect.That(t, o.Batches == int64(l.NumBatches()) && o.Rows == asked/2 && o.Share == 1 && o.ColumnBytes == total,
		"%d batches of %d, %d rows of %d, a share of %v, %d bytes of %d", o.Batches, l.NumBatches(), o.Rows, asked/2,
		o.Share, o.ColumnBytes, total)
	want := []int64{opt.Disk.CacheBytes}
	for _, percent := range []int64{1, 2, 5, 10, 20, 40} {
		want = append(want, total/100*percent)
	}
	slices.Sort(want)
	var caches []int64
	for _, c := range o.Caches {
		caches = append(caches, c.CacheBytes)
		expect.Ensure(t, len(c.Policies) == len(disk.Policies()), "%+v", c)
		best := c.Policies[disk.Optimum].Misses
		for i, p := range c.Policies {
			if p.Policy != disk.Policies()[i] || p.Batches != o.Batches || p.Misses > p.Rows || p.Rows > o.Rows*2 ||
				p.Misses == 0 || p.Policy != disk.Ahead && p.Misses < best || p.Seconds <= 0 {
				t.Errorf("%d bytes: %+v, at best %d misses", c.CacheBytes, p, best)
			}
		}
		expect.That(t, c.Seconds() == c.Policies[disk.Ahead].Seconds, "%d bytes: %v s", c.CacheBytes, c.Seconds())
	}
	expect.That(t, slices.Equal(caches, want), "caches of %d bytes, want %d", caches, want)
	expect.Is(t, expect.Err(outlook.Look(background, graphs.Plain(t, 50, 4), opt)), loader.ErrOptions,
		"columns in memory")
}

// Rows of layers that are views of one another are asked for once, in outlooks as in batches.
func TestAnOutlookCountsRowsOfViewsOnce(t *testing.T) {
	g := wideRows(t)
	loader.ReadWith(t, diskio.ReaderOptions{Depth: 4})
	for _, f := range []sampling.Frontier{sampling.AllNodes, sampling.NewNodes} {
		opt := onDiskOptions
		opt.Sampler = sampling.Neighbor{Fanouts: []int{3, 2}, Frontier: f}
		opt.Columns.Nodes, opt.Columns.Seeds, opt.Columns.Edges = []string{}, []string{}, []string{"weight"}
		o := expect.Must(outlook.Look(background, g, opt))(t)
		opt.Residence = loader.Mapped
		l := open(t, g, opt)
		for epoch := range uint64(2) {
			for range each(t, l.Epoch(background, epoch)) {
			}
		}
		rows := int64(l.Stats().Rows) / 2
		expect.That(t, o.Rows == rows && rows != 0, "%v: %d rows, batches have %d", f, o.Rows, rows)
	}
}

// An outlook is of one batch as well, and where so little is simulated that nothing is left. Without batches there is
// none.
func TestAnOutlookNeedsABatch(t *testing.T) {
	g := wideRows(t)
	loader.ReadWith(t, diskio.ReaderOptions{Depth: 4})
	opt := onDiskOptions
	opt.Seeds, opt.BatchSize = loader.NodeIDs([]int64{5, 6}), 2
	loader.SimulateAbout(t, 1)
	o, err := outlook.Look(background, g, opt)
	expect.That(t, err == nil && o.Batches == 1 && o.Share < 1 && o.Rows != 0, "%+v, %v", o, err)
	opt.Seeds = loader.NodeIDs([]int64{})
	if o, err := outlook.Look(background, g, opt); o != nil || !errors.Is(err, loader.ErrOptions) ||
		!strings.HasSuffix(err.Error(), ": batches have no rows of columns that lie in files, and the topology "+
			"fits in memory") {
		t.Errorf("without batches: %v", err)
	}
}

// An eighth of the estimate is left free where workers may be fewer, and not a byte more.
func TestAnEighthIsLeftFreeForBatchesThatDiffer(t *testing.T) {
	needDisk(t)
	g, _ := inFiles(t, graphs.Plain(t, 2000, 6), true)
	opt := pagedOptions
	opt.Disk.CacheBytes, opt.BatchSize = 1, 5
	loader.GroupRoom(t, 1<<40)
	most := planned(t, g, opt)
	all := most.Expected.Total()
	for room, workers := range map[int64]int{all + all/8: most.Workers, all + all/8 - 1: most.Workers - 1} {
		loader.GroupRoom(t, room)
		n := planned(t, g, opt).Workers
		expect.That(t, n == workers, "%d workers in %d bytes, of which %d are expected; want %d", n, room, all, workers)
	}
}
