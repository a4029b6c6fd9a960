package sparse

import (
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

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
