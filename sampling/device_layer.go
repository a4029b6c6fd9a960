package sampling

import (
	"io"
	"math/bits"
	"slices"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

var sharedLayerKernels device.PerDevice[*layerKernels]

// deviceLayer picks for FastGCN on a device: layer.cu.
type deviceLayer struct {
	nodes   []int
	on      *device.Device
	kernels *layerKernels
	from    deviceLayerStep // what is the same in every hop
	total   uint64          // of the importances
}

// OpenDevice implements DeviceSampler. Without Prepare the worker goes over the graph for itself.
func (k FastGCN) OpenDevice(env DeviceEnv) (DeviceWorker, error) { return openDevicePrepared(k, env) }

// OpenDevice implements DeviceSampler.
func (p *preparedFastGCN) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	s, k, closers := env.Graph.Schema(), p.layered(), []io.Closer(nil)
	values, err := k.values.values(env.Graph)
	if err != nil {
		return nil, err
	}
	d := &deviceLayer{nodes: k.nodes, on: env.Device}
	if n := len(p.sums); n > 0 {
		d.total = p.sums[n-1]
	}
	if len(env.Topology.Columns) > 0 {
		d.from.weights = env.Topology.Columns[0]
		d.from.weightBytes = widthOf(values.weights32 != nil, values.weights64 != nil)
	}
	d.from.bits = int64(bits.Len64(uint64(2*max(slices.Max(k.nodes), 8) - 1)))
	if d.from.sums, err = env.attach(unified.FromSlice(p.sums), &closers); err == nil {
		d.kernels, err = sharedLayerKernels.Hold(env.Device, loadLayerKernels)
	}
	if err != nil {
		return nil, closeAll(closers, err)
	}
	opt := deviceOptions{frontier: AllNodes, bound: k.bound(s, env.BatchSize)}
	for i := range opt.bound.Arrays {
		opt.arrays = append(opt.arrays, deviceArray{kind: rowOfEdge, at: i % len(s.Edges),
			stage: len(k.nodes) - 1 - i/len(s.Edges)})
	}
	w, err := openDeviceAssembly(env, d, opt)
	if err != nil {
		return nil, closeAll(closers, err)
	}
	w.(*deviceAssembly).own(closers...)
	return w, nil
}

func (d *deviceLayer) close() error { return sharedLayerKernels.LetGo(d.on) }

func (d *deviceLayer) needs() deviceNeeds { return deviceNeeds{eligible: true} }

func (d *deviceLayer) hoard([][]int64) int64 { return 2 << d.from.bits }

func (d *deviceLayer) ownBytes() int64 { return 8 * int64(len(d.nodes)) }

func (d *deviceLayer) own(r Rand, _ *graph.Sample, to []byte) {
	streams := part[uint64](to, 0, len(d.nodes))
	for h := range streams {
		streams[h] = r.Stage(0, purposeLayer, uint8(h)).Stream(0).state
	}
}

func (d *deviceLayer) describe(seg *deviceSegment, _ Rand, hop, _ int) {
	if seg.fanout = All; d.nodes[hop] == 0 || d.nodes[hop] > 0 && d.total == 0 {
		seg.fanout = 0
	}
}

// step returns what the kernels of a hop take.
func (d *deviceLayer) step(l *deviceLaunch) deviceLayerStep {
	step := d.from
	step.at, step.streams, step.nodes = l.step, l.own, int64(d.nodes[l.step.stage-1])
	return step
}

func (d *deviceLayer) count(l *deviceLaunch) error {
	step := d.step(l)
	if step.nodes > 0 && d.total > 0 {
		if err := d.kernels.layerClear.Launch(l.stream, l.grid(2<<step.bits/32), l.block(), 0, step); err != nil {
			return err
		}
		if err := d.kernels.layerDraw.Launch(l.stream, l.grid((step.nodes+31)/32), l.block(), 0, step); err != nil {
			return err
		}
	}
	if err := l.measure(); err != nil {
		return err
	}
	return d.kernels.layerCount.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, step)
}

func (d *deviceLayer) pick(l *deviceLaunch) error {
	return d.kernels.layerPick.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, d.step(l))
}
