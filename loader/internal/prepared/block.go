package prepared

import (
	"fmt"
	"math"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/unified"
)

// block is the arrays of a graph.Block that were checked: no index is out of range, and rows do not overlap.
type block struct {
	sources, destinations int64
	indptr, indices       []int32 // [destinations+1], [edges]
}

// read returns a block's arrays; zeros, and no edges, for a block without arrays. ErrSampler if they contradict
// themselves: the sampler may be anybody's.
func read(b *graph.Block) (*block, error) {
	if b.NumSrc < 0 || b.NumDst < 0 {
		return nil, fmt.Errorf("%w: a block of %d sources and %d destinations", errs.ErrSampler, b.NumSrc, b.NumDst)
	}
	if b.Indptr.Len() == 0 {
		return &block{sources: b.NumSrc, destinations: b.NumDst, indptr: make([]int32, b.NumDst+1)}, nil
	}
	of := &block{sources: b.NumSrc, destinations: b.NumDst}
	var err error
	if of.indptr, err = unified.View[int32](b.Indptr); err == nil {
		of.indices, err = unified.View[int32](b.Indices)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: a block's indptr is %v, its indices are %v: %w", errs.ErrSampler, b.Indptr,
			b.Indices, err)
	}
	return of, of.check()
}

func (b *block) check() error {
	edges := int64(len(b.indices))
	if n := int64(len(b.indptr)) - 1; n != b.destinations || b.indptr[0] != 0 || int64(b.indptr[n]) != edges {
		return fmt.Errorf("%w: a block has %d destinations and %d edges, and its indptr has %d elements, from %d to %d",
			errs.ErrSampler, b.destinations, edges, n+1, b.indptr[0], b.indptr[n])
	}
	for i, end := range b.indptr[1:] {
		if end < b.indptr[i] {
			return fmt.Errorf("%w: row %d of a block begins at edge %d and ends at %d", errs.ErrSampler, i, b.indptr[i],
				end)
		}
	}
	for e, j := range b.indices {
		if j < 0 || int64(j) >= b.sources {
			return fmt.Errorf("%w: edge %d of a block is from source %d of %d", errs.ErrSampler, e, j, b.sources)
		}
	}
	return nil
}

// addLoops writes the arrays of the block with an edge from each destination to itself, last in each row that has none,
// and returns that block, a view of them. indptr is [destinations+1], indices has room for the edges and an edge for
// each destination. ErrSampler if there are more destinations than sources, which they are the first of.
func (b *block) addLoops(indptr, indices []int32) (*block, error) {
	if b.destinations > b.sources {
		return nil, fmt.Errorf("%w: no room for loops in a block of %d sources and %d destinations", errs.ErrSampler,
			b.sources, b.destinations)
	}
	indptr[0], indices = 0, indices[:0]
	for i := range int32(b.destinations) {
		loop := false
		for _, j := range b.indices[b.indptr[i]:b.indptr[i+1]] {
			loop = loop || j == i
			indices = append(indices, j)
		}
		if !loop {
			indices = append(indices, i)
		}
		indptr[i+1] = int32(len(indices))
	}
	return &block{b.sources, b.destinations, indptr, indices}, nil
}

// transpose writes the transpose: source j's edges are edges[indptr[j]] .. edges[indptr[j+1]-1], and lead to the
// destinations at the same places of indices, ascending. Shapes: indptr [sources+1]; indices and edges [edges].
func (b *block) transpose(indptr, indices, edges []int32) {
	clear(indptr)
	for _, j := range b.indices {
		indptr[j+1]++
	}
	for j := range b.sources {
		indptr[j+1] += indptr[j]
	}
	for i := range b.destinations {
		for e := b.indptr[i]; e < b.indptr[i+1]; e++ {
			to := indptr[b.indices[e]]
			indptr[b.indices[e]]++
			indices[to], edges[to] = int32(i), e
		}
	}
	copy(indptr[1:], indptr[:b.sources]) // each has become where the next one begins
	indptr[0] = 0
}

// norm writes GCNNorm to norm [edges]. degrees is scratch memory of as many elements as there are sources.
func (b *block) norm(norm []float32, degrees []int32) {
	clear(degrees)
	for _, j := range b.indices {
		degrees[j]++
	}
	for i := range b.destinations {
		d := float64(b.indptr[i+1] - b.indptr[i])
		for e := b.indptr[i]; e < b.indptr[i+1]; e++ {
			norm[e] = float32(1 / math.Sqrt(d*float64(degrees[b.indices[e]])))
		}
	}
}
