package sampling

import (
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Finish implements DeviceWorker.
func (w *deviceNeighbor) Finish(out *graph.Sample) (replay bool, err error) {
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
func (w *deviceNeighbor) lengths(hops int) []int64 {
	nt := len(w.schema.Nodes)
	return part[int64](w.description, w.layout.lengths+8*int64(hops*nt), nt)
}

// made are the edges of the blocks of a hop.
func (w *deviceNeighbor) made(h int) []int64 {
	ne := len(w.schema.Edges)
	return part[int64](w.description, w.layout.made+8*int64(h*ne), ne)
}

func (w *deviceNeighbor) growEdges(h int) error {
	words := int64(0)
	for e, n := range w.made(h) {
		if n > maxBlockEdges {
			return w.in(h, e, errTooManyEdges(n))
		}
		w.capacity.needEdges(h, e, n, w.opt.Frontier == NewNodes)
		words += roundUp32(n)
	}
	if words > maxDevicePicks {
		return fmt.Errorf("hop %d: %w", h, errTooManyEdges(words))
	}
	return nil
}

func (w *deviceNeighbor) in(h, e int, err error) error {
	return fmt.Errorf("hop %d, edge type %v: %w", h, &w.schema.Edges[e], err)
}

// badGraph says what the kernels found wrong with the graph. Where several things are, it is not always what a Worker
// finds first.
func (w *deviceNeighbor) badGraph(h int, status *deviceStatus) error {
	g, s := w.env.Graph, w.schema
	if v := int64(status.badNode); v >= 0 {
		e := 0
		for ; e < len(s.Edges)-1; e++ {
			if dst := s.Edges[e].Dst; w.plan[h][e] != 0 && v >= g.Offset(dst) && v < g.Offset(dst+1) {
				break
			}
		}
		return w.in(h, e, fmt.Errorf("%w: node %d: its edges are %d to %d of %d", ErrGraph, v, g.Indptr()[v],
			g.Indptr()[v+1], g.NumEdges()))
	}
	pos := int64(status.badEdge)
	e, source := 0, int64(0)
	if t, err := unified.View[uint8](g.Types()); err == nil {
		e = int(t[pos])
	} else if t, err := unified.View[uint16](g.Types()); err == nil {
		e = int(t[pos])
	}
	if ids, err := unified.View[int32](g.Indices()); err == nil {
		source = int64(ids[pos])
	} else if ids, err := unified.View[int64](g.Indices()); err == nil {
		source = ids[pos]
	}
	src := &s.Nodes[s.Edges[e].Src]
	return w.in(h, e, fmt.Errorf("%w: edge %d: source %d is none of the %d nodes of type %q", ErrGraph, pos, source,
		src.Count, src.Name))
}

// shape views the buffers as the sample's tensors.
func (w *deviceNeighbor) shape(out *graph.Sample) (err error) {
	s, hops := w.schema, len(w.plan)
	for h := range hops + 1 {
		copy(out.NumNodes[h], w.lengths(h))
	}
	seeds := part[deviceSegment](w.description, w.segment(-1, 0), len(s.Nodes))
	for t := range s.Nodes {
		if out.Nodes[t], err = out.NodeBuffer(t).Tensor(w.ids, out.NumNodes[hops][t]); err != nil {
			return err
		}
		if out.SeedLocal[t], err = out.SeedBuffer(t).Tensor(unified.Int32, int64(seeds[t].picks)); err != nil {
			return err
		}
	}
	for h := range hops {
		for e, n := range w.made(h) {
			if err := w.view(out, h, e, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *deviceNeighbor) view(out *graph.Sample, h, e int, edges int64) (err error) {
	layer, et := len(w.plan)-1-h, &w.schema.Edges[e]
	b, from := &out.Blocks[layer][e], layer
	if w.opt.Frontier == NewNodes {
		from = 0
	}
	*b = graph.Block{NumDst: out.NumNodes[h][et.Dst], NumSrc: out.NumNodes[h+1][et.Src]}
	if b.Indptr, err = out.IndptrBuffer(from, e).Tensor(unified.Int32, b.NumDst+1); err != nil {
		return err
	}
	if b.Indices, err = out.IndicesBuffer(from, e).Tensor(unified.Int32, edges); err != nil || !w.env.EdgePos {
		return err
	}
	b.EdgePos, err = out.EdgePosBuffer(from, e).Tensor(w.pos, edges)
	return err
}
