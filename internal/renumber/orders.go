package renumber

import (
	"cmp"
	"context"
	"slices"
)

// ID is the type of the sources of edges.
type ID interface{ int32 | int64 }

// Adjacency is the neighbours of all nodes: those of node v are Indices[Indptr[v]:Indptr[v+1]].
type Adjacency[I ID] struct {
	Indptr  []int64
	Indices []I
}

func (a *Adjacency[I]) nodes() int                  { return len(a.Indptr) - 1 }
func (a *Adjacency[I]) degree(v uint32) int64       { return a.Indptr[v+1] - a.Indptr[v] }
func (a *Adjacency[I]) neighbours(v uint32) []I     { return a.Indices[a.Indptr[v]:a.Indptr[v+1]] }
func (a *Adjacency[I]) fewer(x, y uint32) int       { return cmp.Compare(a.degree(x), a.degree(y)) }
func (a *Adjacency[I]) ascending() []uint32         { return sorted(a.nodes(), a.fewer) }
func (a *Adjacency[I]) more(x, y uint32) int        { return a.fewer(y, x) }
func (a *Adjacency[I]) descendingByEdges() []uint32 { return sorted(a.nodes(), a.more) }

// sorted returns the numbers below n in an order, equal ones by number.
func sorted(n int, compare func(a, b uint32) int) []uint32 {
	order := make([]uint32, n)
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortStableFunc(order, compare)
	return order
}

// Descending returns the numbers of scores, the greatest first, equal ones by number.
func Descending[S cmp.Ordered](scores []S) []uint32 {
	return sorted(len(scores), func(a, b uint32) int { return cmp.Compare(scores[b], scores[a]) })
}

// SearchBytes are the bytes that Search takes for a node, besides the result.
const SearchBytes = 5

// Search goes through each component breadth first, from its node of the most edges on. For Cuthill-McKee it begins at
// the node of the fewest, takes neighbours by their number of edges, and reverses the order in the end: E. Cuthill, J.
// McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969; A. George, 1971.
func Search[I ID](ctx context.Context, a *Adjacency[I], rcm bool) ([]uint32, error) {
	starts := a.descendingByEdges()
	if rcm {
		starts = a.ascending()
	}
	order, seen := make([]uint32, 0, a.nodes()), make([]uint64, a.nodes()/64+1)
	visit := func(v uint32) {
		if seen[v>>6]>>(v&63)&1 == 0 {
			seen[v>>6] |= 1 << (v & 63)
			order = append(order, v)
		}
	}
	next := 0
	for _, s := range starts {
		for visit(s); next < len(order); next++ {
			if next&0xFFFF == 0 && ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			from := len(order)
			for _, u := range a.neighbours(order[next]) {
				visit(uint32(u))
			}
			if rcm {
				slices.SortStableFunc(order[from:], a.fewer)
			}
		}
	}
	if rcm {
		slices.Reverse(order)
	}
	return order, nil
}
