package sampling

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// inducer makes the blocks of an induced subgraph: the destinations are all nodes of the lists, and each takes those of
// its in-edges whose source is in the lists too, in the same tree where trees are kept apart.
type inducer[V nodeID] struct {
	*assembly[V]
	dsts   [3][chunkPicks]int32 // destination of each candidate of a chunk
	keys   [chunkPicks]int64
	sorted [][]int64        // [node type] keys of the nodes, ascending; empty until one is looked for
	behind []unified.Buffer // sorted

	there sieve // of the nodes' fused ids
	dense int   // chunks to come that are not sifted, since most sources were there

	counts *saintCounts // what norms come from; nil where there are none

	// of the block at hand
	norms   []float32
	st      stage[V]
	ends    []int32         // indptr
	into    *unified.Buffer // behind sources
	sources []int32
	pos     posSink
	total   int
	next    int   // destination whose candidates come next
	done    int64 // of these, how many came
	closed  int   // destinations whose edges are complete
}

// A node with at least hubEdges in-edges, and hubRatio times as many as there are nodes to look for, is a hub: each
// of these nodes is searched for among them, and they are not read from end to end.
const (
	hubEdges = 1 << 12
	hubRatio = 32
)

func newInducer[V nodeID](a *assembly[V], env Env) *inducer[V] {
	n := &inducer[V]{assembly: a, sorted: make([][]int64, len(a.lists)), behind: make([]unified.Buffer, len(a.lists))}
	for t := range n.behind {
		a.own(&n.behind[t])
	}
	a.pages.looksAt(env.Graph.Indices())
	return n
}

// inducedBound adds induced blocks to a bound whose lists are known. All that is known of the edges among some nodes is
// that each tree has no more than the graph.
func inducedBound(s *graph.Schema, b *Bound, trees int64) {
	b.Blocks = [][]int64{make([]int64, len(s.Edges))}
	for e := range s.Edges {
		b.Blocks[0][e] = sat.Mul(s.Edges[e].Count, trees)
		b.Edges = sat.Add(b.Edges, b.Blocks[0][e])
	}
	b.Scratch = sat.Add(b.Scratch, sat.Mul(8, b.Nodes))
}

// blocks makes the one layer of blocks of a sample whose lists are complete.
func (n *inducer[V]) blocks(out *graph.Sample) error {
	for t := range n.lists {
		out.NumNodes[1][t] = int64(n.lists[t].n)
		n.sorted[t] = n.sorted[t][:0]
	}
	n.sift()
	out.ViewOf[0], n.known = 0, 0
	for t := range n.cursors {
		n.cursors[t].n = 0
	}
	for e := range n.edges {
		if err := n.block(e, out); err != nil {
			return err
		}
	}
	return nil
}

// sift notes which nodes are in the lists. More than maxSifted would leave hardly any bit unset.
func (n *inducer[V]) sift() {
	const maxSifted = 1 << 15
	nodes := 0
	for t := range n.lists {
		nodes += n.lists[t].n
	}
	if n.dense = 0; n.forest != nil || nodes > maxSifted {
		n.dense = math.MaxInt
		return
	}
	clear(n.there[:])
	for t := range n.lists {
		for _, own := range n.lists[t].ids[:n.lists[t].n] {
			n.there.add(uint64(own + n.lists[t].offset))
		}
	}
}

func (n *inducer[V]) block(e int, out *graph.Sample) (err error) {
	et, b := &n.schema.Edges[e], &out.Blocks[0][e]
	dst := &n.lists[et.Dst]
	n.st = stage[V]{edgeType: e, hi: dst.n, dst: dst, src: &n.lists[et.Src], dstType: et.Dst, srcType: et.Src}
	b.NumDst, b.NumSrc = int64(dst.n), int64(n.st.src.n)
	if n.ends, err = unified.Grow[int32](&out.Buffers.Indptr[0][e], b.NumDst+1, 0); err != nil {
		return err
	}
	n.ends[0] = 0
	n.total, n.next, n.done, n.closed = 0, 0, 0, 0
	n.into, n.sources, n.pos = &out.Buffers.Indices[0][e], nil, posSink{wanted: n.edgePos}
	if err := n.ranges(&n.st); err != nil {
		return err
	}
	if err := cmp.Or(n.candidates(out), n.pages.failure()); err != nil {
		return err
	}
	if err := n.closeUntil(dst.n, out); err != nil {
		return err
	}
	n.made[0][e] = edgeState{numDst: dst.n, numEdges: n.total}
	return n.room(0, out)
}

// induce makes a sample of fused ids, and the subgraph between these. local has room for as many.
func (n *inducer[V]) induce(ids []V, local []int32, req *Request, out *graph.Sample) error {
	if err := n.place(ids, local, out); err != nil {
		return err
	}
	for t := range n.lists {
		out.NumNodes[0][t] = int64(n.lists[t].n)
	}
	if err := n.blocks(out); err != nil {
		return err
	}
	if n.counts != nil {
		if err := n.nodeNorms(out); err != nil {
			return err
		}
	}
	return n.finish(req, out)
}

// nodeNorms writes the norms of nodes, and views all norms.
func (n *inducer[V]) nodeNorms(out *graph.Sample) error {
	for t := range n.lists {
		l := &n.lists[t]
		norms, err := unified.Grow[float32](&out.Buffers.Arrays[t], int64(l.n), 0)
		if err != nil {
			return err
		}
		for i, own := range l.ids[:l.n] {
			drawn := float64(max(n.counts.nodes[own+l.offset], 1)) * float64(l.count)
			norms[i] = float32(float64(n.counts.graphs) / drawn)
		}
		if out.Arrays[t].Rows, err = out.Buffers.Arrays[t].Tensor(unified.Float32, int64(l.n)); err != nil {
			return err
		}
	}
	for e := range n.edges {
		at := len(n.lists) + e
		rows, err := out.Buffers.Arrays[at].Tensor(unified.Float32, int64(n.made[0][e].numEdges))
		if err != nil {
			return err
		}
		out.Arrays[at].Rows = rows
	}
	return nil
}

// candidates takes the in-edges of all destinations through the steps: positions, sources, local ids.
func (n *inducer[V]) candidates(out *graph.Sample) error {
	cur, next, after := 0, 1, 2
	n.fill(cur)
	if err := n.load(&n.st, &n.chunks[cur], 0, n.chunks[cur].n); err != nil {
		return err
	}
	n.fill(next)
	for n.chunks[cur].n > 0 {
		n.fill(after)
		if err := n.load(&n.st, &n.chunks[next], 0, n.chunks[next].n); err != nil {
			return err
		}
		if err := n.choose(cur, out); err != nil {
			return err
		}
		cur, next, after = next, after, cur
	}
	return nil
}

// fill writes the next positions to a chunk, and whose they are. Columns that are searched are left out.
func (n *inducer[V]) fill(k int) {
	c, dsts := &n.chunks[k], &n.dsts[k]
	for c.n = 0; n.next < n.st.hi && c.n < chunkPicks; {
		degree := n.degree[n.next]
		if n.searched(degree) {
			degree = 0
		}
		n.reach(n.next)
		first := n.start[n.next] + n.done
		m := min(degree-n.done, int64(chunkPicks-c.n))
		for q := range m {
			c.pos[c.n], dsts[c.n] = first+q, int32(n.next)
			c.n++
		}
		prefetchColumn(n.indices, first, m)
		if n.done += m; n.done == degree {
			n.next++
			n.done = 0
		}
	}
}

// searched reports whether a node with that many in-edges is a hub.
func (n *inducer[V]) searched(degree int64) bool {
	return degree > hubEdges && degree/hubRatio > int64(n.st.src.n) &&
		n.schema.Edges[n.st.edgeType].Order == graph.BySource
}

// choose appends those candidates of a chunk to the block whose source is there.
func (n *inducer[V]) choose(k int, out *graph.Sample) error {
	c, dsts, some := &n.chunks[k], &n.dsts[k], n.chunks[k].n
	if n.dense--; n.dense < 0 {
		at := uint64(0)
		for i, v := range c.nbr[:some] {
			c.nbr[at], c.pos[at], dsts[at] = v, c.pos[i], dsts[i]
			at += n.there.has(uint64(v))
		}
		some, n.dense = int(at), 0
		if 2*some > c.n {
			n.dense = 32
		}
	}
	found := n.found[:some]
	if n.forest != nil {
		for i, v := range c.nbr[:some] {
			n.keys[i] = int64(n.st.dst.trees[dsts[i]])*n.forest.nodes + int64(v)
		}
		n.forest.table.prefetch(n.keys[:some])
		n.forest.table.find(n.keys[:some], found)
	} else {
		n.assembly.local.find(c.nbr[:some], found)
	}
	if err := n.room(c.n, out); err != nil {
		return err
	}
	for i, at := range found {
		if at < 0 {
			continue
		}
		if dst := int(dsts[i]); dst > n.closed {
			if err := n.closeUntil(dst, out); err != nil {
				return err
			}
			if err := n.room(c.n-i, out); err != nil {
				return err
			}
		}
		n.append(at, c.pos[i])
	}
	return nil
}

// room makes room for more edges.
func (n *inducer[V]) room(more int, out *graph.Sample) (err error) {
	want := n.total + more
	if want > maxBlockEdges {
		return errTooManyEdges(int64(want))
	}
	if want <= len(n.sources) && want > 0 && n.pos.has(more) {
		return nil
	}
	if n.sources, err = unified.Grow[int32](n.into, int64(want), int64(n.total)); err != nil {
		return err
	}
	if n.counts != nil {
		n.norms, err = unified.Grow[float32](&out.Buffers.Arrays[len(n.lists)+n.st.edgeType], int64(len(n.sources)),
			int64(n.total))
		if err != nil {
			return err
		}
	}
	if !n.edgePos {
		return nil
	}
	return n.pos.open(&out.Buffers.EdgePos[0][n.st.edgeType], n.schema.PosType(), n.total, int64(want))
}

func (n *inducer[V]) append(local int32, pos int64) {
	n.sources[n.total] = local
	if n.counts != nil || n.pos.wanted {
		n.beside(pos)
	}
	n.total++
}

// beside writes what comes with an edge: its norm, its position.
func (n *inducer[V]) beside(pos int64) {
	if n.counts != nil {
		dst := n.counts.nodes[n.st.dst.ids[n.closed]+n.st.dst.offset]
		n.norms[n.total] = float32(float64(max(dst, 1)) / float64(max(n.counts.edges[pos], 1)))
	}
	n.pos.put([]int64{pos})
}

// closeUntil completes the destinations before dst; those whose columns are searched are searched now.
func (n *inducer[V]) closeUntil(dst int, out *graph.Sample) error {
	for ; n.closed < dst; n.closed++ {
		if n.searched(n.degree[n.closed]) {
			if err := n.search(n.closed, out); err != nil {
				return err
			}
		}
		n.ends[n.closed+1] = int32(n.total)
	}
	return nil
}

// search looks for each node of the list, or of the destination's tree, in its column.
func (n *inducer[V]) search(dst int, out *graph.Sample) error {
	keys, err := n.ascending(n.st.srcType)
	if err != nil {
		return err
	}
	base := int64(0)
	if n.forest != nil {
		base = int64(n.st.dst.trees[dst]) * n.forest.nodes
		keys = keys[sort.Search(len(keys), func(i int) bool { return keys[i] >= base }):]
		keys = keys[:sort.Search(len(keys), func(i int) bool { return keys[i] >= base+n.forest.nodes })]
	}
	from := n.start[dst]
	column := n.indices[from : from+n.degree[dst]]
	for _, key := range keys {
		v := V(key - base)
		skip := firstFrom(column, v)
		column, from = column[skip:], from+skip
		for len(column) > 0 && column[0] == v {
			var at [1]int32
			if n.forest != nil {
				n.forest.table.find([]int64{key}, at[:])
			} else {
				n.assembly.local.find([]V{v}, at[:])
			}
			if err := n.room(1, out); err != nil {
				return err
			}
			n.append(at[0], from)
			column, from = column[1:], from+1
		}
	}
	return nil
}

// ascending returns the keys of a type's nodes in ascending order.
func (n *inducer[V]) ascending(t int) ([]int64, error) {
	l := &n.lists[t]
	if len(n.sorted[t]) == l.n {
		return n.sorted[t], nil
	}
	keys, err := unified.Grow[int64](&n.behind[t], int64(l.n), 0)
	if err != nil {
		return nil, err
	}
	keys = keys[:l.n]
	for i, own := range l.ids[:l.n] {
		if keys[i] = int64(own + l.offset); n.forest != nil {
			keys[i] += int64(l.trees[i]) * n.forest.nodes
		}
	}
	slices.Sort(keys)
	n.sorted[t] = keys
	return keys, nil
}
