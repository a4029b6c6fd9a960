package outlook

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	ondisk "github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/presamplers"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// unreadRows is a column of this number of rows, whose memory is never read.
func unreadRows(t *testing.T, rows, width int64) *placed.Column {
	t.Helper()
	x := expect.Must(unified.New(unified.Uint8, expect.Unread(t, rows*width), rows, width))(t)
	return &placed.Column{Store: expect.Must(gather.NewStore(x))(t)}
}

// An outlook of a share looks as far ahead as the window of all would.
func TestAnOutlookOfAShareLooksAsFarAhead(t *testing.T) {
	const one, width = 20_000, 64
	c := unreadRows(t, 1<<24, width)
	layout := diskio.Layout{RowBytes: width, Rows: 4000, Shape: disk.Shape{Page: 4096, Most: 1 << 16, Sector: 4096}}
	r := rand.New(rand.NewPCG(1, 2))
	var asks [][]uint32
	for i := range 40 {
		var rows []uint32
		for len(rows) < 13 || i < 4 && len(rows) < 14 { // 524 in all
			if row := uint32(r.IntN(4000)); !slices.Contains(rows, row) {
				rows = append(rows, row)
			}
		}
		asks = append(asks, rows)
	}
	const ahead = 1<<20/(524*one/40) + 1 // one more row, and it would be less
	tr := &rowTrace{Kit: &presamplers.Kit{Recipe: &recipe.Recipe{Batches: 20}},
		disk:    ondisk.Options{Lookahead: 64, CacheBytes: 5},
		columns: []*placed.Column{c}, Bytes: 1 << 30, layouts: map[*placed.Column]diskio.Layout{c: layout},
		One: one, asks: map[*placed.Column][][]uint32{c: asks}}
	got := expect.Must(tr.simulateOne(one*width*50, disk.Ahead))(t)
	want, err := diskio.Simulate(disk.Ahead, layout, diskio.PlannerOptions{Slots: 50, Lookahead: ahead,
		Along: 4 << 20 / width / one}, asks, 20)
	want = want.Times(one)
	expect.That(t, err == nil && got.Misses == want.Misses && got.Requests == want.Requests && got.Batches == 20,
		"%+v, want %+v: %v", got, want, err)
}

// A trace has the rows of two epochs, batch by batch; packing it keeps neighbours, and makes no others.
func TestATraceIsPackedWithoutNewNeighbours(t *testing.T) {
	var e graph.EdgeData
	for i := range int64(35) {
		e.Src, e.Dst = append(e.Src, (i+1)%35), append(e.Dst, i)
	}
	g := expect.Must(graph.New(graph.Data{Nodes: []graph.NodeData{{Count: 35}}, Edges: []graph.EdgeData{e}}))(t)
	seeds := expect.Must(seedlist.New(graph.AllNodes(g.Schema(), 0), g, "", ""))(t)
	r := expect.Must(recipe.New(recipe.Spec{Graph: g, Sampler: sampling.Neighbor{Fanouts: []int{2}}, Seeds: seeds,
		BatchSize: 10,
		Progress:  func(string, int64, int64) {}}))(t)
	c := unreadRows(t, 35, 64)
	tr := &rowTrace{Kit: &presamplers.Kit{Recipe: r}, workers: 2, columns: []*placed.Column{c}}
	err := tr.Sample(t.Context())
	expect.Ensure(t, err == nil && tr.CloseShared() == nil, "%v", err)
	expect.That(t, len(tr.asks[c]) == 8 && tr.One == 1 && tr.sampled == 8, "%d batches, one of %d", len(tr.asks[c]),
		tr.One)
	tr.asks[c] = [][]uint32{{9000, 9001, 500}, {1024 * 3, 501, 9001}, nil}
	rows := tr.pack(c)
	expect.That(t, c.Together() == 1024 && rows == 2*3*1024, "places of %d rows, %d in all", c.Together(), rows)
	expect.Same(t, tr.asks[c],
		[][]uint32{{9000 - 8*1024, 9001 - 8*1024, 2*1024 + 500}, {4 * 1024, 2*1024 + 501, 9001 - 8*1024}, nil})
	one := unreadRows(t, 4, 1<<20)
	expect.That(t, one.Together() == 1, "%d rows of a megabyte are neighbours", one.Together())
}
