package sampling

import (
	"slices"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// describe writes the description of a batch.
func (w *deviceAssembly) describe(req *Request, out *graph.Sample) {
	s, l, d := w.schema, &w.layout, w.description
	nt, ne, last := len(s.Nodes), len(s.Edges), len(w.stages)
	clear(d[:l.size])
	part[deviceStatus](d, l.status, 1)[0] = deviceStatus{badNode: ^uint64(0), badEdge: ^uint64(0)}
	part[deviceBatch](d, l.batch, 1)[0] = w.batch()
	lists := part[deviceList](d, l.lists, nt)
	for t := range lists {
		lists[t] = deviceList{ids: out.Buffers.Nodes[t].Address(), capacity: w.capacity.nodes[last][t],
			offset: w.env.Graph.Offset(t), count: s.Nodes[t].Count}
		if w.disjoint {
			lists[t].trees = out.Buffers.Arrays[t].Address()
		}
		if w.times != nil {
			lists[t].times = out.Buffers.Arrays[w.timeArray(t)].Address()
		}
		if w.norms != nil {
			lists[t].norms = out.Buffers.Arrays[t].Address()
		}
	}
	copy(part[deviceLeftOut](d, w.pairsAt(), len(w.pairs)), w.pairs)
	copy(part[device.Address](d, l.columns, len(w.env.Topology.Columns)), w.env.Topology.Columns)
	copy(part[int64](d, l.bySource, nt), w.seedOrder)
	copy(part[int64](d, l.bySource+8*int64(nt), ne), w.order)
	copy(part[int64](d, l.begins, nt+1), w.seedBegins)
	copy(part[int64](d, l.begins+8*int64(nt+1), nt+1), w.begins)
	if w.sender != nil {
		w.sender.own(req.Rand, out, d[l.own:l.size])
	}
	stages := part[deviceStage](d, l.stages, last+1)
	stages[0] = deviceStage{segments: w.at(w.segment(-1, 0)), numSegments: int64(nt), bySource: w.at(l.bySource),
		sourceBegin: w.at(l.begins), words: w.describeSeeds(req, out)}
	reached := w.reached.Address()
	for h, kind := range w.stages {
		st := &stages[h+1]
		if kind == stagePlace {
			*st = stages[0]
			st.segments, st.words = w.at(w.segment(h, 0)), 0
			w.describePlaced(h, out)
			continue
		}
		*st = deviceStage{segments: w.at(w.segment(h, 0)), numSegments: int64(ne),
			bySource: w.at(l.bySource + 8*int64(nt)), sourceBegin: w.at(l.begins + 8*int64(nt+1)),
			made: w.at(l.made + 8*int64(h*w.width)), newNodes: w.newNodes(h)}
		if kind == stageReach {
			reached = w.describeReached(req.Rand, h, reached)
			if w.mixes {
				st.numSegments, st.bySource, st.sourceBegin = int64(nt), stages[0].bySource, stages[0].sourceBegin
			}
			continue
		}
		for e := range s.Edges {
			part[deviceSegment](d, w.segment(h, e), 1)[0] = w.describeSegment(req.Rand, out, h, e)
		}
	}
}

// newNodes says how many stages before a stage the nodes were appended that alone are its destinations, 0 for all.
func (w *deviceAssembly) newNodes(h int) int64 {
	switch {
	case w.frontier != NewNodes || w.stages[h] == stageInduce:
		return 0
	case w.stages[h] == stageHop && w.reacher != nil:
		return 2
	}
	return 1
}

// describeReached writes the segments of a stage that lists edges to memory from an address on, and returns its end.
func (w *deviceAssembly) describeReached(r Rand, h int, at device.Address) device.Address {
	c, targets := &w.capacity, w.targets(h)
	segments := part[deviceSegment](w.description, w.segment(h, 0), len(targets))
	for i, t := range targets {
		end := at + device.Address(w.listBytes(h, i))
		segments[i] = deviceSegment{edgeType: int64(i), source: int64(t), target: int64(t), fanout: All,
			maxIndptr: c.nodes[h][t] + 1, maxIndices: c.edges[h][i], indptr: at,
			positions: end - device.Address(8*c.edges[h][i])}
		if w.mixes {
			segments[i].edgeType = -1
		} else {
			segments[i].source = int64(w.sourceTypes[i])
		}
		w.reacher.describe(&segments[i], r, w.hopOf[h], i)
		at = end
	}
	return at
}

// describePlaced writes the segments of a stage that places nodes, one for each node type.
func (w *deviceAssembly) describePlaced(h int, out *graph.Sample) {
	segments := part[deviceSegment](w.description, w.segment(h, 0), len(w.schema.Nodes))
	for t := range segments {
		segments[t] = deviceSegment{source: int64(t), target: int64(t), indices: w.local(out), anyType: 1,
			seeds: w.cells.Address()}
	}
}

// local returns where the local ids of nodes go that are placed: to the first array of rows of the seeds, or nowhere
// that is kept.
func (w *deviceAssembly) local(out *graph.Sample) device.Address {
	for i, a := range w.arrays {
		if a.kind == rowOfWalks || a.kind == rowOfSeed {
			return out.Buffers.Arrays[i].Address()
		}
	}
	return w.cells.Address() + 8*device.Address(w.placed)
}

// pairsAt returns the offset of the pairs whose edges are left out.
func (w *deviceAssembly) pairsAt() int64 {
	return w.fromAt() + 8*w.seedRoom*bit(w.times != nil && w.disjoint)
}

// fromAt returns the offset of the first times of the items.
func (w *deviceAssembly) fromAt() int64 {
	return w.layout.size + 8*w.seedRoom*(1+bit(w.times != nil))
}

func (w *deviceAssembly) batch() deviceBatch {
	s, l, c, g := w.schema, &w.layout, &w.capacity, w.env.Graph
	b := deviceBatch{
		indptr: w.env.Topology.Indptr, indices: w.env.Topology.Indices, types: w.env.Topology.Types,
		numEdges: g.NumEdges(), typeBytes: g.Types().DType().Size(), wideIds: bit(w.ids == unified.Int64),
		widePositions: bit(w.pos == unified.Int64), hotStart: w.env.Topology.HotStart,
		hotIndices: w.env.Topology.HotIndices, hotTypes: w.env.Topology.HotTypes, columns: w.at(l.columns),
		moved: w.moved, numTypes: int64(len(s.Nodes)), allNodes: s.NumNodes(),
		tableValues: w.values.Address(), tableBits: int64(c.bits), idBits: idBits, stamp: w.stamp,
		start: w.dsts.Address(), maxDsts: w.dsts.Cap() / w.bytesOfDst(), fresh: w.fresh.Address(),
		scratch: w.cells.Address(), maxPicks: min(8*w.fresh.Cap(), maxDevicePicks),
		partials: w.partials.Address(), warps: int64(w.blocks) * deviceBlockWarps,
		lists: w.at(l.lists), stages: w.at(l.stages), numStages: int64(len(w.stages) + 1), status: w.at(l.status),
		lengths: w.at(l.lengths),
	}
	needs := w.needs()
	if needs.cells {
		b.maxPicks = min(b.maxPicks, w.cells.Cap()/8)
	}
	if w.pairRoom > 0 {
		b.pairs, b.numPairs, b.pairEnds = w.at(w.pairsAt()), int64(len(w.pairs)), w.leftOut.Address()
		b.excluded, b.maxExcluded = b.pairEnds+8*device.Address(w.pairRoom+1), w.excludedRoom
	}
	if w.apart() {
		b.numNodes, b.span = s.NumNodes(), s.NumNodes()*w.trees()
	}
	if w.times != nil {
		b.times, b.idBits = w.numbers.Address(), timedIDBits
	}
	if w.bounded {
		b.from = w.at(w.fromAt())
	}
	if !w.direct {
		b.tableKeys = w.keys.Address()
	}
	b.sorting = b.scratch + 8*device.Address(w.sortAt)
	b.degree = b.start + 8*device.Address(b.maxDsts)
	b.ids = b.degree + 8*device.Address(b.maxDsts)
	if needs.eligible {
		b.eligible = b.ids + 8*device.Address(b.maxDsts)
		b.hubs = b.partials + 8*device.Address(b.warps+b.numTypes)
		if b.maxSlices = 512; needs.least {
			b.maxSlices = 64 // kMergedSlices
		}
	}
	b.shifts = b.partials + 8*device.Address(b.warps)
	return b
}

// describeSeeds writes the segments of stage 0 and the seeds, and returns the words that they take.
func (w *deviceAssembly) describeSeeds(req *Request, out *graph.Sample) int64 {
	at, pick, trees := w.layout.size, int64(0), bit(w.disjoint)*w.schema.NumNodes()
	for t := range w.schema.Nodes {
		n := req.NumSeeds(w.schema, t)
		to := part[int64](w.description, at, int(n))
		seg := deviceSegment{source: int64(t), target: int64(t), indices: out.Buffers.Seeds[t].Address(),
			seeds: w.at(at), picks: uint64(n), firstPick: pick}
		var times []int64
		if w.times != nil {
			times = part[int64](w.description, at+8*w.seedRoom, int(n))
			seg.seedTimes = w.at(at + 8*w.seedRoom)
		}
		_ = req.seeds(w.schema, t, func(ids []int64, item int) error {
			for i, id := range ids {
				to[i] = int64(item+i)*trees + id
			}
			if times != nil {
				times = times[copy(times, w.asOf[item:item+len(ids)]):]
			}
			to = to[len(ids):]
			return nil
		})
		part[deviceSegment](w.description, w.segment(-1, t), 1)[0] = seg
		at += 8 * n
		pick += roundUp32(n)
	}
	return pick / 32
}

// findTimes notes the time of each item, where times matter, and writes their first times into the description.
func (w *deviceAssembly) findTimes(req *Request) (err error) {
	if w.times == nil {
		return nil
	}
	if w.bounded, err = req.bounded(w.disjoint); err != nil {
		return err
	}
	if w.bounded {
		req.itemFrom(part[int64](w.description, w.fromAt(), int(w.items)))
	}
	w.asOf = slices.Grow(w.asOf[:0], int(w.items))[:w.items]
	return w.times(req, w.asOf)
}

func (w *deviceAssembly) describeSegment(r Rand, out *graph.Sample, h, e int) deviceSegment {
	et, c := &w.schema.Edges[e], &w.capacity
	seg := deviceSegment{edgeType: int64(e), source: int64(et.Src), target: int64(et.Dst), fanout: All,
		maxIndptr: c.nodes[h][et.Dst] + 1, maxIndices: c.edges[h][e]}
	to, layer := w.block(h, out)
	if w.stages[h] == stageHop {
		w.picker.describe(&seg, r, w.hopOf[h], e)
		back := 1
		if w.reacher != nil {
			back = 2
			if seg.reach = w.at(w.segment(h-1, e)); w.mixes {
				seg.reach = w.at(w.segment(h-1, et.Dst))
			}
		}
		if w.frontier == NewNodes && w.hopOf[h] > 0 {
			seg.before = w.at(w.segment(h-back, e))
		}
	}
	seg.indptr, seg.indices = to.Buffers.Indptr[layer][e].Address(), to.Buffers.Indices[layer][e].Address()
	if w.env.EdgePos && to == out {
		seg.positions = to.Buffers.EdgePos[layer][e].Address()
	}
	for i, a := range w.arrays {
		if a.kind == rowOfEdge && a.stage == h && a.at == e {
			seg.weights = out.Buffers.Arrays[i].Address()
		}
	}
	return seg
}
