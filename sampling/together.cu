// Neighbor with a fan-out over the edges of all types together, on a device: the counterpart of together.go. A stage
// before has listed the picks of each destination by another picker; each edge type takes its own. A warp looks at a
// destination.
#include "cuda_env.h"
#include "place.cuh"

struct TogetherStep {
  Step at;
  int64_t sort;       // picks do not ascend
  const void* times;  // of the edges
  int64_t timeBytes;  // 4 or 8; 0 without
  int64_t timed, chain;
};

// A destination, and its picks of all types.
struct Mixed {
  int64_t node, dst, from, to;
};

__device__ __forceinline__ Mixed mixed_of(Batch* b, const Place& p) {
  const List* list = &b->lists[p.seg->target];
  const int32_t* ends = p.seg->reach->indptr;
  return {load_id(list->ids, p.dst, b->wideIds) + list->offset, p.dst, ends[p.dst], ends[p.dst + 1]};
}

__device__ __forceinline__ Mixed shuffled(const Mixed& d, int i) {
  return {__shfl_sync(kFull, d.node, i), __shfl_sync(kFull, d.dst, i), __shfl_sync(kFull, d.from, i),
          __shfl_sync(kFull, d.to, i)};
}

// Calls found(position, its number among those of the type in the order in which they are listed) for picks of a
// segment's type, and returns how many they are.
template <class F>
__device__ __forceinline__ int64_t each_own(const Batch* b, const Segment* seg, const InEdges& e, const Mixed& d,
                                            F found) {
  const int64_t* positions = (const int64_t*)seg->reach->positions;
  int64_t n = 0;
  for (int64_t base = d.from; base < d.to; base += kLanes) {
    int64_t position = base + lane_id() < d.to ? positions[base + lane_id()] : -1;
    bool own = position >= 0 && type_at(b, e, position) == seg->edgeType;
    unsigned which = __ballot_sync(kFull, own);
    if (own) found(position, n + __popc(which & ((1u << lane_id()) - 1)));
    n += __popc(which);
  }
  return n;
}

// Counts the picks of a stage.
extern "C" __global__ void together_count(TogetherStep step) {
  Batch* b = step.at.batch;
  count_each<false>(
      step.at, [&](const Place& p) { return mixed_of(b, p); },
      [&](const Segment* seg, const Mixed& d, const Slice&) {
        return each_own(b, seg, in_edges(b, d.node), d, [](int64_t, int64_t) {});
      });
}

// How many picks of a destination of a segment's type are before one of them: by position, or of equal ones in order.
__device__ __forceinline__ int64_t rank_of(const Segment* seg, const InEdges& e, const Batch* b, const Mixed& d,
                                           int64_t position, int64_t number) {
  const int64_t* positions = (const int64_t*)seg->reach->positions;
  int64_t rank = 0, same = 0;
  for (int64_t i = d.from; i < d.to; i++) {
    int64_t other = positions[i];
    if (type_at(b, e, other) != seg->edgeType) continue;
    rank += other < position || (other == position && same < number);
    same++;
  }
  return rank;
}

// Writes the blocks' indptr, and picks.
extern "C" __global__ void together_pick(TogetherStep step) {
  Batch* b = step.at.batch;
  pick_each<false>(
      step.at, [&](const Place& p) { return mixed_of(b, p); },
      [&](const Segment* seg, const Mixed& d, const Slice&, int64_t edge) {
        Sink to = sink_of(b, seg);
        InEdges e = in_edges(b, d.node);
        const List* list = &b->lists[seg->target];
        int64_t tree = root_of(b, list, d.dst);
        each_own(b, seg, e, d, [&](int64_t position, int64_t number) {
          if (step.sort) number = rank_of(seg, e, b, d, position, number);
          take_with(to, e.ids, position, edge + number, [&](int64_t) {
            if (!step.timed) return tree;
            int64_t time = step.chain && step.timeBytes ? load_id(step.times, position, step.timeBytes == 8)
                                                        : list->times[d.dst];
            int64_t root = root_of_time(b, time);
            return root == kNoSlot ? root : root + tree;
          });
        });
      });
}
