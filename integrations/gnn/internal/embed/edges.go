package embed

import (
	"fmt"
	"math"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// nodes are those that a step makes: of 0, 1, .., count-1, or of a list that ascends. They are numbered from 0 on, or
// by their ids, as some of those of a step that makes all.
type nodes struct {
	count int64
	list  []int32 // nil: all
	byID  bool
}

// number returns what the journal calls the node at a place.
func (n nodes) number(at int64) int64 {
	if n.byID {
		return n.at(at)
	}
	return at
}

func (n nodes) at(i int64) int64 {
	if n.list == nil {
		return i
	}
	return int64(n.list[i])
}

// runs calls f for pieces of the nodes numbered lo to hi that follow each other in the table, too.
func (n nodes) runs(lo, hi int64, f func(at, first, count int64) error) error {
	for lo < hi {
		first, end := n.at(lo), lo+1
		if n.list == nil {
			end = hi
		}
		for end < hi && n.at(end) == first+end-lo {
			end++
		}
		if err := f(lo, first, end-lo); err != nil {
			return err
		}
		lo = end
	}
	return nil
}

// topology is in-edges by type: a graph's, or those of lists that change.
type topology struct {
	g      *graph.Graph
	lists  *lists // nil: the graph's
	indptr []int64
	narrow []int32 // one of the two
	wide   []int64
	byte8  []uint8 // types of edges; nil: one type
	byte16 []uint16
}

func newTopology(g *graph.Graph) (*topology, error) {
	t := &topology{g: g, indptr: g.Indptr()}
	var err error
	if g.Indices().DType() == unified.Int32 {
		t.narrow, err = unified.View[int32](g.Indices())
	} else {
		t.wide, err = unified.View[int64](g.Indices())
	}
	if len(g.Schema().Edges) > 1 && err == nil {
		if g.Types().DType() == unified.Uint8 {
			t.byte8, err = unified.View[uint8](g.Types())
		} else {
			t.byte16, err = unified.View[uint16](g.Types())
		}
	}
	return t, err
}

// between returns where edges of a type lie among those of a node, of the edge type's target.
func (t *topology) between(edges int, node int64) (lo, hi int64) {
	if t.lists != nil {
		return t.lists.between(edges, node)
	}
	v := node + t.g.Offset(t.g.Schema().Edges[edges].Dst)
	lo, hi = t.indptr[v], t.indptr[v+1]
	switch {
	case t.byte8 != nil:
		return ofType(t.byte8, lo, hi, edges)
	case t.byte16 != nil:
		return ofType(t.byte16, lo, hi, edges)
	}
	return lo, hi
}

// nodes returns how many nodes of a type there are.
func (t *topology) nodes(of int) int64 {
	if t.lists != nil {
		return t.lists.nodes[of]
	}
	return t.g.Schema().Nodes[of].Count
}

// count returns how many edges of a type the nodes numbered lo to hi have.
func (t *topology) count(edges int, of nodes, lo, hi int64) (n int64) {
	e := &t.g.Schema().Edges[edges]
	switch {
	case t.lists != nil:
	case of.list == nil && hi-lo == t.g.Schema().Nodes[e.Dst].Count:
		return e.Count
	case of.list == nil && t.single():
		offset := t.g.Offset(e.Dst)
		return t.indptr[offset+hi] - t.indptr[offset+lo]
	}
	for ; lo < hi; lo++ {
		from, to := t.between(edges, of.at(lo))
		n += to - from
	}
	return n
}

// ofType narrows a range of types that ascend to those of one.
func ofType[T uint8 | uint16](types []T, lo, hi int64, edges int) (int64, int64) {
	first, _ := slices.BinarySearch(types[lo:hi], T(edges))
	end := first
	for lo+int64(end) < hi && int(types[lo+int64(end)]) == edges {
		end++
	}
	return lo + int64(first), lo + int64(end)
}

// offset returns what is taken from a source of edges of a type for its own id.
func (t *topology) offset(edges int) int64 {
	if t.lists != nil {
		return 0
	}
	return t.g.Offset(t.g.Schema().Edges[edges].Src)
}

// sorted reports whether sources of edges of a type ascend.
func (t *topology) sorted(edges int) bool {
	return t.lists != nil || t.g.Schema().Edges[edges].Order == graph.BySource
}

// source returns the own id of an edge's source, with the offset of its type.
func (t *topology) source(at, offset int64) int64 {
	if t.narrow != nil {
		return int64(t.narrow[at]) - offset
	}
	return t.wide[at] - offset
}

// links are edges of some nodes, whose sources ascend, but for a loop that was added last.
type links struct {
	start  []int64 // [nodes+1]
	narrow []int32 // one of the two
	wide   []int64
}

func (l *links) count() int64 { return l.start[len(l.start)-1] }

func (l *links) source(e int64) int64 {
	if l.narrow != nil {
		return int64(l.narrow[e])
	}
	return l.wide[e]
}

// matrix returns the edges as a matrix with cols columns.
func (l *links) matrix(cols int64) (*sparse.Matrix, error) {
	indices := unified.FromSlice(l.narrow)
	if l.narrow == nil {
		indices = unified.FromSlice(l.wide)
	}
	return sparse.New(cols, unified.FromSlice(l.start), indices)
}

// single reports whether all edges are of one type, so that those of nodes that follow each other do, too.
func (t *topology) single() bool { return t.byte8 == nil && t.byte16 == nil }

// views reports whether edges of a type lie in the files as links must.
func (t *topology) views(edges int) bool {
	e := &t.g.Schema().Edges[edges]
	return t.lists == nil && t.single() && e.Order == graph.BySource && t.g.Offset(e.Src) == 0
}

// asTheyLie reports whether the edges of nodes can be read in the files as they lie there.
func (t *topology) asTheyLie(rel *Relation, of nodes) bool {
	return of.list == nil && !rel.Once && t.views(rel.Edges)
}

// all returns the edges of all nodes as they lie in the files, at their positions there: start may not begin with 0.
func (t *topology) all(rel *Relation, of nodes) *links {
	first := t.g.Offset(t.g.Schema().Edges[rel.Edges].Dst)
	return &links{start: t.indptr[first : first+of.count+1], narrow: t.narrow, wide: t.wide}
}

// indexBytes returns what the edges of nodes lo to hi take in the files, and where they begin.
func (t *topology) indexBytes(rel *Relation, of nodes, lo, hi int64) int64 {
	return 8*(hi-lo) + t.count(rel.Edges, of, lo, hi)*t.g.Indices().DType().Size()
}

// links returns the edges of some nodes, with those from a node to itself that are missing where loops is set. They
// are valid until rooms of these names are asked for again.
func (r *run) links(rel *Relation, of nodes, lo, hi int64, loops bool) (*links, error) {
	t, n := r.topology, hi-lo
	start, err := room[int64](r, "start", n+1)
	if err != nil {
		return nil, err
	}
	l := &links{start: start}
	start[0] = 0
	defer func() { r.linked += start[n] }()
	r.now.Did.Read += t.indexBytes(rel, of, lo, hi)
	if !loops && t.asTheyLie(rel, of) {
		indptr := t.indptr[t.g.Offset(t.g.Schema().Edges[rel.Edges].Dst)+lo:]
		base := indptr[0]
		for i := range n {
			start[i+1] = indptr[i+1] - base
		}
		if t.narrow != nil {
			l.narrow = t.narrow[base:indptr[n]]
		} else {
			l.wide = t.wide[base:indptr[n]]
		}
		return l, nil
	}
	return l, r.copyLinks(l, rel, of, lo, loops)
}

// copyLinks writes the edges of nodes from lo on.
func (r *run) copyLinks(l *links, rel *Relation, of nodes, lo int64, loops bool) (err error) {
	t, start := r.topology, l.start
	n := int64(len(start) - 1)
	if err := r.pool.Split(n, 256, func(a, b int64) {
		for i := a; i < b; i++ {
			start[i+1] = t.length(rel, of.at(lo+i), loops)
		}
	}); err != nil {
		return err
	}
	for i := range n {
		start[i+1] += start[i]
	}
	if t.narrow != nil {
		l.narrow, err = room[int32](r, "index", start[n])
	} else {
		l.wide, err = room[int64](r, "index", start[n])
	}
	if err != nil {
		return err
	}
	return r.pool.Split(n, 256, func(a, b int64) {
		for i := a; i < b; i++ {
			if t.lists != nil && !rel.Once {
				to := l.narrow[start[i]:start[i+1]]
				if n := copy(to, t.lists.of(rel.Edges, of.at(lo+i))); n < len(to) {
					to[n] = int32(of.at(lo + i))
				}
			} else if t.narrow != nil {
				copyRow(l.narrow[start[i]:start[i+1]], t, rel, of.at(lo+i), loops)
			} else {
				copyRow(l.wide[start[i]:start[i+1]], t, rel, of.at(lo+i), loops)
			}
		}
	})
}

// length returns how many sources copyRow writes.
func (t *topology) length(rel *Relation, node int64, loops bool) int64 {
	lo, hi := t.between(rel.Edges, node)
	if !loops && !rel.Once {
		return hi - lo
	}
	switch same := t.loops(rel.Edges, node); {
	case same == 0 && loops:
		return hi - lo + 1
	case same > 1 && rel.Once:
		return hi - lo - same + 1
	}
	return hi - lo
}

// copyRow writes the sources of a node's edges, ascending, with one loop where the relation has them once, and the node
// last where loops is set and it is not among them.
func copyRow[I int32 | int64](to []I, t *topology, rel *Relation, node int64, loops bool) {
	lo, hi := t.between(rel.Edges, node)
	offset, once, n := t.offset(rel.Edges), false, 0
	for ; lo < hi; lo++ {
		j := t.source(lo, offset)
		if j == node && rel.Once {
			if once {
				continue
			}
			once = true
		}
		to[n] = I(j)
		n++
	}
	if !t.sorted(rel.Edges) {
		slices.Sort(to[:n])
	}
	if n < len(to) { // the loop that is missing
		to[n] = I(node)
	}
}

// loop reports whether a node has an edge of a type to itself.
func (t *topology) loop(edges int, node int64) bool { return t.loops(edges, node) > 0 }

// loops returns how many edges of a type a node has to itself.
func (t *topology) loops(edges int, node int64) (n int64) {
	lo, hi := t.between(edges, node)
	offset := t.offset(edges)
	if t.sorted(edges) {
		at := lo
		for left := hi - lo; left > 0; {
			if half := left / 2; t.source(at+half, offset) < node {
				at, left = at+half+1, left-half-1
			} else {
				left = half
			}
		}
		for ; at < hi && t.source(at, offset) == node; at++ {
			n++
		}
		return n
	}
	for ; lo < hi; lo++ {
		if t.source(lo, offset) == node {
			n++
		}
	}
	return n
}

// degrees are those of sources in GCN's norm, with the loops that a relation adds: of edges that leave them, or that
// lead to them.
type degrees struct{ of []uint32 }

// degreesRoom is what names of memory of degrees begin with.
const degreesRoom = lasting + "degrees "

func (r *run) degreesName(rel *Relation) string {
	return fmt.Sprintf("%s%v, reduced by %d%s", degreesRoom, &r.p.Graph.Schema().Edges[rel.Edges], rel.Reduce,
		rel.loopsOnce())
}

// degreesOf counts the edges of each source.
func (r *run) degreesOf(rel *Relation) (*degrees, error) {
	e, name := &r.p.Graph.Schema().Edges[rel.Edges], r.degreesName(rel)
	if d := r.degrees[name]; d != nil {
		return d, nil
	}
	t := r.topology
	of, err := room[uint32](r, name, t.nodes(e.Src))
	if err != nil {
		return nil, err
	}
	clear(of)
	offset := t.offset(rel.Edges)
	for v := range t.nodes(e.Dst) {
		lo, hi := t.between(rel.Edges, v)
		loop, both := false, rel.Reduce == NormIn
		for ; lo < hi; lo++ {
			j := t.source(lo, offset)
			if rel.Once && loop && j == v {
				continue
			}
			if loop = loop || j == v; both {
				of[v]++
			} else {
				of[j]++
			}
		}
		if rel.Loops && !loop {
			of[v]++
		}
	}
	d := &degrees{of}
	r.degrees[name] = d
	return d, nil
}

// norm is GCN's of an edge: of a node with in edges, from source j.
func (d *degrees) norm(in, j int64) float32 {
	return float32(1 / math.Sqrt(float64(in)*float64(d.of[j])))
}
