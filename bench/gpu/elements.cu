#include "cuda_env.h"

// Gathers with a thread for each element of the result: what the gather of the product is compared with.

struct Elements {
  const uint32_t* base;  // rows of width elements
  int64_t width;
  const int64_t* ids;
  int64_t rows;
  uint32_t* dst;
};

template <bool shifted>
__device__ __forceinline__ void gather_elements(const Elements& e) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; t < e.rows * e.width; t += step) {
    const int64_t turn = t / e.width;
    const uint32_t* const from = e.base + e.ids[turn] * e.width;
    int64_t column = t % e.width;
    if (shifted) {
      column += (turn * e.width - (int64_t)((uint64_t)from / sizeof(uint32_t))) & 31;
      if (column >= e.width) column -= e.width;
    }
    e.dst[turn * e.width + column] = __ldg(from + column);
  }
}

// In order.
extern "C" __global__ void __launch_bounds__(256) gather_naive(Elements e) { gather_elements<false>(e); }

// With the columns of each row rotated, so that the thread of byte t of the result reads an address that is t modulo
// 128: a warp then reads one line, but where a row ends within it. Rows have more than 32 elements.
//
// Method: Min et al., "PyTorch-Direct: enabling GPU centric data access for very large graph neural network training
// with irregular accesses", 2021, with the address in place of the offset in the column, which may begin anywhere.
extern "C" __global__ void __launch_bounds__(256) gather_shift(Elements e) { gather_elements<true>(e); }
