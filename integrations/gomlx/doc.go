// Package gomlx trains GoMLX models on khop's batches: a loader as a train.Dataset, whose shapes rarely change.
//
// # Basics
//
// New makes a Dataset of a loader, for GoMLX's training loop. In the model, Unpack names the inputs:
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
// by default to powers of two that only grow, so that an epoch has one combination after a few batches. The last row of
// each list of nodes is not a node but the dump row: padded edges lead from it to itself, so padding reaches no node
// and no gradient.
//
// The order of batches, their contents and their states are those of the loader. One goroutine converts the next batch
// to tensors while a training step runs.
//
// # Caveats
//
// The graph must have one node type and one edge type; others are ErrGraph.
//
// Tensors that Yield returns belong to the caller, who may finalize them. Each array is copied once, from the loader's
// slot into the tensor; tensors do not refer to the loader's memory. GoMLX then transfers the tensor to its backend;
// its Go backend copies it again.
//
// Close a used Dataset before its loader; otherwise a goroutine stays, and the loader's epoch does not end.
package gomlx
