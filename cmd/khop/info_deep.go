package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// deepInfo is what reading all arrays tells of a dataset.
type deepInfo struct {
	*formats.Inspection
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

// inspect reads all arrays.
func inspect(env *environment, ds *formats.Dataset) (*formats.Inspection, error) {
	found, _, err := watched(env, func(bar *progress) (*formats.Inspection, error) {
		return ds.Inspect(env.ctx, bar.report())
	})
	return found, err
}

// lookDeep says what all arrays tell.
func lookDeep(env *environment, ds *formats.Dataset) (*deepInfo, error) {
	found, err := inspect(env, ds)
	if err != nil {
		return nil, err
	}
	d := &deepInfo{Inspection: found, Hints: found.Hints()}
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
