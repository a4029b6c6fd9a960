package sparse

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Preparation says what a loader computes for each block in its pipeline (loader.Options.Columns.Prepare).
type Preparation uint8

const (
	// Transpose is the block's transpose: for each source its destinations, ascending, and the edges that lead there.
	Transpose Preparation = 1 << iota
	// GCNNorm is a value for each edge: 1/sqrt(degree of its destination x degree of its source), both in the block.
	GCNNorm
	// Loops is the block with an edge from each destination to itself, last in each row that has none, as GCN and GAT
	// need it. Transposes and norms are then of this block. Edges must be between nodes of one type.
	Loops
	preparations
)

// Valid reports whether all bits are preparations.
func (p Preparation) Valid() bool { return p < preparations }

// preparationNames are the names of the bits.
var preparationNames = []string{"transpose", "gcn-norm", "loops"}

// UnmarshalText reads names with commas: "transpose", "gcn-norm", "loops".
func (p *Preparation) UnmarshalText(text []byte) error {
	*p = 0
	for _, name := range strings.Split(string(text), ",") {
		i := slices.Index(preparationNames, strings.TrimSpace(name))
		if i < 0 {
			return fmt.Errorf("%w: %q is not transpose, gcn-norm or loops", ErrShape, name)
		}
		*p |= 1 << i
	}
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (p Preparation) MarshalText() (text []byte, err error) {
	var names []string
	for i, name := range preparationNames {
		if p>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return []byte(strings.Join(names, ",")), nil
}

// LoopBlock writes the arrays of a block with self-loops added, and returns its number of edges. indptr has NumDst+1
// elements, indices has room for the block's edges and NumDst more. Errors are those of TransposeBlock, and ErrShape if
// a block has more destinations than sources.
func LoopBlock(indptr, indices []int32, b *graph.Block) (edges int64, err error) {
	ptr, columns, err := blockArrays(b)
	if err != nil {
		return 0, err
	}
	if b.NumDst > b.NumSrc || int64(len(indptr)) != b.NumDst+1 || int64(len(indices)) < int64(len(columns))+b.NumDst {
		return 0, fmt.Errorf("%w: room for %d rows and %d edges with loops, of %d destinations, %d sources and %d "+
			"edges", ErrShape, len(indptr)-1, len(indices), b.NumDst, b.NumSrc, len(columns))
	}
	indptr[0], indices = 0, indices[:0]
	for i := range b.NumDst {
		indices = appendLooped(indices, columns[ptr[i]:ptr[i+1]], i)
		indptr[i+1] = int32(len(indices))
	}
	return int64(len(indices)), nil
}

// Prepared returns the matrix of a block with the arrays that a loader has computed for it, so that they are not
// computed again. of finds an array by its name, without layer and edge type: "loops/indptr", "loops/indices",
// "transpose/indptr", "transpose/indices", "transpose/edges" and "gcn_norm", as docs/loader.md describes them, or
// returns the zero Tensor. If there are arrays with loops, the matrix has loops. It is valid as long as block and
// arrays are. Errors are those of New.
func Prepared(b *graph.Block, of func(name string) unified.Tensor) (*Matrix, error) {
	list := func(name string) unified.Tensor { // one without elements may be no tensor
		if t := of(name); t.Valid() {
			return t
		}
		return unified.FromSlice([]int32{})
	}
	block := *b
	if loops := of("loops/indptr"); loops.Valid() {
		block.Indptr, block.Indices = loops, list("loops/indices")
	}
	a, err := Block(&block)
	if err != nil {
		return nil, err
	}
	if norm := of("gcn_norm"); norm.Valid() {
		if !perEdge(norm, a) || norm.Rank() != 1 {
			return nil, fmt.Errorf("%w: the norms are %v, of %d edges", ErrShape, norm, a.edges)
		}
		a.norms.Do(func() { a.norm = floats(norm) })
	}
	if !of("transpose/indptr").Valid() {
		return a, nil
	}
	t, err := New(a.rows, of("transpose/indptr"), list("transpose/indices"))
	if err != nil {
		return nil, err
	}
	edges, err := unified.View[int32](list("transpose/edges"))
	if err != nil || t.rows != a.cols || t.edges != a.edges || int64(len(edges)) != a.edges ||
		!inRange32(edges, a.edges) && a.edges > 0 {
		return nil, fmt.Errorf("%w: a transpose of %d x %d with %d edges, and %d of them, of a block of %d x %d with "+
			"%d", ErrMatrix, t.rows, t.cols, t.edges, len(edges), a.rows, a.cols, a.edges)
	}
	t.transposed, t.narrow = a, edges
	t.transposing.Do(func() {})
	a.transposing.Do(func() { a.transposed = t })
	return a, nil
}

// TransposeBlock writes the transpose of a block: source j's edges are edges[indptr[j]] .. edges[indptr[j+1]-1], and
// lead to the destinations at the same places of indices, ascending. Shapes: indptr int32 [NumSrc+1]; indices and edges
// int32 [edges]. ErrMatrix if an index of the block is out of range, ErrShape if the lengths differ from these.
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

// NormBlock writes GCNNorm of a block to norm, float32 [edges]. degrees is scratch memory of NumSrc elements. Errors
// are those of TransposeBlock.
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
