package sampling

import (
	"fmt"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
)

var _ = []DeviceSampler{PinSage{}, FastGCN{}}

var sharedPinSageKernels device.PerDevice[*pinsageKernels]

// devicePinSage picks for PinSage on a device: pinsage.cu.
type devicePinSage struct {
	visitRules
	kernels *pinsageKernels
	schema  *graph.Schema
	room    int64 // destinations
}

// OpenDevice implements DeviceSampler.
func (k PinSage) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	s := env.Graph.Schema()
	rules, err := k.rules(s)
	if err == nil {
		err = errNoPositions(env.Env)
	}
	if err != nil {
		return nil, err
	}
	o := openOn(env)
	d := &devicePinSage{visitRules: rules, schema: s, kernels: hold(o, &sharedPinSageKernels, loadPinsageKernels)}
	opt := deviceOptions{frontier: AllNodes, bound: rules.bound(s, env.BatchSize), rawFault: true,
		check: func(req *Request) error {
			return rules.checkSeeds(s, func(t int) int64 { return req.NumSeeds(s, t) })
		}}
	for layer := range opt.bound.Arrays {
		opt.arrays = append(opt.arrays, deviceArray{kind: rowOfEdge, at: rules.as, stage: rules.hops - 1 - layer})
	}
	return o.worker(d, opt)
}

// checkSeeds refuses seeds that are not of the neighbours' type. seeds returns how many there are of each type.
func (p *visitRules) checkSeeds(s *graph.Schema, seeds func(t int) int64) error {
	nodes := s.Edges[p.as].Dst
	for t := range s.Nodes {
		if t != nodes && seeds(t) > 0 {
			return fmt.Errorf("%w: seeds of type %q: neighbours are of type %q (as)", ErrOptions, s.Nodes[t].Name,
				s.Nodes[nodes].Name)
		}
	}
	return nil
}

func (d *devicePinSage) needs() deviceNeeds { return deviceNeeds{eligible: true} }

func (d *devicePinSage) hoard(c *deviceCapacity) int64 {
	d.room = c.nodes[d.hops-1][d.schema.Edges[d.as].Dst]
	return 2 * d.room * int64(d.walks.perSeed) * int64(d.walks.length)
}

func (d *devicePinSage) ownBytes() int64 { return d.walks.deviceBytes() }

func (d *devicePinSage) own(r Rand, _ *graph.Sample, to []byte) { d.walks.device(d.schema, r, to) }

func (d *devicePinSage) describe(seg *deviceSegment, _ Rand, _, edgeType int) {
	seg.fanout = 0
	if edgeType == d.as {
		seg.fanout = int64(d.most)
	}
}

func (d *devicePinSage) step(l *deviceLaunch) devicePinSageStep {
	return devicePinSageStep{at: l.step, rules: l.own, edgeType: int64(d.as), most: int64(d.most), room: d.room}
}

func (d *devicePinSage) count(l *deviceLaunch) {
	walks := d.room * int64(d.walks.perSeed)
	put(l, d.kernels.pinsageWalk, (walks+31)/32, d.step(l))
	put(l, d.kernels.pinsageCount, 32*l.runs, d.step(l))
}

func (d *devicePinSage) pick(l *deviceLaunch) { put(l, d.kernels.pinsagePick, 32*l.runs, d.step(l)) }
