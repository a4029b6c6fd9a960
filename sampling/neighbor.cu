// Neighbor on a device: how many edges each destination takes, and which. The counterpart of pick.go; docs/sampling.md
// says what is picked.
#include "cuda_env.h"
#include "pick.cuh"
#include "../internal/rng/subset.cuh"

struct NeighborStep {
  Step at;
  int64_t replace;
};

// How many picks a destination of that degree takes.
__device__ __forceinline__ int64_t picks_of(const NeighborStep& step, const Segment* seg, int64_t degree) {
  if (seg->fanout == kAll) return degree;
  if (step.replace) return degree > 0 ? seg->fanout : 0;
  return min(degree, seg->fanout);
}

// Counts the picks of a stage.
extern "C" __global__ void neighbor_count(NeighborStep step) {
  count_picks(step.at, [&](const Segment* seg, int64_t degree) { return picks_of(step, seg, degree); });
}

// What one lane knows of its destination.
struct Destination {
  const void* ids;
  int64_t root;
  int64_t start, degree;
  uint64_t stream;
  int32_t picks;
  int32_t edge;  // of the block, the first
};

__device__ __forceinline__ Destination shuffled(const Sink& to, const Destination& d, int from) {
  int64_t root = to.b->numNodes ? __shfl_sync(kFull, d.root, from) : 0;
  return {(const void*)__shfl_sync(kFull, (u64)d.ids, from), root, __shfl_sync(kFull, d.start, from),
          __shfl_sync(kFull, d.degree, from), __shfl_sync(kFull, d.stream, from), __shfl_sync(kFull, d.picks, from),
          __shfl_sync(kFull, d.edge, from)};
}

// Where in the columns of the graph edge t of a destination is.
__device__ __forceinline__ int64_t column_of(const Batch* b, const Destination& d, int64_t t) {
  return excluded_of(b, d.start, d.degree).column(d.start + t);
}

// Picks for the 32 destinations of a run, with as many lanes a destination as the fan-out needs, in `part` of `parts`.
__device__ __forceinline__ void pick_small(const Sink& to, const Destination& mine, int64_t replace, int fanout,
                                           int64_t part, int64_t parts) {
  int width = 1;  // lanes a destination, and so the rounds
  while (width < fanout) width *= 2;
  int j = lane_id() & (width - 1);
  for (int round = part * width / parts; round < (part + 1) * width / parts; round++) {
    Destination d = shuffled(to, mine, (round * kLanes + lane_id()) / width);
    int64_t t = j;
    int rank = j;
    if (replace) t = (int64_t)bounded(draw(d.stream, j), d.degree);
    else if (__any_sync(kFull, d.picks < d.degree)) {
      bool choose = d.picks < d.degree;  // then the picks are as many as the fan-out
      int r;
      int64_t member = __any_sync(kFull, d.degree >> 32 != 0)
                           ? small_subset<uint64_t>(fanout, width, choose, d.degree, d.stream, r)
                           : small_subset<uint32_t>(fanout, width, choose, d.degree, d.stream, r);
      if (choose) t = member, rank = r;
    }
    if (j < d.picks) take(to, d.ids, d.root, column_of(to.b, d, t), d.edge + rank);
  }
}

// The same with a whole warp a destination, for fan-outs above 32.
__device__ __forceinline__ void pick_large(const Sink& to, const Destination& mine, int64_t replace, int64_t part,
                                           int64_t parts) {
  for (int i = part * kLanes / parts; i < (part + 1) * kLanes / parts; i++) {
    Destination d = shuffled(to, mine, i);
    bool choose = !replace && d.picks < d.degree;
    int64_t* set = choose ? to.b->scratch + to.firstPick + d.edge - to.have : nullptr;
    if (choose) large_subset(set, d.picks, d.degree, d.stream);
    for (int j = lane_id(); j < d.picks; j += kLanes) {
      int64_t t = replace ? (int64_t)bounded(draw(d.stream, j), d.degree) : choose ? set[j] : j;
      take(to, d.ids, d.root, column_of(to.b, d, t), d.edge + j);
    }
  }
}

// Writes the block's indptr for a run, and picks; returns the picks of the run. before is those of the stage up to
// here.
__device__ __forceinline__ int64_t pick_run(const NeighborStep& step, Stage* st, int64_t run, int64_t before,
                                            int64_t part, int64_t parts) {
  Batch* b = step.at.batch;
  Segment* seg = segment_of<&Segment::firstDst>(st, run * kLanes);
  int64_t x = run * kLanes + lane_id(), dst = seg->lo + x - seg->firstDst;
  Destination d = {};
  if (dst < seg->hi && seg->fanout) {
    d.ids = b->hotStart ? b->ids[x] : b->indices;
    d.start = b->start[x];
    d.degree = b->degree[x];
    d.picks = (int32_t)picks_of(step, seg, d.degree);
    d.stream = stream_of(seg->key, index_of(b, &b->lists[seg->target], dst));
    d.root = root_of(b, &b->lists[seg->target], dst);
  }
  int32_t sum = warp_inclusive(d.picks), all = __shfl_sync(kFull, sum, kLanes - 1);
  d.edge = (int32_t)(seg->have + before - seg->picksBefore) + sum - d.picks;
  if (dst < seg->hi && part == 0) seg->indptr[dst + 1] = d.edge + d.picks;
  if (seg->fanout > 0 && all) {
    Sink to = sink_of(b, seg);
    if (seg->fanout <= kLanes) pick_small(to, d, step.replace, (int)seg->fanout, part, parts);
    else pick_large(to, d, step.replace, part, parts);
  }
  return all;
}

// Picks for all destinations of a stage whose fan-out is not kAll, and writes the indptr of all. Where there are fewer
// runs than warps, a run is shared by several.
extern "C" __global__ void neighbor_pick(NeighborStep step) {
  pick_runs(step.at, [&](Stage* st, int64_t run, int64_t before, int64_t part, int64_t parts) {
    return pick_run(step, st, run, before, part, parts);
  });
}

// Takes all edges of the destinations whose fan-out is kAll: a lane an edge, so that hubs are shared by many warps.
extern "C" __global__ void neighbor_expand(NeighborStep step) {
  Batch* b = step.at.batch;
  Stage* st = &b->stages[step.at.stage];
  for (int64_t w = warp_index(); w < st->words; w += warp_count()) {
    Segment* seg = segment_of<&Segment::firstPick>(st, w * kLanes);
    int64_t i = w * kLanes + lane_id() - seg->firstPick;
    if (seg->fanout != kAll || i >= (int64_t)seg->picks) continue;
    int32_t e = (int32_t)(seg->have + i);
    int64_t lo = seg->lo, hi = seg->hi;  // the last destination whose edges begin at e or before
    while (hi - lo > 1) {
      int64_t mid = (lo + hi) / 2;
      if (seg->indptr[mid] <= e) lo = mid;
      else hi = mid;
    }
    int64_t x = seg->firstDst + lo - seg->lo;
    int64_t root = root_of(b, &b->lists[seg->target], lo);
    int64_t position = excluded_of(b, b->start[x], b->degree[x]).column(b->start[x] + e - seg->indptr[lo]);
    take(sink_of(b, seg), b->hotStart ? b->ids[x] : b->indices, root, position, e);
  }
}
