// Saint on a device: a lane makes a draw. The counterpart of saint.go.
#include "cuda_env.h"
#include "place.cuh"

struct SaintRules {
  uint64_t key;  // of the batch's draws
};

struct SaintStep {
  Step at;
  const SaintRules* rules;
  int64_t budget, steps;
  int64_t kind;  // 0: sources of edges; 1: edges; 2: walks
};

// Draws the nodes of a subgraph.
extern "C" __global__ void saint_draw(SaintStep step) {
  Batch* b = step.at.batch;
  int64_t stride = step.steps + 1;
  place_nodes(step.at, step.budget * stride);
  for (int64_t j = warp_index() * kLanes + lane_id(); j < step.budget; j += warp_count() * kLanes) {
    int64_t *nodes = b->scratch + j * stride, v = -1;
    uint64_t stream = stream_of(step.rules->key, (uint64_t)j), first = draw(stream, 0);
    if (step.kind) {
      if (b->allNodes) v = (int64_t)bounded(first, b->allNodes);
    } else if (b->numEdges) {
      InEdges all = {b->indices, b->types, 0, b->numEdges, false};
      v = source_at(b, all, (int64_t)bounded(first, b->numEdges));
    }
    nodes[0] = v;
    for (int64_t s = 1; s < stride; s++) {
      if (v >= 0) {
        InEdges e = in_edges(b, v);
        v = e.from == e.to ? -1 : source_at(b, e, e.from + (int64_t)bounded(draw(stream, (uint64_t)s), e.to - e.from));
      }
      nodes[s] = v;
      if (v < 0 && step.kind == 1) nodes[0] = -1;
    }
  }
}
