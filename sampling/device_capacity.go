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
	// [hop][node type]: length of the list before the hop, and after the last; never falls from hop to hop
	nodes [][]int64
	edges [][]int64 // [hop][edge type]: edges of the block after the hop
	bits  int       // of the number of slots of the table, where it has keys

	changes int // how often it grew

	maxNodes []int64
	maxEdges [][]int64
}

// newDeviceCapacity guesses with first edges a hop at most.
func newDeviceCapacity(s *graph.Schema, b *Bound, frontier Frontier, batchSize int, first int64) deviceCapacity {
	hops := b.Layers
	c := deviceCapacity{nodes: make([][]int64, hops+1), edges: make([][]int64, hops), maxEdges: make([][]int64, hops),
		maxNodes: b.Lists}
	if b.Lists == nil {
		for t := range s.Nodes {
			c.maxNodes = append(c.maxNodes, s.Nodes[t].Count)
		}
	}
	for h := range hops {
		layer := hops - 1 - h
		if frontier == NewNodes {
			layer = 0
		}
		active := int64(0)
		c.edges[h], c.maxEdges[h] = make([]int64, len(s.Edges)), make([]int64, len(s.Edges))
		for e := range s.Edges {
			c.maxEdges[h][e] = min(b.Edges, maxBlockEdges)
			if b.Blocks != nil {
				c.maxEdges[h][e] = min(b.Blocks[layer][e], maxBlockEdges)
			}
			active += min(c.maxEdges[h][e], 1)
		}
		for e := range s.Edges {
			c.edges[h][e] = min(c.maxEdges[h][e], max(first/max(active, 1), 1))
		}
	}
	for h := range c.nodes {
		c.nodes[h] = make([]int64, len(s.Nodes))
	}
	for t := range s.Nodes {
		c.nodes[0][t] = min(int64(batchSize), c.maxNodes[t])
	}
	for h := range hops {
		copy(c.nodes[h+1], c.nodes[h])
		for e := range s.Edges {
			src := s.Edges[e].Src
			c.nodes[h+1][src] = min(sat.Add(c.nodes[h+1][src], c.edges[h][e]), c.maxNodes[src])
		}
	}
	c.fitTable()
	return c
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

// needEdges makes room for n edges of a type at a hop. With shared, the blocks of all hops lie in one buffer.
func (c *deviceCapacity) needEdges(h, e int, n int64, shared bool) {
	if !shared {
		c.grow(&c.edges[h][e], n, c.maxEdges[h][e])
		return
	}
	for h := range c.edges {
		c.grow(&c.edges[h][e], n, c.maxEdges[h][e])
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

// last returns the greatest number of a column of rows: what a buffer needs that the blocks of all hops share.
func last(rows [][]int64, i int) int64 {
	n := int64(0)
	for _, row := range rows {
		n = max(n, row[i])
	}
	return n
}

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
