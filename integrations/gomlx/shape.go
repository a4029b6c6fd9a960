package gomlx

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// Pad says how the numbers of nodes and edges, which differ from batch to batch, are rounded up. The number of seeds is
// always that of a full batch.
type Pad uint8

const (
	// PowerOfTwo rounds up to powers of two, and never goes below what an earlier batch of the Dataset had.
	PowerOfTwo Pad = iota
	// Maximum takes the sampler's bound: one shape from the first batch on, at the price of computing on the largest
	// possible batch. It suits small fan-outs.
	Maximum
)

// String returns the name of the constant.
func (p Pad) String() string {
	if names := [...]string{"PowerOfTwo", "Maximum"}; int(p) < len(names) {
		return names[p]
	}
	return "Pad(" + strconv.Itoa(int(p)) + ")"
}

// sizes are the padded lengths of a batch's lists.
type sizes struct {
	nodes []int // by level, dump row included: 0 is all nodes, l+1 the destinations of layer l, the last the seeds
	edges []int // by layer
}

// leastSizes returns sizes that fit the full batches' seeds, and nothing else.
func leastSizes(layers int, seeds int64) sizes {
	s := sizes{nodes: make([]int, layers+1), edges: make([]int, layers)}
	for l := range s.nodes {
		s.nodes[l] = int(seeds) + 1
	}
	for l := range s.edges {
		s.edges[l] = 1
	}
	return s
}

// maximumSizes returns sizes that fit all that the sampler can make.
func maximumSizes(b sampling.Bound, seeds, nodes int64) (sizes, error) {
	s := leastSizes(b.Layers, seeds)
	reached := seeds
	for l := b.Layers - 1; l >= 0; l-- {
		edges := b.Edges
		if b.Blocks != nil {
			edges = b.Blocks[l][0]
			if edges == 0 { // no memory of its own: it may be a view of layer 0
				edges = b.Blocks[0][0]
			}
		}
		if edges > math.MaxInt32-1 {
			return s, fmt.Errorf("%w: Pad is Maximum, and layer %d can have %d edges: lower the fan-outs or the "+
				"batch size, or take PowerOfTwo", ErrOptions, l, edges)
		}
		reached = min(reached+edges, b.Nodes, nodes)
		s.edges[l] = max(1, int(edges))
		s.nodes[l] = max(s.nodes[l+1], int(reached)+1)
	}
	return s, nil
}

// grow makes room for n nodes a level and e edges a layer. Levels stay nested: none is shorter than the next.
func (s *sizes) grow(n, e []int64) {
	for l := len(e) - 1; l >= 0; l-- {
		s.edges[l] = max(s.edges[l], powerOfTwo(e[l]))
		if n[l]+1 > int64(s.nodes[l]) {
			s.nodes[l] = powerOfTwo(n[l] + 1)
		}
		s.nodes[l] = max(s.nodes[l], s.nodes[l+1])
	}
}

// fits returns an error if a batch is larger than the sizes.
func (s *sizes) fits(n, e []int64) error {
	for l := range n {
		if n[l] >= int64(s.nodes[l]) || l < len(e) && e[l] > int64(s.edges[l]) {
			return fmt.Errorf("%w: it has %v nodes and %v edges, but the sampler's Bound leaves room for %v and %v, "+
				"dump rows included", ErrBatch, n, e, s.nodes, s.edges)
		}
	}
	return nil
}

// powerOfTwo returns the least power of two that is n or more.
func powerOfTwo(n int64) int { return 1 << bits.Len64(uint64(max(n, 1)-1)) }

// fullSeeds returns the seeds of a full batch.
func fullSeeds(ld *loader.Loader) int64 { return min(int64(ld.Answer().BatchSize), ld.NumSeeds()) }
