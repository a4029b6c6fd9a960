// Package unified describes arrays that any processor of the machine may address: their type, their shape, their bytes
// and the memory that holds them.
//
// # Basics
//
// A Tensor is a view: dtype, shape, bytes, placement. It owns nothing. View gives its elements as a Go slice over the
// same memory; kernels use Address. A Buffer is growable memory for tensors. Package pinned makes bytes addressable by
// a device; NewPlaced makes a tensor of them.
//
// A tensor in host memory that every processor addresses is an idea of PyTorch-Direct (Min et al., "Large Graph
// Convolutional Network Training with GPU-Oriented Data Communication Architecture", PVLDB 14(11), 2021).
//
// # Caveats
//
// A tensor is valid as long as the memory that it views: a mapped dataset until its Close, a copy of OnHost until its
// release, a batch until the loop body ends (see package loader). Bytes are in the machine's order, which is
// little-endian on every system that khop supports. The host must not read the bytes of a tensor with placement Device;
// View refuses them.
package unified
