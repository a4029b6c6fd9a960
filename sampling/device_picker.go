package sampling

import (
	"github.com/khop-gnn/khop/graph"
)

// devicePicker is a picker on a device: kernels that decide which edges a hop follows. pick.cuh has their common code.
// All edge types of a hop go together.
type devicePicker interface {
	// needs says which optional memory its kernels need.
	needs() deviceNeeds
	// describe sets the fan-out and the key of a segment, which is one edge type of a hop. With fan-out 0 it is passed
	// over.
	describe(seg *deviceSegment, r Rand, hop, edgeType int)
	// count puts kernels on the stream that count the picks of a stage (count_picks).
	count(*deviceLaunch)
	// pick puts kernels on the stream that write the indptr of the stage's blocks and take the edges.
	pick(*deviceLaunch)
}

// deviceNeeds is memory that not every picker needs.
type deviceNeeds struct {
	cells    bool // Batch.scratch: 8 bytes a pick
	eligible bool // Batch.eligible: 8 bytes a destination; and Batch.hubs
	least    bool // the part of Batch.hubs that holds the least keys of slices
}

// hubBytes returns how large Batch.hubs is: Hubs of pick.cuh.
func (n deviceNeeds) hubBytes() int64 {
	const slices, hub = 8192, 32
	return bit(n.eligible)*(24+slices/2*hub+16*slices) + bit(n.least)*slices*2*32*8
}

// deviceSender is a picker or placer whose kernels read more of a batch than its description.
type deviceSender interface {
	// own writes that: as many bytes as ownBytes says.
	own(r Rand, out *graph.Sample, to []byte)
	ownBytes() int64
}

// deviceHoarder is a picker or placer whose kernels need more of Batch.scratch than a cell a pick or a node.
type deviceHoarder interface {
	// hoard returns how many cells.
	hoard(*deviceCapacity) int64
}

// deviceWeigher is a picker that reads weights.
type deviceWeigher interface {
	// badEdge returns the error of an edge whose source is a node of its type: its weight is wrong.
	badEdge(pos int64) error
}

// devicePlacer is what draws nodes on a device otherwise than by edges of a frontier.
type devicePlacer interface {
	deviceSender
	// cells returns how many nodes a request of that many seeds can draw, repeats included.
	cells(c *deviceCapacity, seeds int64) int64
	// place puts kernels on the stream that write the nodes that a stage places to Batch.scratch, and how many they
	// are to its segments (place_nodes of place.cuh).
	place(*deviceLaunch)
}
