package sampling

import (
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// rowKind is what an array of a sample has a row for.
type rowKind uint8

const (
	rowOfNode  rowKind = iota // each node of a type
	rowOfEdge                 // each edge of a type in a layer's block
	rowOfWalks                // some rows for each distinct seed
	rowOfSeed                 // each seed
)

// deviceArray is an array that a sampler adds.
type deviceArray struct {
	kind  rowKind
	at    int   // node type, or edge type
	stage int   // of the block
	each  int64 // rows of a seed
	pos   bool  // it has positions of edges
	id    bool  // it has own ids
}

// claimEmpty writes the blocks of a sample that has none with edges.
func (w *deviceAssembly) claimEmpty(req *Request, out *graph.Sample) error {
	if slices.ContainsFunc(w.stages, func(k stageKind) bool { return k != stagePlace }) {
		return nil
	}
	for e := range w.schema.Edges {
		b, n := &out.Buffers.Indptr[0][e], req.NumSeeds(w.schema, w.schema.Edges[e].Dst)+1
		if err := b.Claim(4 * n); err != nil {
			return err
		}
		if err := w.env.Stream.Fill32(b.Address(), 0, n); err != nil {
			return err
		}
	}
	return nil
}

// seeds returns how many seeds a request has.
func (w *deviceAssembly) seeds(req *Request) (n int64) {
	for t := range w.schema.Nodes {
		n += req.NumSeeds(w.schema, t)
	}
	return n
}

// rowsOf returns the rows of an array, by the nodes of each type, the edges of each stage's blocks, and the distinct
// seeds.
func (w *deviceAssembly) rowsOf(a *deviceArray, nodes []int64, edges [][]int64, seeds int64) int64 {
	switch a.kind {
	case rowOfNode:
		return nodes[a.at]
	case rowOfEdge:
		return edges[a.stage][a.at]
	case rowOfSeed:
		return w.numSeeds
	default:
		return seeds * a.each
	}
}

// arrayType returns the dtype of an array.
func (w *deviceAssembly) arrayType(i int) unified.DType {
	switch {
	case w.arrays[i].pos:
		return w.pos
	case w.arrays[i].id:
		return w.ids
	}
	return w.bound.Arrays[i].DType
}

// timeArray returns the number of the array with the times of a node type.
func (w *deviceAssembly) timeArray(t int) int { return t + int(bit(w.disjoint))*len(w.schema.Nodes) }
