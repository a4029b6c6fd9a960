// Walk and Node2Vec on a device: a lane takes a walk. docs/sampling.md says where it goes.
#include "cuda_env.h"
#include "walk.cuh"

// The root of a row of walks: a distinct seed, in the order of the lists.
struct Root {
  const List* list;
  int64_t place;
};
__device__ __forceinline__ Root root_of_row(const Batch* b, int64_t seed) {
  int64_t t = 0;
  for (; seed >= b->lengths[t]; t++) seed -= b->lengths[t];
  return {&b->lists[t], seed};
}

// Takes the walks of all seeds.
extern "C" __global__ void walk_take(WalkStep step) {
  Batch* b = step.at.batch;
  const WalkRules* r = step.rules;
  int64_t rows = 0, stride = r->length + 1;
  if (!b->status->reason)
    for (int64_t t = 0; t < b->numTypes; t++) rows += b->lengths[t] * r->perSeed;
  place_nodes(step.at, rows * stride);
  for (int64_t first = warp_index() * kLanes; first < rows; first += warp_count() * kLanes) {
    int64_t row = first + lane_id(), position = row < rows ? 0 : -2;
    Root root = root_of_row(b, min(row, rows - 1) / r->perSeed);
    Walk w = walk_from(b, r, root.list, load_id(root.list->ids, root.place, b->wideIds), row % r->perSeed);
    int64_t* nodes = b->scratch + row * stride;
    if (row < rows) nodes[0] = w.root;
    for (int64_t s = 0; s < r->length; s++) {
      position = w.step<true>(s, position);
      if (row >= rows) continue;
      nodes[s + 1] = position == -2 ? -1 : w.at;
      if (r->edges) store_id(r->edges, row * r->length + s, b->widePositions, max(position, (int64_t)-1));
    }
    for (int64_t s = 0; r->types && row < rows && s < stride; s++) {
      int64_t t = -1;
      if (nodes[s] >= 0)
        for (t = 0; nodes[s] - b->lists[t].offset >= b->lists[t].count;) t++;
      r->types[row * stride + s] = (int32_t)t;
    }
  }
}
