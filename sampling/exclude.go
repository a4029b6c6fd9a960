package sampling

import (
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/prefetch"
)

// excluder is a picker that can leave out edges: it looks at nothing but start and degree of a destination.
// assembly.ranges subtracts the excluded edges from the degree, and what the picker fills in is moved past them.
type excluder interface{ excludes() }

var errExcludes = fmt.Errorf("%w: the sampler cannot leave edges out, and the request excludes some", ErrOptions)

// leaveOut finds the edges that a request excludes, and refuses those where the picker cannot leave any out.
func (a *assembly[V]) leaveOut(req *Request, p picker[V]) error {
	a.out.any, a.out.shortened = false, a.out.shortened[:0]
	any, err := a.out.of(a.graph, req)
	if err != nil || !any {
		return err
	}
	if _, ok := p.(excluder); !ok {
		return errExcludes
	}
	a.out.any = true
	clear(a.out.filter[:])
	for i := range a.out.list {
		a.out.filter.add(pairKey(a.out.list[i].edgeType, a.out.list[i].target))
	}
	return nil
}

// exclusion is the edges that a batch leaves out, and where they are in the stage at hand.
type exclusion struct {
	excludedEdges
	any       bool
	filter    sieve       // of the targets: most nodes have no such edge
	shortened []shortened // of the stage at hand, where the assembly leaves them out
	at        int         // of these, whose picks come next
	pick      int         // of the block, which comes next
}

// shortened is a destination of which edges are left out.
type shortened struct {
	i     int // its place in the list
	edges []excludedEdge
}

func pairKey(edgeType int, target int64) uint64 { return uint64(target) + uint64(edgeType)<<40 }

// left returns the edges of a destination that are left out, ordered by position.
func (a *assembly[V]) left(edgeType int, target int64) []excludedEdge {
	if !a.out.any {
		return nil
	}
	if a.out.filter.has(pairKey(edgeType, target)) == 0 {
		return nil
	}
	return a.out.excludedEdges.at(edgeType, target)
}

// shrink subtracts the edges that are left out from the degrees of destinations lo .. hi-1. kept says that those noted
// before still hold.
func (a *assembly[V]) shrink(st *stage[V], lo int, kept bool) {
	if !kept {
		a.out.shortened = a.out.shortened[:0]
	}
	for i := lo; i < st.hi; i++ {
		if left := a.left(st.edgeType, int64(st.dst.ids[i])); left != nil {
			a.degree[i] -= int64(len(left))
			a.out.shortened = append(a.out.shortened, shortened{i, left})
		}
	}
}

// excludingPicker is a picker whose picks are moved past the edges that are left out.
type excludingPicker[V nodeID] struct {
	picker[V]
	a      *assembly[V]
	indptr []int32
}

// past returns p; where the stage has destinations of which edges are left out, a picker that moves p's picks past
// them.
func (a *assembly[V]) past(st *stage[V], p picker[V], indptr []int32) picker[V] {
	x := &a.out
	if !x.any {
		return p
	}
	for x.at = 0; x.at < len(x.shortened) && x.shortened[x.at].i < st.lo; x.at++ {
	}
	if x.at == len(x.shortened) {
		return p
	}
	x.pick = st.have
	a.skipper = excludingPicker[V]{p, a, indptr}
	return &a.skipper
}

func (s *excludingPicker[V]) fill(c *chunk[V]) {
	s.picker.fill(c)
	x := &s.a.out
	end := x.pick + c.n
	for ; x.at < len(x.shortened); x.at++ {
		h := &x.shortened[x.at]
		if h.i+1 >= len(s.indptr) || int(s.indptr[h.i]) >= end {
			break
		}
		for q := max(int(s.indptr[h.i]), x.pick); q < min(int(s.indptr[h.i+1]), end); q++ {
			pos := &c.pos[q-x.pick]
			for _, e := range h.edges {
				if *pos < e.pos {
					break
				}
				*pos++
			}
		}
		if int(s.indptr[h.i+1]) > end { // the rest come in the next chunk
			break
		}
	}
	x.pick = end
}

// EdgePairs are edges by their ends.
type EdgePairs struct{ Sources, Targets []int64 } // own ids, as many

// checkExclude refuses excluded edges that are not shaped for the schema.
func (r *Request) checkExclude(s *graph.Schema) error {
	if r.Exclude != nil && len(r.Exclude) != len(s.Edges) {
		return fmt.Errorf("%w: request that excludes edges of %d types; must be %d, or none", ErrOptions,
			len(r.Exclude), len(s.Edges))
	}
	for e := range r.Exclude {
		if x := &r.Exclude[e]; len(x.Sources) != len(x.Targets) {
			return fmt.Errorf("%w: excluded edges of type %v: %d sources, %d targets", ErrOptions, &s.Edges[e],
				len(x.Sources), len(x.Targets))
		}
	}
	return nil
}

// sieve has a bit for a hash of each key of a set: most keys that are not in it have none.
type sieve [1024]uint64

func (s *sieve) add(key uint64) {
	h := key * prefetch.Multiplier >> 48
	s[h/64] |= 1 << (h % 64)
}

// has returns 1 for a key that may be in the set, 0 for one that is not.
func (s *sieve) has(key uint64) uint64 {
	h := key * prefetch.Multiplier >> 48
	return s[h/64] >> (h % 64) & 1
}
