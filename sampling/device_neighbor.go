package sampling

import (
	"errors"
	"fmt"
	"slices"

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
	mixed   *togetherKernels          // in place of kernels, where fan-outs are over all edge types
	has     struct{ all, large bool } // fan-outs that take every edge, or more than a warp has lanes
}

var (
	sharedNeighborKernels device.PerDevice[*neighborKernels]
	sharedTogetherKernels device.PerDevice[*togetherKernels]
)

func (n Neighbor) OnDevice() error {
	if n.Together && (n.chooses() || slices.ContainsFunc(n.Fanouts, func(k int) bool { return k > 32 })) {
		return fmt.Errorf("%w: a fan-out over all edge types together is for the CPU where it is above 32, and with "+
			"weights, a mask, a share, or times", ErrOptions)
	}
	return nil
}

func (n Neighbor) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	s := env.Graph.Schema()
	n.Time = n.Time.of(s)
	if n.Direction != In {
		return openDevicePrepared(n, env)
	}
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
		if n.Together {
			d.keys[e] = s.Nodes[s.Edges[e].Dst].Key
		}
	}
	for _, fanouts := range p {
		for _, k := range fanouts {
			d.has.all = d.has.all || k == All
			d.has.large = d.has.large || k > 32 && !n.Replace
		}
	}
	if n.Together {
		d.mixed, err = sharedTogetherKernels.Hold(env.Device, loadTogetherKernels)
	} else {
		d.kernels, err = sharedNeighborKernels.Hold(env.Device, loadNeighborKernels)
	}
	if err != nil {
		return nil, err
	}
	opt := deviceOptions{frontier: n.Frontier, disjoint: n.Disjoint, excludes: !n.Together,
		bound: n.bound(s, env.BatchSize)}
	return openDeviceAssembly(env, d, opt.induced(n, s, env.BatchSize))
}

func (d *deviceNeighbor) close() error {
	if d.mixed != nil {
		return sharedTogetherKernels.LetGo(d.device)
	}
	return sharedNeighborKernels.LetGo(d.device)
}

func (d *deviceNeighbor) needs() deviceNeeds {
	return deviceNeeds{cells: d.has.large, eligible: d.mixed != nil}
}

func (d *deviceNeighbor) describe(seg *deviceSegment, r Rand, hop, edgeType int) {
	seg.fanout = int64(d.fanouts[hop][edgeType])
	seg.key = r.Stage(d.keys[edgeType], PurposePick, uint8(hop)).key
}

func (d *deviceNeighbor) count(l *deviceLaunch) error {
	if d.mixed != nil {
		if err := l.measure(); err != nil {
			return err
		}
		return d.mixed.togetherCount.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, d.mix(l))
	}
	return d.kernels.neighborCount.Launch(l.stream, l.grid(l.runs), l.block(), 0, d.step(l))
}

func (d *deviceNeighbor) pick(l *deviceLaunch) error {
	if d.mixed != nil {
		return d.mixed.togetherPick.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, d.mix(l))
	}
	err := d.kernels.neighborPick.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, d.step(l))
	if err != nil || !d.has.all {
		return err
	}
	return d.kernels.neighborExpand.Launch(l.stream, l.grid(l.words), l.block(), 0, d.step(l))
}

func (d *deviceNeighbor) step(l *deviceLaunch) deviceNeighborStep {
	return deviceNeighborStep{at: l.step, replace: bit(d.replace)}
}

func (d *deviceNeighbor) mix(l *deviceLaunch) deviceTogetherStep {
	return deviceTogetherStep{at: l.step, replace: bit(d.replace)}
}
