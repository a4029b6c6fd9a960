#include "cuda_env.h"
#include "rows.cuh"

// Gathers with a thread for each element of the result, in order: what gather_rows is compared with.

// A Piece of the kernels below is one element. shifted reads the columns of a row in another order.
template <class Element, bool shifted>
__device__ __forceinline__ void gather_elements(const Column& c, const List& list, char* dst, Counts& counts) {
  const int64_t width = c.bytes / (int64_t)sizeof(Element), total = list.length * width;
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; t < total; t += step) {
    const int64_t turn = t / width, row = list.at(turn);
    int64_t column = t % width;
    const char* from = gather_find(c, row, list.id(row), column == 0, counts);
    if (!from) continue;
    if (shifted) {
      column += (int64_t)(((uint64_t)turn * (uint64_t)c.bytes - (uint64_t)from) % 128) / (int64_t)sizeof(Element);
      if (column >= width) column -= width;
    }
    ((Element*)(dst + row * c.bytes))[column] = __ldg((const Element*)from + column);
  }
}

template <bool shifted>
__device__ __forceinline__ void gather_sized(const Column& c, const List& list, char* dst, int64_t unit, Counts& counts) {
  switch (unit) {
    case 8: gather_elements<uint2, shifted>(c, list, dst, counts); break;
    case 4: gather_elements<uint32_t, shifted>(c, list, dst, counts); break;
    case 2: gather_elements<uint16_t, shifted>(c, list, dst, counts); break;
    default: gather_elements<uint8_t, shifted>(c, list, dst, counts);
  }
}

// gather_naive copies row id(i) of the column to row i of dst. unit, 1, 2, 4 or 8, is the size of an element and divides every
// address; everything else is as with gather_rows.
extern "C" __global__ void __launch_bounds__(256) gather_naive(Gather g) {
  Counts counts{0, 0};
  gather_sized<false>(g.column, gather_list(g.ids), g.dst, g.unit, counts);
  gather_add(g.column, counts);
}

// gather_shift is gather_naive with the columns of each row rotated, so that the thread of byte t of the result reads
// an address that is t modulo 128: a warp then reads one line, but where a row ends within it. Rows must be of more than 128 bytes.
//
// Method: Min et al., "PyTorch-Direct: enabling GPU centric data access for very large graph neural network training with
// irregular accesses", 2021, with the address in place of the offset in the column, which may begin anywhere.
extern "C" __global__ void __launch_bounds__(256) gather_shift(Gather g) {
  Counts counts{0, 0};
  gather_sized<true>(g.column, gather_list(g.ids), g.dst, g.unit, counts);
  gather_add(g.column, counts);
}
