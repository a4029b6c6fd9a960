// Neighbor with a fan-out over the edges of all types together, on a device: the counterpart of together.go. Each edge
// type makes the picks of a destination again, and takes its own. A warp looks at a destination.
#include "cuda_env.h"
#include "place.cuh"
#include "../internal/rng/subset.cuh"

struct TogetherStep {
  Step at;
  int64_t replace;
};

// A destination's edges of all types, and those of the segment's among them: `degree` from `first` on.
struct Mixed {
  const void* ids;
  int64_t root, start, all, first, degree;
  uint64_t stream;
};

__device__ __forceinline__ Mixed mixed_of(Batch* b, const Place& p) {
  const List* list = &b->lists[p.seg->target];
  InEdges e = in_edges(b, load_id(list->ids, p.dst, b->wideIds) + list->offset);
  return {e.ids, root_of(b, list, p.dst), e.from, e.to - e.from, b->start[p.x] - e.from, b->degree[p.x],
          stream_of(p.seg->key, index_of(b, list, p.dst))};
}

__device__ __forceinline__ Mixed shuffled(const Mixed& d, int i) {
  return {(const void*)__shfl_sync(kFull, (u64)d.ids, i), __shfl_sync(kFull, d.root, i), __shfl_sync(kFull, d.start, i),
          __shfl_sync(kFull, d.all, i), __shfl_sync(kFull, d.first, i), __shfl_sync(kFull, d.degree, i),
          __shfl_sync(kFull, d.stream, i)};
}

// The picks of a destination that are of the segment's type: how many, and for each lane whether it has one, which edge
// that is, and how many of them come before. A fan-out that takes all edges is none of them.
struct Share {
  int64_t count;
  bool has;
  int64_t edge;
  int before;
};

__device__ __forceinline__ Share share_of(const Mixed& d, int64_t fanout, int64_t replace) {
  int k = (int)min(fanout, replace && d.all ? fanout : d.all), rank = lane_id();
  int64_t t = lane_id();
  if (replace && d.all) {
    t = (int64_t)bounded(draw(d.stream, lane_id()), d.all);
    rank = 0;
    for (int i = 0; i < k; i++) {
      int64_t other = __shfl_sync(kFull, t, i);
      rank += other < t || (other == t && i < lane_id());
    }
  } else if (k < d.all) {
    t = small_subset<uint64_t>(k, kLanes, true, d.all, d.stream, rank);
  }
  bool has = lane_id() < k && t >= d.first && t < d.first + d.degree;
  int less = __popc(__ballot_sync(kFull, lane_id() < k && t < d.first));
  return {__popc(__ballot_sync(kFull, has)), has, t, rank - less};
}

// Counts the picks of a stage.
extern "C" __global__ void together_count(TogetherStep step) {
  Batch* b = step.at.batch;
  count_each<false>(
      step.at, [&](const Place& p) { return mixed_of(b, p); },
      [&](const Segment* seg, const Mixed& d, const Slice&) {
        return seg->fanout == kAll ? d.degree : share_of(d, seg->fanout, step.replace).count;
      });
}

// Writes the blocks' indptr, and picks.
extern "C" __global__ void together_pick(TogetherStep step) {
  Batch* b = step.at.batch;
  pick_each<false>(
      step.at, [&](const Place& p) { return mixed_of(b, p); },
      [&](const Segment* seg, const Mixed& d, const Slice&, int64_t edge) {
        Sink to = sink_of(b, seg);
        if (seg->fanout == kAll) {
          for (int64_t j = lane_id(); j < d.degree; j += kLanes)
            take(to, d.ids, d.root, d.start + d.first + j, edge + j);
        } else {
          Share s = share_of(d, seg->fanout, step.replace);
          if (s.has) take(to, d.ids, d.root, d.start + s.edge, edge + s.before);
        }
      });
}
