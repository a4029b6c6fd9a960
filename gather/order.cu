#include "cuda_env.h"
#include "rows.cuh"

// A stable radix sort of ids by row, 8 bits a pass from the lowest on. It yields positions: the order in which to gather, in
// which neighbours in the column, and so on a page, come one after another.
//
// Each block sorts one stretch of the ids, the same one in both kernels of a pass: order_count counts its digits, order_scan turns
// the counts of all blocks into places, order_place puts each position at its place. Blocks have 256 threads.

constexpr int kThreads = 256, kDigits = 256, kWarps = kThreads / 32;

// Pass is what the kernels take: the ids, and one pass over 8 of their bits.
struct Pass {
  Ids ids;
  int64_t drop;              // lowest bits of an id that are left out
  const uint32_t* keys;      // of the pass before; null in the first one
  const uint32_t* positions; // likewise
  int64_t bit;               // of the keys, the lowest of this pass
  uint32_t* counts;          // [digit][block]: how often a digit occurs, then where it goes
  int64_t blocks;
  uint32_t* newKeys;         // null in the last pass
  uint32_t* newPositions;
};

struct Stretch {
  int64_t from, to;
};

// gather_stretch gives each block as many ids as the others, in whole rounds of the block's threads.
__device__ __forceinline__ Stretch gather_stretch(int64_t length) {
  const int64_t rounds = (length + kThreads - 1) / kThreads;
  const int64_t size = (rounds + gridDim.x - 1) / gridDim.x * kThreads;
  const int64_t from = size * blockIdx.x;
  return Stretch{min(from, length), min(from + size, length)};
}

// The keys of the first pass are the ids, less their lowest bits where rows have more than 32; those of later passes were
// written by the pass before.
__device__ __forceinline__ uint32_t gather_key(const List& list, const uint32_t* keys, int64_t drop, int64_t i) {
  return keys ? keys[i] : (uint32_t)((uint64_t)list.id(i) >> drop);
}

// order_count writes how often each digit occurs in each block's stretch to counts[digit][block].
extern "C" __global__ void __launch_bounds__(256) order_count(Pass p) {
  __shared__ uint32_t found[kDigits];
  const List list = gather_list(p.ids);
  const Stretch s = gather_stretch(list.length);
  found[threadIdx.x] = 0;
  __syncthreads();
  for (int64_t i = s.from + threadIdx.x; i < s.to; i += kThreads)
    atomicAdd(&found[gather_key(list, p.keys, p.drop, i) >> p.bit & (kDigits - 1)], 1u);
  __syncthreads();
  p.counts[(int64_t)threadIdx.x * gridDim.x + blockIdx.x] = found[threadIdx.x];
}

// order_scan replaces each of counts[digit][block] by the sum of those before it. It is one block.
extern "C" __global__ void __launch_bounds__(256) order_scan(Pass p) {
  __shared__ uint32_t sums[kDigits];
  const int digit = threadIdx.x;
  const int64_t blocks = p.blocks;
  uint32_t* mine = p.counts + digit * blocks;
  uint32_t sum = 0;
  for (int64_t b = 0; b < blocks; b++) sum += mine[b];
  sums[digit] = sum;
  __syncthreads();
  for (int d = 1; d < kDigits; d *= 2) {
    const uint32_t before = digit >= d ? sums[digit - d] : 0;
    __syncthreads();
    sums[digit] += before;
    __syncthreads();
  }
  uint32_t at = sums[digit] - sum;
  for (int64_t b = 0; b < blocks; b++) {
    const uint32_t n = mine[b];
    mine[b] = at;
    at += n;
  }
}

// order_place writes position, and where there is another pass to come key, of each id to its place. positions is null in the first pass:
// they are 0, 1, 2, ... then.
extern "C" __global__ void __launch_bounds__(256) order_place(Pass p) {
  __shared__ uint32_t next[kDigits];          // the place of the next one of each digit
  __shared__ uint32_t before[kWarps][kDigits]; // in this round: how many a warp has, then the place of its first
  const List list = gather_list(p.ids);
  const Stretch s = gather_stretch(list.length);
  const int t = threadIdx.x, warp = t >> 5, lane = t & 31;
  next[t] = p.counts[(int64_t)t * gridDim.x + blockIdx.x];
  for (int64_t round = s.from; round < s.to; round += kThreads) {
    for (int w = 0; w < kWarps; w++) before[w][t] = 0;
    __syncthreads();
    const int64_t i = round + t;
    const unsigned active = __ballot_sync(0xffffffffu, i < s.to);
    uint32_t key = 0, digit = 0, rank = 0;
    if (i < s.to) {
      key = gather_key(list, p.keys, p.drop, i);
      digit = key >> p.bit & (kDigits - 1);
      const unsigned same = __match_any_sync(active, digit);
      rank = __popc(same & ((1u << lane) - 1));
      if (rank == 0) before[warp][digit] = __popc(same);
    }
    __syncthreads();
    uint32_t at = next[t];
    for (int w = 0; w < kWarps; w++) {
      const uint32_t n = before[w][t];
      before[w][t] = at;
      at += n;
    }
    next[t] = at;
    __syncthreads();
    if (i < s.to) {
      const uint32_t place = before[warp][digit] + rank;
      p.newPositions[place] = p.positions ? p.positions[i] : (uint32_t)i;
      if (p.newKeys) p.newKeys[place] = key;
    }
    __syncthreads();
  }
}
