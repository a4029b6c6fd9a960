package sampling

import (
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

func (w *deviceAssembly) Finish(out *graph.Sample) (replay bool, err error) {
	if w.out == nil || w.out != out {
		return false, fmt.Errorf("%w: no such batch is in hand", ErrOptions)
	}
	w.out, w.guess = nil, 0
	status := part[deviceStatus](w.description, w.layout.status, 1)[0]
	stage := int(status.stage)
	switch status.reason {
	case deviceNotStopped:
		return false, w.shape(out)
	case deviceBadGraph:
		return false, w.badGraph(stage-1, &status)
	case deviceTableFull:
		w.capacity.bits++
	case deviceEdgesFull:
		err = w.growEdges(stage - 1)
	case deviceNodesFull:
		for t, n := range w.lengths(stage) {
			w.capacity.needNodes(stage, t, n)
		}
	default:
		err = fmt.Errorf("the device reports a batch as stopped for reason %d", status.reason)
	}
	return err == nil, err
}

// lengths are those of the node lists after a number of hops.
func (w *deviceAssembly) lengths(hops int) []int64 {
	nt := len(w.schema.Nodes)
	return part[int64](w.description, w.layout.lengths+8*int64(hops*nt), nt)
}

// made are the edges of the blocks of a hop.
func (w *deviceAssembly) made(h int) []int64 {
	ne := len(w.schema.Edges)
	return part[int64](w.description, w.layout.made+8*int64(h*ne), ne)
}

func (w *deviceAssembly) growEdges(h int) error {
	words := int64(0)
	for e, n := range w.made(h) {
		if n > maxBlockEdges {
			return w.in(h, e, errTooManyEdges(n))
		}
		w.capacity.needEdges(h, e, n, w.frontier == NewNodes)
		words += roundUp32(n)
	}
	if words > maxDevicePicks {
		return fmt.Errorf("hop %d: %w", h, errTooManyEdges(words))
	}
	return nil
}

func (w *deviceAssembly) in(h, e int, err error) error {
	return fmt.Errorf("hop %d, edge type %v: %w", h, &w.schema.Edges[e], err)
}

// badGraph returns the error of a fault that the kernels found in the graph. Of several faults it need not name the one
// that a Worker finds first.
func (w *deviceAssembly) badGraph(h int, status *deviceStatus) error {
	g, s := w.env.Graph, w.schema
	if v := int64(status.badNode); v >= 0 {
		e := 0
		for ; e < len(s.Edges)-1; e++ {
			seg := part[deviceSegment](w.description, w.segment(h, e), 1)[0]
			if dst := s.Edges[e].Dst; seg.fanout != 0 && v >= g.Offset(dst) && v < g.Offset(dst+1) {
				break
			}
		}
		return w.in(h, e, errColumn(v, g.Indptr()[v], g.Indptr()[v+1], int(g.NumEdges())))
	}
	pos := int64(status.badEdge)
	of, err := newEdgeFinder(g)
	if err != nil {
		return err
	}
	e, source := of.types.at(pos), of.source(pos)
	if t := s.Edges[e].Src; source >= g.Offset(t) && source < g.Offset(t+1) {
		if p, ok := w.picker.(*deviceChoose); ok {
			return w.in(h, e, p.badEdge(pos))
		}
	}
	return w.in(h, e, errSource(s, s.Edges[e].Src, pos, source))
}

// shape views the buffers as the sample's tensors.
func (w *deviceAssembly) shape(out *graph.Sample) (err error) {
	s, hops := w.schema, w.bound.Layers
	for h := range hops + 1 {
		copy(out.NumNodes[h], w.lengths(h))
	}
	seeds := part[deviceSegment](w.description, w.segment(-1, 0), len(s.Nodes))
	for t := range s.Nodes {
		n := out.NumNodes[hops][t]
		if out.Nodes[t], err = out.Buffers.Nodes[t].Tensor(w.ids, n); err != nil {
			return err
		}
		if out.SeedLocal[t], err = out.Buffers.Seeds[t].Tensor(unified.Int32, int64(seeds[t].picks)); err != nil {
			return err
		}
		if w.disjoint {
			if out.Arrays[t].Rows, err = out.Buffers.Arrays[t].Tensor(unified.Int32, n); err != nil {
				return err
			}
		}
		if w.times == nil {
			continue
		}
		at := w.timeArray(t)
		if out.Arrays[at].Rows, err = out.Buffers.Arrays[at].Tensor(unified.Int64, n); err != nil {
			return err
		}
	}
	pos := unified.Invalid
	if w.env.EdgePos {
		pos = w.pos
	}
	for h := range hops {
		layer := hops - 1 - h
		if out.ViewOf[layer] = layer; w.frontier == NewNodes {
			out.ViewOf[layer] = 0
		}
		for e, edges := range w.made(h) {
			et, b := &s.Edges[e], &out.Blocks[layer][e]
			b.NumDst, b.NumSrc = out.NumNodes[h][et.Dst], out.NumNodes[h+1][et.Src]
			if err := viewBlock(out, layer, e, edges, pos); err != nil {
				return err
			}
		}
	}
	return w.asked.viewEnds(s, out)
}
