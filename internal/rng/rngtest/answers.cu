// Kernels that write down what rng.cuh and subset.cuh answer, for the tests.
#include "cuda_env.h"
#include "../subset.cuh"

struct Draws {
  const uint64_t* questions;
  uint64_t* out;
  int64_t n;
};

// One row of 6 for each of n draws: stage key, stream, draw, bounded, and the two reals as bits.
extern "C" __global__ void rng_answers(Draws d) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= d.n) return;
  const uint64_t* q = d.questions + 7 * i;  // batch key, type key, purpose, hop, index, draw, bound
  uint64_t* o = d.out + 6 * i;
  o[0] = stage_key(q[0], q[1], q[2], q[3]);
  o[1] = stream_of(o[0], q[4]);
  o[2] = draw(o[1], q[5]);
  o[3] = bounded(o[2], q[6]);
  double x = unit_double(o[2]);
  float y = unit_float(o[2]);
  o[4] = *(uint64_t*)&x;
  o[5] = *(uint32_t*)&y;
}

struct Subsets {
  const uint64_t* streams;
  int64_t* out;
  int64_t sets, k, n;
  int64_t wide;  // 0, 1, 2: a group of lanes each with 32 bits, with 64 bits, or a whole warp
};

// A subset of k of n for each of `sets` streams.
extern "C" __global__ void rng_subsets(Subsets x) {
  const int64_t sets = x.sets, k = x.k, n = x.n;
  int width = 1, lane = threadIdx.x & 31, rank;
  while (width < k && width < 32) width *= 2;
  int64_t warp = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = (int64_t)gridDim.x * blockDim.x / 32;
  if (x.wide == 2) {
    for (int64_t s = warp; s < sets; s += warps) large_subset(x.out + s * k, (int)k, n, x.streams[s]);
    return;
  }
  for (int64_t first = warp * 32 / width; first < sets; first += warps * 32 / width) {
    int64_t s = first + lane / width;
    bool choose = s < sets;
    uint64_t stream = choose ? x.streams[s] : 0;
    int64_t t = x.wide ? small_subset<uint64_t>((int)k, width, choose, n, stream, rank)
                       : small_subset<uint32_t>((int)k, width, choose, n, stream, rank);
    if (choose && lane % width < k) x.out[s * k + rank] = t;
  }
}
