package sampling

import (
	"slices"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
)

var _ DeviceSampler = Labor{}

// deviceLabor picks for Labor on a device: labor.cu says how many edges a destination takes, and which.
type deviceLabor struct {
	kernels *laborKernels
	all     *neighborKernels // for fan-outs that take every edge; nil without such
	graph   *graph.Graph
	fanouts hopFanouts
	opt     Labor
}

var sharedLaborKernels device.PerDevice[*laborKernels]

func (l Labor) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	s := env.Graph.Schema()
	rules, err := l.check(s)
	if err != nil {
		return nil, err
	}
	o, p := openOn(env), rules.like.hops
	d := &deviceLabor{graph: env.Graph, fanouts: p, opt: l, kernels: hold(o, &sharedLaborKernels, loadLaborKernels)}
	if p.takesAll() {
		d.all = hold(o, &sharedNeighborKernels, loadNeighborKernels)
	}
	return o.worker(d, deviceOptions{frontier: l.Frontier, excludes: true, bound: rules.bound(s, env.BatchSize)})
}

// any reports whether some fan-out has a property.
func (p hopFanouts) any(has func(k int) bool) bool {
	return slices.ContainsFunc(p, func(fanouts []int) bool { return slices.ContainsFunc(fanouts, has) })
}

// takesAll reports whether some fan-out takes every edge.
func (p hopFanouts) takesAll() bool { return p.any(func(k int) bool { return k == All }) }

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

func (d *deviceLabor) count(l *deviceLaunch) {
	l.measure()
	put(l, d.kernels.laborCount, 32*l.runs, d.step(l))
}

func (d *deviceLabor) pick(l *deviceLaunch) {
	put(l, d.kernels.laborLeast, 32*l.runs, d.step(l))
	put(l, d.kernels.laborPick, 32*l.runs, d.step(l))
	if d.all != nil {
		put(l, d.all.neighborExpand, l.words, deviceNeighborStep{at: l.step})
	}
}

func (d *deviceLabor) step(l *deviceLaunch) deviceLaborStep {
	return deviceLaborStep{at: l.step, poisson: bit(d.opt.Poisson)}
}
