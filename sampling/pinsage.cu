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

// What the walks of a destination visited, -1 for nothing, and behind that how often each was, where it is the first
// visit of its node, else 0.
struct Visits {
  int64_t *nodes, *times, n;
};
__device__ __forceinline__ Visits visits_of(const PinSageStep& step, int64_t dst) {
  int64_t n = step.rules->perSeed * step.rules->length;
  int64_t* nodes = step.at.batch->scratch + dst * n;
  return {nodes, nodes + step.room * n, n};
}

// Takes the walks of all destinations of a hop.
extern "C" __global__ void pinsage_walk(PinSageStep step) {
  Batch* b = step.at.batch;
  const WalkRules* r = step.rules;
  Stage* st = &b->stages[step.at.stage];
  const Segment* seg = &st->segments[step.edgeType];
  const List* list = &b->lists[seg->target];
  int64_t rows = st->runs ? seg->hi * r->perSeed : 0;
  for (int64_t row = warp_index() * kLanes + lane_id(); row < rows; row += warp_count() * kLanes) {
    int64_t dst = row / r->perSeed, number = row % r->perSeed, position = 0;
    Walk w = walk_from(b, r, list, load_id(list->ids, dst, b->wideIds), (step.at.stage - 1) * r->perSeed + number);
    int64_t* nodes = visits_of(step, dst).nodes + number * r->length;
    for (int64_t s = 0; s < r->length; s++) {
      if (position != -2) position = w.step(s);
      bool counts = position >= 0 && (u64)(w.at - list->offset) < (u64)list->count;
      nodes[s] = counts ? w.at : -1;
    }
  }
}

// Counts the neighbours of a stage's destinations.
extern "C" __global__ void pinsage_count(PinSageStep step) {
  count_each<false>(
      step.at, [&](const Segment*, int64_t dst, int64_t) { return dst; },
      [&](const Segment*, int64_t mine, int of) {
        Visits v = visits_of(step, __shfl_sync(kFull, mine, of));
        int64_t different = 0;
        for (int64_t i = lane_id(); i < v.n; i += kLanes) {
          int64_t times = 0;
          bool again = v.nodes[i] < 0;
          for (int64_t j = 0; j < v.n && !again; j++) {
            bool same = v.nodes[j] == v.nodes[i];
            again = same && j < i;
            times += same;
          }
          v.times[i] = again ? 0 : times;
          different += !again;
        }
        return min(warp_sum(different), step.most);
      });
}

// Makes neighbours of the nodes that were visited most, by falling visits and then by id.
__device__ __forceinline__ void take_most(const PinSageStep& step, const Segment* seg, const Sink& to, int64_t dst,
                                          int64_t edge) {
  Visits v = visits_of(step, dst);
  int64_t sum = 0;
  for (int pass = 0; pass < 2; pass++) { // the sum first
    for (int64_t i = lane_id(); i < v.n; i += kLanes) {
      int64_t times = v.times[i], rank = 0;
      for (int64_t j = 0; j < v.n && times; j++)
        rank += v.times[j] > times || (v.times[j] == times && v.nodes[j] < v.nodes[i]);
      if (!times || rank >= step.most) continue;
      if (pass == 0) {
        sum += times;
      } else {
        seg->weights[edge + rank] = (float)__ddiv_rn((double)times, (double)sum);
        take_key(to, v.nodes[i], edge + rank);
      }
    }
    if (pass == 0) sum = warp_sum(sum);
  }
}

// Writes the blocks' indptr, and picks.
extern "C" __global__ void pinsage_pick(PinSageStep step) {
  pick_each(
      step.at, [&](const Segment*, int64_t dst, int64_t) { return dst; },
      [&](const Segment* seg, int64_t mine, int i, int64_t edge) {
        take_most(step, seg, sink_of(step.at.batch, seg), __shfl_sync(kFull, mine, i), edge);
      });
}
