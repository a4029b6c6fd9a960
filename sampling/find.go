package sampling

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// edgeFinder looks edges up by their ends. It is read-only, for any number of goroutines.
type edgeFinder struct {
	graph  *graph.Graph
	schema *graph.Schema
	indptr []int64
	ids32  []int32 // the sources: these or ids64
	ids64  []int64
	types  typeColumn
}

func newEdgeFinder(g *graph.Graph) (f edgeFinder, err error) {
	f = edgeFinder{graph: g, schema: g.Schema(), indptr: g.Indptr()}
	if g.Indices().DType() == unified.Int32 {
		f.ids32, err = unified.View[int32](g.Indices())
	} else {
		f.ids64, err = unified.View[int64](g.Indices())
	}
	if err == nil {
		f.types, err = newTypeColumn(g.Types())
	}
	return f, err
}

// source returns the source of the edge at a position, as a fused id.
func (f *edgeFinder) source(pos int64) int64 {
	if f.ids32 != nil {
		return int64(f.ids32[pos])
	}
	return f.ids64[pos]
}

// run returns the positions first .. last-1 of the in-edges of type e of a node, by its own id.
func (f *edgeFinder) run(e int, target int64) (first, last int64, err error) {
	v := target + f.graph.Offset(f.schema.Edges[e].Dst)
	first, last = f.indptr[v], f.indptr[v+1]
	if uint64(first) > uint64(last) || last > f.graph.NumEdges() {
		return 0, 0, errColumn(v, first, last, int(f.graph.NumEdges()))
	}
	if len(f.schema.Edges) > 1 {
		first = f.types.firstAtLeast(first, last, e)
		last = f.types.firstAtLeast(first, last, e+1)
	}
	return first, last, nil
}

// find calls yield with the position of each edge of type e from source to target, own ids, until it returns false.
// Where edges are ordered by source that costs the logarithm of the target's degree, else the degree.
func (f *edgeFinder) find(e int, source, target int64, yield func(pos int64) bool) error {
	et := &f.schema.Edges[e]
	first, last, err := f.run(e, target)
	if err != nil || first == last {
		return err
	}
	u := source + f.graph.Offset(et.Src)
	if f.ids32 != nil {
		findIn(f.ids32[first:last], int32(u), first, et.Order == graph.BySource, yield)
	} else {
		findIn(f.ids64[first:last], u, first, et.Order == graph.BySource, yield)
	}
	return nil
}

// findIn is compiled for either width: a function that reads one id took 1.3 times as long for each look-up.
func findIn[V nodeID](run []V, u V, first int64, ordered bool, yield func(int64) bool) {
	at := 0
	if ordered {
		at = sort.Search(len(run), func(i int) bool { return run[i] >= u })
	}
	for ; at < len(run); at++ {
		switch {
		case run[at] == u:
			if !yield(first + int64(at)) {
				return
			}
		case ordered:
			return
		}
	}
}

// has reports whether there is an edge of type e from source to target, own ids.
func (f *edgeFinder) has(e int, source, target int64) (found bool, err error) {
	err = f.find(e, source, target, func(int64) bool {
		found = true
		return false
	})
	return found, err
}

// excludedEdges are those that a batch leaves out: positions by edge type and target.
type excludedEdges struct {
	finder edgeFinder
	open   bool           // finder is there
	list   []excludedEdge // ordered
	types  []bool         // [edge type] whether any are of it
}

type excludedEdge struct {
	edgeType int
	target   int64 // own id
	pos      int64
}

func (h excludedEdge) compare(o excludedEdge) int {
	return cmp.Or(cmp.Compare(h.edgeType, o.edgeType), cmp.Compare(h.target, o.target), cmp.Compare(h.pos, o.pos))
}

// of finds the edges that a request excludes. It reports whether there are any.
func (h *excludedEdges) of(g *graph.Graph, req *Request) (bool, error) {
	h.list = h.list[:0]
	if !slices.ContainsFunc(req.Exclude, func(x EdgePairs) bool { return len(x.Sources) > 0 }) {
		return false, nil
	}
	if !h.open {
		var err error
		if h.finder, err = newEdgeFinder(g); err != nil {
			return false, err
		}
		h.open, h.types = true, make([]bool, len(g.Schema().Edges))
	}
	clear(h.types)
	for e := range req.Exclude {
		x := &req.Exclude[e]
		for i, target := range x.Targets {
			if err := checkPair(g.Schema(), e, x.Sources[i], target); err != nil {
				return false, err
			}
			err := h.finder.find(e, x.Sources[i], target, func(pos int64) bool {
				h.list = append(h.list, excludedEdge{e, target, pos})
				return true
			})
			if err != nil {
				return false, err
			}
		}
	}
	slices.SortFunc(h.list, excludedEdge.compare)
	h.list = slices.Compact(h.list)
	for i := range h.list {
		h.types[h.list[i].edgeType] = true
	}
	return len(h.list) > 0, nil
}

// checkPair refuses ends that the edge type does not have.
func checkPair(s *graph.Schema, e int, source, target int64) error {
	et := &s.Edges[e]
	if n := s.Nodes[et.Src].Count; uint64(source) >= uint64(n) {
		return fmt.Errorf("source of edge %v: %w", et, s.SeedError(et.Src, 0, source))
	}
	if n := s.Nodes[et.Dst].Count; uint64(target) >= uint64(n) {
		return fmt.Errorf("target of edge %v: %w", et, s.SeedError(et.Dst, 0, target))
	}
	return nil
}

// at returns the edges of type e into a node that are left out, ordered by position.
func (h *excludedEdges) at(e int, target int64) []excludedEdge {
	if len(h.list) == 0 || !h.types[e] {
		return nil
	}
	want := excludedEdge{e, target, -1}
	lo := sort.Search(len(h.list), func(i int) bool { return h.list[i].compare(want) >= 0 })
	hi := lo
	for hi < len(h.list) && h.list[hi].edgeType == e && h.list[hi].target == target {
		hi++
	}
	return h.list[lo:hi]
}
