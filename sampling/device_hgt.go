package sampling

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
)

var _ = []DeviceSampler{HGT{}, Ladies{}}

var sharedHGTKernels device.PerDevice[*hgtKernels]

// deviceHGT draws nodes for HGT on a device: hgt.cu.
type deviceHGT struct {
	on      *device.Device
	kernels *hgtKernels
	sorter  deviceSort
	schema  *graph.Schema
	fanouts hopFanouts
	of      *deviceAssembly
}

// OpenDevice implements DeviceSampler.
func (k HGT) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	s := env.Graph.Schema()
	p, err := k.fanouts(s)
	if err != nil {
		return nil, err
	}
	d := &deviceHGT{on: env.Device, schema: s, fanouts: p}
	opt := deviceOptions{frontier: NewNodes, bound: k.bound(s, env.BatchSize), placer: d, mixes: true, rawFault: true}
	all := make(hopFanouts, len(p))
	for h := range p {
		all[h] = slices.Repeat([]int{All}, len(s.Nodes))
		opt.stages = append(opt.stages, stageReach, stagePlace)
	}
	opt.stages = append(opt.stages, stageInduce)
	if d.kernels, err = sharedHGTKernels.Hold(env.Device, loadHgtKernels); err != nil {
		return nil, err
	}
	if d.sorter.kernels, err = sharedSortKernels.Hold(env.Device, loadSortKernels); err == nil {
		opt.reacher, err = newDeviceNeighbor(&env, allEdgesOf(s), all, false)
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	w, err := openDeviceAssembly(env, nil, opt)
	if err == nil {
		d.of = w.(*deviceAssembly)
	}
	return w, err
}

func (d *deviceHGT) close() error {
	err := sharedHGTKernels.LetGo(d.on)
	if d.sorter.kernels != nil {
		err = errors.Join(err, sharedSortKernels.LetGo(d.on))
	}
	return err
}

// cells returns the edges that all hops can list: each may lead to a node that is drawn.
func (d *deviceHGT) cells(int64) int64 {
	d.sorter.room = 0
	for h := range d.fanouts {
		d.sorter.room += d.of.capacity.picks(2 * h)
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

func (d *deviceHGT) place(l *deviceLaunch) (err error) {
	races := int64(len(d.schema.Nodes)) * int64(unsafe.Sizeof(deviceHgtRace{}))
	step := deviceHgtStep{at: l.step, races: l.own + device.Address(int64(l.hop)*races),
		sources: l.own + device.Address(int64(len(d.fanouts))*races), numEdgeTypes: int64(len(d.schema.Edges)),
		room: d.sorter.room}
	k, grid := d.kernels, l.grid(d.sorter.room/32)
	if err := k.hgtGive.Launch(l.stream, l.grid(l.reached), l.block(), 0, step); err != nil {
		return err
	}
	if step.from, err = d.sorter.sort(l, keyBits(d.schema.NumNodes()), 0, 3, 5); err != nil {
		return err
	}
	step.to = 8 - step.from // of 3 and 5 the other
	kernel := k.hgtRace
	for step.shift = 55; step.shift >= 0; step.shift -= 11 {
		if err := kernel.Launch(l.stream, grid, l.block(), 0, step); err != nil {
			return err
		}
		if err := k.hgtBound.Launch(l.stream, 1, deviceSpine, 0, step); err != nil {
			return err
		}
		kernel = k.hgtCount
	}
	return k.hgtPlace.Launch(l.stream, grid, l.block(), 0, step)
}
