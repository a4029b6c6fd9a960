package loader

import "github.com/khop-gnn/khop/loader/internal/prepared"

// Preparation says what a loader computes for each block in its pipeline: ColumnOptions.Prepare. Its text is the names
// of its bits with commas: "transpose", "gcn-norm", "loops". sparse.Prepared makes a matrix of what is prepared.
type Preparation = prepared.Preparation

const (
	// Transpose is the block's transpose: for each source its destinations, ascending, and the edges that lead there.
	Transpose = prepared.Transpose
	// GCNNorm is a value for each edge: 1/sqrt(degree of its destination x degree of its source), both in the block.
	GCNNorm = prepared.GCNNorm
	// Loops is the block with an edge from each destination to itself, last in each row that has none, as GCN and GAT
	// need it. Transposes and norms are then of this block. Edges must be between nodes of one type.
	Loops = prepared.Loops
)
