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
	// Inputs is the ids of a node type's seeds as they were asked for, Items their numbers in the list of
	// seeds: see Batch.Seeds. They lie on the host always, and are in no digest.
	Inputs
	Items
	// Indptr, Indices and EdgePos are a block's.
	Indptr
	Indices
	EdgePos
	// LinkLabels, LinkTimes and LinkGroup are of an edge type's seeds and negatives, LinkItems of
	// its seeds: see Batch.Links. LinkCounts is how many they are: seeds, negatives, and negatives that were not
	// found. They lie on the host always. Items are in no digest.
	LinkLabels
	LinkTimes
	LinkGroup
	LinkItems
	LinkCounts
	// Own is one that the sampler adds of its own: Sample.Arrays[Type].
	Own
	// NodeColumn, SeedColumn and EdgeColumn are rows of a column: see Batch.Node, Seed and Edge.
	NodeColumn
	SeedColumn
	EdgeColumn
	// ItemColumn is rows of the list of seeds itself: labels and times of a task's table, one a seed as they were asked
	// for. They lie on the host always.
	ItemColumn
)

// Array describes one of the arrays that every batch of a loader has. Batch.Array gives the array itself.
type Array struct {
	Name   string // as docs/digest.md has it, and "input/T" and "item/T" besides; no two are the same
	Kind   Kind   // what it is
	Layer  int    // of a block and of its columns
	Type   int    // the node type, for a block and its columns the edge type, the place in Sample.Arrays
	Column string // of which it has rows; empty where it has none
	// DType is the type of the elements in the batch. Digests widen ids to int64, and the feed may.
	DType unified.DType
	// Row is the shape of a row: all dimensions but the first. It must not be changed.
	Row []int64
	// Most is the most rows that a batch has memory of its own for. A view of its Base takes none.
	Most int64
	// Base is the number, in Loader.Arrays, of the array of layer 0 that is otherwise the same. Batch.IsView says
	// whether this one is the beginning of it. Of layer 0, and of what has no layer, Base is the array's own number.
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

// IsIndex reports whether the array holds ids or offsets, which the feed delivers in the width that a consumer asks
// for.
func (a *Array) IsIndex() bool {
	switch a.Kind {
	case NumNodes, Items, LinkLabels, LinkTimes, LinkItems, LinkCounts:
		return false
	}
	return a.IsIDs()
}

// OnHost reports whether the array lies on the host wherever batches are made.
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
