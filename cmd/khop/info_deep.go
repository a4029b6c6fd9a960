package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/inspect"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/renumber"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// deepInfo is what reading all arrays tells of a dataset.
type deepInfo struct {
	*inspect.Result
	Times  []timesInfo    `json:"times"`
	Hints  []string       `json:"hints"`
	Memory []trainingRoom `json:"training_memory"`
	Order  *orderInfo     `json:"order"` // null: of several node types, or without edges
}

// trainingRoom is the memory that loading takes on a device, beside the trainer's own.
type trainingRoom struct {
	Device    string `json:"device"`
	Graph     int64  `json:"graph_bytes"` // of all of the graph's structure
	Columns   int64  `json:"column_bytes"`
	Expected  int64  `json:"batches_expected"` // of the batches that are made and waiting
	Bound     int64  `json:"batches_bound"`
	BatchSize int    `json:"batch_size"`
	Fanouts   []int  `json:"fanouts"`
}

// timesInfo counts the rows of a column of times, in parts of the time from its first to its last that are as long.
type timesInfo struct {
	Owner  string  `json:"owner"` // a node type, or "edges"
	Column string  `json:"column"`
	Unit   string  `json:"unit"` // "": not known
	First  float64 `json:"first"`
	Last   float64 `json:"last"`
	Rows   []int64 `json:"rows"`
}

// timesOf counts the rows of all columns of times.
func timesOf(ctx context.Context, g *graph.Graph) (list []timesInfo, err error) {
	list = []timesInfo{}
	add := func(owner string, columns []graph.Column, get func(name string) (unified.Tensor, bool)) {
		for _, c := range columns {
			column, ok := get(c.Name)
			if c.Role() != graph.Time || !ok || err != nil {
				continue
			}
			if at, e := unified.Integers(column); e == nil {
				of := timesInfo{Owner: owner, Column: c.Name, Unit: c.Unit}
				if of, ok = countTimes(of, column.Len(), at); ok {
					list = append(list, of)
				}
			}
			err = context.Cause(ctx)
		}
	}
	guarded := pinned.Guard(func() error {
		for t, n := range g.Schema().Nodes {
			add(n.Name, n.Columns, func(name string) (unified.Tensor, bool) { return g.NodeColumn(t, name) })
		}
		add("edges", g.Schema().EdgeColumns, g.EdgeColumn)
		return err
	})
	return list, guarded
}

// countTimes counts those of n times that are not missing; not ok where all are.
func countTimes(c timesInfo, n int64, at func(i int64) int64) (_ timesInfo, ok bool) {
	const missing, parts = math.MinInt64, 40 // docs/format.md says what is stored for a missing time
	first, last := int64(math.MaxInt64), int64(missing)
	for i := range n {
		if v := at(i); v != missing {
			first, last = min(first, v), max(last, v)
		}
	}
	c.First, c.Last, c.Rows = float64(first), float64(last), make([]int64, parts)
	for i := range n {
		if v := at(i); v != missing {
			part := (float64(v) - c.First) / max(c.Last-c.First, 1) * parts
			c.Rows[min(int(part), parts-1)]++
		}
	}
	return c, first <= last
}

// inspected reads all arrays.
func inspected(env *environment, ds *formats.Dataset) (*inspect.Result, error) {
	found, _, err := watched(env, func(bar *progress) (*inspect.Result, error) {
		return inspect.Dataset(env.ctx, ds, bar.report())
	})
	return found, err
}

// lookDeep says what all arrays tell.
func lookDeep(env *environment, ds *formats.Dataset) (*deepInfo, error) {
	found, err := inspected(env, ds)
	if err != nil {
		return nil, err
	}
	d := &deepInfo{Result: found, Hints: found.Hints()}
	if d.Times, err = timesOf(env.ctx, ds.Graph()); err != nil {
		return nil, err
	}
	room := trainingRoom{BatchSize: 1024, Fanouts: []int{15, 10, 5}}
	for _, a := range ds.Manifest().Columns {
		for _, p := range a.Parts {
			if a.Owner == formats.OwnerGraph {
				room.Graph += p.Bytes
			} else {
				room.Columns += p.Bytes
			}
		}
	}
	if ds.Graph().NumNodes() == 0 {
		return d, nil
	}
	if d.Order, err = adviseOrder(env, ds); err != nil {
		return nil, err
	}
	for _, device := range []string{"cpu", "cuda:0"} {
		e, err := loader.Plan(env.ctx, ds, loader.Options{Sampler: sampling.Neighbor{Fanouts: room.Fanouts},
			Device: loader.DeviceOptions{Name: device}})
		if device != "cpu" && err != nil {
			continue // there is none
		}
		if err != nil {
			return nil, err
		}
		room.Device, room.Expected, room.Bound = device, e.Expected.Total(), e.Bound.Total()
		if device != "cpu" {
			room.Expected, room.Bound = e.Device.Total(), e.DeviceBound.Total()
		}
		d.Memory = append(d.Memory, room)
	}
	return d, nil
}

// print draws the degrees, and lists the rest.
func (d *deepInfo) print(env *environment) error {
	const width = 40
	most := int64(1)
	for _, b := range d.Degrees {
		most = max(most, b.Nodes)
	}
	fmt.Fprintln(env.stdout, "\nin-edges      nodes")
	for _, b := range d.Degrees {
		name := strconv.FormatInt(b.From, 10)
		if b.To > b.From {
			name += fmt.Sprintf("-%d", b.To)
		}
		bar := strings.Repeat("#", int(math.Ceil(width*float64(b.Nodes)/float64(most))))
		fmt.Fprintf(env.stdout, "%-13s %-*s %s\n", name, width, bar, humanize.Comma(b.Nodes))
	}
	fmt.Fprintln(env.stdout)
	for _, m := range d.Memory {
		fmt.Fprintf(env.stdout, "memory on %s: graph %s, columns %s, read where they lie or copied; batches of %d "+
			"seeds with fan-outs %v: %s, at most %s\n", m.Device, machine.Bytes(m.Graph), machine.Bytes(m.Columns),
			m.BatchSize, m.Fanouts, machine.Bytes(m.Expected), machine.Bytes(m.Bound))
	}
	if d.Order != nil {
		fmt.Fprintln(env.stdout, "order: "+d.Order.String())
	}
	for _, h := range d.Hints {
		fmt.Fprintln(env.stdout, "hint: "+h)
	}
	return nil
}

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
