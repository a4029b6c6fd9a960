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

// Which columns have the edges that a stage before has listed of a node: their positions are known to be some.
__device__ __forceinline__ InEdges listed_edges(Batch* b, int64_t node) {
  return b->hotStart ? in_edges(b, node) : InEdges{b->indices, b->types, 0, 0, false};
}

// 32 picks of a destination, one a lane, and which are of a segment's type.
struct Picks {
  int64_t position;
  unsigned own;
};
__device__ __forceinline__ Picks picks_at(const Batch* b, const Segment* seg, const InEdges& e, const Mixed& d,
                                          int64_t base) {
  int64_t i = base + lane_id(), position = i < d.to ? ((const int64_t*)seg->reach->positions)[i] : -1;
  return {position, __ballot_sync(kFull, position >= 0 && type_at(b, e, position) == seg->edgeType)};
}

// Calls found(position, its number among those of the type) for picks of a segment's type, and returns how many they
// are. They are in the order in which they are listed, or by position.
template <class F>
__device__ __forceinline__ int64_t each_own(const Batch* b, const Segment* seg, const InEdges& e, const Mixed& d,
                                            bool sort, F found) {
  int64_t n = 0;
  for (int64_t base = d.from; base < d.to; base += kLanes) {
    Picks mine = picks_at(b, seg, e, d, base);
    int64_t number = n + __popc(mine.own & ((1u << lane_id()) - 1)), rank = 0, before = 0;
    for (int64_t at = d.from; sort && at < d.to; at += kLanes) {
      Picks others = at == base ? mine : picks_at(b, seg, e, d, at);
      for (unsigned left = others.own; left; left &= left - 1, before++) {
        int64_t other = __shfl_sync(kFull, others.position, __ffs((int)left) - 1);
        rank += other < mine.position || (other == mine.position && before < number);
      }
    }
    if (mine.own >> lane_id() & 1) found(mine.position, sort ? rank : number);
    n += __popc(mine.own);
  }
  return n;
}

// Counts the picks of a stage.
extern "C" __global__ void together_count(TogetherStep step) {
  Batch* b = step.at.batch;
  count_each<false>(
      step.at, [&](const Place& p) { return mixed_of(b, p); },
      [&](const Segment* seg, const Mixed& d, const Slice&) {
        return each_own(b, seg, listed_edges(b, d.node), d, false, [](int64_t, int64_t) {});
      });
}

// Writes the blocks' indptr, and picks.
extern "C" __global__ void together_pick(TogetherStep step) {
  Batch* b = step.at.batch;
  pick_each<false>(
      step.at, [&](const Place& p) { return mixed_of(b, p); },
      [&](const Segment* seg, const Mixed& d, const Slice&, int64_t edge) {
        Sink to = sink_of(b, seg);
        InEdges e = listed_edges(b, d.node);
        const List* list = &b->lists[seg->target];
        int64_t tree = root_of(b, list, d.dst);
        each_own(b, seg, e, d, step.sort, [&](int64_t position, int64_t number) {
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
