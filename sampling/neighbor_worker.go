package sampling

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// neighborWorker runs Neighbor. A hop of an edge type goes in stages over all its destinations, so that independent cache
// misses overlap: first where each destination's edges lie (ranges), then, in chunks of picks, the picks themselves, the
// sources that lie at them, and the local ids of those. Each stage asks for the memory that the next one reads.
type neighborWorker[V nodeID] struct {
	opt     Neighbor
	plan    plan
	graph   *graph.Graph
	schema  *graph.Schema
	edgePos bool

	indptr  []int64
	indices []V
	types   typeColumn

	lists []list[V] // [node type], over the sample's buffers
	local relabeler[V]
	edges []edgeState // [edge type]

	starts, counts unified.Buffer // per destination of the stage at hand
	start, degree  []int64
	known          int // of these, how many hold from the hop before; only with one edge type
	cursors        []cursor
	chunks         [2]chunk[V]
}

// edgeState is what an edge type has made of the batch so far.
type edgeState struct {
	numDst, numEdges int // with NewNodes these grow from hop to hop, else they are of one hop
}

// chunk is the picks between two stages.
type chunk[V nodeID] struct {
	pos []int64
	nbr []V
	n   int
}

// chunkPicks is how many picks go through the stages together: enough to hide a miss behind the others, few enough for
// positions and sources to stay in the first-level cache.
const chunkPicks = 512

func scratchBytes[V nodeID](s *graph.Schema, b Bound) int64 {
	bytes := relabelerBytes[V](s.NumNodes(), b.Nodes) + 2*8*b.Nodes + 2*chunkPicks*16
	if len(s.Edges) > 1 {
		bytes += 8 * b.Nodes
	}
	return bytes
}

func openNeighbor[V nodeID](opt Neighbor, env Env) (Worker, error) {
	g := env.Graph
	s := g.Schema()
	p, err := newPlan(s, opt.Fanouts, opt.PerType)
	if err != nil {
		return nil, err
	}
	w := &neighborWorker[V]{opt: opt, plan: p, graph: g, schema: s, edgePos: env.EdgePos, indptr: g.Indptr()}
	if w.indices, err = viewIDs[V](g.Indices()); err != nil {
		return nil, err
	}
	if w.types, err = newTypeColumn(g.Types()); err != nil {
		return nil, err
	}
	w.lists = make([]list[V], len(s.Nodes))
	for t := range w.lists {
		w.lists[t].offset, w.lists[t].count = V(g.Offset(t)), V(s.Nodes[t].Count)
	}
	w.edges = make([]edgeState, len(s.Edges))
	w.cursors = make([]cursor, len(s.Nodes))
	nodes, _ := p.bound(s, env.BatchSize, opt.Frontier)
	w.local = newRelabeler[V](g.NumNodes(), nodes, env.Scratch)
	w.starts.Options, w.counts.Options = env.Scratch, env.Scratch
	for t := range w.cursors {
		w.cursors[t].buf.Options = env.Scratch
	}
	for i := range w.chunks {
		w.chunks[i] = chunk[V]{pos: make([]int64, chunkPicks), nbr: make([]V, chunkPicks)}
	}
	return w, nil
}

func viewIDs[V nodeID](t unified.Tensor) ([]V, error) {
	var z V
	if unsafe.Sizeof(z) == 4 {
		v, err := unified.View[int32](t)
		return *(*[]V)(unsafe.Pointer(&v)), err
	}
	v, err := unified.View[int64](t)
	return *(*[]V)(unsafe.Pointer(&v)), err
}

// Close implements Worker.
func (w *neighborWorker[V]) Close() error {
	err := w.local.close()
	for t := range w.cursors {
		err = firstError(err, w.cursors[t].buf.Close())
	}
	return firstError(err, firstError(w.starts.Close(), w.counts.Close()))
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// Sample implements Worker.
func (w *neighborWorker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	if err := w.begin(req, out); err != nil {
		return err
	}
	for h := range w.plan {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := w.hop(h, req.Rand, out); err != nil {
			return err
		}
	}
	return w.finish(out)
}

// begin makes the seeds the first nodes of their lists.
func (w *neighborWorker[V]) begin(req *Request, out *graph.Sample) error {
	if len(req.Seeds) != len(w.lists) || len(out.Blocks) != len(w.plan) {
		return fmt.Errorf("%w: request of %d node types, sample of %d layers; must be %d and %d", ErrOptions,
			len(req.Seeds), len(out.Blocks), len(w.lists), len(w.plan))
	}
	if err := w.local.begin(); err != nil {
		return err
	}
	w.known = 0
	clear(w.edges)
	for t := range w.lists {
		w.lists[t].n = 0
		w.lists[t].ids = nil
	}
	for t, seeds := range req.Seeds {
		if err := w.seed(t, seeds, out); err != nil {
			return err
		}
		out.NumNodes[0][t] = int64(w.lists[t].n)
	}
	return nil
}

func (w *neighborWorker[V]) seed(t int, seeds []int64, out *graph.Sample) error {
	local, err := unified.Grow[int32](out.SeedBuffer(t), int64(len(seeds)), 0)
	if err != nil {
		return err
	}
	l := &w.lists[t]
	nbr := w.chunks[0].nbr
	for lo := 0; lo < len(seeds); lo += chunkPicks {
		part := seeds[lo:min(lo+chunkPicks, len(seeds))]
		for i, id := range part {
			if uint64(id) >= uint64(l.count) {
				return fmt.Errorf("%w: seed %d: node %d of %d nodes of type %q", graph.ErrSeed, lo+i, id, l.count, w.schema.Nodes[t].Name)
			}
			nbr[i] = V(id) + l.offset
		}
		if err := w.room(t, len(part), out); err != nil {
			return err
		}
		w.local.relabel(nbr[:len(part)], local[lo:], l)
	}
	out.SeedLocal[t], err = out.SeedBuffer(t).Tensor(unified.Int32, int64(len(seeds)))
	return err
}

// room makes room for n more nodes of type t, and one more that relabel may write beyond the last.
func (w *neighborWorker[V]) room(t, n int, out *graph.Sample) error {
	l := &w.lists[t]
	if l.n+n+1 > len(l.ids) {
		ids, err := unified.Grow[V](out.NodeBuffer(t), int64(l.n+n+1), int64(l.n))
		if err != nil {
			return err
		}
		l.ids = ids
	}
	return w.local.grow(n, w.lists)
}

// hop expands every edge type once.
func (w *neighborWorker[V]) hop(h int, r Rand, out *graph.Sample) error {
	for t := range w.cursors {
		w.cursors[t].n = 0
	}
	for e, fanout := range w.plan[h] {
		st := stage[V]{hop: h, edgeType: e, fanout: fanout, layer: len(w.plan) - 1 - h}
		et := &w.schema.Edges[e]
		st.dst, st.src, st.dstType, st.srcType = &w.lists[et.Dst], &w.lists[et.Src], et.Dst, et.Src
		st.hi = int(out.NumNodes[h][et.Dst])
		st.key = r.Stage(et.Key, PurposePick, uint8(h)).key
		if w.opt.Frontier == NewNodes {
			st.layer = 0
			st.lo = w.edges[e].numDst
		} else {
			w.edges[e] = edgeState{}
		}
		if err := w.expand(&st, out); err != nil {
			return fmt.Errorf("hop %d, edge type %v: %w", h, et, err)
		}
	}
	for t := range w.lists {
		out.NumNodes[h+1][t] = int64(w.lists[t].n)
	}
	return w.setBlocks(h, out)
}

// stage is one hop of one edge type: destinations lo .. hi-1 of a list, fan-out picks each.
type stage[V nodeID] struct {
	hop, layer, edgeType int
	fanout               int
	key                  uint64 // of the draws
	lo, hi               int
	dst, src             *list[V]
	dstType, srcType     int
}

// setBlocks views what hop h made as its layer.
func (w *neighborWorker[V]) setBlocks(h int, out *graph.Sample) (err error) {
	layer := len(w.plan) - 1 - h
	from := layer
	if w.opt.Frontier == NewNodes {
		from = 0
	}
	for e := range w.edges {
		b, st, et := &out.Blocks[layer][e], w.edges[e], &w.schema.Edges[e]
		b.NumDst, b.NumSrc = int64(st.numDst), out.NumNodes[h+1][et.Src]
		if b.Indptr, err = out.IndptrBuffer(from, e).Tensor(unified.Int32, int64(st.numDst)+1); err != nil {
			return err
		}
		if b.Indices, err = out.IndicesBuffer(from, e).Tensor(unified.Int32, int64(st.numEdges)); err != nil {
			return err
		}
		b.EdgePos = unified.Tensor{}
		if w.edgePos {
			if b.EdgePos, err = out.EdgePosBuffer(from, e).Tensor(w.schema.PosType(), int64(st.numEdges)); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish sets the node lists and, since the buffers of a NewNodes sample may have moved while they grew, the blocks again.
func (w *neighborWorker[V]) finish(out *graph.Sample) (err error) {
	for t := range w.lists {
		if out.Nodes[t], err = out.NodeBuffer(t).Tensor(w.schema.IDType(), int64(w.lists[t].n)); err != nil {
			return err
		}
	}
	if w.opt.Frontier != NewNodes {
		return nil
	}
	for l := range out.Blocks {
		for e := range out.Blocks[l] {
			b := &out.Blocks[l][e]
			if b.Indptr, err = out.IndptrBuffer(0, e).Tensor(unified.Int32, b.NumDst+1); err != nil {
				return err
			}
			if b.Indices, err = out.IndicesBuffer(0, e).Tensor(unified.Int32, b.Indices.Len()); err != nil {
				return err
			}
			if w.edgePos {
				if b.EdgePos, err = out.EdgePosBuffer(0, e).Tensor(w.schema.PosType(), b.EdgePos.Len()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// expand runs one stage.
func (w *neighborWorker[V]) expand(st *stage[V], out *graph.Sample) error {
	if err := w.ranges(st); err != nil {
		return err
	}
	picks, err := w.count(st, out)
	if err != nil {
		return err
	}
	have := w.edges[st.edgeType].numEdges
	total := int64(have + picks)
	local, err := unified.Grow[int32](out.IndicesBuffer(st.layer, st.edgeType), total, int64(have))
	if err != nil {
		return err
	}
	local = local[have:total]
	sink := posSink{wanted: w.edgePos}
	if err := sink.open(out.EdgePosBuffer(st.layer, st.edgeType), w.schema.PosType(), have, total); err != nil {
		return err
	}
	w.edges[st.edgeType] = edgeState{numDst: st.hi, numEdges: int(total)}
	return w.stream(st, local, &sink, out)
}

// stream sends the picks through the stages, a chunk behind one another.
func (w *neighborWorker[V]) stream(st *stage[V], local []int32, sink *posSink, out *graph.Sample) error {
	p := picker[V]{stage: st, start: w.start, degree: w.degree, indices: w.indices, replace: w.opt.Replace, i: st.lo}
	cur, next := &w.chunks[0], &w.chunks[1]
	p.fill(cur)
	for cur.n > 0 {
		p.fill(next) // asks for its sources, while those of cur arrive
		if err := w.load(st, cur); err != nil {
			return err
		}
		if err := w.room(st.srcType, cur.n, out); err != nil {
			return err
		}
		w.local.relabel(cur.nbr[:cur.n], local, st.src)
		sink.put(cur.pos[:cur.n])
		local = local[cur.n:]
		cur, next = next, cur
	}
	return nil
}

// load reads the sources at the picks and asks for their entries in the relabel table.
func (w *neighborWorker[V]) load(st *stage[V], c *chunk[V]) error {
	indices, nbr, off, count := w.indices, c.nbr[:c.n], st.src.offset, uint64(st.src.count)
	bad := uint64(0)
	for i, p := range c.pos[:c.n] {
		v := indices[p]
		nbr[i] = v
		if uint64(v-off) >= count {
			bad++
		}
	}
	if bad != 0 {
		return w.badSource(st, c)
	}
	w.local.prefetch(nbr)
	return nil
}

func (w *neighborWorker[V]) badSource(st *stage[V], c *chunk[V]) error {
	for i, v := range c.nbr[:c.n] {
		if uint64(v-st.src.offset) >= uint64(st.src.count) {
			return fmt.Errorf("%w: edge %d: source %d is none of the %d nodes of type %q", ErrGraph, c.pos[i], v,
				st.src.count, w.schema.Nodes[st.srcType].Name)
		}
	}
	return nil
}

// ranges finds where the edges of each destination lie: start and degree, by position in the list.
func (w *neighborWorker[V]) ranges(st *stage[V]) (err error) {
	n := int64(st.hi)
	keep := int64(w.known)
	if w.start, err = unified.Grow[int64](&w.starts, n, keep); err != nil {
		return err
	}
	if w.degree, err = unified.Grow[int64](&w.counts, n, keep); err != nil {
		return err
	}
	if st.fanout == 0 {
		clear(w.degree[st.lo:st.hi])
		w.known = min(w.known, st.lo)
		return nil
	}
	lo := st.lo
	if len(w.edges) == 1 {
		lo = max(lo, w.known) // a node's range is the same at every hop
		w.known = st.hi
	}
	if err := w.columns(st, lo); err != nil {
		return err
	}
	if len(w.edges) > 1 {
		return w.cursors[st.dstType].narrow(w.types, st.edgeType, lo, st.hi, w.start, w.degree)
	}
	return nil
}

// columns sets start and degree of destinations lo .. hi-1 to their whole columns.
func (w *neighborWorker[V]) columns(st *stage[V], lo int) error {
	indptr, ids, off := w.indptr, st.dst.ids[:st.hi], st.dst.offset
	start, degree := w.start[:st.hi], w.degree[:st.hi]
	numEdges := uint64(len(w.indices))
	const ahead = 64
	var fused [ahead]V
	for b := lo; b < st.hi; b += ahead {
		end := min(b+ahead, st.hi)
		next := fused[:min(end+ahead, st.hi)-end]
		for i := range next {
			next[i] = ids[end+i] + off
		}
		prefetchNodes8(unsafe.Pointer(&indptr[0]), next)
		for i := b; i < end; i++ {
			v := int64(ids[i] + off)
			from, to := indptr[v], indptr[v+1]
			if uint64(from) > uint64(to) || uint64(to) > numEdges {
				return fmt.Errorf("%w: node %d: its edges are %d to %d of %d", ErrGraph, v, from, to, numEdges)
			}
			start[i], degree[i] = from, to-from
		}
	}
	return nil
}

// count writes the block's indptr and returns the picks of the stage.
func (w *neighborWorker[V]) count(st *stage[V], out *graph.Sample) (int, error) {
	indptr, err := unified.Grow[int32](out.IndptrBuffer(st.layer, st.edgeType), int64(st.hi)+1, int64(st.lo)+1)
	if err != nil {
		return 0, err
	}
	have := int64(w.edges[st.edgeType].numEdges)
	n := have
	k := int64(st.fanout)
	degree, ends := w.degree[:st.hi], indptr[1:st.hi+1]
	if st.lo == 0 {
		indptr[0] = 0
	}
	for i := st.lo; i < st.hi; i++ {
		d := degree[i]
		switch {
		case k < 0:
			n += d
		case w.opt.Replace && d > 0:
			n += k
		default:
			n += min(d, k)
		}
		ends[i] = int32(n)
	}
	if n > maxBlockEdges {
		return 0, fmt.Errorf("%w: a block of %d edges, at most %d are possible: take smaller batches or fan-outs", ErrOptions, n, maxBlockEdges)
	}
	return int(n - have), nil
}

// maxBlockEdges is what int32 offsets can number, and what relabelers leave room for.
const maxBlockEdges = 1<<30 - 1<<20

// posSink writes edge positions where they are wanted.
type posSink struct {
	wanted bool
	pos32  []int32
	pos64  []int64
}

func (s *posSink) open(b *unified.Buffer, t unified.DType, have int, total int64) (err error) {
	if !s.wanted {
		return nil
	}
	if t == unified.Int32 {
		s.pos32, err = unified.Grow[int32](b, total, int64(have))
		s.pos32 = s.pos32[min(have, len(s.pos32)):]
		return err
	}
	s.pos64, err = unified.Grow[int64](b, total, int64(have))
	s.pos64 = s.pos64[min(have, len(s.pos64)):]
	return err
}

func (s *posSink) put(pos []int64) {
	switch {
	case !s.wanted:
	case s.pos32 != nil:
		for i, p := range pos {
			s.pos32[i] = int32(p)
		}
		s.pos32 = s.pos32[len(pos):]
	default:
		copy(s.pos64, pos)
		s.pos64 = s.pos64[len(pos):]
	}
}
