// FastGCN on a device: the nodes of a hop are drawn, a lane a draw, then each destination takes those of its edges
// whose source was drawn, a warp a destination. The counterpart of layered_pick.go.
#include "cuda_env.h"
#include "pick.cuh"

struct LayerStep {
  Step at;
  const uint64_t* streams;  // of each hop's draws
  int64_t nodes;            // draws of the hop; kAll takes every edge
  const uint64_t* sums;     // of the importance of all nodes up to and with each
  int64_t bits;             // the pool has 2^bits slots: in Batch::scratch nodes, then how often each was drawn
  const void* weights;
  int64_t weightBytes;  // 4 or 8; 0 without weights
};

constexpr u64 kFree = ~0ull;

// Empties the pool.
extern "C" __global__ void layer_clear(LayerStep step) {
  int64_t* pool = step.at.batch->scratch;
  for (int64_t i = warp_index() * kLanes + lane_id(); i < 2ll << step.bits; i += warp_count() * kLanes)
    pool[i] = i < 1ll << step.bits ? (int64_t)kFree : 0;
}

// The slot of a node, or the free one where it belongs. A volatile pool is one that others write to.
template <class T>
__device__ __forceinline__ int64_t slot_of(const LayerStep& step, T* pool, int64_t v) {
  u64 mask = (1ull << step.bits) - 1, h = (u64)v * kGolden >> (64 - step.bits);
  while (pool[h] != kFree && pool[h] != (u64)v) h = (h + 1) & mask;
  return (int64_t)h;
}

// Draws the nodes of a hop.
extern "C" __global__ void layer_draw(LayerStep step) {
  Batch* b = step.at.batch;
  u64* pool = (u64*)b->scratch;
  uint64_t total = step.sums[b->allNodes - 1], stream = step.streams[step.at.stage - 1];
  for (int64_t i = warp_index() * kLanes + lane_id(); i < step.nodes; i += warp_count() * kLanes) {
    uint64_t x = bounded(draw(stream, (uint64_t)i), total);
    int64_t v = first_not(0, b->allNodes, [&](int64_t u) { return step.sums[u] <= x; });
    for (;;) {
      int64_t slot = slot_of(step, (volatile u64*)pool, v);
      u64 had = atomicCAS(&pool[slot], kFree, (u64)v);
      if (had != kFree && had != (u64)v) continue;
      atomicAdd(&pool[(1ll << step.bits) + slot], 1ull);
      break;
    }
  }
}

// What a destination of so many edges counts one of them, -1 where it is not taken.
__device__ __forceinline__ double weight_of(const LayerStep& step, int64_t position, int64_t source, int64_t degree) {
  double scale = 1;
  if (step.nodes >= 0) {
    const u64* pool = (const u64*)step.at.batch->scratch;
    int64_t slot = slot_of(step, pool, source);
    if (pool[slot] == kFree) return -1;
    double times = (double)pool[(1ll << step.bits) + slot];
    double part = (double)(source ? step.sums[source] - step.sums[source - 1] : step.sums[0]);
    scale = __ddiv_rn(__dmul_rn(times, (double)step.sums[step.at.batch->allNodes - 1]),
                      __dmul_rn((double)step.nodes, part));
  }
  double value = step.weightBytes == 4   ? (double)((const float*)step.weights)[position]
                 : step.weightBytes == 8 ? ((const double*)step.weights)[position]
                                         : __ddiv_rn(1.0, (double)degree);
  return value > 0 ? __dmul_rn(value, scale) : -1;
}

// Counts the picks of a stage.
extern "C" __global__ void layer_count(LayerStep step) {
  Batch* b = step.at.batch;
  count_each(
      step.at, [&](const Place& p) { return edges_of(b, p); },
      [&](const Segment*, const Edges& d, const Slice& of) {
        return each_match(
            b, d, of, [&](int64_t at, int64_t source) { return weight_of(step, at, source, d.degree) >= 0; },
            [](int64_t, int64_t, bool) {});
      });
}

// Writes the blocks, and the weights of their edges.
extern "C" __global__ void layer_pick(LayerStep step) {
  Batch* b = step.at.batch;
  pick_each(
      step.at, [&](const Place& p) { return edges_of(b, p); },
      [&](const Segment* seg, const Edges& d, const Slice& of, int64_t edge) {
        Sink to = sink_of(b, seg);
        double weight = 0;
        each_match(
            b, d, of,
            [&](int64_t at, int64_t source) {
              weight = weight_of(step, at, source, d.degree);
              return weight >= 0;
            },
            [&](int64_t at, int64_t number, bool has) {
              if (!has) return;
              seg->weights[edge + number] = (float)weight;
              take(to, d.ids, 0, at, edge + number);
            });
      });
}
