//go:build !race

package loader_test

import (
	"syscall"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// A batch that takes its memory from the system pays for each page: New must have touched it all before.
func TestTheFirstBatchesFindTheirMemoryThere(t *testing.T) {
	g := graphs.Plain(t, 50000, 8)
	l := open(t, g, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{8, 8, 8}}, BatchSize: 500, Shuffle: true,
		Workers:   2,
		Residence: loader.Resident, Columns: loader.ColumnOptions{Nodes: []string{"feature", "label"}}})
	faults := func() int64 {
		var u syscall.Rusage
		expect.OK(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Minflt
	}
	var taken []int64
	last := faults()
	bytes := int64(0)
	for b := range each(t, l.Range(background, 1, 0, 20)) {
		bytes += int64(len(b.X().Bytes())) + b.Sample.NumEdges()*4
		now := faults()
		taken = append(taken, now-last)
		last = now
	}
	// those of Go itself, on a machine that is busy, are some dozens
	expect.That(t, taken[0]+taken[1]+taken[2]+taken[3] <= 300,
		"page faults by batch %v, for %d pages of results a batch", taken, bytes/20/4096)
}
