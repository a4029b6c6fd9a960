// Package sampling turns seeds into samples: graphs go in, blocks come out.
//
// # Basics
//
// A Sampler is a plain value of options. Open makes workers of it, one for each goroutine, and a worker fills a
// graph.Sample for each Request. Neighbor is uniform neighbour sampling, with or without replacement, over any number
// of hops and edge types.
//
// What a sample holds is a pure function of graph, options, seeds and Rand: docs/sampling.md states it in full, so that
// other programs and devices make the same.
//
// A sampler of your own implements Sampler and Worker. Assembler does what all samplers share (seeds first, each node
// once, local ids, blocks), so that it says only which edges are picked; examples/customsampler is one of 40 lines.
//
// Inside the package the cut is the same. A picker decides which edges a hop follows and sees the whole frontier; an
// assembly does the rest, once for all samplers: lists, local ids, blocks. Neighbor is a picker of 100 lines (pick.go).
// A Request is items, nodes or edges; with Neighbor.Disjoint each item grows a tree of its own.
//
// A DeviceSampler also runs on a CUDA device, from the same Go code in every build: OpenDevice fails where there is no
// device, and never before. Its DeviceWorker puts whole batches on a stream and makes the same samples there. The
// kernels are neighbor.cu (what is picked) and assembly.cu (lists, local ids), cut as on the CPU; docs/sampling.md, "On
// a device", says how they go about it.
//
// # Caveats
//
// Fanouts[0] is the hop out of the seeds, as in PyG; DGL and GraphBolt list the hops the other way round. Blocks[0] is
// the layer furthest from the seeds, as in DGL.
//
// A worker is for one goroutine, and what it makes lies in the sample's buffers: the next call overwrites it.
package sampling
