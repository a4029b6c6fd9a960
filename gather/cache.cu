#include "cuda_env.h"

// cache_mark enters rows into the table of a cache (see gather_find): row ids[i] is in slot first + i of tier 1. The ids are
// distinct and in range.
extern "C" __global__ void __launch_bounds__(256)
cache_mark(const int64_t* ids, int64_t length, int64_t first, uint32_t* where) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < length; i += step) where[ids[i]] = 1u << 30 | (uint32_t)(first + i);
}
