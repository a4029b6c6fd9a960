package sparse

import (
	"fmt"
	"math"
	"strings"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Preparation says what a loader makes of each block in its pipeline (loader.Options.Prepare).
type Preparation uint8

const (
	// Transpose is the block's transpose: for each source its destinations, ascending, and the edges that lead there.
	Transpose Preparation = 1 << iota
	// GCNNorm is a value for each edge: 1/sqrt(degree of its destination x degree of its source), both in the block.
	GCNNorm
	preparations
)

// Valid reports whether there is such a preparation.
func (p Preparation) Valid() bool { return p < preparations }

// UnmarshalText reads names with commas: "transpose", "gcn-norm".
func (p *Preparation) UnmarshalText(text []byte) error {
	*p = 0
	for _, name := range strings.Split(string(text), ",") {
		switch strings.TrimSpace(name) {
		case "transpose":
			*p |= Transpose
		case "gcn-norm":
			*p |= GCNNorm
		default:
			return fmt.Errorf("%w: %q is not transpose or gcn-norm", ErrShape, name)
		}
	}
	return nil
}

// TransposeBlock writes the transpose of a block: source j's edges are edges[indptr[j]] .. edges[indptr[j+1]-1], and
// lead to the destinations at the same places of indices, ascending. Shapes: indptr int32 [NumSrc+1]; indices and edges
// int32 [edges]. ErrMatrix where an index of the block is out of range, ErrShape where lengths are not these.
func TransposeBlock(indptr, indices, edges []int32, b *graph.Block) error {
	ptr, columns, err := blockArrays(b)
	if err != nil {
		return err
	}
	if int64(len(indptr)) != b.NumSrc+1 || len(indices) != len(columns) || len(edges) != len(columns) {
		return fmt.Errorf("%w: %d, %d and %d elements for %d sources and %d edges", ErrShape, len(indptr), len(indices),
			len(edges), b.NumSrc, len(columns))
	}
	clear(indptr)
	for _, j := range columns {
		indptr[j+1]++
	}
	for j := range b.NumSrc {
		indptr[j+1] += indptr[j]
	}
	for i := range b.NumDst {
		for e := ptr[i]; e < ptr[i+1]; e++ {
			to := indptr[columns[e]]
			indptr[columns[e]]++
			indices[to], edges[to] = int32(i), e
		}
	}
	copy(indptr[1:], indptr[:b.NumSrc]) // each has become where the next one begins
	indptr[0] = 0
	return nil
}

// NormBlock writes GCNNorm of a block to norm, float32 [edges]. degrees is room of NumSrc elements. Errors are those of
// TransposeBlock.
func NormBlock(norm []float32, degrees []int32, b *graph.Block) error {
	ptr, columns, err := blockArrays(b)
	if err != nil {
		return err
	}
	if len(norm) != len(columns) || int64(len(degrees)) != b.NumSrc {
		return fmt.Errorf("%w: %d norms of %d edges, room for %d sources of %d", ErrShape, len(norm), len(columns),
			len(degrees), b.NumSrc)
	}
	clear(degrees)
	for _, j := range columns {
		degrees[j]++
	}
	for i := range b.NumDst {
		d := float64(ptr[i+1] - ptr[i])
		for e := ptr[i]; e < ptr[i+1]; e++ {
			norm[e] = float32(1 / math.Sqrt(d*float64(degrees[columns[e]])))
		}
	}
	return nil
}

// blockArrays returns a block's arrays, whose indices it has checked; none of a block without arrays.
func blockArrays(b *graph.Block) (indptr, indices []int32, err error) {
	if b.Indptr.Len() == 0 {
		return make([]int32, b.NumDst+1), nil, nil
	}
	a, err := Block(b)
	if err != nil {
		return nil, nil, err
	}
	if a.indptr32 == nil || b.Indices.DType() != unified.Int32 { // no edges may be no memory
		return nil, nil, fmt.Errorf("%w: a block has int32, and this one %v and %v", ErrShape, b.Indptr, b.Indices)
	}
	return a.indptr32, a.indices32, nil
}
