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

// Adds up value(order, that of the first) over the items of each key but allNodes, in their order, and calls
// found(item, whether it is a first one, sum) on all lanes of a warp. A lane goes through few of a key, a warp through
// many.
template <class V, class F>
__device__ __forceinline__ void each_sum(const Batch* b, const Item* items, V value, F found) {
  int64_t n = *sort_cells(b);
  each_item(b, [&](int64_t i) {
    Item own = items[i];
    bool first = own.key != (u64)b->allNodes && !(i && items[i - 1].key == own.key);
    bool many = first && i + kLanes < n && items[i + kLanes].key == own.key;
    double sum = 0;
    for (int64_t j = i; first && !many && j < n && items[j].key == own.key; j++)
      sum = __dadd_rn(sum, value(items[j].order, own.order));
    for (unsigned left = __ballot_sync(kFull, many); left; left &= left - 1) {
      int from = __ffs((int)left) - 1;
      int64_t at = __shfl_sync(kFull, i, from), order = __shfl_sync(kFull, own.order, from);
      u64 key = __shfl_sync(kFull, own.key, from);
      double all = 0;
      for (unsigned same = kFull; same == kFull; at += kLanes) {
        bool has = at + lane_id() < n && items[at + lane_id()].key == key;
        double mine = has ? value(items[at + lane_id()].order, order) : 0;
        same = __ballot_sync(kFull, has);
        for (int k = 0; k < __popc(same); k++) all = __dadd_rn(all, __shfl_sync(kFull, mine, k));
      }
      if (lane_id() == from) sum = all;
    }
    found(own, first, sum);
  });
}
