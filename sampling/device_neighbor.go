package sampling

import (
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/device"
)

var _ PartlyOnDevice = Neighbor{}

// deviceNeighbor picks for Neighbor on a device: neighbor.cu says how many edges a destination takes, and which.
type deviceNeighbor struct {
	device  *device.Device
	kernels *neighborKernels
	keys    []uint64 // of the edge types
	fanouts hopFanouts
	replace bool
	has     struct{ all, large bool } // fan-outs that take every edge, or more than a warp has lanes
}

var sharedNeighborKernels device.PerDevice[*neighborKernels]

func (n Neighbor) OnDevice() error {
	if n.Direction != In || n.Induced {
		return fmt.Errorf("%w: edges that lead out of nodes, and all edges between nodes, are for the CPU", ErrOptions)
	}
	if n.Together {
		return fmt.Errorf("%w: a fan-out over all edge types together is for the CPU", ErrOptions)
	}
	return nil
}

func (n Neighbor) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	s := env.Graph.Schema()
	n.Time = n.Time.of(s)
	if err := errors.Join(n.validate(s), n.OnDevice()); err != nil {
		return nil, err
	}
	p, err := newHopFanouts(s, n.Fanouts, n.PerType)
	if err != nil {
		return nil, err
	}
	if n.chooses() {
		return openDeviceChoose(n, env, p)
	}
	d := &deviceNeighbor{device: env.Device, fanouts: p, replace: n.Replace}
	for e := range s.Edges {
		d.keys = append(d.keys, s.Edges[e].Key)
	}
	for _, fanouts := range p {
		for _, k := range fanouts {
			d.has.all = d.has.all || k == All
			d.has.large = d.has.large || k > 32 && !n.Replace
		}
	}
	if d.kernels, err = sharedNeighborKernels.Hold(env.Device, loadNeighborKernels); err != nil {
		return nil, err
	}
	return openDeviceAssembly(env, d, deviceOptions{frontier: n.Frontier, disjoint: n.Disjoint, bound: n.bound(s,
		env.BatchSize)})
}

func (d *deviceNeighbor) close() error { return sharedNeighborKernels.LetGo(d.device) }

func (d *deviceNeighbor) needs() deviceNeeds { return deviceNeeds{cells: d.has.large} }

func (d *deviceNeighbor) describe(seg *deviceSegment, r Rand, hop, edgeType int) {
	seg.fanout = int64(d.fanouts[hop][edgeType])
	seg.key = r.Stage(d.keys[edgeType], PurposePick, uint8(hop)).key
}

func (d *deviceNeighbor) count(l *deviceLaunch) error {
	return d.kernels.neighborCount.Launch(l.stream, l.grid(l.runs), l.block(), 0, d.step(l))
}

func (d *deviceNeighbor) pick(l *deviceLaunch) error {
	err := d.kernels.neighborPick.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, d.step(l))
	if err != nil || !d.has.all {
		return err
	}
	return d.kernels.neighborExpand.Launch(l.stream, l.grid(l.words), l.block(), 0, d.step(l))
}

func (d *deviceNeighbor) step(l *deviceLaunch) deviceNeighborStep {
	return deviceNeighborStep{at: l.step, replace: bit(d.replace)}
}
