// Package sampling turns seeds into samples: graphs go in, blocks come out.
//
// # Basics
//
// A Sampler is a plain value of options. Open makes workers of it, one for each goroutine, and a worker fills a
// graph.Sample for each Request: items, which are nodes or edges. Neighbor is uniform neighbour sampling over any
// number of hops and edge types. What a sample holds is a pure function of graph, options, seeds and Rand:
// docs/sampling.md states it in full, so that other programs and devices make the same.
//
// A picker decides which edges a hop follows and sees the whole frontier; an assembly does the rest, once for all
// samplers: seeds first, each node once, local ids, blocks. A sampler of your own implements Sampler and Worker over an
// Assembler, and says only which edges are picked; examples/customsampler is one of 40 lines.
//
// A DeviceSampler also runs on a CUDA device, from the same Go code in every build: OpenDevice fails where there is no
// device. Its DeviceWorker puts whole batches on a stream and makes the same samples there. A batch is a sequence of
// stages: the seeds, then each hop, whose edge types are its segments. The host sends one description of the batch,
// launches everything at once and waits for nothing. The kernels assembly_* are for all samplers: lists and local ids,
// by the table of table.cuh. Pickers are neighbor_*, choose_* (weight, mask, share, time), together_*, labor_*, layer_*
// (FastGCN, Ladies), pinsage_* and induce_* (edges between nodes); pick.cuh has what they share. walk_*, saint_* and
// hgt_* place nodes, exclude_* finds edges to leave out, negative_* draws negatives, and sort_* puts edges in order, so
// that sums of doubles are those of the CPU. What does not fit stops the stage: the host makes room and replays.
//
// # Caveats
//
// Fanouts[0] is the hop out of the seeds, as in PyG; DGL and GraphBolt list the hops the other way round. Blocks[0] is
// the layer furthest from the seeds, as in DGL.
//
// A worker is for one goroutine, and what it makes lies in the sample's buffers: the next call overwrites it.
package sampling
