package sampling

import (
	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
)

var _ DeviceSampler = Neighbor{}

// deviceNeighbor picks for Neighbor on a device: neighbor.cu says how many edges a destination takes, and which.
type deviceNeighbor struct {
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
	rules, err := n.check(s)
	if err != nil {
		return nil, err
	}
	o := openOn(env)
	opt := deviceOptions{frontier: n.Frontier, disjoint: n.Disjoint, excludes: !n.Together,
		bound: rules.bound(s, env.BatchSize)}.induced(rules, s, env.BatchSize)
	of, p := s, rules.hops // of the picker
	if n.Together {
		of, p = allEdgesOf(s), p.ofNodeTypes(s, n.Fanouts)
	}
	var pick devicePicker
	if n.chooses() {
		d := newDeviceChoose(o, n, of, p)
		if pick = d; n.Time.on() {
			opt.times = func(req *Request, times []int64) error {
				return req.itemTimes(s, d.values.nodes, n.Time.AsOf, times)
			}
		}
	} else {
		pick = newDeviceNeighbor(o, of, p, n.Replace)
	}
	if n.Together {
		opt.reacher, opt.mixes = pick, true
		pick = newDeviceTogether(o, n, pick)
	}
	return o.worker(pick, opt)
}

// newDeviceNeighbor makes one over edges of the types of a schema.
func newDeviceNeighbor(o *deviceOpening, s *graph.Schema, p hopFanouts, replace bool) *deviceNeighbor {
	d := &deviceNeighbor{fanouts: p, replace: replace, kernels: hold(o, &sharedNeighborKernels, loadNeighborKernels)}
	for e := range s.Edges {
		d.keys = append(d.keys, s.Edges[e].Key)
	}
	d.has.all = p.takesAll()
	d.has.large = !replace && p.any(func(k int) bool { return k > 32 })
	return d
}

func (d *deviceNeighbor) needs() deviceNeeds { return deviceNeeds{cells: d.has.large} }

func (d *deviceNeighbor) describe(seg *deviceSegment, r Rand, hop, edgeType int) {
	seg.fanout = int64(d.fanouts[hop][edgeType])
	seg.key = r.Stage(d.keys[edgeType], PurposePick, uint8(hop)).key
}

func (d *deviceNeighbor) count(l *deviceLaunch) { put(l, d.kernels.neighborCount, l.runs, d.step(l)) }

func (d *deviceNeighbor) pick(l *deviceLaunch) {
	put(l, d.kernels.neighborPick, 32*l.runs, d.step(l))
	if d.has.all {
		put(l, d.kernels.neighborExpand, l.words, d.step(l))
	}
}

func (d *deviceNeighbor) step(l *deviceLaunch) deviceNeighborStep {
	return deviceNeighborStep{at: l.step, replace: bit(d.replace)}
}
