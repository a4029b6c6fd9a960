#include "cuda_env.h"

struct Mark {
  const int64_t* ids; // distinct and in range
  int64_t length;
  int64_t first; // slot of the first
  uint32_t* where;
};

// cache_mark enters rows into the table of a cache (see gather_find): row ids[i] is in slot first + i of tier 1.
extern "C" __global__ void __launch_bounds__(256) cache_mark(Mark m) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < m.length; i += step)
    m.where[m.ids[i]] = 1u << 30 | (uint32_t)(m.first + i);
}
