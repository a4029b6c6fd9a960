// Puts items in order of their keys, by 5 bits a pass; equal ones stay as they were. A warp goes over a part of them,
// 32 at a time.
#include "cuda_env.h"
#include "sort.cuh"

struct SortStep {
  Step at;
  int64_t room;      // items that arrays have room for
  int64_t from, to;  // cells an item before the arrays
  int64_t shift;     // of the digit
};

__device__ __forceinline__ Chunks sort_parts(const Batch* b) {
  int64_t words = (*sort_cells(b) + kLanes - 1) / kLanes, each = (words + kSortWarps - 1) / kSortWarps;
  return {words, each, each ? (words + each - 1) / each : 0};
}

__device__ __forceinline__ int64_t* counts_of(const Batch* b) { return sort_cells(b) + 1 + kSortSums; }

// 32 items, one a lane.
struct Digits {
  Item item;
  bool has;
  unsigned digit, all, bits[5];

  __device__ __forceinline__ Digits(const SortStep& step, int64_t word) {
    const Batch* b = step.at.batch;
    int64_t i = word * kLanes + lane_id();
    has = i < *sort_cells(b);
    item = has ? items_at(b, step.room, step.from)[i] : Item{};
    digit = (unsigned)(item.key >> step.shift) & (kDigits - 1);
    all = __ballot_sync(kFull, has);
    for (int k = 0; k < 5; k++) bits[k] = __ballot_sync(kFull, digit >> k & 1);
  }

  // The lanes whose items have a digit.
  __device__ __forceinline__ unsigned lanes_of(unsigned digit) const {
    unsigned lanes = all;
    for (int k = 0; k < 5; k++) lanes &= digit >> k & 1 ? bits[k] : ~bits[k];
    return lanes;
  }
};

// Counts the digits of each part. Lane d counts digit d.
extern "C" __global__ void sort_count(SortStep step) {
  Batch* b = step.at.batch;
  Chunks parts = sort_parts(b);
  for (int64_t c = warp_index(); c < parts.count; c += warp_count()) {
    int64_t n = 0;
    for (int64_t w = chunk_begin(parts, c); w < chunk_end(parts, c); w++)
      n += __popc(Digits(step, w).lanes_of(lane_id()));
    counts_of(b)[lane_id() * parts.count + c] = n;
  }
}

// Says where the items of each digit and part go. One block.
extern "C" __global__ void sort_place(SortStep step) {
  __shared__ int64_t cells[kLanes];
  Batch* b = step.at.batch;
  block_prefix(counts_of(b), kDigits * sort_parts(b).count, cells);
}

// Moves the items there.
extern "C" __global__ void sort_move(SortStep step) {
  Batch* b = step.at.batch;
  Chunks parts = sort_parts(b);
  Item* to = items_at(b, step.room, step.to);
  for (int64_t c = warp_index(); c < parts.count; c += warp_count()) {
    int64_t next = counts_of(b)[lane_id() * parts.count + c];
    for (int64_t w = chunk_begin(parts, c); w < chunk_end(parts, c); w++) {
      Digits d(step, w);
      int64_t first = __shfl_sync(kFull, next, d.digit);
      if (d.has) to[first + __popc(d.lanes_of(d.digit) & ((1u << lane_id()) - 1))] = d.item;
      next += __popc(d.lanes_of(lane_id()));
    }
  }
}
