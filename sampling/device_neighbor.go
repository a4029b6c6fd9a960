package sampling

import (
	"errors"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
)

var _ DeviceSampler = Neighbor{}

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

func (n Neighbor) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	s := env.Graph.Schema()
	n.Time = n.Time.of(s)
	if n.Direction != In {
		return openDevicePrepared(n, env)
	}
	if err := n.validate(s); err != nil {
		return nil, err
	}
	p, err := newHopFanouts(s, n.Fanouts, n.PerType)
	if err != nil {
		return nil, err
	}
	opt := deviceOptions{frontier: n.Frontier, disjoint: n.Disjoint, excludes: !n.Together,
		bound: n.bound(s, env.BatchSize)}.induced(n, s, env.BatchSize)
	of := s // of the picker
	if n.Together {
		of, p = allEdgesOf(s), p.ofNodeTypes(s, n.Fanouts)
	}
	var pick devicePicker
	if n.chooses() {
		d, err := newDeviceChoose(n, &env, of, p)
		if err != nil {
			return nil, err
		}
		if pick = d; n.Time.on() {
			opt.times = func(req *Request, times []int64) error {
				return req.itemTimes(s, d.values.nodes, n.Time.AsOf, times)
			}
		}
	} else if pick, err = newDeviceNeighbor(&env, of, p, n.Replace); err != nil {
		return nil, err
	}
	if n.Together {
		opt.reacher, opt.mixes = pick, true
		if pick, err = newDeviceTogether(n, &env, pick); err != nil {
			return nil, errors.Join(err, opt.reacher.close())
		}
	}
	return openDeviceAssembly(env, pick, opt)
}

// newDeviceNeighbor makes one over edges of the types of a schema.
func newDeviceNeighbor(env *DeviceEnv, s *graph.Schema, p hopFanouts, replace bool) (*deviceNeighbor, error) {
	d := &deviceNeighbor{device: env.Device, fanouts: p, replace: replace}
	for e := range s.Edges {
		d.keys = append(d.keys, s.Edges[e].Key)
	}
	for _, fanouts := range p {
		for _, k := range fanouts {
			d.has.all = d.has.all || k == All
			d.has.large = d.has.large || k > 32 && !replace
		}
	}
	var err error
	d.kernels, err = sharedNeighborKernels.Hold(env.Device, loadNeighborKernels)
	return d, err
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
