// Package sparse computes products of sparse and dense matrices, for sampled blocks and whole graphs.
//
// # Basics
//
// A Matrix is a view of a block, of a graph, or of your own arrays, in compressed rows: destinations are rows, sources
// are columns. A Pool computes, on its own goroutines:
//
//	pool := sparse.Open(sparse.Options{})
//	defer pool.Close()
//	a, err := sparse.Block(&batch.Sample.Blocks[0][0])
//	err = pool.SpMM(y, sparse.Mean, a, unified.Tensor{}, batch.X())
//
// There are sums, means and extremes (SpMM, SpMMExtreme), products sampled at the edges (SDDMM, SDDMMAdd), softmax over
// the edges of a row, and the gradients of all of them. Segments and Scatter make matrices that reduce rows. Values of
// edges may have several heads. A matrix keeps results that are computed from it: its transpose, degrees, GCNNorm.
//
// Dense operands are tensors of float32, [rows, ...], whose rows are as long as their width. SpMM also reads rows of
// floats of 16 bits, which take half of the memory's bandwidth, and computes in float32.
//
// A result is a function of the operands alone, to the bit. Each element is summed in the order of the edges, and
// products round before they are added. Workers, processor, instruction set and strategy do not change it. Plain Go
// code is the specification; AVX-512 and AVX2 kernels (tools/asm) do the same for 16 or 8 columns at a time, keep the
// sums of up to 256 columns in registers, and prefetch the rows of later edges. docs/results/ops.md has measurements.
//
// The fastest strategy to compute a product depends on its operands. Pool.Tune measures it, and a Tuning keeps the
// choices in a file of the user. A pool with that Tuning (Options.Tuning) finds them by a key: workers, width of
// indices, whether there are values, columns, and the powers of two of rows, columns and mean degree.
//
// On a CUDA device DeviceKernels compute SpMM, SDDMM and Softmax of float32, to the same bits (device.cu). They are
// tested only on a simulated device, and have not been timed.
//
// # Caveats
//
// A Matrix, and the results that it keeps, are valid as long as its arrays stay unchanged. Those of a batch do until
// the batch is released: make a new Matrix for each block. Results are in the caller's memory; huge pages
// (pinned.Allocate) make large ones faster.
//
// A pool runs one operation at a time. Operands in a mapped file that was cut short end an operation with
// pinned.ErrFault, and y is then undefined.
package sparse
