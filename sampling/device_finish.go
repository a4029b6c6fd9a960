package sampling

import (
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

func (w *deviceAssembly) Finish(out *graph.Sample) (replay bool, err error) {
	if w.out == nil || w.out != out {
		return false, fmt.Errorf("%w: the batch was not enqueued here", ErrOptions)
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
	case deviceExcludedFull:
		w.excludedRoom = status.excluded
		w.capacity.changes++
	case deviceNodesFull:
		for t, n := range w.lengths(stage) {
			w.capacity.needNodes(stage, t, n)
		}
	default:
		err = fmt.Errorf("the device reports a batch as stopped for reason %d", status.reason)
	}
	return err == nil, err
}

// lengths are those of the node lists after a number of stages; a stage that induces blocks changes none.
func (w *deviceAssembly) lengths(stages int) []int64 {
	if stages > 0 && w.stages[stages-1] == stageInduce {
		stages--
	}
	nt := len(w.schema.Nodes)
	return part[int64](w.description, w.layout.lengths+8*int64(stages*nt), nt)
}

// made are the edges of the blocks of a stage.
func (w *deviceAssembly) made(h int) []int64 {
	return part[int64](w.description, w.layout.made+8*int64(h*w.width), len(w.targets(h)))
}

func (w *deviceAssembly) growEdges(h int) error {
	words := int64(0)
	for e, n := range w.made(h) {
		if n > maxBlockEdges {
			return w.in(h, e, errTooManyEdges(n))
		}
		w.needEdges(h, e, n)
		words += roundUp32(n)
	}
	if words > maxDevicePicks {
		return fmt.Errorf("hop %d: %w", w.hopOf[h], errTooManyEdges(words))
	}
	return nil
}

func (w *deviceAssembly) in(h, e int, err error) error {
	if w.rawFault || w.stages[h] != stageHop && w.stages[h] != stageReach {
		return err
	}
	if w.mixes && w.stages[h] == stageReach {
		e = slices.Index(w.targetTypes, e)
	}
	if w.reacher != nil && !w.mixes { // as on the CPU, where edges of all types are listed first
		listed := h - int(bit(w.stages[h] == stageHop))
		if part[deviceSegment](w.description, w.segment(listed, e), 1)[0].fanout != 0 {
			return fmt.Errorf("hop %d: %w", w.hopOf[h], err)
		}
	}
	return fmt.Errorf("hop %d, edge type %v: %w", w.hopOf[h], &w.schema.Edges[e], err)
}

// badGraph returns the error of a fault that the kernels found in the graph. Of several faults it need not name the one
// that a Worker finds first.
func (w *deviceAssembly) badGraph(h int, status *deviceStatus) error {
	g, s := w.env.Graph, w.schema
	if v := int64(status.badNode); v >= 0 {
		e, targets := 0, w.targets(h)
		for ; e < len(targets)-1; e++ {
			seg := part[deviceSegment](w.description, w.segment(h, e), 1)[0]
			if dst := targets[e]; seg.fanout != 0 && v >= g.Offset(dst) && v < g.Offset(dst+1) {
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
	at := e
	if w.mixes && w.stages[h] == stageReach {
		at = s.Edges[e].Dst
	}
	if t := s.Edges[e].Src; source >= g.Offset(t) && source < g.Offset(t+1) {
		for _, p := range []devicePicker{w.picker, w.reacher} {
			if p, ok := p.(deviceWeigher); ok {
				return w.in(h, at, p.badEdge(pos))
			}
		}
	}
	return w.in(h, at, errSource(s, s.Edges[e].Src, pos, source))
}

// shape views the buffers as the sample's tensors.
func (w *deviceAssembly) shape(out *graph.Sample) (err error) {
	s, last := w.schema, len(w.stages)
	for h := range out.NumNodes {
		at := slices.Index(w.hopOf, h) // the stage behind it
		if h == len(out.NumNodes)-1 || w.request != nil {
			at = last
		}
		copy(out.NumNodes[h], w.lengths(at))
	}
	seeds, edges := part[deviceSegment](w.description, w.segment(-1, 0), len(s.Nodes)), make([][]int64, last)
	for t := range s.Nodes {
		n := int64(seeds[t].picks)
		if w.request != nil {
			n = 0
		}
		if out.Nodes[t], err = out.Buffers.Nodes[t].Tensor(w.ids, w.lengths(last)[t]); err != nil {
			return err
		}
		if out.SeedLocal[t], err = out.Buffers.Seeds[t].Tensor(unified.Int32, n); err != nil {
			return err
		}
	}
	for h := range w.stages {
		edges[h] = w.made(h)
		if to, layer := w.block(h, out); to == out {
			if err := w.shapeBlocks(out, h, layer); err != nil {
				return err
			}
		}
	}
	if err := w.shapeEmpty(out); err != nil {
		return err
	}
	for i, a := range w.arrays {
		rows := w.rowsOf(&a, w.lengths(last), edges, sumOf(w.lengths(0)))
		shape := append([]int64{rows}, w.bound.Arrays[i].Shape...)
		if out.Arrays[i].Rows, err = out.Buffers.Arrays[i].Tensor(w.arrayType(i), shape...); err != nil {
			return err
		}
	}
	return w.asked.viewEnds(s, out)
}

func sumOf(list []int64) (n int64) {
	for _, x := range list {
		n += x
	}
	return n
}

// shapeBlocks views the blocks of a stage as those of a layer.
func (w *deviceAssembly) shapeBlocks(out *graph.Sample, h, layer int) error {
	pos, from := unified.Invalid, layer
	if w.env.EdgePos {
		pos = w.pos
	}
	if w.stages[h] == stageHop {
		layer = w.bound.Layers - 1 - w.hopOf[h]
	}
	out.ViewOf[layer] = from
	for e, edges := range w.made(h) {
		et, b := &w.schema.Edges[e], &out.Blocks[layer][e]
		b.NumDst, b.NumSrc = w.lengths(h)[et.Dst], w.lengths(h + 1)[et.Src]
		if err := viewBlock(out, layer, e, edges, pos); err != nil {
			return err
		}
	}
	return nil
}

// shapeEmpty views the blocks that claimEmpty wrote.
func (w *deviceAssembly) shapeEmpty(out *graph.Sample) error {
	if out.ViewOf[0] = 0; slices.ContainsFunc(w.stages, func(k stageKind) bool { return k != stagePlace }) {
		return nil
	}
	for e := range w.schema.Edges {
		et, b := &w.schema.Edges[e], &out.Blocks[0][e]
		b.NumDst, b.NumSrc = out.NumNodes[0][et.Dst], out.NumNodes[1][et.Src]
		if err := viewBlock(out, 0, e, 0, unified.Invalid); err != nil {
			return err
		}
	}
	return nil
}
