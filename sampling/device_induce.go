package sampling

import (
	"sort"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
)

var sharedInduceKernels device.PerDevice[*induceKernels]

// induceCount puts the kernel on the stream that counts the edges between the nodes of a batch.
func (w *deviceAssembly) induceCount(l *deviceLaunch) {
	l.measure()
	put(l, w.induce.induceCount, 32*l.runs, deviceInduceStep{at: l.step})
}

// deviceNorms are the counts of saintCounts where a device reads them.
type deviceNorms struct {
	nodes, edges device.Address
	graphs       int64
}

// inducePick puts the kernels on the stream that take them, and write norms.
func (w *deviceAssembly) inducePick(l *deviceLaunch) {
	step := deviceInduceStep{at: l.step}
	if w.norms != nil {
		step.nodes, step.edges, step.graphs = w.norms.nodes, w.norms.edges, w.norms.graphs
		put(l, w.induce.induceNorms, l.runs, step)
	}
	put(l, w.induce.inducePick, 32*l.runs, step)
}

var _ = []DeviceSampler{Induced{}, Shadow{}, Cluster{}, Saint{}}

// OpenDevice implements DeviceSampler.
func (k Induced) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	return openOn(env).worker(nil, deviceOptions{frontier: AllNodes, bound: k.bound(env.Graph.Schema(),
		env.BatchSize), stages: []stageKind{stageInduce}})
}

// OpenDevice implements DeviceSampler.
func (k Shadow) OpenDevice(env DeviceEnv) (DeviceWorker, error) { return k.neighbor().OpenDevice(env) }

// induced makes options those of an assembly that delivers the edges between the nodes that hops reach.
func (o deviceOptions) induced(n neighborRules, s *graph.Schema, batchSize int) deviceOptions {
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
	return openOn(env).worker(nil, deviceOptions{frontier: AllNodes, bound: k.bound(s, 0),
		stages: []stageKind{stageInduce}, request: func(req *Request) (*Request, error) {
			nodes := emptyRequest(s, req)
			return nodes, k.each(req, func(v int64) {
				t := sort.Search(len(s.Nodes)-1, func(t int) bool { return v < env.Graph.Offset(t+1) })
				nodes.Seeds[t] = append(nodes.Seeds[t], v-env.Graph.Offset(t))
			})
		}})
}
