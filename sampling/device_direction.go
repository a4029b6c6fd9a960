package sampling

import (
	"github.com/khop-gnn/khop/unified"
)

// OpenDevice implements DeviceSampler. The device addresses the index of the edges by source where the host has it.
func (t *reversed) OpenDevice(env DeviceEnv) (DeviceWorker, error) {
	if err := t.checkPositions(env.Env); err != nil {
		return nil, err
	}
	g, o := t.graph, openOn(env)
	inner := t.Neighbor
	inner.Direction = In
	top := Topology{NodeColumns: env.Topology.NodeColumns}
	columns, err := EdgeColumns(g, inner.edgeColumns())
	o.fail(err)
	top.Indptr, top.Indices = o.attach(unified.FromSlice(g.Indptr())), o.attach(g.Indices())
	top.Types = o.attach(g.Types())
	for _, c := range columns {
		top.Columns = append(top.Columns, o.attach(c))
	}
	moved := o.attach(unified.FromSlice(t.at32))
	if t.at32 == nil {
		moved = o.attach(unified.FromSlice(t.at))
	}
	if o.err != nil {
		return nil, o.close()
	}
	env.Graph, env.Topology = g, top
	w, err := inner.OpenDevice(env)
	if o.fail(err); err != nil {
		return nil, o.close()
	}
	a := w.(*deviceAssembly)
	a.moved, a.excludes = moved, false
	a.holds.owned = append(a.holds.owned, o.owned...)
	return a, nil
}
