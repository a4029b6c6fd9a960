// Package unified describes arrays that any processor of the machine may address: their type, shape, bytes and where
// they lie.
//
// # Basics
//
// A Tensor is a view: dtype, shape, bytes, placement. It owns nothing and costs nothing to copy. View gives its
// elements as a Go slice without copying; Address is what kernels use. A Buffer is growable memory that tensors are
// views of; batches are built in buffers. OpenDevice opens a processor, and Tensor.To moves a tensor to memory that it
// shares with the host (Unified) or to its own (Memory). Place tells where an operation on some operands runs.
//
// The idea of a tensor that the host holds and every processor addresses is PyTorch-Direct's (Min et al., "Large Graph
// Convolutional Network Training with GPU-Oriented Data Communication Architecture", PVLDB 14(11), 2021).
//
// # Caveats
//
// A tensor is valid as long as what it views: a mapped dataset until its Close, a moved one until Moved.Close, a batch
// until the loop body ends (see package loader). Bytes are in the machine's order, which is little-endian on every
// system that khop supports. The bytes of a tensor with placement Device are not to be read by the host; View refuses
// them.
package unified
