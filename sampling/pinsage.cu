// PinSage on a device: walks from the destinations of a hop, a lane a walk, then the nodes that they visit most, a warp
// a destination. The counterpart of visits.go.
#include "cuda_env.h"
#include "walk.cuh"

struct PinSageStep {
  Step at;
  const WalkRules* rules;
  int64_t edgeType;  // of the blocks that have the neighbours
  int64_t most;      // neighbours of a destination
  int64_t room;      // destinations that there is room for
};

// What the walks of a destination visited, -1 for nothing, and behind that a key for each node, by falling visits and
// then by id: kMostVisits less the visits, then the id.
struct Visits {
  u64 *nodes, *keys;
  int64_t n;
};
constexpr int kNodeBits = 40;
constexpr u64 kMostVisits = (1ull << (64 - kNodeBits)) - 1, kNone = ~0ull;

__device__ __forceinline__ Visits visits_of(const PinSageStep& step, int64_t dst) {
  int64_t n = step.rules->perSeed * step.rules->length;
  u64* nodes = (u64*)step.at.batch->scratch + dst * n;
  return {nodes, nodes + step.room * n, n};
}

// Sorts n numbers by all lanes of a warp: Batcher's bitonic network, with the greatest numbers behind the end.
__device__ __forceinline__ void sort_in_place(u64* a, int64_t n) {
  for (int64_t size = 2; size < 2 * n; size *= 2)
    for (int64_t half = size / 2; half; half /= 2) {
      __syncwarp();
      for (int64_t i = lane_id(); i / half * 2 * half + half < n; i += kLanes) {
        int64_t begin = i / half * 2 * half, lo = begin + i % half;
        int64_t hi = half == size / 2 ? begin + 2 * half - 1 - i % half : lo + half;
        if (hi >= n) continue;
        u64 x = a[lo], y = a[hi];
        if (x > y) a[lo] = y, a[hi] = x;
      }
    }
  __syncwarp();
}

constexpr int kSorted = 640;  // numbers that a warp has room for in the memory that its block shares

// The same there where they are few.
__device__ __forceinline__ void warp_sort(u64* cells, u64* a, int64_t n) {
  if (n > kSorted) return sort_in_place(a, n);
  for (int64_t i = lane_id(); i < n; i += kLanes) cells[i] = a[i];
  sort_in_place(cells, n);
  for (int64_t i = lane_id(); i < n; i += kLanes) a[i] = cells[i];
  __syncwarp();
}

// Takes the walks of all destinations of a hop.
extern "C" __global__ void pinsage_walk(PinSageStep step) {
  Batch* b = step.at.batch;
  const WalkRules* r = step.rules;
  Stage* st = &b->stages[step.at.stage];
  const Segment* seg = &st->segments[step.edgeType];
  const List* list = &b->lists[seg->target];
  int64_t rows = st->runs ? seg->hi * r->perSeed : 0;
  Chunks chunks = chunks_of(b, st->runs);
  for (int64_t c = warp_index() * kLanes + lane_id(); c < chunks.count; c += warp_count() * kLanes) b->partials[c] = 0;
  for (int64_t first = warp_index() * kLanes; first < rows; first += warp_count() * kLanes) {
    int64_t row = first + lane_id(), position = row < rows ? 0 : -2, dst = row / r->perSeed, number = row % r->perSeed;
    int64_t own = row < rows ? load_id(list->ids, dst, b->wideIds) : 0;
    Walk w = walk_from(b, r, list, own, (step.at.stage - 1) * r->perSeed + number);
    u64* nodes = visits_of(step, dst).nodes + number * r->length;
    for (int64_t s = 0; s < r->length; s++) {
      position = w.step<false>(s, position);
      bool counts = position >= 0 && (u64)(w.at - list->offset) < (u64)list->count;
      if (row < rows) nodes[s] = counts ? (u64)w.at : kNone;
    }
  }
}

// Makes keys of what a destination's walks visited, in their order, and returns how many there are.
__device__ __forceinline__ int64_t count_visits(const Visits& v, u64* cells) {
  warp_sort(cells, v.nodes, v.n);
  int64_t different = 0;
  for (int64_t i = lane_id(); i < v.n; i += kLanes) {
    u64 node = v.nodes[i];
    bool first = node != kNone && (i == 0 || v.nodes[i - 1] != node);
    int64_t far = 1, end = i;  // most nodes are visited once
    while (first && i + far < v.n && v.nodes[i + far] == node) far *= 2;
    if (first) end = first_not(i + far / 2 + 1, min(i + far, v.n), [&](int64_t j) { return v.nodes[j] == node; });
    v.keys[i] = first ? (kMostVisits - (u64)(end - i)) << kNodeBits | node : kNone;
    different += first;
  }
  warp_sort(cells, v.keys, v.n);
  return warp_sum(different);
}

// Counts the neighbours of a stage's destinations.
extern "C" __global__ void pinsage_count(PinSageStep step) {
  __shared__ u64 cells[256 / kLanes * kSorted];
  count_each<false>(
      step.at, [&](const Place& p) { return p.dst; },
      [&](const Segment*, int64_t dst, const Slice&) {
        return min(count_visits(visits_of(step, dst), cells + threadIdx.x / kLanes * kSorted), step.most);
      });
}

// Writes the blocks' indptr, and makes neighbours of the nodes that were visited most.
extern "C" __global__ void pinsage_pick(PinSageStep step) {
  pick_each<false>(
      step.at, [&](const Place& p) { return p.dst; },
      [&](const Segment* seg, int64_t dst, const Slice&, int64_t edge) {
        Visits v = visits_of(step, dst);
        Sink to = sink_of(step.at.batch, seg);
        auto times_of = [&](int64_t i) {
          bool some = i < min(v.n, step.most) && v.keys[i] != kNone;
          return some ? (int64_t)(kMostVisits - (v.keys[i] >> kNodeBits)) : 0;
        };
        int64_t sum = 0;
        for (int64_t i = lane_id(); i < min(v.n, step.most); i += kLanes) sum += times_of(i);
        sum = warp_sum(sum);
        for (int64_t i = lane_id(); times_of(i); i += kLanes) {
          seg->weights[edge + i] = (float)__ddiv_rn((double)times_of(i), (double)sum);
          take_key(to, (int64_t)(v.keys[i] & ((1ull << kNodeBits) - 1)), edge + i);
        }
      });
}
