package sampling

import (
	"math/bits"
	"slices"

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
			if kind == stageHop {
				src := s.Edges[e].Src
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
	if w.stages[h] == stageReach {
		return w.mostReached(h)
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

// mostReached is mostEdges of a stage that lists edges: those of the picks, or all of the graph.
func (w *deviceAssembly) mostReached(h int) (most []int64) {
	most = make([]int64, len(w.targets(h)))
	of := func(e int) int64 { return w.schema.Edges[e].Count }
	if w.picker != nil {
		picks := w.mostEdges(h + 1)
		of = func(e int) int64 { return picks[e] }
	}
	for e, i := range w.targetTypes {
		if !w.mixes {
			i = e
		}
		most[i] = min(sat.Add(most[i], of(e)), maxBlockEdges)
	}
	return most
}

// targets returns the node types of the destinations of a stage's segments. Those of a stage that places nodes have
// none, but are as many.
func (w *deviceAssembly) targets(h int) []int {
	if w.stages[h] == stagePlace || w.stages[h] == stageReach && w.mixes {
		return w.nodeTypes
	}
	return w.targetTypes
}

// listBytes is the memory of what a segment of a stage lists: the indptr, and positions behind it.
func (w *deviceAssembly) listBytes(h, i int) int64 {
	return 8 * (w.capacity.nodes[h][w.targets(h)[i]]/2 + 1 + w.capacity.edges[h][i])
}

// reachedBytes is that of all.
func (w *deviceAssembly) reachedBytes() (n int64) {
	for h, kind := range w.stages {
		for i := range w.targets(h) {
			if kind == stageReach {
				n += w.listBytes(h, i)
			}
		}
	}
	return n
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

// stageDsts returns how many destinations of a stage need room: a multiple of 32 for each segment.
func (w *deviceAssembly) stageDsts(h int) int64 {
	n := int64(0)
	for _, t := range w.targets(h) {
		n += roundUp32(w.capacity.nodes[h][t])
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
