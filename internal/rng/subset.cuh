// Floyd's subsets of 0 .. n-1, ascending, by several lanes at once (docs/sampling.md, "Uniform: k of n without
// replacement").
//
// Step j draws t(j) <= n-k+j and adds it, or n-k+j where it is in the set already. After step i, t(i) is in the set
// either way; so t(j) is in it if an earlier draw was the same, or if t(j) = n-k+i for an earlier step i that added
// n-k+i. All draws are made at once; only steps of the second kind depend on others, and those are followed until
// nothing changes.
#pragma once
#include "rng.cuh"

// A subset of k <= width of n for each group of `width` lanes (a power of two): lane j < k of a group returns one
// member and sets its rank. All lanes of the warp take part; what is returned where a group does not choose means
// nothing. T holds n.
template <class T>
__device__ __forceinline__ int64_t small_subset(int k, int width, bool choose, int64_t n, uint64_t stream, int& rank) {
  int j = threadIdx.x & (width - 1);
  T least = (T)(n - k), t = j < k ? (T)bounded(draw(stream, j), n - k + j + 1) : (T)~(T)0;
  bool again = false;  // an earlier draw was the same
  rank = 0;
  for (int i = 0; i < k; i++) {
    T other = __shfl_sync(0xffffffffu, t, i, width);
    rank += other < t;
    again |= other == t && i < j;
  }
  again = again && j < k;
  if (__any_sync(0xffffffffu, choose && again)) {
    int link = j < k && t >= least && t - least < (T)j ? (int)(t - least) : j;
    for (;;) {
      bool linked = __shfl_sync(0xffffffffu, (int)again, link, width) || again;
      if (!__any_sync(0xffffffffu, choose && linked != again)) break;
      again = linked;
    }
    if (again) t = least + j;
    rank = 0;
    for (int i = 0; i < k; i++) rank += __shfl_sync(0xffffffffu, t, i, width) < t;
  }
  return (int64_t)t;
}

// A subset of k of n by a warp, to set, which has room for k. The draws go in chunks of 32, each of which is sorted and
// then merged into those before from behind. Cost: O(k * k / 1024) steps of 32 lanes.
__device__ __forceinline__ void large_subset(int64_t* set, int k, int64_t n, uint64_t stream) {
  int lane = threadIdx.x & 31;
  for (int size = 0; size < k; size += 32) {
    int64_t least = n - k + size, t = (int64_t)(~0ull >> 1);
    bool active = size + lane < k;
    if (active) t = (int64_t)bounded(draw(stream, size + lane), least + lane + 1);
    int at = 0;  // how many of the set are less
    for (int end = size; at < end;) {
      int mid = (at + end) / 2;
      if (set[mid] < t) at = mid + 1;
      else end = mid;
    }
    bool again = active && at < size && set[at] == t;
    for (int i = 0; i < 32; i++) {
      int64_t other = __shfl_sync(0xffffffffu, t, i);
      again |= active && i < lane && other == t;
    }
    int link = active && t >= least && t < least + lane ? (int)(t - least) : lane;
    for (;;) {
      bool linked = __shfl_sync(0xffffffffu, (int)again, link) || again;
      if (!__any_sync(0xffffffffu, linked != again)) break;
      again = linked;
    }
    if (again) {
      t = least + lane;  // more than any of the set
      at = size;
    }
    int rank = 0;
    for (int i = 0; i < 32; i++) rank += __shfl_sync(0xffffffffu, t, i) < t;
    for (int end = size; end > 0; end -= 32) {
      int i = end - 1 - lane;
      int64_t member = i >= 0 ? set[i] : 0;
      int less = 0;  // how many of the chunk go before it
      for (int m = 0; m < 32; m++) less += __shfl_sync(0xffffffffu, t, m) < member;
      __syncwarp();
      if (i >= 0) set[i + less] = member;
      __syncwarp();
    }
    if (active) set[at + rank] = t;
    __syncwarp();
  }
}
