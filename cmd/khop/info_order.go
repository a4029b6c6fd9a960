package main

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/renumber"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// orderInfo is which order of nodes --reorder of "khop convert" should give, by a model of caches and pages
// (docs/results/disk.md): what batches ask for in the order that is there, and in others.
type orderInfo struct {
	Recommended string      `json:"recommended"` // "no": that which is there
	Near        bool        `json:"near"`        // orders by neighbours were looked at
	BatchSize   int         `json:"batch_size"`
	Fanouts     []int       `json:"fanouts"`
	RowBytes    int64       `json:"row_bytes"`
	Now         orderCost   `json:"now"`
	Tried       []orderCost `json:"tried"`
}

// orderCost is what a batch asks for in an order, in the mean.
type orderCost struct {
	Order   string  `json:"order"`
	Misses  int64   `json:"lines_missed"` // of sources, local ids and rows
	Pages   int64   `json:"pages"`        // of 4 KiB, of rows
	Seconds float64 `json:"seconds"`      // to find it here, besides converting; 0: it is there
}

// orderedBatches are how many batches are looked at, and usualRow the bytes of a row where nodes have no columns.
// Orders by neighbours are looked at in graphs of at most mostNear edges: they take seconds then.
const (
	orderedBatches = 4
	usualRow       = 400
	mostNear       = 32 << 20
)

// adviseOrder looks at batches of a graph with one node type; nil for others, and for graphs without edges.
func adviseOrder(env *environment, ds *formats.Dataset) (r *orderInfo, err error) {
	g := ds.Graph()
	n, fanouts := g.NumNodes(), []int{15, 10, 5}
	if len(g.Schema().Nodes) != 1 || g.NumEdges() == 0 || n > math.MaxUint32 {
		return nil, nil
	}
	r = &orderInfo{Fanouts: fanouts, BatchSize: int(min(max(n/256, 16), 1024)), RowBytes: rowBytesOf(g)}
	batches, err := sampledBatches(env, ds, loader.Options{Sampler: sampling.Neighbor{Fanouts: fanouts,
		Frontier: sampling.AllNodes}, BatchSize: r.BatchSize, Workers: 1, Seeds: loader.AllNodes(), Shuffle: true,
		Columns: loader.ColumnOptions{Nodes: []string{}, Seeds: []string{}, EdgePos: true},
		Device:  loader.DeviceOptions{Name: "cpu"}})
	if err != nil {
		return nil, err
	}
	near := g.NumEdges() <= mostNear && renumber.CommunityBytes(n, g.NumEdges()) < machine.Probe().Room()/4
	advise := advised[int64]
	if g.Indices().DType() == unified.Int32 {
		advise = advised[int32]
	}
	advice, err := advise(env, g, renumber.Usual(r.RowBytes), batches, near)
	if err != nil {
		return nil, err
	}
	r.Recommended, r.Near, r.Now = advice.Order, near, costOf("no", advice.Now, 0)
	for _, t := range advice.Tried {
		r.Tried = append(r.Tried, costOf(t.Order, t.Counts, t.Seconds))
	}
	return r, nil
}

// advised compares orders of a graph whose ids have a type.
func advised[I interface {
	unified.Element
	renumber.ID
}](env *environment, g *graph.Graph, m renumber.Model, batches []*renumber.Batch, near bool) (*renumber.Advice, error) {
	ids, err := unified.View[I](g.Indices())
	if err != nil {
		return nil, err
	}
	return renumber.Advise(env.ctx, m, &renumber.Adjacency[I]{Indptr: g.Indptr(), Indices: ids}, batches, near)
}

func costOf(order string, c renumber.Counts, seconds float64) orderCost {
	return orderCost{order, c.Misses(), c.Pages, seconds}
}

// rowBytesOf returns the bytes of a node's columns that have several numbers a row.
func rowBytesOf(g *graph.Graph) (bytes int64) {
	for _, c := range g.Schema().Nodes[0].Columns {
		if len(c.Shape) > 0 {
			bytes += c.RowBytes()
		}
	}
	if bytes == 0 {
		return usualRow
	}
	return bytes
}

// sampledBatches samples some batches.
func sampledBatches(env *environment, ds *formats.Dataset, opt loader.Options) (list []*renumber.Batch, err error) {
	l, err := loader.New(ds, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for b, err := range l.Epoch(env.ctx, 0) {
		if err != nil {
			return nil, err
		}
		moved("batches", int64(b.Number), int64(l.AllBatches()))
		of := renumber.NewBatch(b.Sample.Nodes[0])
		for _, blocks := range slices.Backward(b.Sample.Blocks) {
			of.Add(blocks[0].Indptr, blocks[0].Indices, blocks[0].EdgePos)
		}
		if list = append(list, of); len(list) == orderedBatches {
			break
		}
	}
	return list, nil
}

// String says what is recommended.
func (r *orderInfo) String() string {
	more := ""
	if !r.Near {
		more = fmt.Sprintf("; rcm and community were not tried: they take at most %s edges, and memory for them",
			humanize.Comma(mostNear))
	}
	for _, t := range r.Tried {
		if t.Order == r.Recommended {
			return fmt.Sprintf("khop convert --reorder %s: a batch is expected to miss %.0f %% fewer lines of memory, "+
				"and to ask a disk for %.0f %% fewer pages; finding the order took %.1f s, besides converting", t.Order,
				100*spared(t.Misses, r.Now.Misses), 100*spared(t.Pages, r.Now.Pages), t.Seconds) + more
		}
	}
	return "leave it as it is: no other order spares much" + more
}

// spared is the share that is spared where now becomes then.
func spared(then, now int64) float64 { return 1 - float64(then)/float64(max(now, 1)) }
