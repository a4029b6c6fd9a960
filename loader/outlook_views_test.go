package loader_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/outlook"
	"github.com/khop-gnn/khop/sampling"
)

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
			for _, err := range l.Epoch(background, epoch) {
				expect.OK(t, err)
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
