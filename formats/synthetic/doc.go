// Package synthetic generates graphs: for demonstrations, tests and benchmarks, of any size and in constant memory.
//
// # Basics
//
//	res, err := synthetic.Generate(ctx, synthetic.Products, "products.khop", synthetic.Options{Seed: 1})
//
// A kind says what the graph looks like: SBM (communities with features and labels that can be learned), RMAT
// (Graph500's skewed degrees), Products (size, degrees and splits of ogbn-products), Typed (papers, authors,
// institutions). Options left at zero are the kind's; docs/generate.md describes the models, and what they are not.
//
// A graph is never held: every destination's in-edges are computed from the destination alone, and written in order.
// What takes the place of an edge list are functions that are evaluated: a law that deals the ends of edges to nodes
// (law), keyed shuffles and a random matching of the ends (shuffle, matching), and a tree of binomial splits (tree). So
// any number of workers can compute, and the files are the same byte for byte.
//
// # Caveats
//
// Parallel edges and self-loops occur where the model draws them. A destination's column is held and sorted in memory.
// Class tables take about 250 bytes a class, and 4 bytes a class and feature.
//
// The same options make the same files on every machine, but another version of khop may make others: the manifest's
// provenance names the version of the generator.
package synthetic
