package sampling

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/internal/timeline"
	"github.com/khop-gnn/khop/unified"
)

// picker decides which edges a hop follows; the assembly does the rest, so a new sampler is a new picker. One goroutine
// uses it.
type picker[V nodeID] interface {
	// hop begins a hop and sees its frontiers, one for each edge type. They stay valid until the hop is done.
	hop(r Rand, frontiers []stage[V]) error
	// count decides how many edges each destination st.lo .. st.hi-1 takes: it sets ends[i] to the edges that the block
	// has after destination i, and returns the last of these. The block has st.have edges before. assembly.ranges says
	// where the edges of each destination lie.
	count(st *stage[V], ends []int32) (int64, error)
	// fill writes the positions of the next picks of that stage to c.pos, in order, sets c.n, and asks for the sources
	// that lie there (prefetchPicks). With c.n = 0 the stage ends.
	fill(c *chunk[V])
}

// assembly keeps the node lists and local ids of a batch, finds the edges of destinations, and lays out blocks.
type assembly[V nodeID] struct {
	*scratch // also of the picker
	graph    *graph.Graph
	schema   *graph.Schema
	layers   int
	arrays   int // of a sample
	frontier Frontier
	edgePos  bool

	indptr  []int64
	indices []V
	types   typeColumn

	lists  []list[V] // [node type], over the sample's buffers
	local  relabeler[V]
	direct *directMap[V] // local, where it is that
	forest *forest[V]    // in place of local where trees are kept apart, else nil
	raw    [][]V         // [edge type]: sources of picks, which then get no local ids; nil for those that do
	edges  []edgeState   // [edge type]
	made   [][]edgeState // [layer][edge type]: edges when the layer's hop was done
	stages []stage[V]    // [edge type] of the hop at hand
	asked  seedCounts
	chunks [3]chunk[V] // picks on their way to local
	found  [chunkPicks]int32

	starts, counts unified.Buffer // behind start and degree
	start, degree  []int64        // per destination of the stage at hand: where its edges lie
	known          int            // of these, how many hold from the hop before; only with one edge type
	cursors        []cursor       // [node type]

	pages   paged     // what is brought from disk
	out     exclusion // edges that the batch leaves out
	skipper excludingPicker[V]
}

// edgeState counts what the batch has of an edge type so far.
type edgeState struct {
	numDst, numEdges int // with NewNodes these grow from hop to hop, else they are of one hop
}

// stage is one hop of one edge type: destinations lo .. hi-1 of a list, in a block that has some edges before.
type stage[V nodeID] struct {
	hop, layer, edgeType int
	lo, hi, have         int
	dst, src             *list[V]
	dstType, srcType     int
}

// index returns the key of destination i's draws.
func (st *stage[V]) index(i int) uint64 {
	id := uint64(st.dst.ids[i])
	if st.dst.trees != nil {
		id += uint64(st.dst.trees[i]) * uint64(st.dst.count)
	}
	return id
}

func scratchBytes[V nodeID](s *graph.Schema, b Bound) int64 {
	bytes := relabelerBytes[V](s.NumNodes(), b.Nodes)
	if b.Lists != nil {
		bytes = forestBytes(b.Nodes)
	}
	perNode := int64(2 * 8)
	if len(s.Edges) > 1 {
		perNode += 2 * 8
	}
	return sat.Add(bytes, sat.Mul(perNode, b.Nodes))
}

// newAssembly makes an assembly for ids of the width that the graph's schema says. Where the bound has lists the trees
// of the items are kept apart.
func newAssembly[V nodeID](env Env, indices []V, frontier Frontier, b Bound) (*assembly[V], error) {
	g := env.Graph
	s := g.Schema()
	a := &assembly[V]{scratch: &scratch{options: env.Scratch}, graph: g, schema: s, layers: b.Layers,
		arrays: len(b.Arrays), frontier: frontier, edgePos: env.EdgePos, indptr: g.Indptr(), indices: indices,
		chunks: [3]chunk[V]{newChunk[V](), newChunk[V](), newChunk[V]()}}
	var err error
	if a.types, err = newTypeColumn(g.Types()); err != nil {
		return nil, err
	}
	a.lists = make([]list[V], len(s.Nodes))
	for t := range a.lists {
		a.lists[t].offset, a.lists[t].count = V(g.Offset(t)), V(s.Nodes[t].Count)
	}
	a.edges, a.stages = make([]edgeState, len(s.Edges)), make([]stage[V], len(s.Edges))
	a.made = make([][]edgeState, b.Layers)
	for l := range a.made {
		a.made[l] = make([]edgeState, len(s.Edges))
	}
	a.cursors = make([]cursor, len(s.Nodes))
	for t := range a.cursors {
		a.own(&a.cursors[t].atMem, &a.cursors[t].leftMem)
	}
	a.own(&a.starts, &a.counts)
	if b.Lists != nil {
		a.forest, err = newForest[V](env, b.Nodes, a.scratch)
	} else {
		a.local = newRelabeler[V](g.NumNodes(), b.Nodes, a.scratch)
	}
	a.openPages(env)
	return a, err
}

// worker is a picker and its assembly.
type worker[V nodeID] struct {
	*assembly[V]
	picker picker[V]
}

func (w *worker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	return w.sample(ctx, req, out, w.picker)
}

// sample fills out with what p picks.
func (a *assembly[V]) sample(ctx context.Context, req *Request, out *graph.Sample, p picker[V]) error {
	if err := a.begin(req, out); err != nil {
		return err
	}
	if err := a.leaveOut(req, p); err != nil {
		return err
	}
	lane := timeline.Of(ctx)
	for h := range a.layers {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		span := lane.Begin("hop", int64(h))
		err := a.hop(h, req.Rand, out, p)
		if span.End(); err != nil {
			return err
		}
	}
	return a.finish(req, out)
}

// begin makes the seeds the first nodes of their lists.
func (a *assembly[V]) begin(req *Request, out *graph.Sample) error {
	if err := req.check(a.schema, a.layers, out); err != nil {
		return err
	}
	if a.forest != nil {
		if err := a.checkArrays(out); err != nil {
			return err
		}
	}
	if err := a.beginLocal(req); err != nil {
		return err
	}
	a.known, a.pages.err = 0, nil
	clear(a.edges)
	for t := range a.lists {
		l := &a.lists[t]
		l.n, l.ids, l.trees, l.times = 0, nil, nil, nil
		local, err := unified.Grow[int32](&out.Buffers.Seeds[t], req.NumSeeds(a.schema, t), 0)
		if err != nil {
			return err
		}
		n := 0
		err = req.seeds(a.schema, t, func(ids []int64, item int) error {
			n += len(ids)
			return a.seed(t, ids, item, local[n-len(ids):n], out)
		})
		if err != nil {
			return err
		}
		out.NumNodes[0][t] = int64(l.n)
		if out.SeedLocal[t], err = out.Buffers.Seeds[t].Tensor(unified.Int32, int64(n)); err != nil {
			return err
		}
	}
	return nil
}

// checkArrays refuses a sample that was shaped by another bound.
func (a *assembly[V]) checkArrays(out *graph.Sample) error {
	if len(out.Arrays) != a.arrays {
		return errArrays(len(out.Arrays), a.arrays)
	}
	return nil
}

func (a *assembly[V]) beginLocal(req *Request) error {
	if a.forest != nil {
		return a.forest.begin(a.schema, req)
	}
	a.direct, _ = a.local.(*directMap[V])
	return a.local.begin()
}

func (a *assembly[V]) seed(t int, seeds []int64, item int, local []int32, out *graph.Sample) error {
	l := &a.lists[t]
	nbr := a.chunks[0].nbr
	for lo := 0; lo < len(seeds); lo += chunkPicks {
		part := seeds[lo:min(lo+chunkPicks, len(seeds))]
		for i, id := range part {
			if uint64(id) >= uint64(l.count) {
				return a.schema.SeedError(t, lo+i, id)
			}
			nbr[i] = V(id) + l.offset
		}
		if err := a.room(t, len(part), out); err != nil {
			return err
		}
		if a.forest == nil {
			a.local.relabel(nbr[:len(part)], local[lo:], l)
		} else if err := a.forest.seed(nbr[:len(part)], item+lo, local[lo:], l, t); err != nil {
			return err
		}
	}
	return nil
}

// room makes room for n more nodes of type t, and one more that relabel may write beyond the last.
func (a *assembly[V]) room(t, n int, out *graph.Sample) error {
	l := &a.lists[t]
	if err := need(&l.ids, &out.Buffers.Nodes[t], l.n+n+1, l.n); err != nil {
		return err
	}
	if a.forest != nil {
		return a.forest.room(l, t, n, out)
	}
	return a.local.grow(n, a.lists)
}

// hop lets p pick for every edge type once.
func (a *assembly[V]) hop(h int, r Rand, out *graph.Sample, p picker[V]) error {
	for t := range a.cursors {
		a.cursors[t].n = 0
	}
	for e := range a.edges {
		et := &a.schema.Edges[e]
		st := &a.stages[e]
		*st = stage[V]{hop: h, layer: a.layers - 1 - h, edgeType: e, hi: int(out.NumNodes[h][et.Dst]),
			dst: &a.lists[et.Dst], src: &a.lists[et.Src], dstType: et.Dst, srcType: et.Src}
		if a.frontier == NewNodes {
			st.layer, st.lo, st.have = 0, a.edges[e].numDst, a.edges[e].numEdges
		}
	}
	if err := p.hop(r, a.stages); err != nil {
		return fmt.Errorf("hop %d: %w", h, err)
	}
	layer := a.layers - 1 - h
	out.ViewOf[layer] = a.stages[0].layer
	for e := range a.stages {
		if err := a.expand(&a.stages[e], out, p); err != nil {
			return fmt.Errorf("hop %d, edge type %v: %w", h, &a.schema.Edges[e], err)
		}
	}
	for t := range a.lists {
		out.NumNodes[h+1][t] = int64(a.lists[t].n)
	}
	copy(a.made[layer], a.edges)
	for e := range a.edges {
		b := &out.Blocks[layer][e]
		b.NumDst, b.NumSrc = int64(a.edges[e].numDst), out.NumNodes[h+1][a.schema.Edges[e].Src]
	}
	return nil
}

// expand makes the block of a stage.
func (a *assembly[V]) expand(st *stage[V], out *graph.Sample, p picker[V]) error {
	indptr, err := unified.Grow[int32](&out.Buffers.Indptr[st.layer][st.edgeType], int64(st.hi)+1, int64(st.lo)+1)
	if err != nil {
		return err
	}
	if st.lo == 0 {
		indptr[0] = 0
	}
	total, err := p.count(st, indptr[1:st.hi+1])
	if err = cmp.Or(err, a.pages.failure()); err != nil {
		return err
	}
	if total > maxBlockEdges {
		return errTooManyEdges(total)
	}
	a.edges[st.edgeType] = edgeState{numDst: st.hi, numEdges: int(total)}
	local, err := unified.Grow[int32](&out.Buffers.Indices[st.layer][st.edgeType], total, int64(st.have))
	if err != nil {
		return err
	}
	pos := posSink{wanted: a.edgePos}
	if err := pos.open(&out.Buffers.EdgePos[st.layer][st.edgeType], a.schema.PosType(), st.have, total); err != nil {
		return err
	}
	if total == int64(st.have) {
		return nil
	}
	if a.raw != nil {
		a.raw[st.edgeType] = slices.Grow(a.raw[st.edgeType][:0], int(total))
	} else if a.forest != nil {
		a.forest.expand(st, indptr)
	}
	err = a.stream(st, a.fromDisk(a.past(st, p, indptr)), out, local[st.have:total], &pos)
	return cmp.Or(err, a.pages.failure())
}

// finish views the buffers, which move while they grow, as the sample's tensors.
func (a *assembly[V]) finish(req *Request, out *graph.Sample) (err error) {
	for t := range a.lists {
		n := int64(a.lists[t].n)
		if out.Nodes[t], err = out.Buffers.Nodes[t].Tensor(unified.Of[V](), n); err != nil {
			return err
		}
		if a.forest == nil {
			continue
		}
		if err := a.forest.view(t, n, out); err != nil {
			return err
		}
	}
	pos := unified.Invalid
	if a.edgePos {
		pos = a.schema.PosType()
	}
	for l := range out.Blocks {
		for e := range out.Blocks[l] {
			if err := viewBlock(out, l, e, int64(a.made[l][e].numEdges), pos); err != nil {
				return err
			}
		}
	}
	a.asked.of(req)
	return a.asked.viewEnds(a.schema, out)
}

// ranges finds where the edges of each destination lie: start and degree, by position in the list.
func (a *assembly[V]) ranges(st *stage[V]) (err error) {
	n, keep := int64(st.hi), int64(a.known)
	if err := cmp.Or(grow(&a.start, &a.starts, n, keep), grow(&a.degree, &a.counts, n, keep)); err != nil {
		return err
	}
	lo := st.lo
	if len(a.edges) == 1 {
		lo = max(lo, a.known) // a node's range is the same at every hop
		a.known = st.hi
	}
	if a.pages.Pages != nil {
		if err := a.bringRanges(st, lo); err != nil {
			return err
		}
	}
	if len(a.edges) > 1 {
		err = a.ofType(st)
	} else {
		err = a.columns(st, lo, a.start, a.degree)
	}
	if err == nil && a.out.any {
		a.shrink(st, lo, len(a.edges) == 1)
	}
	return err
}

// ofType sets start and degree to the edges of the stage's type.
func (a *assembly[V]) ofType(st *stage[V]) error {
	c := &a.cursors[st.dstType]
	if c.n < st.hi {
		if err := c.room(st.hi); err != nil {
			return err
		}
		if err := a.columns(st, max(c.n, st.lo), c.at, c.left); err != nil {
			return err
		}
		c.n = st.hi
	}
	c.narrow(a.types, st.edgeType, st.lo, st.hi, a.start, a.degree)
	return nil
}

// columns sets start and degree of destinations lo .. hi-1 to their whole columns.
func (a *assembly[V]) columns(st *stage[V], lo int, start, degree []int64) error {
	indptr, ids, off := a.indptr, st.dst.ids[:st.hi], st.dst.offset
	start, degree = start[:st.hi], degree[:st.hi]
	numEdges := uint64(len(a.indices))
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
				return errColumn(v, from, to, len(a.indices))
			}
			start[i], degree[i] = from, to-from
		}
	}
	return nil
}
