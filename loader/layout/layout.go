// Package layout says which arrays every batch of a loader has: their names, element types and shapes.
package layout

import "github.com/khop-gnn/khop/unified"

// Kind says which of a batch's arrays an Array is.
type Kind uint8

const (
	// NumNodes is Sample.NumNodes, as one array [hops+1, node types].
	NumNodes Kind = iota
	// Nodes is Sample.Nodes of a node type.
	Nodes
	// Seeds is Sample.SeedLocal of a node type.
	Seeds
	// Inputs is the ids of a node type's requested seeds, Items their numbers in the list of seeds: see Batch.Seeds.
	// They are always on the host, and in no digest.
	Inputs
	Items
	// Indptr, Indices and EdgePos are a block's.
	Indptr
	Indices
	EdgePos
	// LinkLabels, LinkTimes (of Column "from" first times) and LinkGroup are of an edge type's seeds and negatives,
	// LinkItems of its seeds: see Batch.Links. LinkCounts is how many they are: seeds, negatives, and negatives that
	// were not found. They are always on the host. LinkItems is in no digest.
	LinkLabels
	LinkTimes
	LinkGroup
	LinkItems
	LinkCounts
	// Own is an array that the sampler adds: Sample.Arrays[Type].
	Own
	// NodeColumn, SeedColumn and EdgeColumn are rows of a column: see Batch.Node, Seed and Edge.
	NodeColumn
	SeedColumn
	EdgeColumn
	// ItemColumn is rows of the list of seeds itself: labels and times of a task's table, one for each requested seed.
	// They are always on the host.
	ItemColumn
)

// Array describes one of the arrays that every batch of a loader has. Batch.Array gives the array itself.
type Array struct {
	Name   string // as in docs/digest.md, also "input/T" and "item/T"; names are unique
	Kind   Kind   // what it is
	Layer  int    // of a block and of its columns
	Type   int    // the node type, for a block and its columns the edge type, the place in Sample.Arrays
	Column string // the column whose rows it has; empty if it has no rows of a column
	// DType is the type of the elements in the batch. Digests widen ids to int64, and the feed may.
	DType unified.DType
	// Row is the shape of a row: all dimensions but the first. It must not be changed.
	Row []int64
	// Most is the most rows for which a batch has memory. A view of its Base takes none.
	Most int64
	// Base is the number, in Loader.Arrays, of the array of layer 0 that is otherwise the same. Batch.IsView reports
	// whether this array is the beginning of it. For arrays of layer 0, and for those without a layer, Base is the
	// array's own number.
	Base int
}

// IsColumn reports whether the array holds rows of a column.
func (a *Array) IsColumn() bool { return a.Kind >= NodeColumn && a.Kind <= EdgeColumn }

// IsIDs reports whether the array holds ids, offsets or counts, which digests widen to int64.
func (a *Array) IsIDs() bool { return a.Kind < Own }

// InFull reports whether the full digest covers the array.
func (a *Array) InFull() bool {
	return a.Kind != Inputs && a.Kind != Items && a.Kind != LinkItems
}

// OnHost reports whether the array is on the host wherever batches are made.
func (a *Array) OnHost() bool {
	switch a.Kind {
	case NumNodes, Inputs, Items, ItemColumn:
		return true
	}
	return a.Kind >= LinkLabels && a.Kind <= LinkCounts
}

// InTopology reports whether the topology digest covers the array.
func (a *Array) InTopology() bool {
	return a.InFull() && !a.IsColumn() && a.Kind != ItemColumn
}
