package sampling

import (
	"math/bits"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/sat"
)

// firstEdges is how many edges of a hop a worker makes room for before its first batch, if the bound is greater. If
// memory does not suffice it tries fewer, down to leastEdges.
const (
	firstEdges = 1 << 20
	leastEdges = 1 << 10
)

// deviceCapacity says how much the buffers of a device worker hold. It starts at a guess and grows to a quarter more
// than what a batch needed, never beyond what any batch can need.
type deviceCapacity struct {
	// [stage][node type]: length of the list before the stage, and after the last; never falls from stage to stage
	nodes [][]int64
	edges [][]int64 // [stage][edge type]: edges of the block after the stage, or nodes that it draws
	bits  int       // of the number of slots of the table, where it has keys

	changes int // how often it grew

	maxNodes []int64
	maxEdges [][]int64
}

// newCapacity guesses with first edges a stage at most.
func (w *deviceAssembly) newCapacity(batchSize int, first int64) deviceCapacity {
	s, n := w.schema, len(w.stages)
	c := deviceCapacity{nodes: make([][]int64, n+1), edges: make([][]int64, n), maxEdges: make([][]int64, n),
		maxNodes: w.bound.Lists}
	if w.bound.Lists == nil {
		for t := range s.Nodes {
			c.maxNodes = append(c.maxNodes, s.Nodes[t].Count)
		}
	}
	for h := range c.nodes {
		c.nodes[h] = make([]int64, len(s.Nodes))
	}
	for t := range s.Nodes {
		c.nodes[0][t] = min(int64(batchSize), c.maxNodes[t])
	}
	for h, kind := range w.stages {
		copy(c.nodes[h+1], c.nodes[h])
		if kind == stagePlace {
			c.edges[h] = make([]int64, len(s.Nodes))
			for t := range s.Nodes {
				c.nodes[h+1][t] = min(sat.Add(c.nodes[h][t], first), c.maxNodes[t])
			}
			continue
		}
		c.maxEdges[h] = w.mostEdges(h)
		active := int64(0)
		for _, most := range c.maxEdges[h] {
			active += min(most, 1)
		}
		for e, most := range c.maxEdges[h] {
			c.edges[h] = append(c.edges[h], min(most, max(first/max(active, 1), 1)))
			if src := s.Edges[e].Src; kind == stageHop {
				c.nodes[h+1][src] = min(sat.Add(c.nodes[h+1][src], c.edges[h][e]), c.maxNodes[src])
			}
		}
	}
	c.fitTable()
	return c
}

// mostEdges returns the most edges of a stage's blocks, by edge type.
func (w *deviceAssembly) mostEdges(h int) (most []int64) {
	b := &w.bound
	if w.hops != nil && w.stages[h] == stageHop {
		b = w.hops
	}
	_, layer := w.block(h, &w.reach)
	for e := range w.schema.Edges {
		n := b.Edges
		if b.Blocks != nil {
			n = b.Blocks[layer][e]
		}
		most = append(most, min(n, maxBlockEdges))
	}
	return most
}

// needNodes makes room for n nodes of a type before a hop, and at all later ones.
func (c *deviceCapacity) needNodes(h, t int, n int64) {
	before := c.changes
	for ; h < len(c.nodes); h++ {
		c.grow(&c.nodes[h][t], n, c.maxNodes[t])
	}
	if c.changes > before {
		c.fitTable()
	}
}

// needEdges makes room for n edges of a type at a stage. Blocks of hops may lie in one buffer.
func (w *deviceAssembly) needEdges(h, e int, n int64) {
	c, shared := &w.capacity, w.frontier == NewNodes && w.stages[h] == stageHop
	for i, kind := range w.stages {
		if i == h || shared && kind == stageHop {
			c.grow(&c.edges[i][e], n, c.maxEdges[i][e])
		}
	}
}

func (c *deviceCapacity) grow(have *int64, n, bound int64) {
	if n > *have {
		*have = max(n, min(n+n/4, bound))
		c.changes++
	}
}

// fitTable keeps the load of the table at one half or less.
func (c *deviceCapacity) fitTable() {
	total := int64(0)
	for _, n := range c.nodes[len(c.nodes)-1] {
		total += n
	}
	c.bits = max(c.bits, bits.Len64(uint64(max(2*total, 2)-1)))
}

// dsts returns how many destinations of a hop need room: a multiple of 32 for each edge type.
func (c *deviceCapacity) dsts(s *graph.Schema, h int) int64 {
	n := int64(0)
	for e := range s.Edges {
		n += roundUp32(c.nodes[h][s.Edges[e].Dst])
	}
	return n
}

// picks returns the same for the picks of a hop.
func (c *deviceCapacity) picks(h int) int64 {
	n := int64(0)
	for _, edges := range c.edges[h] {
		n += roundUp32(edges)
	}
	return min(n, maxDevicePicks)
}

// maxDevicePicks is how many picks of a hop the kernels can number.
const maxDevicePicks = 1<<31 - 32

func roundUp32(n int64) int64 { return (n + 31) &^ 31 }

// directSlots reports whether the table has a slot for every node of the graph and no keys: it does if that is not
// larger, or fits the device's cache.
func directSlots(numNodes, batchNodes int64) bool {
	const cached = 32 << 20
	return numNodes < 1<<31 && 8*numNodes <= max(cached, 16*hashSlots(batchNodes))
}

// sourceOrder returns the segments' indices ordered by their source type, and where each type begins.
func sourceOrder(types int, sources []int) (order, begins []int64) {
	order, begins = make([]int64, len(sources)), make([]int64, types+1)
	for i, t := range sources {
		order[i] = int64(i)
		begins[t+1]++
	}
	slices.SortStableFunc(order, func(a, b int64) int { return sources[a] - sources[b] })
	for t := range types {
		begins[t+1] += begins[t]
	}
	return order, begins
}
