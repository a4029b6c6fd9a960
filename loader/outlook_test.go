package loader_test

import (
	"slices"
	"testing"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/outlook"
)

// TestAnOutlookCountsWhatEpochsAskFor compares with the rows of batches, and policies with one another.
func TestAnOutlookCountsWhatEpochsAskFor(t *testing.T) {
	g := wideRows(t)
	opt := onDiskOptions
	opt.Columns.Nodes, opt.Columns.Seeds, opt.Disk.CacheBytes = []string{"feature"}, []string{}, 9001
	o := expect.Must(outlook.Look(background, g, opt))(t)
	l, asked := open(t, g, opt), int64(0)
	for epoch := range uint64(2) {
		for b, err := range l.Epoch(background, epoch) {
			expect.OK(t, err)
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
