package loader

import (
	"os"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// A slot that is only sampled into has no rows of columns.
func TestASlotWithoutColumnsIsCountedByPages(t *testing.T) {
	opt := Options{Sampler: sampling.Neighbor{Fanouts: []int{2}}, BatchSize: 600,
		Columns: ColumnOptions{EdgePos: true}, Device: DeviceOptions{Name: "cpu"}}
	r := expect.Must(bake(ring(t, 5000), expect.Must(ask(opt))(t)))(t)
	page := func(n int64) int64 { return (n + 4095) / 4096 * 4096 }
	// nodes, seeds as they are in the batch and as they were asked for, indptr, indices, positions
	want := page((1800+1024)*4) + page(600*4) + page(600*8) + page(1801*4) + 2*page(1200*4)
	got := r.WithoutColumns()
	expect.That(t, os.Getpagesize() != 4096 || got == want, "%d bytes, want %d", got, want)
	r.Arrays = append(r.Arrays, layout.Array{Kind: layout.NodeColumn, DType: unified.Float32, Most: 1 << 20})
	r.Arrays = append(r.Arrays, layout.Array{Kind: layout.Indices, DType: unified.Int32, Most: 1 << 61})
	got = r.WithoutColumns()
	expect.That(t, os.Getpagesize() != 4096 || got == want+1<<60, "%d bytes, want %d", got, want+1<<60)
}
