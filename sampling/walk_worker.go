package sampling

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/prefetch"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// Purposes of walks' draws, besides rng.Walk.
const (
	purposeGoOn   = Purpose(10) // whether a walk stops or goes back to its root
	purposeAccept = Purpose(11) // whether a try of node2vec counts
)

// walkers is how many walks go side by side, a step at a time, unless they are long; walkBlock is how many of these ask
// for memory at a time.
const (
	walkers   = 256
	walkBlock = 32
)

// walkWorker takes the walks of a batch, a group after the other.
type walkWorker[V nodeID] struct {
	*assembly[V]
	walkRules
	keys    []uint64 // [walk][edge type of the path, or all]: of the batch's draws
	goOn    []uint64 // [walk], purposeGoOn
	accept  []uint64 // [walk], purposeAccept
	numKeys int      // of a walk
	offset  []int    // [place in the path]: of its edge type among these

	// of a group: walks that go on come first
	n     int
	size  int // the most
	first int // number of the first, among those from nodes of its type
	row   []int32
	at    []V
	draws []uint64
	pos   []int64
	root  []V      // these four where steps are not plain
	own   []uint64 // own id of the root
	phase []int32  // place in the path
	prev  []V      // node2vec: where it was before, -1 at first
	nodes []V      // [size][length+1], fused, -1 behind the end
	edge  []int64  // [size][length], where edges are wanted

	seen    []V     // PinSAGE: nodes that the walks of a root stepped to
	waiting []int32 // node2vec: walks that try again
}

func newWalker[V nodeID](p walkRules, _ Env, a *assembly[V]) (Worker, error) {
	a.edgePos = false
	return walkerOver(p, a), nil
}

// walkerOver returns a worker that takes walks from nodes of an assembly's lists.
func walkerOver[V nodeID](p walkRules, a *assembly[V]) *walkWorker[V] {
	w := &walkWorker[V]{assembly: a, walkRules: p}
	w.size = p.group()
	w.row, w.at, w.pos = make([]int32, w.size), make([]V, w.size), make([]int64, w.size)
	w.draws = make([]uint64, w.size)
	w.root, w.own, w.phase, w.prev = make([]V, w.size), make([]uint64, w.size), make([]int32, w.size), make([]V, w.size)
	w.nodes = make([]V, w.size*(p.length+1))
	w.waiting = make([]int32, w.size)
	if p.withEdges {
		w.edge = make([]int64, w.size*p.length)
	}
	var types []int
	for _, e := range p.path {
		if !slices.Contains(types, e) {
			types = append(types, e)
		}
		w.offset = append(w.offset, slices.Index(types, e))
	}
	w.numKeys = max(1, len(types))
	w.keys = make([]uint64, w.numKeys*p.perSeed)
	w.goOn, w.accept = make([]uint64, p.perSeed), make([]uint64, p.perSeed)
	return w
}

// key keys the draws of a batch for walks first, first+1, .. of each root.
func (w *walkWorker[V]) key(r Rand, first int) {
	for k := range w.perSeed {
		hop := uint8(first + k)
		for i := range w.numKeys {
			w.keys[k*w.numKeys+i] = r.Stage(0, Purpose(rng.Walk), hop).key
		}
		for i, e := range w.path {
			w.keys[k*w.numKeys+w.offset[i]] = r.Stage(w.schema.Edges[e].Key, Purpose(rng.Walk), hop).key
		}
		w.goOn[k], w.accept[k] = r.Stage(0, purposeGoOn, hop).key, r.Stage(0, purposeAccept, hop).key
	}
}

func (w *walkWorker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	if err := w.beginLists(req, out); err != nil {
		return err
	}
	w.key(req.Rand, 0)
	if err := w.checkSeeds(w.schema, func(t int) int64 { return out.NumNodes[0][t] }); err != nil {
		return err
	}
	rows := sumOf(out.NumNodes[0]) * int64(w.perSeed)
	to, err := w.openRows(out, rows)
	if err != nil {
		return err
	}
	done := 0
	for t := range w.lists {
		for i, last := 0, int(out.NumNodes[0][t])*w.perSeed; i < last; i += w.size {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			n := min(w.size, last-i)
			w.start(t, i, n)
			if err := w.walk(); err != nil {
				return err
			}
			if err := w.deliver(&to, done, n, out); err != nil {
				return err
			}
			done += n
		}
	}
	if err := to.finish(w.schema, &w.walkRules, out, rows); err != nil {
		return err
	}
	return w.finishLists(req, out)
}

// checkSeeds refuses seeds at whose type no path begins. seeds returns how many there are of each type.
func (w *walkRules) checkSeeds(s *graph.Schema, seeds func(t int) int64) error {
	for t := range s.Nodes {
		if len(w.path) > 0 && t != s.Edges[w.path[0]].Dst && seeds(t) > 0 {
			return fmt.Errorf("%w: metapath: seeds of type %q, but %v begins at type %q", ErrOptions, s.Nodes[t].Name,
				&s.Edges[w.path[0]], s.Edges[w.path[0]].Target)
		}
	}
	return nil
}

// start begins walks first .. first+n-1 from nodes of type t.
func (w *walkWorker[V]) start(t, first, n int) {
	l, stride := &w.lists[t], w.length+1
	fillWith(w.nodes[:n*stride], -1)
	fillWith(w.edge[:min(len(w.edge), n*w.length)], -1)
	w.n = n
	for i := range n {
		seed, walk := (first+i)/w.perSeed, (first+i)%w.perSeed
		own := l.ids[seed]
		v := own + l.offset
		w.row[i], w.at[i], w.root[i], w.own[i], w.phase[i], w.prev[i] = int32(i), v, v, uint64(own), 0, -1
		w.draws[i] = rng.Stream(w.keys[walk*w.numKeys], uint64(own))
		w.nodes[i*stride] = v
	}
	w.first = first
	prefetchNodes8(unsafe.Pointer(&w.indptr[0]), w.at[:n])
}

func fillWith[T any](s []T, v T) {
	for i := range s {
		s[i] = v
	}
}

// walk takes all steps of a group.
func (w *walkWorker[V]) walk() (err error) {
	for s := 0; s < w.length && w.n > 0 && err == nil; s++ {
		if w.pages.Pages != nil {
			if err := w.bringStep(s); err != nil {
				return err
			}
		}
		switch {
		case w.p != 0 && s > 0:
			err = w.biased(s)
		case len(w.path) > 0 || w.restart > 0 || w.stop > 0 || w.p != 0:
			err = w.choose(s)
		default:
			err = w.plain()
		}
		if err == nil && w.pages.Pages != nil {
			err = w.pages.bringAt(w.pages.indices, w.pos[:w.n])
		}
		if err == nil {
			err = w.step(s)
		}
	}
	return err
}

// bringStep brings what the next step looks at before it chooses edges.
func (w *walkWorker[V]) bringStep(s int) error {
	at := w.at[:w.n]
	if err := w.bringNodes(at, 0); err != nil {
		return err
	}
	if w.p == 0 || s == 0 {
		if len(w.path) == 0 {
			return nil
		}
		return w.bringEdges(w.pages.types, at, 0)
	}
	for _, array := range []int{w.pages.types, w.pages.indices} { // it looks for edges between nodes
		for _, nodes := range [][]V{w.prev[:w.n], at} {
			if err := w.bringEdges(array, nodes, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// plain picks an in-edge of any type for each walk, and drops those that end.
func (w *walkWorker[V]) plain() error {
	indptr, numEdges := w.indptr, uint64(len(w.indices))
	n, live := w.n, 0
	row, at, draws, pos := w.row[:n], w.at[:n], w.draws[:n], w.pos[:n]
	for b := 0; b < n; b += walkBlock {
		from := live
		for i := b; i < min(b+walkBlock, n); i++ {
			v := at[i]
			lo, hi := indptr[v], indptr[v+1]
			if uint64(lo) >= uint64(hi) || uint64(hi) > numEdges {
				if lo == hi && uint64(hi) <= numEdges {
					continue
				}
				return errColumn(int64(v), lo, hi, len(w.indices))
			}
			state := draws[i] + rng.Golden
			pos[live] = lo + int64(rng.Bounded(rng.Mix64(state), uint64(hi-lo)))
			draws[live], row[live] = state, row[i]
			live++
		}
		prefetchPositions(w.indices, pos[from:live])
	}
	w.n = live
	return nil
}

// keep moves the state of a walk to another place.
func (w *walkWorker[V]) keep(to, from int) {
	w.at[to], w.root[to], w.own[to], w.phase[to], w.prev[to] = w.at[from], w.root[from], w.own[from], w.phase[from],
		w.prev[from]
	w.draws[to], w.row[to] = w.draws[from], w.row[from]
}

// choose picks an in-edge for each walk, of the type that its path is at; position -1 stands for a jump to the root.
func (w *walkWorker[V]) choose(s int) error {
	n, live := w.n, 0
	for b := 0; b < n; b += walkBlock {
		from := live
		for i := b; i < min(b+walkBlock, n); i++ {
			pos, ends, err := w.choice(i, s)
			if err != nil {
				return err
			}
			if ends {
				continue
			}
			w.keep(live, i)
			w.pos[live] = pos
			live++
		}
		prefetchPositions(w.indices, w.pos[from:live])
	}
	w.n = live
	return nil
}

// choice is the next step of a walk: the position of an edge, -1 for a jump to the root, or its end.
func (w *walkWorker[V]) choice(i, s int) (pos int64, ends bool, err error) {
	walk := w.walkOf(i)
	if w.stop > 0 || w.restart > 0 {
		u := rng.Float64(rng.Draw(rng.Stream(w.goOn[walk], w.own[i]), uint64(s)))
		if u < w.stop {
			return 0, true, nil
		}
		if u < w.stop+w.restart {
			return -1, false, nil
		}
	}
	lo, hi, err := w.column(w.at[i])
	if err != nil {
		return 0, false, err
	}
	draws := w.draws[i]
	if len(w.path) > 0 {
		at := int(w.phase[i]) % len(w.path)
		if len(w.schema.Edges) > 1 {
			lo = w.types.firstAtLeast(lo, hi, w.path[at])
			hi = w.types.firstAtLeast(lo, hi, w.path[at]+1)
		}
		draws = rng.Stream(w.keys[walk*w.numKeys+w.offset[at]], w.own[i])
	}
	if lo == hi {
		return -1, w.restart == 0 || w.at[i] == w.root[i], nil
	}
	return lo + int64(rng.Bounded(rng.Draw(draws, uint64(s)), uint64(hi-lo))), false, nil
}

// walkOf returns the number of a walk among those of its root.
func (w *walkWorker[V]) walkOf(i int) int { return (w.first + int(w.row[i])) % w.perSeed }

// step takes all walks to the sources at their positions.
func (w *walkWorker[V]) step(s int) error {
	indices, numNodes, stride := w.indices, uint64(len(w.indptr)-1), w.length+1
	for b := 0; b < w.n; b += walkBlock {
		end := min(b+walkBlock, w.n)
		for i := b; i < end; i++ {
			p := w.pos[i]
			if p < 0 {
				w.at[i], w.phase[i] = w.root[i], 0
			} else {
				u := indices[p]
				if uint64(u) >= numNodes {
					return w.errNode(p, u)
				}
				w.prev[i], w.at[i] = w.at[i], u
				w.phase[i]++
			}
			w.nodes[int(w.row[i])*stride+s+1] = w.at[i]
			if w.withEdges {
				w.edge[int(w.row[i])*w.length+s] = p
			}
		}
		prefetchNodes8(unsafe.Pointer(&w.indptr[0]), w.at[b:end])
	}
	return nil
}

// prefetchPositions asks for the sources at pos; negative ones are asked for in vain.
func prefetchPositions[V nodeID](indices []V, pos []int64) {
	if unsafe.Sizeof(V(0)) == 4 {
		prefetch.Index4(unsafe.Pointer(unsafe.SliceData(indices)), pos)
	} else {
		prefetch.Index8(unsafe.Pointer(unsafe.SliceData(indices)), pos)
	}
}

// walkRows are the arrays that a batch's walks go to.
type walkRows struct {
	walk, types []int32
	edges       posSink
	edge        int // place among the sample's arrays
}

func (w *walkWorker[V]) openRows(out *graph.Sample, rows int64) (to walkRows, err error) {
	entries := rows * int64(w.length+1)
	if to.walk, err = unified.Grow[int32](&out.Buffers.Arrays[0], entries, 0); err != nil {
		return to, err
	}
	to.edge = 1
	if len(w.lists) > 1 {
		if to.types, err = unified.Grow[int32](&out.Buffers.Arrays[1], entries, 0); err != nil {
			return to, err
		}
		to.edge = 2
	}
	if to.edges.wanted = w.withEdges; w.withEdges {
		err = to.edges.open(&out.Buffers.Arrays[to.edge], w.schema.PosType(), 0, rows*int64(w.length))
	}
	return to, err
}

// deliver writes a group's n walks as rows done .. of the arrays, behind those before, and their nodes to the lists.
func (w *walkWorker[V]) deliver(to *walkRows, done, n int, out *graph.Sample) error {
	stride := w.length + 1
	nodes := w.nodes[:n*stride]
	if err := w.place(nodes, to.walk[done*stride:], out); err != nil {
		return err
	}
	if to.types != nil {
		for i, v := range nodes {
			if to.types[done*stride+i] = -1; v >= 0 {
				to.types[done*stride+i] = int32(w.typeOf(v))
			}
		}
	}
	to.edges.put(w.edge[:min(len(w.edge), n*w.length)])
	return nil
}

// finish views the arrays as the sample's.
func (to *walkRows) finish(s *graph.Schema, w *walkRules, out *graph.Sample, rows int64) (err error) {
	for i := range out.Arrays {
		c, width := unified.Int32, int64(w.length)+1
		if w.withEdges && i == to.edge {
			c, width = s.PosType(), int64(w.length)
		}
		if out.Arrays[i].Rows, err = out.Buffers.Arrays[i].Tensor(c, rows, width); err != nil {
			return err
		}
	}
	return nil
}
