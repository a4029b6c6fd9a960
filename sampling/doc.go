// Package sampling turns seeds into samples: graphs go in, blocks come out.
//
// # Basics
//
// A Sampler is a plain value of options. Open makes its workers, one for each goroutine. A worker fills a graph.Sample
// for each Request, which has items: nodes or edges. Neighbor is uniform neighbour sampling over any number of hops and
// edge types. The contents of a sample are a pure function of graph, options, seeds and Rand. docs/sampling.md
// specifies it in full, so that other programs and devices can make the same samples.
//
// A picker decides which edges a hop follows, and sees the whole frontier. The assembly, which all samplers share, does
// the rest: seeds first, each node once, local ids, blocks. Your own sampler implements Sampler and Worker with an
// Assembler, and says only which edges are picked; examples/customsampler is one of 40 lines.
//
// A DeviceSampler also runs on a CUDA device. Its Go code is the same in every build: OpenDevice fails without a
// device. Its DeviceWorker puts whole batches on a stream and makes the same samples there. A batch is a sequence of
// stages: the seeds, then each hop, whose edge types are its segments. The host sends one description of the batch,
// launches everything at once and waits for nothing. The kernels assembly_* are for all samplers: lists and local ids,
// by the table of table.cuh. Pickers are neighbor_*, choose_* (weight, mask, share, time), together_*, labor_*, layer_*
// (FastGCN, Ladies), pinsage_* and induce_* (edges between nodes); pick.cuh has what they share. walk_*, saint_* and
// hgt_* place nodes, sequence_* those that another worker has sampled, exclude_* finds edges to leave out, negative_*
// draws negatives, and sort_* puts edges in order, so that sums of doubles are those of the CPU. Where a stage needs
// more room it stops; the host makes room and replays.
//
// # Caveats
//
// Fanouts[0] is the hop out of the seeds, as in PyG; DGL and GraphBolt list the hops the other way round. Blocks[0] is
// the layer furthest from the seeds, as in DGL.
//
// A worker is for one goroutine. Its results are in the sample's buffers, which the next call overwrites.
package sampling
