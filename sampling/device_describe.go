package sampling

import (
	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// describe writes the description of a batch.
func (w *deviceNeighbor) describe(req *Request, out *graph.Sample) {
	s, l, d := w.schema, &w.layout, w.description
	nt, ne, hops := len(s.Nodes), len(s.Edges), len(w.plan)
	clear(d[:l.size])
	part[deviceStatus](d, l.status, 1)[0] = deviceStatus{badNode: ^uint64(0), badEdge: ^uint64(0)}
	part[deviceBatch](d, l.batch, 1)[0] = w.batch()
	lists := part[deviceList](d, l.lists, nt)
	for t := range lists {
		lists[t] = deviceList{ids: out.NodeBuffer(t).Address(), capacity: w.capacity.nodes[hops][t],
			offset: w.env.Graph.Offset(t),
			count:  s.Nodes[t].Count}
	}
	copy(part[int64](d, l.bySource, nt), w.seedOrder)
	copy(part[int64](d, l.bySource+8*int64(nt), ne), w.order)
	copy(part[int64](d, l.begins, nt+1), w.seedBegins)
	copy(part[int64](d, l.begins+8*int64(nt+1), nt+1), w.begins)
	stages := part[deviceStage](d, l.stages, hops+1)
	stages[0] = deviceStage{segments: w.at(w.segment(-1, 0)), numSegments: int64(nt), bySource: w.at(l.bySource),
		sourceBegin: w.at(l.begins),
		words:       w.describeSeeds(req, out)}
	for h := range hops {
		stages[h+1] = deviceStage{segments: w.at(w.segment(h, 0)), numSegments: int64(ne),
			bySource:    w.at(l.bySource + 8*int64(nt)),
			sourceBegin: w.at(l.begins + 8*int64(nt+1)), made: w.at(l.made + 8*int64(h*ne))}
		for e := range s.Edges {
			part[deviceSegment](d, w.segment(h, e), 1)[0] = w.describeSegment(req.Rand, out, h, e)
		}
	}
}

func (w *deviceNeighbor) batch() deviceBatch {
	s, l, c, g := w.schema, &w.layout, &w.capacity, w.env.Graph
	b := deviceBatch{
		indptr: w.env.Topology.Indptr, indices: w.env.Topology.Indices, types: w.env.Topology.Types,
		numEdges:  g.NumEdges(),
		typeBytes: g.Types().DType().Size(), wideIds: bit(w.ids == unified.Int64),
		widePositions: bit(w.pos == unified.Int64),
		hotStart:      w.env.Topology.HotStart, hotIndices: w.env.Topology.HotIndices, hotTypes: w.env.Topology.HotTypes,
		replace: bit(w.opt.Replace), newNodes: bit(w.opt.Frontier == NewNodes), numTypes: int64(len(s.Nodes)),
		tableValues: w.values.Address(), tableBits: int64(c.bits), stamp: w.stamp,
		start: w.dsts.Address(), maxDsts: w.dsts.Cap() / bytesOfDst, fresh: w.fresh.Address(),
		subsets:  w.subsets.Address(),
		maxPicks: min(8*w.fresh.Cap(), maxDevicePicks),
		partials: w.partials.Address(), warps: int64(w.blocks) * deviceBlockWarps,
		lists: w.at(l.lists), stages: w.at(l.stages), numStages: int64(len(w.plan) + 1), status: w.at(l.status),
		lengths: w.at(l.lengths),
	}
	if w.has.large {
		b.maxPicks = min(b.maxPicks, w.subsets.Cap()/8)
	}
	if !w.direct {
		b.tableKeys = w.keys.Address()
	}
	b.degree = b.start + 8*device.Address(b.maxDsts)
	b.ids = b.degree + 8*device.Address(b.maxDsts)
	b.shifts = b.partials + 8*device.Address(b.warps)
	return b
}

// describeSeeds writes the segments of stage 0 and the seeds, and returns the words that they take.
func (w *deviceNeighbor) describeSeeds(req *Request, out *graph.Sample) int64 {
	at, pick := w.layout.size, int64(0)
	for t, seeds := range req.Seeds {
		copy(part[int64](w.description, at, len(seeds)), seeds)
		part[deviceSegment](w.description, w.segment(-1, t), 1)[0] = deviceSegment{source: int64(t), target: int64(t),
			indices: out.SeedBuffer(t).Address(), seeds: w.at(at), picks: uint64(len(seeds)), firstPick: pick}
		at += 8 * int64(len(seeds))
		pick += roundUp32(int64(len(seeds)))
	}
	return pick / 32
}

func (w *deviceNeighbor) describeSegment(r Rand, out *graph.Sample, h, e int) deviceSegment {
	et, c := &w.schema.Edges[e], &w.capacity
	layer := len(w.plan) - 1 - h
	seg := deviceSegment{edgeType: int64(e), source: int64(et.Src), target: int64(et.Dst), fanout: int64(w.plan[h][e]),
		key: r.Stage(et.Key, PurposePick, uint8(h)).key, maxIndptr: c.nodes[h][et.Dst] + 1, maxIndices: c.edges[h][e]}
	if w.opt.Frontier == NewNodes {
		layer = 0
		if h > 0 {
			seg.before = w.at(w.segment(h-1, e))
		}
	}
	seg.indptr, seg.indices = out.IndptrBuffer(layer, e).Address(), out.IndicesBuffer(layer, e).Address()
	if w.env.EdgePos {
		seg.positions = out.EdgePosBuffer(layer, e).Address()
	}
	return seg
}
