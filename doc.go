// Package khop is the root of a mini-batch loader for training graph neural networks on graphs that are larger than the
// memory of the device that trains. It holds no code; the work is done by the packages below it.
//
// # Basics
//
// Package formats opens a dataset, package sampling says how neighbours are chosen, and package loader iterates
// batches:
//
//	ds, err := formats.Open("products.khop")
//	ld, err := loader.New(ds, loader.Options{
//		Sampler: sampling.Neighbor{Fanouts: []int{15, 10, 5}},
//		Seeds:   loader.Split("train"), BatchSize: 1024, Shuffle: true, Seed: 42,
//	})
//	for batch, err := range ld.Epoch(ctx, 0) { ... }
//
// Packages graph and unified hold the types that all share, pinned and gather the memory and the feature rows. A build
// with
// -tags cuda makes the same batches on a GPU: loader.Options.Device. Below integrations are the feed to other processes (shm, with a
// consumer in Python) and datasets for GoMLX. The command cmd/khop converts, generates, checks, measures and serves.
//
// Imports go one way:
//
//	internal/* <- pinned <- unified <- graph <- {formats, sampling, gather} <- loader <- integrations <- {bench, cmd, tools}
//
// Siblings in braces do not import each other.
//
// # Caveats
//
// A batch is a pure function of dataset, sampler options, seed, epoch and batch number: the machine, the number of
// workers and the order of delivery never change it. What may change between versions of this module is listed in
// CHANGELOG.md.
package khop
