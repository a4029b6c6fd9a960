package sampling

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// assembly is what all samplers share: it keeps the node lists and local ids of a batch, finds the edges of
// destinations, and lays out blocks. A sampler says which edges are picked.
type assembly[V nodeID] struct {
	schema   *graph.Schema
	layers   int
	frontier Frontier
	edgePos  bool

	indptr  []int64
	indices []V
	types   typeColumn

	lists []list[V] // [node type], over the sample's buffers
	local relabeler[V]
	fused [chunkPicks]V // seeds on their way to local
	edges []edgeState   // [edge type]
	made  [][]edgeState // [layer][edge type]: edges when the layer's hop was done

	starts, counts unified.Buffer // behind start and degree
	start, degree  []int64        // per destination of the stage at hand: where its edges lie
	known          int            // of these, how many hold from the hop before; only with one edge type
	cursors        []cursor       // [node type]
	stage          stage[V]       // at hand
}

// edgeState is what an edge type has made of the batch so far.
type edgeState struct {
	numDst, numEdges int // with NewNodes these grow from hop to hop, else they are of one hop
}

// stage is one hop of one edge type: destinations lo .. hi-1 of a list.
type stage[V nodeID] struct {
	hop, layer, edgeType int
	lo, hi               int
	dst, src             *list[V]
	dstType, srcType     int
}

// chunkPicks is how many picks go through the stages together: enough to hide a miss behind the others, few enough for
// positions and sources to stay in the first-level cache.
const chunkPicks = 512

// chunk is the picks between two steps: edge positions and the sources there, of which n are in use.
type chunk[V nodeID] struct {
	pos []int64
	nbr []V
	n   int
}

func newChunk[V nodeID]() chunk[V] {
	return chunk[V]{pos: make([]int64, chunkPicks), nbr: make([]V, chunkPicks)}
}

func scratchBytes[V nodeID](s *graph.Schema, b Bound) int64 {
	bytes := relabelerBytes[V](s.NumNodes(), b.Nodes) + 2*8*b.Nodes
	if len(s.Edges) > 1 {
		bytes += 8 * b.Nodes
	}
	return bytes
}

// newAssembly is for ids of the width that the graph's schema says; indices are the graph's.
func newAssembly[V nodeID](env Env, indices []V, frontier Frontier, b Bound) (a assembly[V], err error) {
	g := env.Graph
	s := g.Schema()
	a = assembly[V]{schema: s, layers: b.Layers, frontier: frontier, edgePos: env.EdgePos, indptr: g.Indptr(),
		indices: indices}
	if a.types, err = newTypeColumn(g.Types()); err != nil {
		return a, err
	}
	a.lists = make([]list[V], len(s.Nodes))
	for t := range a.lists {
		a.lists[t].offset, a.lists[t].count = V(g.Offset(t)), V(s.Nodes[t].Count)
	}
	a.edges = make([]edgeState, len(s.Edges))
	a.made = make([][]edgeState, b.Layers)
	for l := range a.made {
		a.made[l] = make([]edgeState, len(s.Edges))
	}
	a.cursors = make([]cursor, len(s.Nodes))
	for t := range a.cursors {
		a.cursors[t].buf.Options = env.Scratch
	}
	a.starts.Options, a.counts.Options = env.Scratch, env.Scratch
	a.local = newRelabeler[V](g.NumNodes(), b.Nodes, env.Scratch)
	return a, nil
}

func (a *assembly[V]) close() error {
	err := a.local.close()
	for t := range a.cursors {
		err = firstError(err, a.cursors[t].buf.Close())
	}
	return firstError(err, firstError(a.starts.Close(), a.counts.Close()))
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// begin makes the seeds the first nodes of their lists.
func (a *assembly[V]) begin(req *Request, out *graph.Sample) error {
	if len(req.Seeds) != len(a.lists) || len(out.Blocks) != a.layers {
		return fmt.Errorf("%w: request of %d node types, sample of %d layers; must be %d and %d", ErrOptions,
			len(req.Seeds), len(out.Blocks), len(a.lists), a.layers)
	}
	if err := a.local.begin(); err != nil {
		return err
	}
	a.known = 0
	clear(a.edges)
	for t := range a.lists {
		a.lists[t].n = 0
		a.lists[t].ids = nil
	}
	for t, seeds := range req.Seeds {
		if err := a.seed(t, seeds, out); err != nil {
			return err
		}
		out.NumNodes[0][t] = int64(a.lists[t].n)
	}
	return nil
}

func (a *assembly[V]) seed(t int, seeds []int64, out *graph.Sample) error {
	local, err := unified.Grow[int32](out.SeedBuffer(t), int64(len(seeds)), 0)
	if err != nil {
		return err
	}
	l := &a.lists[t]
	nbr := a.fused[:]
	for lo := 0; lo < len(seeds); lo += chunkPicks {
		part := seeds[lo:min(lo+chunkPicks, len(seeds))]
		for i, id := range part {
			if uint64(id) >= uint64(l.count) {
				return fmt.Errorf("%w: seed %d: node %d of %d nodes of type %q", graph.ErrSeed, lo+i, id, l.count,
					a.schema.Nodes[t].Name)
			}
			nbr[i] = V(id) + l.offset
		}
		if err := a.room(t, len(part), out); err != nil {
			return err
		}
		a.local.relabel(nbr[:len(part)], local[lo:], l)
	}
	out.SeedLocal[t], err = out.SeedBuffer(t).Tensor(unified.Int32, int64(len(seeds)))
	return err
}

// room makes room for n more nodes of type t, and one more that relabel may write beyond the last.
func (a *assembly[V]) room(t, n int, out *graph.Sample) error {
	l := &a.lists[t]
	if l.n+n+1 > len(l.ids) {
		ids, err := unified.Grow[V](out.NodeBuffer(t), int64(l.n+n+1), int64(l.n))
		if err != nil {
			return err
		}
		l.ids = ids
	}
	return a.local.grow(n, a.lists)
}

// hop lets expand pick for every edge type once.
func (a *assembly[V]) hop(h int, out *graph.Sample, expand func(*stage[V]) error) error {
	for t := range a.cursors {
		a.cursors[t].n = 0
	}
	for e := range a.edges {
		et := &a.schema.Edges[e]
		st := &a.stage
		*st = stage[V]{hop: h, layer: a.layers - 1 - h, edgeType: e, hi: int(out.NumNodes[h][et.Dst]),
			dst: &a.lists[et.Dst], src: &a.lists[et.Src], dstType: et.Dst, srcType: et.Src}
		if a.frontier == NewNodes {
			st.layer, st.lo = 0, a.edges[e].numDst
		} else {
			a.edges[e] = edgeState{}
		}
		if err := expand(st); err != nil {
			return fmt.Errorf("hop %d, edge type %v: %w", h, et, err)
		}
	}
	for t := range a.lists {
		out.NumNodes[h+1][t] = int64(a.lists[t].n)
	}
	layer := a.layers - 1 - h
	copy(a.made[layer], a.edges)
	for e := range a.edges {
		b := &out.Blocks[layer][e]
		b.NumDst, b.NumSrc = int64(a.edges[e].numDst), out.NumNodes[h+1][a.schema.Edges[e].Src]
	}
	return nil
}

// openIndptr returns the block's indptr, with the first st.lo+1 entries in place.
func (a *assembly[V]) openIndptr(st *stage[V], out *graph.Sample) ([]int32, error) {
	indptr, err := unified.Grow[int32](out.IndptrBuffer(st.layer, st.edgeType), int64(st.hi)+1, int64(st.lo)+1)
	if err == nil && st.lo == 0 {
		indptr[0] = 0
	}
	return indptr, err
}

// open makes room in the stage's block for picks more edges, and returns where their local ids and positions go.
func (a *assembly[V]) open(st *stage[V], picks int, out *graph.Sample) (local []int32, pos posSink, err error) {
	have := a.edges[st.edgeType].numEdges
	total := int64(have + picks)
	if local, err = unified.Grow[int32](out.IndicesBuffer(st.layer, st.edgeType), total, int64(have)); err != nil {
		return nil, pos, err
	}
	pos.wanted = a.edgePos
	if err := pos.open(out.EdgePosBuffer(st.layer, st.edgeType), a.schema.PosType(), have, total); err != nil {
		return nil, pos, err
	}
	a.edges[st.edgeType] = edgeState{numDst: st.hi, numEdges: int(total)}
	return local[have:total], pos, nil
}

// finish views the buffers, which move while they grow, as the sample's tensors.
func (a *assembly[V]) finish(out *graph.Sample) (err error) {
	for t := range a.lists {
		if out.Nodes[t], err = out.NodeBuffer(t).Tensor(unified.Of[V](), int64(a.lists[t].n)); err != nil {
			return err
		}
	}
	for l := range out.Blocks {
		for e := range out.Blocks[l] {
			if err := a.view(l, e, out); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *assembly[V]) view(l, e int, out *graph.Sample) (err error) {
	b, from, n := &out.Blocks[l][e], l, int64(a.made[l][e].numEdges)
	if a.frontier == NewNodes {
		from = 0
	}
	if b.Indptr, err = out.IndptrBuffer(from, e).Tensor(unified.Int32, b.NumDst+1); err != nil {
		return err
	}
	if b.Indices, err = out.IndicesBuffer(from, e).Tensor(unified.Int32, n); err != nil {
		return err
	}
	b.EdgePos = unified.Tensor{}
	if a.edgePos {
		b.EdgePos, err = out.EdgePosBuffer(from, e).Tensor(a.schema.PosType(), n)
	}
	return err
}

// load reads the sources at picks lo .. hi-1, as far as there are such, and asks for their entries in the relabel
// table.
func (a *assembly[V]) load(st *stage[V], c *chunk[V], lo, hi int) error {
	lo, hi = min(lo, c.n), min(hi, c.n)
	indices, nbr, off, count := a.indices, c.nbr[lo:hi], st.src.offset, uint64(st.src.count)
	bad := uint64(0)
	for i, p := range c.pos[lo:hi] {
		v := indices[p]
		nbr[i] = v
		if uint64(v-off) >= count {
			bad++
		}
	}
	if bad != 0 {
		return a.badSource(st, c, lo, hi)
	}
	a.local.prefetch(nbr)
	return nil
}

func (a *assembly[V]) badSource(st *stage[V], c *chunk[V], lo, hi int) error {
	for i, v := range c.nbr[lo:hi] {
		if uint64(v-st.src.offset) >= uint64(st.src.count) {
			return fmt.Errorf("%w: edge %d: source %d is none of the %d nodes of type %q", ErrGraph, c.pos[lo+i], v,
				st.src.count, a.schema.Nodes[st.srcType].Name)
		}
	}
	return nil
}

// ranges finds where the edges of each destination lie: start and degree, by position in the list.
func (a *assembly[V]) ranges(st *stage[V]) (err error) {
	n := int64(st.hi)
	keep := int64(a.known)
	if a.start, err = unified.Grow[int64](&a.starts, n, keep); err != nil {
		return err
	}
	if a.degree, err = unified.Grow[int64](&a.counts, n, keep); err != nil {
		return err
	}
	lo := st.lo
	if len(a.edges) == 1 {
		lo = max(lo, a.known) // a node's range is the same at every hop
		a.known = st.hi
	}
	if err := a.columns(st, lo); err != nil {
		return err
	}
	if len(a.edges) > 1 {
		return a.cursors[st.dstType].narrow(a.types, st.edgeType, lo, st.hi, a.start, a.degree)
	}
	return nil
}

// columns sets start and degree of destinations lo .. hi-1 to their whole columns.
func (a *assembly[V]) columns(st *stage[V], lo int) error {
	indptr, ids, off := a.indptr, st.dst.ids[:st.hi], st.dst.offset
	start, degree := a.start[:st.hi], a.degree[:st.hi]
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
				return fmt.Errorf("%w: node %d: its edges are %d to %d of %d", ErrGraph, v, from, to, numEdges)
			}
			start[i], degree[i] = from, to-from
		}
	}
	return nil
}

// maxBlockEdges is what int32 offsets can number, and what relabelers leave room for.
const maxBlockEdges = 1<<30 - 1<<20

func errTooManyEdges(n int64) error {
	return fmt.Errorf("%w: a block of %d edges, at most %d are possible: take smaller batches or fan-outs", ErrOptions,
		n, maxBlockEdges)
}

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
