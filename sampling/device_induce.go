package sampling

import (
	"context"
	"errors"
	"io"
	"sort"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

var sharedInduceKernels device.PerDevice[*induceKernels]

// induceCount puts the kernel on the stream that counts the edges between the nodes of a batch.
func (w *deviceAssembly) induceCount(l *deviceLaunch) error {
	if err := l.measure(); err != nil {
		return err
	}
	return w.induce.induceCount.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, deviceInduceStep{at: l.step})
}

// deviceNorms are the counts of saintCounts where a device reads them.
type deviceNorms struct {
	nodes, edges device.Address
	graphs       int64
}

// inducePick puts the kernels on the stream that take them, and write norms.
func (w *deviceAssembly) inducePick(l *deviceLaunch) error {
	step := deviceInduceStep{at: l.step}
	if w.norms != nil {
		step.nodes, step.edges, step.graphs = w.norms.nodes, w.norms.edges, w.norms.graphs
		if err := w.induce.induceNorms.Launch(l.stream, l.grid(l.runs), l.block(), 0, step); err != nil {
			return err
		}
	}
	return w.induce.inducePick.Launch(l.stream, l.grid(32*l.runs), l.block(), 0, step)
}

var _ = []DeviceSampler{Induced{}, Shadow{}, Cluster{}, Saint{}}

// OpenDevice implements DeviceSampler.
func (k Induced) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	return openDeviceAssembly(env, nil, deviceOptions{frontier: AllNodes, bound: k.bound(env.Graph.Schema(),
		env.BatchSize), stages: []stageKind{stageInduce}})
}

// OpenDevice implements DeviceSampler.
func (k Shadow) OpenDevice(env DeviceEnv) (DeviceWorker, error) { return k.neighbor().OpenDevice(env) }

// induced makes options those of an assembly that delivers the edges between the nodes that hops reach.
func (o deviceOptions) induced(n Neighbor, s *graph.Schema, batchSize int) deviceOptions {
	if !n.Induced {
		return o
	}
	hops := n.nodes().bound(s, batchSize)
	o.hops, o.stages, o.excludes = &hops, append(make([]stageKind, hops.Layers), stageInduce), false
	return o
}

// OpenDevice implements DeviceSampler. The host lists the nodes of the parts.
func (k Cluster) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	s := env.Graph.Schema()
	if k.Partition == nil {
		return openDevicePrepared(k, env)
	}
	if err := k.validate(s); err != nil {
		return nil, err
	}
	return openDeviceAssembly(env, nil, deviceOptions{frontier: AllNodes, bound: k.bound(s, 0),
		stages: []stageKind{stageInduce}, request: func(req *Request) (*Request, error) {
			nodes := emptyRequest(s, req)
			return nodes, k.each(req, func(v int64) {
				t := sort.Search(len(s.Nodes)-1, func(t int) bool { return v < env.Graph.Offset(t+1) })
				nodes.Seeds[t] = append(nodes.Seeds[t], v-env.Graph.Offset(t))
			})
		}})
}

// openDevicePrepared opens a worker of what Prepare makes of a sampler, and closes that with it.
func openDevicePrepared(s Sampler, env DeviceEnv) (DeviceWorker, error) {
	p, err := Prepare(context.Background(), s, env.Env)
	if err != nil {
		return nil, err
	}
	w, err := p.(DeviceSampler).OpenDevice(env)
	if err != nil {
		return nil, errors.Join(err, p.(io.Closer).Close())
	}
	w.(*deviceAssembly).own(p.(io.Closer))
	return w, nil
}

// attach lets the device address an array of the host, until the assembly is closed.
func (e *DeviceEnv) attach(array unified.Tensor, closers *[]io.Closer) (device.Address, error) {
	if len(array.Bytes()) == 0 {
		return 0, nil
	}
	a, err := pinned.Attach(context.Background(), e.Device, array.Bytes(), pinned.AttachOptions{
		Ledger: e.Scratch.Ledger, Purpose: pinned.Scratch})
	if err != nil {
		return 0, err
	}
	*closers = append(*closers, a)
	return a.Address(), nil
}

// closeAll closes what was attached, in case of an error.
func closeAll(closers []io.Closer, err error) error {
	for _, c := range closers {
		err = errors.Join(err, c.Close())
	}
	return err
}
