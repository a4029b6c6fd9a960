package sampling

import (
	"io"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/unified"
)

// OpenDevice implements DeviceSampler. The device addresses the index of the edges by source where the host has it.
func (t *reversed) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	if err := t.checkPositions(env.Env); err != nil {
		return nil, err
	}
	g, closers := t.graph, []io.Closer(nil)
	inner := t.Neighbor
	inner.Direction = In
	top := Topology{NodeColumns: env.Topology.NodeColumns}
	columns, err := EdgeColumns(g, inner.edgeColumns())
	attach := func(x unified.Tensor) (at device.Address) {
		if err == nil {
			at, err = env.attach(x, &closers)
		}
		return at
	}
	top.Indptr, top.Indices, top.Types = attach(unified.FromSlice(g.Indptr())), attach(g.Indices()), attach(g.Types())
	for _, c := range columns {
		top.Columns = append(top.Columns, attach(c))
	}
	moved := attach(unified.FromSlice(t.at32))
	if t.at32 == nil {
		moved = attach(unified.FromSlice(t.at))
	}
	if err != nil {
		return nil, closeAll(closers, err)
	}
	env.Graph, env.Topology = g, top
	w, err := inner.OpenDevice(env)
	if err != nil {
		return nil, closeAll(closers, err)
	}
	a := w.(*deviceAssembly)
	a.moved, a.excludes = moved, false
	a.own(closers...)
	return a, nil
}
