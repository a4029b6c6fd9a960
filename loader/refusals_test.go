package loader_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/outlook"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// none is a source without a graph.
type none struct{ loader.Source }

func (none) Graph() *graph.Graph { return nil }

// naming is a sampler of somebody's that names a column and does not look whether it is there.
type naming struct{ cycle }

func (n naming) Describe(s *graph.Schema, size int) (sampling.Description, error) {
	d, err := n.cycle.Describe(s, size)
	d.EdgeColumns = []string{"price"}
	return d, err
}

// refusing makes a loader, a plan, a placed source and an outlook, each of which must be refused alike.
func refusing(t *testing.T, what string, src loader.Source, opt loader.Options, is error, says string) {
	t.Helper()
	opt.Device.Name = "cpu"
	opened := 0
	if runtime.GOOS == "linux" {
		opened = expect.OpenFiles(t)
	}
	l, err1 := loader.New(src, opt)
	p, err2 := loader.Place(background, src, opt, 1)
	_, err3 := loader.Plan(background, src, opt)
	o, err4 := outlook.Look(background, src, opt)
	expect.That(t, l == nil && p == nil && o == nil, "%s: a result and an error", what)
	for i, err := range []error{err1, err2, err3, err4} {
		expect.Says(t, err, is, says, "%s, %d", what, i)
	}
	expect.That(t, runtime.GOOS != "linux" || expect.OpenFiles(t) == opened, "%s: files stay open", what)
}

// What no loader can load is refused alike, whoever asks.
func TestWhatCannotBeLoadedIsRefusedByAll(t *testing.T) {
	g := graphs.Plain(t, 60, 4)
	opt := loader.Options{Sampler: neighbor, BatchSize: 10}
	refusing(t, "no graph", none{rotten{g}}, opt, loader.ErrOptions, ": dataset ")
	refusing(t, "no graph of a path", pathless{g}, opt, loader.ErrOptions, ": /data/none.khop has no graph")
	opt.Sampler = naming{}
	refusing(t, "no column", g, opt, sampling.ErrOptions, `reads column "price"`)
	opt.Sampler, opt.Tuning.Prefetch = neighbor, -1
	refusing(t, "an option", g, opt, loader.ErrOptions, "Prefetch is -1")
	opt.Tuning.Prefetch = 0
	refusing(t, "rows of gigabytes", giantRows(t, unified.Float32, 1<<40), opt, unified.ErrShape,
		"column of node/b/feature: ")
	opt.Columns.Widen = []string{"float32"}
	refusing(t, "rows too wide to widen", giantRows(t, unified.Float16, 1<<28), opt, unified.ErrShape,
		"column of node/b/feature: ")
}

// pathless is a source that has a path and no graph.
type pathless struct{ loader.Source }

func (pathless) Path() string        { return "/data/none.khop" }
func (pathless) Graph() *graph.Graph { return nil }

// giantRows is a graph with a column whose rows are too wide to be gathered; it has none.
func giantRows(t *testing.T, of unified.DType, width int64) *graph.Graph {
	t.Helper()
	return graphs.New(t, graph.Data{Nodes: []graph.NodeData{{Name: "a", Count: 20}, {Name: "b",
		Columns: map[string]unified.Tensor{"feature": zeroRows(t, of, 0, width)}}},
		Edges: []graph.EdgeData{{Source: "a", Relation: "to", Target: "a", Src: []int64{1}, Dst: []int64{2}}}})
}

// Memory that is too little for copies, or for an index of seeds, is an error that says so, and nothing stays.
func TestTooLittleMemoryForCopiesIsSaid(t *testing.T) {
	wide := wideRows(t)
	opt := onDiskOptions
	opt.Disk.CacheBytes = 1 << 30 // all columns are copied
	for _, residence := range []loader.Residence{loader.Disk, loader.Resident} {
		opt.Residence = residence
		for _, room := range []int64{1, 20_000, 60_000} {
			loader.GroupRoom(t, room)
			if p, err := loader.Place(background, wide, opt, 1); p != nil || !errors.Is(err, loader.ErrMemory) ||
				!errors.Is(err, pinned.ErrLimit) || !strings.Contains(err.Error(), "take smaller batches") {
				t.Errorf("%v, room for %d: %v", residence, room, err)
			}
		}
	}
	loader.GroupRoom(t, 1<<40)
	links := loader.Options{Sampler: neighbor, Seeds: loader.AllEdges("rates"), BatchSize: 10}
	p := place(t, graphs.Typed(t, 60, 40), links, 1)
	p.Ledger().SetLimit(1)
	if l, err := loader.New(p, links); l != nil || !errors.Is(err, loader.ErrMemory) || p.Ledger().Total() != 0 {
		t.Errorf("an index in a byte: %v; %d bytes are held", err, p.Ledger().Total())
	}
}

// New reports a file that was cut short before it is read ahead.
func TestAFileCutShortIsToldAsItIsReadAhead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing is read ahead here")
	}
	for _, name := range []string{"feature", "label", "indices"} {
		src := mappedGraph(t, 3000)
		expect.OK(t, os.Truncate(filepath.Join(src.dir, name), 4096))
		l, err := loader.New(src, loader.Options{Sampler: neighbor, BatchSize: 50,
			Device: loader.DeviceOptions{Name: "cpu"}})
		expect.That(t, l == nil && errors.Is(err, pinned.ErrFault) && strings.HasPrefix(err.Error(), src.dir+": "),
			"%s: %v", name, err)
	}
}

// A batch of an outlook that asks for rows that are not there is an error with its number.
func TestAnOutlookSaysWhichBatchFailed(t *testing.T) {
	g := wideRows(t)
	opt := onDiskOptions
	opt.Workers = 1
	n := 0 // batches, which one worker samples
	opt.Sampler = cycle{spoil: func(s *graph.Sample) {
		if n++; n == 8 { // after four on trial
			v, _ := unified.View[int32](s.Nodes[0])
			v[0] = 1 << 30
		}
	}}
	o, err := outlook.Look(background, g, opt)
	expect.That(t, o == nil && errors.Is(err, gather.ErrRange) && strings.Contains(err.Error(), "epoch 0, batch 3: "),
		"%v", err)
}

// Batches are tried for the number of workers only where that was left open, a limit is not said, and there are some:
// else each worker opens a sampler, and nobody does besides.
func TestWorkersAreFittedOnlyWhereTheyMayBeFewer(t *testing.T) {
	needDisk(t)
	g, _ := inFiles(t, graphs.Plain(t, 2000, 6), true)
	empty := loader.NodeIDs([]int64{})
	for name, c := range map[string]struct {
		room, most int64
		workers    int
		seeds      loader.SeedSource
		tried      int
	}{
		"in a group": {room: 1 << 40, tried: 1}, "in none": {}, "with a limit": {room: 1 << 41, most: 1 << 40},
		"as many as asked for": {room: 1 << 40, workers: 9}, "without batches": {room: 1 << 40, seeds: empty},
		"a limit and no batch": {room: 1 << 41, most: 1 << 40, seeds: empty},
	} {
		if loader.AvailableMemory(t, 1<<42); c.room > 0 {
			loader.GroupRoom(t, c.room)
		}
		opt := pagedOptions
		opt.Disk.CacheBytes, opt.BatchSize, opt.Workers, opt.MaxMemory, opt.Seeds = 1, 5, c.workers, c.most, c.seeds
		f := &faults{point: "open"}
		opt.Sampler = faulty{neighbor, f}
		l := open(t, g, opt)
		n := l.Answer().Workers
		expect.That(t, -f.left == n+c.tried, "%s: %d samplers of %d workers", name, -f.left, n)
	}
}

// Where a group leaves little room batches are tried with the workers that are to spare; a sampler that fails then is
// reported.
func TestAFaultWhileWorkersAreFittedIsTold(t *testing.T) {
	needDisk(t)
	g, _ := inFiles(t, graphs.Plain(t, 2000, 6), true)
	loader.GroupRoom(t, 1<<40)
	opt := pagedOptions
	opt.Disk.CacheBytes, opt.BatchSize = 1, 100
	for _, point := range []string{"open", "close", "prepare"} {
		f := &faults{point: point, left: 1}
		opt.Sampler = faulty{neighbor, f}
		l, err := loader.New(g, opt)
		expect.That(t, l == nil && errors.Is(err, errFault) && f.opened == 0, "%s: %v", point, err)
	}
}
