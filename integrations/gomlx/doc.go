// Package gomlx trains GoMLX models on khop's batches: a loader as a train.Dataset, with shapes that hardly ever
// change.
//
// # Basics
//
// New makes a Dataset of a loader; GoMLX's training loop takes it. In the model, Unpack names what came in:
//
//	ds, err := gomlx.New(ctx, ld, gomlx.Options{})
//	defer ds.Close()
//
//	func model(ctx *context.Context, spec any, inputs []*graph.Node) []*graph.Node {
//		b := gomlx.Unpack(spec, inputs)
//		h := b.X()
//		for i, layer := range b.Layers {
//			mean := layer.Mean(layer.Messages(h)) // over each destination's sampled in-neighbours
//			self := layer.Destinations(h)
//			h = ...
//		}
//		return []*graph.Node{logits} // a row a seed; the labels come with a mask, which GoMLX's losses heed
//	}
//
// GoMLX compiles a model once for each combination of shapes, and refuses more than 32. Batches are therefore padded,
// by default to powers of two that only ever grow, so that an epoch settles on one combination after a few batches.
// Each list of nodes has a last row that is not a node, the dump row: padded edges lead from it to it, so that padding
// reaches no node and no gradient.
//
// The order of batches, their contents and their states are the loader's. One goroutine turns the next batch into
// tensors while a training step runs.
//
// # Caveats
//
// The graph must have one node type and one edge type; others are ErrGraph.
//
// Tensors that Yield returns belong to the caller, who may finalize them. Each array is copied once, from the loader's
// slot into the tensor; nothing yielded refers to the loader's memory. GoMLX then transfers the tensor to its backend,
// which its Go backend does by a copy of its own.
//
// A Dataset that was used must be closed, before its loader: else a goroutine stays and the loader's epoch does not
// end.
package gomlx
