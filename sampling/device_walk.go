package sampling

import (
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
)

var _ = []DeviceSampler{Walk{}, Node2Vec{}}

var sharedWalkKernels device.PerDevice[*walkKernels]

// deviceWalk takes walks on a device: walk.cu.
type deviceWalk struct {
	walkRules
	kernels *walkKernels
	schema  *graph.Schema
}

// OpenDevice implements DeviceSampler.
func (k Walk) OpenDevice(env DeviceEnv) (DeviceWorker, error) { return openWalks(k.rules, env) }

// OpenDevice implements DeviceSampler.
func (k Node2Vec) OpenDevice(env DeviceEnv) (DeviceWorker, error) { return openWalks(k.rules, env) }

// openWalks opens a worker on a device by a function that checks the options.
func openWalks(rules func(*graph.Schema) (walkRules, error), env DeviceEnv) (DeviceWorker, error) {
	s := env.Graph.Schema()
	w, err := rules(s)
	if err != nil {
		return nil, err
	}
	o := openOn(env)
	d := &deviceWalk{walkRules: w, schema: s, kernels: hold(o, &sharedWalkKernels, loadWalkKernels)}
	opt := deviceOptions{frontier: AllNodes, bound: w.bound(s, env.BatchSize), stages: []stageKind{stagePlace},
		placer: d, rawFault: true}
	for i := range opt.bound.Arrays {
		opt.arrays = append(opt.arrays, deviceArray{kind: rowOfWalks, each: int64(w.perSeed),
			pos: w.withEdges && i == len(opt.bound.Arrays)-1})
	}
	opt.check = func(req *Request) error {
		return w.checkSeeds(s, func(t int) int64 { return req.NumSeeds(s, t) })
	}
	return o.worker(nil, opt)
}

func (d *deviceWalk) cells(_ *deviceCapacity, seeds int64) int64 {
	return seeds * int64(d.perSeed) * int64(d.length+1)
}

func (d *deviceWalk) ownBytes() int64 { return d.walkRules.deviceBytes() }

func (d *deviceWalk) own(r Rand, out *graph.Sample, to []byte) {
	rules := d.device(d.schema, r, to)
	if len(d.schema.Nodes) > 1 {
		rules.types = out.Buffers.Arrays[1].Address()
	}
	if d.withEdges {
		rules.edges = out.Buffers.Arrays[len(out.Buffers.Arrays)-1].Address()
	}
}

func (d *deviceWalk) place(l *deviceLaunch) {
	put(l, d.kernels.walkTake, l.words, deviceWalkStep{at: l.step, rules: l.own})
}

// deviceBytes is what device writes.
func (w *walkRules) deviceBytes() int64 {
	return int64(unsafe.Sizeof(deviceWalkRules{})) + 16*int64(len(w.path))
}

// device writes the rules of a batch's walks for a device.
func (w *walkRules) device(s *graph.Schema, r Rand, to []byte) *deviceWalkRules {
	rules := &part[deviceWalkRules](to, 0, 1)[0]
	*rules = deviceWalkRules{key: r.key, length: int64(w.length), perSeed: int64(w.perSeed), stop: w.stop,
		goOn: w.stop + w.restart, restarts: bit(w.restart > 0), pathLength: int64(len(w.path))}
	if w.p != 0 {
		rules.biased, rules.back, rules.away = 1, 1/w.p, 1/w.q
		rules.most, rules.least = max(1, 1/w.q), min(1, 1/w.p, 1/w.q)
	}
	path := part[uint64](to, int64(unsafe.Sizeof(*rules)), 2*len(w.path))
	for i, e := range w.path {
		path[i], path[len(w.path)+i] = uint64(e), s.Edges[e].Key
	}
	return rules
}
