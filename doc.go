// Package khop is the root of a mini-batch loader for training graph neural networks, on graphs that are larger than
// the memory of the device that trains. It holds no code; the packages below it do the work.
//
// # Basics
//
// There are five types to know.
//
// formats.Dataset is a graph with its columns and splits in a directory of files. formats.Open maps the files, whatever
// their size, and reads hardly any of them. The command khop makes datasets (convert, generate), and graph.New takes
// the place of one for a graph in Go slices.
//
// sampling.Neighbor says how the neighbourhood of a seed is sampled: how many in-edges each hop picks for each node. It
// is a plain value. Other samplers implement sampling.Sampler.
//
// loader.Loader makes batches of both. Its workers sample, gather rows and hold finished batches ready while your loop
// body runs; loader.Options say with which seeds, how many at a time, and in how much memory.
//
//	ds, err := formats.Open("products.khop")
//	ld, err := loader.New(ds, loader.Options{
//		Sampler: sampling.Neighbor{Fanouts: []int{15, 10, 5}},
//		Seeds:   loader.Split("train"), BatchSize: 1024, Shuffle: true, Seed: 42,
//	})
//	for batch, err := range ld.Epoch(ctx, 0) { ... }
//
// loader.Batch is what the loop gets: the list of its nodes with the seeds first, a row of features for each node
// (Batch.X) and a row of labels for each seed (Batch.Y). Batch.State is a place to resume from, and Batch.Digest 64
// bits that stand for the whole batch.
//
// graph.Block is one layer of a batch: the edges from its sources to its destinations, in CSC form, as places in the
// list of nodes. Batch.Sample.Blocks[0] is the layer furthest from the seeds, which a network computes first; the
// destinations of the last layer are the seeds.
//
// All arrays are unified.Tensors. unified.View turns one into a Go slice over the same memory.
//
// A build with -tags cuda makes the same batches on a GPU, and leaves them there: loader.Options.Device. Programs in
// other processes and languages get batches through shared memory: khop serve, integrations/shm and the Python package.
// docs/architecture.md follows a batch from the file to its consumer, and docs/glossary.md has the words.
//
// # Caveats
//
// A batch is a pure function of dataset, sampler, seeds, batch size, shuffle, random seed, instance, epoch and number.
// The machine, the device and the number of workers or ranks never change it. CHANGELOG.md says what changes between
// versions of this module.
//
// A batch, with all slices and tensors taken from it, is valid until the loop body ends; the loader then fills the same
// memory again. Batch.Keep holds a batch longer, until Batch.Release, and each batch held takes a slot away from the
// workers.
//
// Tensors lie outside the Go heap, often in mapped files. Close the loader before the dataset, and keep no slice
// beyond: reading it would fault. Never write to a tensor.
//
// Open vouches for the shape of a dataset, not for its elements. Check a dataset from elsewhere once, with khop check
// or formats.Check. If someone cuts a mapped file short, the epoch ends with an error.
//
// The default of Options.Device takes a GPU where there is one and the build has CUDA. Go code that reads batches names
// "cpu".
//
// Reading a mapped dataset fills the page cache, which the system shrinks as it needs. Options.MaxMemory bounds all
// other memory of a loader.
//
// # Packages
//
// Imports go one way; siblings in braces do not import each other:
//
//	device <- internal/* <- pinned <- unified <- graph <- {formats, sampling, gather, sparse} <- loader
//	loader <- integrations <- {bench, cmd, tools}
package khop
