package sampling

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
)

var _ = []DeviceSampler{Sequence{}, preparedSequence{}}

var sharedSequenceKernels device.PerDevice[*sequenceKernels]

// deviceSequences makes sequences on a device: an assembly of what is sampled, and one that places the tokens.
type deviceSequences struct {
	*deviceAssembly
	sequenceRules
	kernels *sequenceKernels
	values  edgeValues // on the host
	times   device.Address
	from    *deviceAssembly
	sampled graph.Sample
	rows    rowRequest
}

// OpenDevice implements DeviceSampler. PPR does not run on devices.
func (k Sequence) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	if n, ok := k.Of.(Neighbor); ok && n.Direction != In {
		return openDevicePrepared(k, env)
	}
	return k.openDevice(env, nil)
}

func (k preparedSequence) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	return k.Sequence.openDevice(env, k.of)
}

func (k Sequence) openDevice(env DeviceEnv, prepared Sampler) (DeviceWorker, error) {
	s := env.Graph.Schema()
	r, d, err := k.opened(env.Env)
	if err != nil {
		return nil, err
	}
	of, ok := r.of.(DeviceSampler)
	if prepared != nil {
		of, ok = prepared.(DeviceSampler)
	}
	if !ok {
		return nil, fmt.Errorf("%w: sequences of %T are made on the CPU alone", ErrOptions, r.of)
	}
	w := &deviceSequences{sequenceRules: r}
	inner := env
	if inner.EdgePos = r.near != nil; r.near != nil {
		if w.values, err = r.near.values(env.Graph); err != nil {
			return nil, err
		}
		if columns := env.Topology.Columns; r.near.Time.Edge != "" && len(columns) > 0 {
			w.times = columns[len(columns)-1]
		}
	}
	sampler, err := of.OpenDevice(inner)
	if err != nil {
		return nil, err
	}
	w.from = sampler.(*deviceAssembly)
	o := openOn(env)
	w.kernels = hold(o, &sharedSequenceKernels, loadSequenceKernels)
	opt := deviceOptions{frontier: AllNodes, bound: r.bound(s, env.BatchSize, &d.Bound), rawFault: true,
		stages: []stageKind{stagePlace}, placer: w}
	for i := range opt.bound.Arrays {
		name := opt.bound.Arrays[i].Name
		opt.arrays = append(opt.arrays, deviceArray{kind: rowOfSeed, pos: name == "sequence_edge",
			id: name == "sequence_id"})
	}
	if w.deviceAssembly = newDeviceAssembly(o, nil, opt); o.err != nil {
		return nil, errors.Join(o.close(), w.from.Close())
	}
	mem := env.Scratch
	mem.Device, mem.Place = env.Device, pinned.Device
	d.Bound.Init(&w.sampled, s, mem)
	return w, nil
}

// Enqueue implements DeviceWorker: what is sampled comes first on the stream.
func (w *deviceSequences) Enqueue(ctx context.Context, req *Request, out *graph.Sample) error {
	asked := *req
	asked.Exclude = nil
	if err := w.checkRequest(&asked, out); err != nil {
		return err
	}
	if err := w.rows.of(w.schema, req, w.near, w.values.nodes); err != nil {
		return err
	}
	if err := w.from.Enqueue(ctx, &w.rows.Request, &w.sampled); err != nil {
		return err
	}
	return w.deviceAssembly.Enqueue(ctx, &asked, out)
}

// Finish implements DeviceWorker. Where a buffer of what is sampled was too small, both begin again.
func (w *deviceSequences) Finish(out *graph.Sample) (replay bool, err error) {
	again, err := w.from.Finish(&w.sampled)
	replay, placed := w.deviceAssembly.Finish(out)
	if err == nil && !again {
		err = placed
	}
	return err == nil && (again || replay), err
}

// Close implements DeviceWorker.
func (w *deviceSequences) Close() error {
	return errors.Join(w.deviceAssembly.Close(), w.from.Close(), w.sampled.Close())
}

func (w *deviceSequences) cells(_ *deviceCapacity, seeds int64) int64 { return seeds * int64(w.length) }

// hoard is a cell for each token: where what was sampled has it.
func (w *deviceSequences) hoard(*deviceCapacity) int64 { return w.placed }

func (w *deviceSequences) ownBytes() int64 { return int64(unsafe.Sizeof(deviceSequenceRules{})) }

func (w *deviceSequences) own(_ Rand, out *graph.Sample, to []byte) {
	rules := &part[deviceSequenceRules](to, 0, 1)[0]
	*rules = deviceSequenceRules{of: w.from.at(w.from.layout.batch), stage: int64(len(w.from.stages)),
		hops: int64(w.hops), as: int64(w.as), length: int64(w.length), first: bit(w.first), times: w.times,
		timeBytes: w.values.times.width(), timed: bit(w.timed())}
	for i := range w.deviceAssembly.bound.Arrays {
		at := out.Buffers.Arrays[i].Address()
		switch w.deviceAssembly.bound.Arrays[i].Name {
		case "sequence_id":
			rules.ids = at
		case "sequence_type":
			rules.types = at
		case "sequence_hop":
			rules.hop = at
		case "sequence_edge":
			rules.edges = at
		case "sequence_edge_type":
			rules.edgeTypes = at
		case "sequence_age":
			rules.ages = at
		case "sequence_weight":
			rules.weights = at
		}
	}
}

func (w *deviceSequences) place(l *deviceLaunch) {
	put(l, w.kernels.sequenceTake, l.words, deviceSequenceStep{at: l.step, rules: l.own})
}
