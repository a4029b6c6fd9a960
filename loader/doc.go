// Package loader is the pipeline: it samples seeds, gathers the rows of their nodes, and delivers batches in order.
//
// # Basics
//
// New makes a Loader from a Source (a dataset of package formats, a graph in memory, or your own) and Options, whose
// zero values are the defaults. Epoch is an iterator over the batches of one epoch:
//
//	ld, err := loader.New(ds, loader.Options{
//		Sampler: sampling.Neighbor{Fanouts: []int{15, 10, 5}}, Shuffle: true, Seed: 42,
//	})
//	for batch, err := range ld.Epoch(ctx, 0) { ... }
//
// The contents of a batch are a pure function of source, seeds, sampler, batch size, shuffle, seed, instance, epoch and
// batch number. Workers, memory, device and ranks do not change a byte of it, which Batch.Digest shows. Batch.State is
// a place in an epoch, to store with a checkpoint; Resume continues from it.
//
// A loader owns a number of slots, each the memory of one batch, and allocates them all in New. A worker takes a free
// slot together with the next batch number, samples and gathers, and puts the slot into a window, from which the loop
// takes batches in order. In steady state nothing is allocated, and the workers continue while the loop body runs.
//
// Options.Device makes batches on a CUDA device, by default on the first one, if any: name "cpu" if batches must be in
// host memory. Their tensors have placement Device; kernels use Tensor.Address. A batch is delivered when its work is
// queued: call Batch.Wait or Sync before you use it, and Batch.RecordStream after the last use. docs/loader.md
// describes all of it.
//
// # Caveats
//
// A batch, and any tensor of it, is valid until the loop body ends: its slot is then filled again. Keep holds it
// longer, at the price of a slot. The source must stay open until the loader is closed, also if it was copied
// (Resident).
//
// A file that is cut short while it is read ends the epoch with pinned.ErrFault; ids out of range end it with
// sampling.ErrGraph or gather.ErrRange, and a sampler that panics with ErrSampler. Panics in a loop body pass through,
// and no goroutine remains.
package loader
