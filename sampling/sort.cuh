// Items that kernels put in order (sort.cu), and where they lie: in cells of Batch::sorting, two an item.
#pragma once
#include "pick.cuh"

struct Item {
  u64 key;
  int64_t order;
};

constexpr int kDigits = 32;      // 5 bits of a key
constexpr int kSortWarps = 512;  // that work is cut for
constexpr int kSortSums = 4;     // cells that samplers may use, behind the number of items

// What a sampler has that sorts: the number of items and sums, counts of digits, then arrays of `room` items.
__device__ __forceinline__ int64_t* sort_cells(const Batch* b) { return b->sorting; }
__device__ __forceinline__ int64_t* sort_array(const Batch* b, int64_t room, int64_t cells) {
  return b->sorting + 1 + kSortSums + kDigits * kSortWarps + 1 + room * cells;  // at 16 bytes
}
__device__ __forceinline__ Item* items_at(const Batch* b, int64_t room, int64_t cells) {
  return (Item*)sort_array(b, room, cells);
}

// Calls with(i) for each item, a lane an item; a multiple of 32 lanes take part.
template <class F>
__device__ __forceinline__ void each_item(const Batch* b, F with) {
  int64_t n = *sort_cells(b);
  for (int64_t i = warp_index() * kLanes + lane_id(); i < n; i += warp_count() * kLanes) with(i);
}
