// Package loader is the pipeline: seeds are sampled, the rows of their nodes gathered, and batches delivered in order.
//
// # Basics
//
// New makes a Loader of a Source (a dataset of package formats, a graph in memory, or one of yours) and Options, whose
// zero values are the defaults. Epoch is an iterator over the batches of one epoch:
//
//	ld, err := loader.New(ds, loader.Options{
//		Sampler: sampling.Neighbor{Fanouts: []int{15, 10, 5}}, Shuffle: true, Seed: 42,
//	})
//	for batch, err := range ld.Epoch(ctx, 0) { ... }
//
// The contents of a batch are a pure function of source, seeds, sampler, batch size, shuffle, seed, instance, epoch and
// batch number. Workers, memory, device and ranks do not change a byte of it, and Batch.Digest shows that. Batch.State
// is a place in an epoch, to store with a checkpoint; Resume goes on from it.
//
// A loader owns a number of slots, each the memory of one batch, and takes all of it in New. A worker takes a free slot
// and the next batch number together, samples and gathers, and puts the slot into a window from which the loop takes
// batches in order. In steady state nothing is allocated, and the workers go on while the loop body runs.
//
// Options.Device makes batches on a CUDA device, by default the first where there is one: name "cpu" where batches must
// lie in host memory. Their tensors have placement Device, which kernels take (Tensor.Address). A batch is delivered
// when its work is queued: Batch.Wait or Sync come before its use, Batch.RecordStream after the last one.
// docs/loader.md describes all of it.
//
// # Caveats
//
// A batch, and any tensor of it, is valid until the loop body ends: its slot is then filled again. Keep holds it
// longer, at the price of a slot. The source must stay open until the loader is closed, also where it was copied
// (Resident).
//
// A file that is cut short while it is read ends the epoch with pinned.ErrFault, ids out of range with
// sampling.ErrGraph or gather.ErrRange; a sampler that panics with ErrSampler. Other panics in a loop body pass
// through, and leave no goroutine.
package loader
