package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/plot"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// deepInfo is what reading all arrays tells of a dataset.
type deepInfo struct {
	*formats.Inspection
	Hints  []string       `json:"hints"`
	Memory []trainingRoom `json:"training_memory"`
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
	for _, h := range d.Hints {
		fmt.Fprintln(env.stdout, "hint: "+h)
	}
	return nil
}

// degrees draws how many nodes have how many in-edges.
func (r *infoResult) degrees() *plot.Plot {
	line := plot.Curve{Name: "nodes"}
	p := &plot.Plot{Title: "in-edges of nodes: " + r.Dataset, Bottom: "in-edges, at least", Right: "nodes, log10"}
	for i, b := range r.Degrees {
		p.Ticks = append(p.Ticks, plot.Tick{At: float64(i), Label: strconv.FormatInt(b.From, 10)})
		if b.Nodes > 0 {
			line.Add(float64(i), math.Log10(float64(b.Nodes)))
		}
	}
	p.Curves = []plot.Curve{line}
	return p
}
