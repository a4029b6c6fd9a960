#include "cuda_env.h"

__constant__ uint64_t multipliers[2] = {3, 5};
__device__ __forceinline__ uint64_t scaled(uint64_t x, int which) { return x * multipliers[which]; }

// Answers of intrinsics, `14` words for each of 64 threads, which the test works out by itself.
extern "C" __global__ void sim_intrinsics(unsigned long long* out, int* cells, unsigned long long* wide,
                                          volatile int* flag) {
  int t = threadIdx.x, lane = t & 31;
  unsigned long long* o = out + t * 14;
  o[0] = __shfl_down_sync(0xffffffffu, t, 3);
  o[1] = (unsigned long long)(__shfl_xor_sync(0xffffffffu, t * 2.5, 5) * 2);
  o[2] = __shfl_sync(0xffffffffu, t, lane + 1, 8);
  o[3] = __any_sync(0xffffffffu, t == 40) | __all_sync(0xffffffffu, t >= 32) << 1;
  o[4] = __syncthreads_count(t % 3 == 0);
  o[5] = __syncthreads_or(t == 63) | __syncthreads_and(t >= 0) << 1;
  o[6] = __popc(t) | __ffs(t) << 8 | __clz(t) << 16;
  o[7] = __umul64hi(0x9e3779b97f4a7c15ull * (t + 1), 0xc2b2ae3d27d4eb4full);
  o[8] = (unsigned long long)(__dmul_rn(t, 0.1) * 1e15);
  if (lane < 16) o[9] = __shfl_sync(0x0000ffffu, t, 15 - lane);
  else o[9] = __shfl_sync(0xffff0000u, t, 31);
  atomicMax(&cells[0], t - 100);
  atomicMin(&cells[1], t - 100);
  atomicExch(&cells[2], 7);
  atomicOr((unsigned*)&cells[3], 1u << lane);
  o[10] = atomicAdd(&wide[0], 1ull << 33) >> 33 < 64;
  atomicCAS(&wide[1], 5ull, 9ull);
  atomicMin((unsigned long long*)&wide[2], (unsigned long long)(1000 - t));
  o[11] = blockDim.x + gridDim.x * 1000;
  o[12] = __popc(__match_any_sync(0xffffffffu, t % 5));
  o[13] = scaled(t, t & 1) + __popcll(0xffull << t) + __ffsll(1ll << (t & 31)) + __clzll(t) + __brev(t << 26);
  if (t == 0) flag[0] = 1;                        // volatile: no race by itself
  else if (flag[0] > 1) o[11] = 0;
}

// A block of two dimensions, in a grid of two.
extern "C" __global__ void sim_two_dimensions(int* out, int64_t width) {
  int64_t x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  out[y * width + x] = (int)(y * 1000 + x);
}

// Warp-aggregated counters, and the first position of every key: the atomics of a hash table.
extern "C" __global__ void sim_unique(const unsigned* keys, unsigned* table, unsigned* first, unsigned* slot, int64_t n,
                                      uint64_t mask) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned key = keys[i];
  for (unsigned h = (unsigned)((key * 0x9e3779b97f4a7c15ull >> 32) & mask);; h = (h + 1) & mask) {
    unsigned old = atomicCAS(&table[h], 0xffffffffu, key);
    if (old != 0xffffffffu && old != key) continue;
    atomicMin(&first[h], (unsigned)i);
    slot[i] = h;
    break;
  }
}
