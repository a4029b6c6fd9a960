// Package gnn trains graph neural networks in Go, on the operations of package sparse: GCN, GraphSAGE, GIN and GAT.
//
// # Basics
//
// Train makes a model of layers, computes them over the blocks of a batch or over a whole graph, and learns from the
// gradients of a tape of the operations:
//
//	result, err := gnn.Train(ctx, dataset, gnn.Options{Model: "gcn", Epochs: 200, Seed: 1})
//
// Without Fanouts every step uses the whole graph. With them, package loader makes batches, and accuracy is still
// measured on the whole graph.
//
// Training is a function of dataset and options: equal seeds give equal parameters, to the bit, with any number of
// workers, as the operations do. A checkpoint has everything to continue training: parameters, the optimiser's moments,
// the place in the loader's epoch, the points of the learning curves, and the choices of the tuner. Continued training
// gives the same bytes as training without a stop.
//
// # Why not a library
//
// Libraries for automatic differentiation in Go (Gorgonia, GoMLX) have no sparse products, and own their tensors, so a
// graph and its features would be copied. Besides package sparse, a GNN needs only three files.
//
// # Caveats
//
// Only graphs with one type of nodes and edges, features of float32, 16-bit floats or int8 with the column
// feature_scale, and int64 labels. Everything runs on the CPU.
package gnn
