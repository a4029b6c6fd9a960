// All edges between the nodes of a batch, whose lists are complete: the counterpart of induce.go. A warp looks at the
// edges of a destination, and takes those whose source has a local id, in the same tree where trees are kept apart.
#include "cuda_env.h"
#include "pick.cuh"

struct InduceStep {
  Step at;
  // In how many of all drawn graphs each node and each edge of the graph was, where norms are delivered; else null.
  const uint32_t *nodes, *edges;
  int64_t graphs;
};

// In how many graphs a node of a list was, one at least.
__device__ __forceinline__ double times_of(const InduceStep& step, const List* list, int64_t i) {
  return (double)max(step.nodes[load_id(list->ids, i, step.at.batch->wideIds) + list->offset], 1u);
}

// What a lane knows of its destination.
struct Inside {
  Edges edges;
  double times;
};
__device__ __forceinline__ Inside shuffled(const Inside& d, int i) {
  return {shuffled(d.edges, i), __shfl_sync(kFull, d.times, i)};
}

// Finds the edges of a destination whose source has a local id, as each_match does.
template <class F>
__device__ __forceinline__ int64_t each_inside(Batch* b, const Segment* seg, const Edges& d, const Slice& of, F found) {
  const List* list = &b->lists[seg->source];
  Table table = table_of(b);
  int32_t local = kNoSlot;
  return each_match(
      d, of,
      [&](int64_t position) {
        int64_t id = load_id(d.ids, position, b->wideIds);
        local = kNoSlot;
        if ((u64)(id - list->offset) >= (u64)list->count) atomicMin(&b->status->badEdge, (u64)position);
        else local = table_find(table, d.root + id);
        return local != kNoSlot;
      },
      [&](int64_t position, int64_t number, bool has) {
        if (has) found(position, number, local);
      });
}

// Counts the edges of a stage.
extern "C" __global__ void induce_count(InduceStep step) {
  Batch* b = step.at.batch;
  count_each(
      step.at, [&](const Place& p) { return edges_of(b, p); },
      [&](const Segment* seg, const Edges& d, const Slice& of) {
        return each_inside(b, seg, d, of, [](int64_t, int64_t, int32_t) {});
      });
}

// Writes the blocks.
extern "C" __global__ void induce_pick(InduceStep step) {
  Batch* b = step.at.batch;
  pick_each(
      step.at,
      [&](const Place& p) {
        return Inside{edges_of(b, p), step.nodes ? times_of(step, &b->lists[p.seg->target], p.dst) : 0};
      },
      [&](Segment* seg, const Inside& d, const Slice& of, int64_t edge) {
        each_inside(b, seg, d.edges, of, [&](int64_t position, int64_t number, int32_t local) {
          int64_t e = edge + of.before + number;
          seg->indices[e] = local;
          if (seg->positions) store_id(seg->positions, e, b->widePositions, position);
          if (seg->weights) seg->weights[e] = (float)__ddiv_rn(d.times, (double)max(step.edges[position], 1u));
        });
      });
}

// Writes the norms of the nodes.
extern "C" __global__ void induce_norms(InduceStep step) {
  Batch* b = step.at.batch;
  if (b->status->reason) return;
  for (int64_t t = 0; t < b->numTypes; t++) {
    const List* list = &b->lists[t];
    int64_t n = b->lengths[(step.at.stage - 1) * b->numTypes + t];
    for (int64_t i = warp_index() * kLanes + lane_id(); i < n; i += warp_count() * kLanes) {
      double drawn = __dmul_rn(times_of(step, list, i), (double)list->count);
      list->norms[i] = (float)__ddiv_rn((double)step.graphs, drawn);
    }
  }
}
