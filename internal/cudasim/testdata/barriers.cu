#include "cuda_env.h"

// Each kernel comes once right, and once for each barrier that is left out.

#define SCAN(NAME, FIRST, SECOND, THIRD)                                        \
  extern "C" __global__ void NAME(const int* in, int* out, int64_t n) {         \
    __shared__ int s[256];                                                      \
    int t = threadIdx.x;                                                        \
    int64_t i = blockIdx.x * (int64_t)256 + t;                                  \
    s[t] = i < n ? in[i] : 0;                                                   \
    FIRST;                                                                      \
    for (int d = 1; d < 256; d <<= 1) {                                         \
      int v = t >= d ? s[t - d] : 0;                                            \
      SECOND;                                                                   \
      s[t] += v;                                                                \
      THIRD;                                                                    \
    }                                                                           \
    if (i < n) out[i] = s[t];                                                   \
  }
SCAN(sim_scan, __syncthreads(), __syncthreads(), __syncthreads())
SCAN(sim_scan_no_first, , __syncthreads(), __syncthreads())
SCAN(sim_scan_no_second, __syncthreads(), , __syncthreads())
SCAN(sim_scan_no_third, __syncthreads(), __syncthreads(), )

// Neighbours in a warp exchange through dynamic shared memory. A shuffle is no memory barrier, so it does not help.
#define EXCHANGE(NAME, SYNC)                                                    \
  extern "C" __global__ void NAME(int* out) {                                   \
    extern __shared__ int exchanged[];                                          \
    exchanged[threadIdx.x] = threadIdx.x * 3;                                   \
    SYNC;                                                                       \
    int v = exchanged[threadIdx.x ^ 1];                                         \
    SYNC;                                                                       \
    exchanged[threadIdx.x] = v + 1;                                             \
    out[blockIdx.x * blockDim.x + threadIdx.x] = exchanged[threadIdx.x];        \
  }
EXCHANGE(sim_exchange, __syncwarp())
EXCHANGE(sim_exchange_no_syncwarp, )
EXCHANGE(sim_exchange_shuffle, __shfl_sync(0xffffffffu, 1, 0))

// A block-wide scan by shuffles; the last lane of each warp leaves its total in shared memory.
extern "C" __global__ void sim_scan_shuffle(const int* in, int* out, int64_t n) {
  extern __shared__ int totals[];
  int t = threadIdx.x, lane = t & 31;
  int64_t i = blockIdx.x * (int64_t)blockDim.x + t;
  int v = i < n ? in[i] : 0;
  for (int d = 1; d < 32; d <<= 1) {
    int u = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v += u;
  }
  if (lane == 31) totals[t >> 5] = v;
  __syncthreads();
  int base = 0;
  for (int w = 0; w < (t >> 5); w++) base += totals[w];
  if (i < n) out[i] = v + base;
}

extern "C" __global__ void sim_same_barrier(int* out) {
  if (threadIdx.x < 32) out[0] = 1;
  else if (threadIdx.x == 32) out[1] = 2;
  __syncthreads();
  out[2 + threadIdx.x] = out[threadIdx.x >> 5];
}
extern "C" __global__ void sim_divergent_barrier(int* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
    out[0] = 1;
  } else {
    out[1] = 2;
    __syncthreads();
  }
}
// Threads that have returned do not count.
extern "C" __global__ void sim_early_return(int* out) {
  if (threadIdx.x >= 48) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

extern "C" __global__ void sim_full_mask(int* out) {
  out[threadIdx.x] = __shfl_sync(0xffffffffu, (int)threadIdx.x, 3);
}
extern "C" __global__ void sim_lane_missing(int* out) {       // lane 31 never comes
  if ((threadIdx.x & 31) != 31) out[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
  else __syncthreads();
}
extern "C" __global__ void sim_mask_lacks_caller(int* out) {
  out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1, 0);
}
extern "C" __global__ void sim_shuffle_from_outside(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0x0000ffffu, 1, 20);
}
