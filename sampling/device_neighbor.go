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

// devicePicker is a picker on a device: kernels that decide which edges a hop follows. pick.cuh has their common code.
// All edge types of a hop go together.
type devicePicker interface {
	// needs says which optional memory its kernels need.
	needs() deviceNeeds
	// describe sets the fan-out and the key of a segment, which is one edge type of a hop. With fan-out 0 it is passed
	// over.
	describe(seg *deviceSegment, r Rand, hop, edgeType int)
	// count puts kernels on the stream that count the picks of a stage (count_picks).
	count(*deviceLaunch)
	// pick puts kernels on the stream that write the indptr of the stage's blocks and take the edges.
	pick(*deviceLaunch)
}

// deviceNeeds is memory that not every picker needs.
type deviceNeeds struct {
	cells    bool // Batch.scratch: 8 bytes a pick
	eligible bool // Batch.eligible: 8 bytes a destination; and Batch.hubs
	least    bool // the part of Batch.hubs that holds the least keys of slices
}

// hubBytes returns how large Batch.hubs is: Hubs of pick.cuh.
func (n deviceNeeds) hubBytes() int64 {
	const slices, hub = 8192, 32
	return bit(n.eligible)*(24+slices/2*hub+16*slices) + bit(n.least)*slices*2*32*8
}

// deviceSender is a picker or placer whose kernels read more of a batch than its description.
type deviceSender interface {
	// own writes that: as many bytes as ownBytes says.
	own(r Rand, out *graph.Sample, to []byte)
	ownBytes() int64
}

// deviceHoarder is a picker or placer whose kernels need more of Batch.scratch than a cell a pick or a node.
type deviceHoarder interface {
	// hoard returns how many cells.
	hoard(*deviceCapacity) int64
}

// deviceWeigher is a picker that reads weights.
type deviceWeigher interface {
	// badEdge returns the error of an edge whose source is a node of its type: its weight is wrong.
	badEdge(pos int64) error
}

// devicePlacer is what draws nodes on a device otherwise than by edges of a frontier.
type devicePlacer interface {
	deviceSender
	// cells returns how many nodes a request of that many seeds can draw, repeats included.
	cells(c *deviceCapacity, seeds int64) int64
	// place puts kernels on the stream that write the nodes that a stage places to Batch.scratch, and how many they
	// are to its segments (place_nodes of place.cuh).
	place(*deviceLaunch)
}
