//go:build !race

package loader_test

import (
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// held opens a loader and returns what it holds.
func held(t *testing.T, g *graph.Graph, opt loader.Options) loader.Memory {
	t.Helper()
	opt.Workers, opt.Tuning.Prefetch = 1, 1
	return open(t, g, opt).Stats().Memory
}

// TestGoHeapOfALoaderIsInItsMemory compares pairs of loaders of which one needs more of the Go heap.
func TestGoHeapOfALoaderIsInItsMemory(t *testing.T) {
	const users, slots = 200_000, 2
	g := graphs.Typed(t, users, 1000)
	edges, nothing := g.NumEdges(), sampling.Neighbor{Fanouts: []int{0}}
	links := loader.Options{Sampler: nothing, BatchSize: 1000, Seeds: loader.AllEdges("rates")}
	negatives := links
	negatives.Links.Negatives = sampling.Negatives{Ratio: 100, Law: sampling.InBatch}
	excluded := negatives
	excluded.Links.ExcludeSeeds = loader.ExcludeSeeds
	every := links
	every.Seeds = loader.AllEdges()
	clusters := loader.Options{Sampler: sampling.Cluster{}}
	given, _ := expect.Must2(graph.StreamPartition(t.Context(), g, graph.PartitionOptions{Parts: 200}))(t)
	own := loader.Options{Sampler: sampling.Cluster{Partition: given}}
	plain := loader.Options{Sampler: neighbor, BatchSize: 1000, Seeds: loader.AllNodes(),
		Columns: loader.ColumnOptions{Prepare: loader.Transpose}}
	norm := plain
	norm.Columns.Prepare |= loader.GCNNorm
	for name, c := range map[string]struct {
		less, more       loader.Options
		batches, scratch int64 // what the second holds beyond the first at least
	}{
		"lists of negatives":      {links, negatives, slots * 1000 * 100 * 36, 0},
		"edges that are left out": {negatives, excluded, slots * 1000 * 16, 0},
		"index of an edge type":   {every, links, 0, edges / 512 * 8},
		"partition":               {own, clusters, 0, g.NumNodes() * 8},
		"degrees":                 {plain, norm, 0, 4 * 1000},
	} {
		less, more := held(t, g, c.less), held(t, g, c.more)
		d := more.Batches - less.Batches
		expect.That(t, c.batches <= 0 || d >= c.batches, "%s: %d bytes more of batches, want %d", name, d, c.batches)
		d = more.Scratch - less.Scratch
		expect.That(t, c.scratch <= 0 || d >= c.scratch, "%s: %d bytes more of scratch, want %d", name, d, c.scratch)
		c.more.Workers, c.more.Tuning.Prefetch, c.more.Device.Name = 1, 1, "cpu"
		e := expect.Must(loader.Plan(t.Context(), g, c.more))(t)
		if h := more.Total(); e.Expected.Total() < h*9/10 || e.Expected.Total() > h*5/4 {
			t.Errorf("%s: %d bytes are expected, %d held", name, e.Expected.Total(), h)
		}
		if c.more.MaxMemory = e.Bound.Total() + 64<<10; open(t, g, c.more).Stats().MemoryPeak > c.more.MaxMemory {
			t.Errorf("%s: more than MaxMemory %d is held", name, c.more.MaxMemory)
		}
	}
}
