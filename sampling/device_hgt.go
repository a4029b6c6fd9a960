package sampling

import (
	"slices"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
)

var _ = []DeviceSampler{HGT{}, Ladies{}}

var sharedHGTKernels device.PerDevice[*hgtKernels]

// deviceHGT draws nodes for HGT on a device: hgt.cu.
type deviceHGT struct {
	kernels *hgtKernels
	sorter  deviceSort
	schema  *graph.Schema
	fanouts hopFanouts
}

// OpenDevice implements DeviceSampler.
func (k HGT) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	s := env.Graph.Schema()
	rules, err := k.check(s)
	if err != nil {
		return nil, err
	}
	p := rules.hops
	o := openOn(env)
	d := &deviceHGT{schema: s, fanouts: p, kernels: hold(o, &sharedHGTKernels, loadHgtKernels),
		sorter: deviceSort{kernels: hold(o, &sharedSortKernels, loadSortKernels)}}
	opt := deviceOptions{frontier: NewNodes, bound: rules.bound(s, env.BatchSize), placer: d, mixes: true,
		rawFault: true}
	all := make(hopFanouts, len(p))
	for h := range p {
		all[h] = slices.Repeat([]int{All}, len(s.Nodes))
		opt.stages = append(opt.stages, stageReach, stagePlace)
	}
	opt.stages = append(opt.stages, stageInduce)
	opt.reacher = newDeviceNeighbor(o, allEdgesOf(s), all, false)
	return o.worker(nil, opt)
}

// cells returns the edges that all hops can list: each may lead to a node that is drawn.
func (d *deviceHGT) cells(c *deviceCapacity, _ int64) int64 {
	d.sorter.room = 0
	for h := range d.fanouts {
		d.sorter.room += c.picks(2 * h)
	}
	return d.sorter.room
}

// hoard returns the cells of what hgt.cu sorts, and of the bound and the bins of each type.
func (d *deviceHGT) hoard(*deviceCapacity) int64 {
	return sortCells(d.sorter.room, 7) + int64(len(d.schema.Nodes))*(2+2048)
}

func (d *deviceHGT) ownBytes() int64 {
	return int64(len(d.fanouts)*len(d.schema.Nodes))*int64(unsafe.Sizeof(deviceHgtRace{})) +
		8*int64(len(d.schema.Edges))
}

func (d *deviceHGT) own(r Rand, _ *graph.Sample, to []byte) {
	nt := len(d.schema.Nodes)
	races := part[deviceHgtRace](to, 0, len(d.fanouts)*nt)
	for i := range races {
		races[i] = deviceHgtRace{nodes: int64(d.fanouts[i/nt][i%nt]),
			key: r.Stage(d.schema.Nodes[i%nt].Key, purposeBudget, uint8(i/nt)).key}
	}
	sources := part[int64](to, int64(len(races))*int64(unsafe.Sizeof(deviceHgtRace{})), len(d.schema.Edges))
	for e := range sources {
		sources[e] = int64(d.schema.Edges[e].Src)
	}
}

func (d *deviceHGT) place(l *deviceLaunch) {
	races := int64(len(d.schema.Nodes)) * int64(unsafe.Sizeof(deviceHgtRace{}))
	step := deviceHgtStep{at: l.step, races: l.own + device.Address(int64(l.hop)*races),
		sources: l.own + device.Address(int64(len(d.fanouts))*races), numEdgeTypes: int64(len(d.schema.Edges)),
		room: d.sorter.room}
	k, words := d.kernels, d.sorter.room/32
	put(l, k.hgtGive, l.reached, step)
	step.from = d.sorter.sort(l, keyBits(d.schema.NumNodes()), 0, 3, 5)
	step.to = 8 - step.from // of 3 and 5 the other
	kernel := k.hgtRace
	for step.shift = 55; step.shift >= 0; step.shift -= 11 {
		put(l, kernel, words, step)
		putOne(l, k.hgtBound, step)
		kernel = k.hgtCount
	}
	put(l, k.hgtPlace, words, step)
}
