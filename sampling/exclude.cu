// The edges that a batch leaves out, by their ends: the counterpart of excludedEdges in find.go. The host sends the
// pairs by target, type and source, each once, so that positions ascend. A warp looks a pair up.
#include "cuda_env.h"
#include "place.cuh"

__device__ __forceinline__ bool same_run(const LeftOut& a, const LeftOut& b) {
  return a.target == b.target && a.edgeType == b.edgeType;
}

// Finds the edges of pair p as each_match does. Where edges are not in order of their sources, the first pair of those
// with one target and type finds the edges of all of them.
template <class F>
__device__ __forceinline__ int64_t each_left_out(Batch* b, int64_t p, F found) {
  const LeftOut* pairs = b->pairs;
  LeftOut first = pairs[p];
  int64_t end = p + 1;
  if (!first.ordered) {
    if (p > 0 && same_run(pairs[p - 1], first)) return 0;
    end = first_not(end, b->numPairs, [&](int64_t i) { return same_run(pairs[i], first); });
  }
  InEdges e = in_edges(b, first.target);
  if (b->typeBytes) {
    e.from = first_of_type(b, e, e.from, e.to, first.edgeType);
    e.to = first_of_type(b, e, e.from, e.to, first.edgeType + 1);
  }
  if (first.ordered) {
    e.from = first_not(e.from, e.to, [&](int64_t i) { return load_id(e.ids, i, b->wideIds) < first.source; });
    e.to = first_not(e.from, e.to, [&](int64_t i) { return load_id(e.ids, i, b->wideIds) <= first.source; });
  }
  auto among = [&](int64_t position) {
    int64_t source = load_id(e.ids, position, b->wideIds);
    int64_t at = first_not(p, end, [&](int64_t i) { return pairs[i].source < source; });
    return at < end && pairs[at].source == source;
  };
  return each_match(Edges{e.ids, e.from, e.to - e.from, 0}, Slice{0, e.to - e.from, 0}, among, found);
}

// Counts the edges of each pair.
extern "C" __global__ void exclude_count(Step step) {
  Batch* b = step.batch;
  for (int64_t p = warp_index(); p <= b->numPairs; p += warp_count()) {
    int64_t n = p < b->numPairs ? each_left_out(b, p, [](int64_t, int64_t, bool) {}) : 0;
    if (lane_id() == 0) b->pairEnds[p] = n;
  }
}

// Says where the positions of each pair go, if there is room for all. One block.
extern "C" __global__ void exclude_place(Step step) {
  __shared__ int64_t cells[kLanes];
  Batch* b = step.batch;
  block_prefix(b->pairEnds, b->numPairs + 1, cells);
  __syncthreads();
  if (threadIdx.x) return;
  int64_t all = b->status->excluded = b->pairEnds[b->numPairs];
  b->numExcluded = all;
  if (all <= b->maxExcluded) return;
  b->numExcluded = b->numPairs = b->stages[0].words = 0;
  stop_for(b->status, kExcludedFull, 0);
}

// Writes the positions.
extern "C" __global__ void exclude_fill(Step step) {
  Batch* b = step.batch;
  for (int64_t p = warp_index(); p < b->numPairs; p += warp_count())
    each_left_out(b, p, [&](int64_t position, int64_t number, bool has) {
      if (has) b->excluded[b->pairEnds[p] + number] = position;
    });
}
