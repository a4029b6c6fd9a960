package sampling

import (
	"math/bits"
	"slices"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

var sharedLayerKernels device.PerDevice[*layerKernels]

// deviceLayer picks for FastGCN and Ladies on a device: layer.cu.
type deviceLayer struct {
	layered
	schema  *graph.Schema
	column  edgeValues
	kernels *layerKernels
	sorter  deviceSort      // for Ladies
	from    deviceLayerStep // what is the same in every hop
	total   uint64          // of the importances, for FastGCN
}

// OpenDevice implements DeviceSampler. Without Prepare the worker goes over the graph for itself.
func (k FastGCN) OpenDevice(env DeviceEnv) (DeviceWorker, error) { return openDevicePrepared(k, env) }

// OpenDevice implements DeviceSampler.
func (p *preparedFastGCN) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	k := p.layered()
	k.sums, k.guide = p.sums, p.guide
	return k.openDevice(env)
}

// OpenDevice implements DeviceSampler.
func (k Ladies) OpenDevice(env DeviceEnv) (DeviceWorker, error) { return k.layered().openDevice(env) }

func (k layered) openDevice(env DeviceEnv) (DeviceWorker, error) {
	s := env.Graph.Schema()
	if err := k.validate(s); err != nil {
		return nil, err
	}
	o := openOn(env)
	d := &deviceLayer{layered: k, schema: s, kernels: hold(o, &sharedLayerKernels, loadLayerKernels)}
	opt := deviceOptions{frontier: AllNodes, bound: k.bound(s, env.BatchSize)}
	if d.find(o); k.near {
		opt.reacher = d.lists(o)
	}
	for i := range opt.bound.Arrays {
		hop := len(k.nodes) - 1 - i/len(s.Edges)
		opt.arrays = append(opt.arrays, deviceArray{kind: rowOfEdge, at: i % len(s.Edges),
			stage: hop + int(bit(k.near))*(hop+1)})
	}
	return o.worker(d, opt)
}

// find finds what the kernels read.
func (d *deviceLayer) find(o *deviceOpening) {
	var err error
	d.column, err = d.values.values(o.Graph)
	o.fail(err)
	if n := len(d.sums); n > 0 {
		d.total = d.sums[n-1]
	}
	if len(o.Topology.Columns) > 0 {
		d.from.weights = o.Topology.Columns[0]
		d.from.weightBytes = widthOf(d.column.weights32 != nil, d.column.weights64 != nil)
	}
	// Few nodes in the pool: each look-up that finds none takes one read mostly, and that is most of them.
	d.from.bits = int64(keyBits(16*int64(max(slices.Max(d.nodes), 8)) - 1))
	if d.guide != nil {
		guide, shift := d.guide()
		d.from.shift, d.from.guide = int64(shift), o.attach(unified.FromSlice(guide))
	}
	d.from.sums = o.attach(unified.FromSlice(d.sums))
}

// guideOf returns where draws begin to search sums: element i is the first that is above i * 2^shift. H.-C. Chen,
// Y. Asau: On Generating Random Variates from an Empirical Distribution, 1974.
func guideOf(sums []uint64) (guide []int64, shift int) {
	if len(sums) == 0 || sums[len(sums)-1] == 0 {
		return nil, 0
	}
	last := sums[len(sums)-1] - 1
	shift = max(bits.Len64(last)-min(bits.Len(uint(len(sums)))-1, 20), 0)
	guide = make([]int64, last>>shift+2)
	at := 0
	for i := range guide {
		for at < len(sums)-1 && sums[at] <= uint64(i)<<shift {
			at++
		}
		guide[i] = int64(at)
	}
	return guide, shift
}

// lists returns the picker of all edges of the destinations, for hops that draw nodes.
func (d *deviceLayer) lists(o *deviceOpening) devicePicker {
	all := make(hopFanouts, len(d.nodes))
	for h, n := range d.nodes {
		if all[h] = make([]int, len(d.schema.Edges)); n > 0 {
			all[h] = slices.Repeat([]int{All}, len(d.schema.Edges))
		}
	}
	d.sorter.kernels = hold(o, &sharedSortKernels, loadSortKernels)
	return newDeviceNeighbor(o, d.schema, all, false)
}

func (d *deviceLayer) needs() deviceNeeds { return deviceNeeds{eligible: true} }

func (d *deviceLayer) badEdge(pos int64) error { return d.column.weightErr(pos) }

func (d *deviceLayer) hoard(c *deviceCapacity) int64 {
	if !d.near {
		return 3 << d.from.bits
	}
	d.sorter.room = 0
	for h := 0; h < len(c.edges); h += 2 {
		d.sorter.room = max(d.sorter.room, c.picks(h))
	}
	d.from.room = d.sorter.room
	return sortCells(d.sorter.room, 8)
}

func (d *deviceLayer) ownBytes() int64 { return 8 * int64(len(d.nodes)) }

func (d *deviceLayer) own(r Rand, _ *graph.Sample, to []byte) {
	streams := part[uint64](to, 0, len(d.nodes))
	for h := range streams {
		streams[h] = r.Stage(0, purposeLayer, uint8(h)).Stream(0).state
	}
}

func (d *deviceLayer) describe(seg *deviceSegment, _ Rand, hop, _ int) {
	if seg.fanout = All; d.nodes[hop] == 0 || d.nodes[hop] > 0 && d.total == 0 && !d.near {
		seg.fanout = 0
	}
}

// step returns what the kernels of a hop take.
func (d *deviceLayer) step(l *deviceLaunch) deviceLayerStep {
	step := d.from
	step.at, step.streams, step.hop, step.nodes = l.step, l.own, int64(l.hop), int64(d.nodes[l.hop])
	return step
}

func (d *deviceLayer) count(l *deviceLaunch) {
	step := d.step(l)
	switch {
	case step.nodes > 0 && d.near:
		d.addUp(l, step)
	case step.nodes > 0 && d.total > 0:
		put(l, d.kernels.layerClear, 2<<step.bits/32, step)
	}
	if step.nodes > 0 && (d.near || d.total > 0) {
		put(l, d.kernels.layerDraw, (step.nodes+31)/32, step)
	}
	l.measure()
	put(l, d.kernels.layerCount, 32*l.runs, step)
}

// addUp puts on the stream what adds up the importance of the sources of the edges that were listed.
func (d *deviceLayer) addUp(l *deviceLaunch, step deviceLayerStep) {
	k := d.kernels
	put(l, k.layerKey, l.reached, step)
	step.sorted = d.sorter.sort(l, keyBits(d.schema.NumNodes()), 0, 2, 0)
	put(l, k.layerSum, l.reached, step)
	put(l, k.layerWhole, l.reached, step)
	putOne(l, k.layerPlace, step)
	put(l, k.layerAdd, l.reached, step)
}

func (d *deviceLayer) pick(l *deviceLaunch) { put(l, d.kernels.layerPick, 32*l.runs, d.step(l)) }
