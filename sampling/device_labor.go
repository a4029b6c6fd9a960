package sampling

import (
	"errors"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
)

var _ DeviceSampler = Labor{}

// deviceLabor picks for Labor on a device: labor.cu says how many edges a destination takes, and which.
type deviceLabor struct {
	device  *device.Device
	kernels *laborKernels
	all     *neighborKernels // for fan-outs that take every edge; nil without such
	graph   *graph.Graph
	fanouts hopFanouts
	opt     Labor
}

var sharedLaborKernels device.PerDevice[*laborKernels]

func (l Labor) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	s := env.Graph.Schema()
	if err := l.validate(s); err != nil {
		return nil, err
	}
	p, err := newHopFanouts(s, l.Fanouts, l.PerType)
	if err != nil {
		return nil, err
	}
	d := &deviceLabor{device: env.Device, graph: env.Graph, fanouts: p, opt: l}
	if d.kernels, err = sharedLaborKernels.Hold(env.Device, loadLaborKernels); err != nil {
		return nil, err
	}
	if p.takesAll() {
		if d.all, err = sharedNeighborKernels.Hold(env.Device, loadNeighborKernels); err != nil {
			return nil, errors.Join(err, d.close())
		}
	}
	return openDeviceAssembly(env, d, deviceOptions{frontier: l.Frontier, excludes: true,
		bound: l.bound(s, env.BatchSize)})
}

// takesAll reports whether some fan-out takes every edge.
func (p hopFanouts) takesAll() bool {
	for _, fanouts := range p {
		for _, k := range fanouts {
			if k == All {
				return true
			}
		}
	}
	return false
}

func (d *deviceLabor) close() (err error) {
	if d.all != nil {
		err = sharedNeighborKernels.LetGo(d.device)
	}
	return errors.Join(err, sharedLaborKernels.LetGo(d.device))
}

func (d *deviceLabor) needs() deviceNeeds { return deviceNeeds{eligible: true, least: true} }

func (d *deviceLabor) describe(seg *deviceSegment, r Rand, hop, edgeType int) {
	s := d.graph.Schema()
	src := s.Edges[edgeType].Src
	seg.fanout = int64(d.fanouts[hop][edgeType])
	v := d.opt.variates(r, s.Nodes[src].Key, hop, d.graph.Offset(src))
	if seg.key = v.key; v.many {
		seg.next, seg.phases, seg.turn = v.next, v.phases, v.turn
	}
}

func (d *deviceLabor) count(l *deviceLaunch) error {
	if err := l.measure(); err != nil {
		return err
	}
	return d.kernels.laborCount.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, d.step(l))
}

func (d *deviceLabor) pick(l *deviceLaunch) error {
	err := d.kernels.laborLeast.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, d.step(l))
	if err != nil {
		return err
	}
	err = d.kernels.laborPick.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, d.step(l))
	if err != nil || d.all == nil {
		return err
	}
	step := deviceNeighborStep{at: l.step}
	return d.all.neighborExpand.Launch(l.stream, l.grid(l.words), l.block(), 0, step)
}

func (d *deviceLabor) step(l *deviceLaunch) deviceLaborStep {
	return deviceLaborStep{at: l.step, poisson: bit(d.opt.Poisson)}
}
