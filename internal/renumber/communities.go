package renumber

import (
	"context"
	"slices"
)

// CommunityBytes returns about how many bytes Communities takes for these numbers of nodes and neighbours, besides the
// result.
func CommunityBytes(nodes, neighbours int64) int64 { return 60*nodes + 8*neighbours }

// forest is nodes that were merged into one another.
type forest struct {
	parent         []uint32 // of each node; its own number: a root
	child, sibling []uint32 // lists of what was merged into each, the last first; none where there are no more
	weight         []float64
	edges          [][]weighed // of a node that was merged: to whom, as far as they are needed
	done           []bool
}

// weighed is a number of edges to a node.
type weighed struct{ to, edges uint32 }

const none = ^uint32(0)

// Communities puts nodes together that have many edges between them, and communities of communities likewise. Nodes
// are merged, those of few edges first, each with the neighbour that raises modularity the most, as long as one does; a
// walk through what was merged into what, depth first, is the order. Neighbours must be mutual.
//
// Source: J. Arai, H. Shiokawa, T. Yamamuro, M. Onizuka, S. Iwamura, "Rabbit Order: Just-in-time Parallel Reordering
// for Fast Graph Analysis", IPDPS 2016; by one goroutine here, so that equal graphs get equal orders.
func Communities[I ID](ctx context.Context, a *Adjacency[I]) ([]uint32, error) {
	n := a.nodes()
	f := &forest{parent: make([]uint32, n), child: make([]uint32, n), sibling: make([]uint32, n),
		weight: make([]float64, n), edges: make([][]weighed, n), done: make([]bool, n)}
	for v := range f.parent {
		f.parent[v], f.child[v], f.sibling[v] = uint32(v), none, none
		f.weight[v] = float64(a.degree(uint32(v)))
	}
	total := max(float64(len(a.Indices)), 1)
	between := make([]uint32, n) // edges from the present node to a root
	var near []uint32            // roots that have some
	starts := a.ascending()
	for i, v := range starts {
		if i&0xFFFF == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		near = near[:0]
		add := func(u, edges uint32) {
			if r := f.root(u); r != v {
				if between[r] == 0 {
					near = append(near, r)
				}
				between[r] += min(edges, none-between[r])
			}
		}
		for _, u := range a.neighbours(v) {
			add(uint32(u), 1)
		}
		for c := f.child[v]; c != none; c = f.sibling[c] {
			for _, e := range f.edges[c] {
				add(e.to, e.edges)
			}
			f.edges[c] = nil
		}
		f.merge(v, near, between, total)
	}
	return f.walk(starts), nil
}

// root returns the root of a node's tree, and shortens the way.
func (f *forest) root(v uint32) uint32 {
	for f.parent[v] != v {
		f.parent[v] = f.parent[f.parent[v]]
		v = f.parent[v]
	}
	return v
}

// merge merges a node with the root that raises modularity the most, of equal ones that of the least number, and clears
// the edges between.
func (f *forest) merge(v uint32, near, between []uint32, total float64) {
	best, gain := none, 0.0
	for _, u := range near {
		if g := float64(between[u])*total - f.weight[v]*f.weight[u]; g > gain || g == gain && u < best && best != none {
			best, gain = u, g
		}
	}
	if best != none {
		f.parent[v] = best
		f.weight[best] += f.weight[v]
		f.sibling[v], f.child[best] = f.child[best], v
		if !f.done[best] { // it goes on with these
			f.edges[v] = make([]weighed, len(near))
			for i, u := range near {
				f.edges[v][i] = weighed{u, between[u]}
			}
		}
	}
	f.done[v] = true
	for _, u := range near {
		between[u] = 0
	}
}

// walk lists the trees, those whose roots have the most edges first.
func (f *forest) walk(starts []uint32) []uint32 {
	order := make([]uint32, 0, len(starts))
	var stack []uint32
	for _, root := range slices.Backward(starts) {
		if f.parent[root] != root {
			continue
		}
		for stack = append(stack, root); len(stack) > 0; {
			v := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			order = append(order, v)
			for c := f.child[v]; c != none; c = f.sibling[c] {
				stack = append(stack, c)
			}
		}
	}
	return order
}
