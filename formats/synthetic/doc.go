// Package synthetic generates graphs: for demonstrations, tests and benchmarks, of any size and in constant memory.
//
// # Basics
//
//	res, err := synthetic.Generate(ctx, synthetic.Products, "products.khop", synthetic.Options{Seed: 1})
//
// The kind of a graph says what it looks like: SBM (communities with features and labels that can be learned), RMAT
// (Graph500's skewed degrees), Products (size, degrees and splits of ogbn-products), Typed (papers, authors,
// institutions). Options left at zero take the kind's defaults. docs/generate.md describes the models and their limits.
//
// The generator never holds a whole graph: it computes the in-edges of each destination from only the destination, and
// writes them in order. It uses a law that gives stubs (ends of edges) to nodes, keyed shuffles, a random matching of
// stubs, and a tree of binomial splits. So any number of workers makes the same files, byte for byte.
//
// # Caveats
//
// Parallel edges and self-loops occur where the model draws them. The in-edges of one destination are held and sorted
// in memory. Class tables take about 250 bytes a class, and 4 bytes a class and feature.
//
// The same options make the same files on every machine, but another version of khop may make others: the manifest's
// provenance names the version of the generator.
package synthetic
