// Package sparse multiplies what was sampled: products of sparse and dense matrices, over blocks and whole graphs.
//
// # Basics
//
// A Matrix is a view of a block, of a graph, or of arrays of yours, in compressed rows: destinations are rows, sources
// are columns. A Pool computes, on goroutines of its own:
//
//	pool := sparse.Open(sparse.Options{})
//	defer pool.Close()
//	a, err := sparse.Block(&batch.Sample.Blocks[0][0])
//	err = pool.SpMM(y, sparse.Mean, a, unified.Tensor{}, batch.X())
//
// There are sums, means and extremes (SpMM, SpMMExtreme), products sampled at the edges (SDDMM, SDDMMAdd), softmax over
// the edges of a row, and the gradients of all of them. Segments and Scatter make matrices that reduce rows. Values of
// edges may have several heads. A matrix keeps what is computed of it: its transpose, degrees, GCNNorm.
//
// Dense operands are tensors of float32, [rows, ...], whose rows are as long as their width. SpMM also reads rows of
// floats of 16 bits, which take half of the memory's bandwidth, and computes in float32.
//
// A result is a function of the operands alone, to the bit. Each element is summed in the order of the edges, and
// products round before they are added. Workers, processor, instruction set and strategy do not change it. Plain Go
// code is the specification; AVX-512 and AVX2 kernels (tools/asm) do the same for 16 or 8 columns at a time, keep the
// sums of up to 256 columns in registers, and prefetch the rows of later edges. docs/results/ops.md has measurements.
//
// The fastest way to compute a product depends on its operands: Pool.Tune measures it, a Tuning keeps the choices in a
// file of the user, and a pool with that Tuning (Options.Tuning) finds them by a key: workers, width of indices, values
// or none, columns, and the powers of two of rows, columns and mean degree.
//
// On a CUDA device DeviceKernels compute SpMM, SDDMM and Softmax of float32, to the same bits (device.cu). They are
// tested on a simulated device only, and nobody has timed them.
//
// # Caveats
//
// A Matrix, with what it keeps, is valid as long as the arrays under it stay unchanged. The block of a batch does so
// until the batch is released: make a new Matrix for each block. Results lie in the caller's memory; huge pages
// (pinned.Allocate) make large ones faster.
//
// A pool runs one operation at a time. Operands in a mapped file that was cut short end an operation with
// pinned.ErrFault, and y is then undefined.
package sparse
