package graph

import (
	"errors"
	"slices"

	"github.com/khop-gnn/khop/unified"
)

// Block is one layer of one edge type: a CSC over local ids. Destination i is node i of the target type's list, its
// sources Indices[Indptr[i]] .. Indices[Indptr[i+1]-1] are positions in the source type's list, ordered as the sampler
// says.
type Block struct {
	NumSrc, NumDst int64
	Indptr         unified.Tensor // int32 [NumDst+1]
	Indices        unified.Tensor // int32 [edges]: local ids below NumSrc
	EdgePos        unified.Tensor // Schema.PosType [edges]: positions in the graph's CSC, if requested
}

// NumEdges returns the edges of the block.
func (b *Block) NumEdges() int64 { return b.Indices.Len() }

// Sample is the result of a sampler for some seeds. Its tensors are views of its own buffers, valid until the sample is
// filled again or closed. A sampler writes them; its caller reads them. Call Init before the first use.
type Sample struct {
	// Nodes are own ids, Schema.IDType [NumNodes[hops][t]], by node type: the seeds first, each node once.
	Nodes []unified.Tensor
	// NumNodes[h][t] is the length of the list of type t after h hops; NumNodes[0] counts the distinct seeds.
	NumNodes [][]int64
	// Blocks[layer][edge type]; layer 0 is furthest from the seeds, and its NumSrc covers all nodes.
	Blocks [][]Block
	// ViewOf[layer] is the layer whose blocks begin with this layer's blocks, in the same memory; the layer itself if
	// its blocks have their own memory.
	ViewOf []int
	// SeedLocal are the local ids of the requested seeds, int32 [requested], by node type: 0, 1, 2, .. unless seeds
	// repeat. The ends of seed edges follow the nodes.
	SeedLocal []unified.Tensor
	// SeedEdges are the local ids of the ends of seed edges, by edge type. They are views of SeedLocal; nil if no seeds
	// are edges.
	SeedEdges []Ends
	// Arrays are the sampler's own additions: walks, norms, negatives. All samples of a sampler have the same arrays in
	// the same order (sampling.Bound).
	Arrays []Array
	// Buffers are the memory behind all of these, for samplers.
	Buffers Buffers
}

// Ends are the ends of edges, as local ids: int32 [edges] each.
type Ends struct{ Source, Target unified.Tensor }

// Array is an array that a sampler adds to its samples, under a name that the sampler chooses.
type Array struct {
	Column
	Rows unified.Tensor // DType [rows, Shape...]
}

// Buffers are the memory behind the tensors of a Sample: of its Nodes and SeedLocal, its Arrays, and its Blocks. A
// sampler grows a buffer, writes to it, and views it as the tensor.
type Buffers struct {
	Nodes, Seeds             []unified.Buffer   // [node type]
	Arrays                   []unified.Buffer   // [array]
	Indptr, Indices, EdgePos [][]unified.Buffer // [layer][edge type]
}

// NumEdges returns the edges of all blocks. Layers that are views of one another (sampling.NewNodes) count each.
func (s *Sample) NumEdges() int64 {
	n := int64(0)
	for l := range s.Blocks {
		for e := range s.Blocks[l] {
			n += s.Blocks[l][e].NumEdges()
		}
	}
	return n
}

// Close frees the sample's memory. Its tensors must not be used any more.
func (s *Sample) Close() error {
	var errs []error
	s.each(func(b *unified.Buffer) { errs = append(errs, b.Close()) })
	return errors.Join(errs...)
}

func (s *Sample) each(f func(*unified.Buffer)) {
	b := &s.Buffers
	groups := slices.Concat([][]unified.Buffer{b.Nodes, b.Seeds, b.Arrays}, b.Indptr, b.Indices, b.EdgePos)
	for _, g := range groups {
		for i := range g {
			f(&g[i])
		}
	}
}
