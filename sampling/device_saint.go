package sampling

import (
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

var sharedSaintKernels device.PerDevice[*saintKernels]

// deviceSaint draws the nodes of subgraphs on a device: saint.cu.
type deviceSaint struct {
	Saint
	kernels *saintKernels
}

// OpenDevice implements DeviceSampler.
func (k Saint) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	if k.Coverage > 0 {
		return openDevicePrepared(k, env)
	}
	return k.openDevice(env, nil)
}

// OpenDevice implements DeviceSampler.
func (p *preparedSaint) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	return p.openDevice(env, &p.counts)
}

func (k Saint) openDevice(env DeviceEnv, counts *saintCounts) (DeviceWorker, error) {
	s := env.Graph.Schema()
	if err := k.validate(s); err != nil {
		return nil, err
	}
	o := openOn(env)
	opt := deviceOptions{frontier: AllNodes, bound: k.bound(s, 1), stages: []stageKind{stagePlace, stageInduce},
		request: func(req *Request) (*Request, error) { return emptyRequest(s, req), nil },
		placer:  &deviceSaint{Saint: k, kernels: hold(o, &sharedSaintKernels, loadSaintKernels)}}
	if counts != nil {
		opt.norms = &deviceNorms{graphs: counts.graphs, nodes: o.attach(unified.FromSlice(counts.nodes)),
			edges: o.attach(unified.FromSlice(counts.edges))}
		for i := range opt.bound.Arrays {
			a := deviceArray{at: i}
			if i >= len(s.Nodes) {
				a = deviceArray{kind: rowOfEdge, at: i - len(s.Nodes), stage: 1}
			}
			opt.arrays = append(opt.arrays, a)
		}
	}
	return o.worker(nil, opt)
}

func (d *deviceSaint) cells(*deviceCapacity, int64) int64 {
	return int64(d.Budget) * int64(d.steps()+1)
}

func (d *deviceSaint) ownBytes() int64 { return int64(unsafe.Sizeof(deviceSaintRules{})) }

func (d *deviceSaint) own(r Rand, _ *graph.Sample, to []byte) {
	part[deviceSaintRules](to, 0, 1)[0].key = r.Stage(0, purposeSaint, 0).key
}

func (d *deviceSaint) place(l *deviceLaunch) {
	step := deviceSaintStep{at: l.step, rules: l.own, budget: int64(d.Budget), steps: int64(d.steps()),
		kind: int64(d.Kind)}
	put(l, d.kernels.saintDraw, l.words, step)
}
