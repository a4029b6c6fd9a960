// Sequence on a device: a warp writes the row of a seed, from what another sampler has sampled for it. The counterpart
// of sequence_rows.go.
#include "cuda_env.h"
#include "place.cuh"

struct SequenceRules {
  const Batch* of;   // what was sampled
  int64_t stage;     // of it, whose blocks have all picks
  int64_t hops;      // 0 for neighbours by score
  int64_t as;        // the edge type of these
  int64_t length, first;
  const void* times;  // of the edges, or none
  int64_t timeBytes;  // 4 or 8
  int64_t timed;
  // results, or none
  void* ids;
  int32_t *types, *hop, *edgeTypes;
  void* edges;
  int64_t* ages;
  float* weights;
};

struct SequenceStep {
  Step at;
  const SequenceRules* rules;
};

// The row of a seed, which has n tokens so far.
struct Row {
  Batch* b;
  const SequenceRules* r;
  int64_t base, n;
  int64_t type, seed, asOf;  // the seed's list and place in it, and its time
  u64* places;               // of each token: where it is in its list, and before that its node type

  __device__ __forceinline__ const List* list(int64_t t) const { return &r->of->lists[t]; }
  __device__ __forceinline__ const Segment* segment(int64_t e) const { return &r->of->stages[r->stage].segments[e]; }

  __device__ __forceinline__ int64_t position(const Segment* seg, int64_t i) const {
    return load_id(seg->positions, i, r->of->widePositions);
  }

  // The time of the step over pick i of an edge type.
  __device__ __forceinline__ int64_t time_of(const Segment* seg, int64_t i) const {
    if (r->times) return load_id(r->times, position(seg, i), r->timeBytes == 8);
    if (!seg->sourceTimes) return asOf;
    return load_id(seg->sourceTimes, load_id(list(seg->source)->ids, seg->indices[i], r->of->wideIds),
                   seg->sourceTimeBytes == 8);
  }

  // Writes a token.
  __device__ __forceinline__ void put(int64_t at, int64_t t, int64_t place, int64_t hop, int64_t edgeType, int64_t edge,
                                      int64_t age, float weight) const {
    int64_t cell = base + at;
    int64_t own = place < 0 ? -1 : load_id(list(t)->ids, place, r->of->wideIds);
    b->scratch[cell] = place < 0 ? -1 : own + list(t)->offset;
    store_id(r->ids, cell, b->wideIds, own);
    places[cell] = (u64)t << 32 | (u64)(uint32_t)place;
    if (r->types) r->types[cell] = (int32_t)t;
    if (r->hop) r->hop[cell] = (int32_t)hop;
    if (r->edgeTypes) r->edgeTypes[cell] = (int32_t)edgeType;
    if (r->edges) store_id(r->edges, cell, b->widePositions, edge);
    if (r->ages) r->ages[cell] = age;
    if (r->weights) r->weights[cell] = weight;
  }
  __device__ __forceinline__ void put_pick(int64_t at, const Segment* seg, int64_t e, int64_t i, int64_t hop) const {
    put(at, seg->source, seg->indices[i], hop, e, position(seg, i), r->timed ? asOf - time_of(seg, i) : 0, 0);
  }
  __device__ __forceinline__ void put_seed(float weight) {
    if (lane_id() == 0) put(0, type, seed, 0, -1, -1, 0, weight);
    n = 1;
  }
  // Fills the end of the row.
  __device__ __forceinline__ void close() const {
    for (int64_t i = n + lane_id(); i < r->length; i += kLanes) put(i, -1, -1, -1, -1, -1, 0, 0);
  }

  // The picks of a node in the block of an edge type: none where it was not expanded.
  __device__ __forceinline__ Range picks(const Segment* seg, int64_t t, int64_t place) const {
    if (seg->target != t || place >= seg->hi) return {0, 0};
    return {seg->indptr[place], seg->indptr[place + 1]};
  }

  // Neighbours by falling score.
  __device__ __forceinline__ void score() {
    const Segment* seg = segment(r->as);
    Range in = picks(seg, type, seed);
    int64_t own = in.to;  // where the seed is among them
    for (int64_t i = in.from + lane_id(); r->first && i < in.to; i += kLanes)
      if (seg->indices[i] == seed) own = i;
    for (int d = kLanes / 2; d; d /= 2) own = min(own, (int64_t)__shfl_xor_sync(kFull, (long long)own, d));
    if (r->first) put_seed(own < in.to ? seg->weights[own] : 0.0f);
    for (int64_t i = in.from + lane_id(); i < in.to; i += kLanes) {
      int64_t at = n + i - in.from - (r->first && i > own);
      bool other = !(r->first && i == own);
      if (other && at < r->length) put(at, seg->source, seg->indices[i], 0, -1, -1, 0, seg->weights[i]);
    }
    n = min(r->length, n + in.to - in.from - (r->first && own < in.to));
  }

  // The picks of a seed, with times the latest first: of equal times the later ones.
  __device__ __forceinline__ void pick() {
    if (r->first) put_seed(0);
    int64_t begin = n, types = r->of->stages[r->stage].numSegments, all = 0;
    bool ascend = true;
    int64_t before = (int64_t)(1ull << 63);
    for (int64_t e = 0; e < types; e++) {
      const Segment* seg = segment(e);
      Range in = picks(seg, type, seed);
      all += in.to - in.from;
      if (!r->timed || in.from == in.to) continue;
      bool mine = true;
      for (int64_t i = in.from + lane_id(); i < in.to; i += kLanes)
        mine = mine && (i == in.from ? before : time_of(seg, i - 1)) <= time_of(seg, i);
      ascend = ascend && __all_sync(kFull, mine);
      before = time_of(seg, in.to - 1);
    }
    int64_t many = min(all, r->length - begin), done = 0;
    if (r->timed && !ascend) return pick_late(many, types);
    for (int64_t e = 0; e < types; e++) {
      const Segment* seg = segment(e);
      Range in = picks(seg, type, seed);
      for (int64_t i = in.from + lane_id(); i < in.to; i += kLanes) {
        int64_t at = done + i - in.from;
        if (r->timed) at = all - 1 - at;
        if (at < many) put_pick(begin + at, seg, e, i, 1);
      }
      done += in.to - in.from;
    }
    n = begin + many;
  }

  // The same where times do not ascend: one after the other the latest of those that are left.
  __device__ __forceinline__ void pick_late(int64_t many, int64_t types) {
    int64_t lastTime = (int64_t)(~0ull >> 1), last = (int64_t)(~0ull >> 1);
    for (; many > 0; many--) {
      int64_t time = (int64_t)(1ull << 63), at = -1, done = 0;
      auto later = [&](int64_t t, int64_t i) { return t > time || (t == time && i > at); };
      for (int64_t e = 0; e < types; e++) {
        const Segment* seg = segment(e);
        Range in = picks(seg, type, seed);
        for (int64_t i = in.from + lane_id(); i < in.to; i += kLanes) {
          int64_t t = time_of(seg, i), number = done + i - in.from;
          bool left = t < lastTime || (t == lastTime && number < last);
          if (left && later(t, number)) time = t, at = number;
        }
        done += in.to - in.from;
      }
      for (int d = kLanes / 2; d; d /= 2) {
        int64_t t = (int64_t)__shfl_xor_sync(kFull, (long long)time, d);
        int64_t i = (int64_t)__shfl_xor_sync(kFull, (long long)at, d);
        if (later(t, i)) time = t, at = i;
      }
      done = 0;
      for (int64_t e = 0; e < types; e++) {
        const Segment* seg = segment(e);
        Range in = picks(seg, type, seed);
        int64_t i = in.from + at - done;
        if (lane_id() == 0 && in.from <= i && i < in.to) put_pick(n, seg, e, i, 1);
        done += in.to - in.from;
      }
      lastTime = time, last = at, n++;
    }
  }

  // The nodes of a seed's tree, hop by hop. A node that the row has is marked where its tree stands, which nobody reads
  // any more: by a number below 0, of several lanes at once by the least.
  __device__ __forceinline__ void reach() {
    if (lane_id() == 0) list(type)->trees[seed] = -1;
    __syncwarp();
    if (r->first) put_seed(0);
    expand(type, seed, 0);
    for (int64_t at = r->first; at < n && n < r->length; at++) {
      u64 of = places[base + at];
      expand((int64_t)(of >> 32), (int64_t)(uint32_t)of, r->hop[base + at]);
    }
  }
  __device__ __forceinline__ void expand(int64_t t, int64_t place, int64_t hop) {
    for (int64_t e = 0; e < r->of->stages[r->stage].numSegments; e++) {
      const Segment* seg = segment(e);
      Range in = picks(seg, t, place);
      for (int64_t from = in.from; from < in.to && n < r->length; from += kLanes) {
        int64_t i = from + lane_id();
        int32_t* mark = i < in.to ? &list(seg->source)->trees[seg->indices[i]] : nullptr;
        bool fresh = mark && *mark >= 0;
        __syncwarp();
        if (fresh) atomicMin(mark, lane_id() - kLanes);
        __syncwarp();
        fresh = fresh && *mark == lane_id() - kLanes;
        unsigned which = __ballot_sync(kFull, fresh);
        int64_t at = n + __popc(which & ((1u << lane_id()) - 1));
        if (fresh && at < r->length) put_pick(at, seg, e, i, hop + 1);
        n = min(r->length, n + __popc(which));
        __syncwarp();
      }
    }
  }
};

// Writes the rows of all seeds.
extern "C" __global__ void __launch_bounds__(256) sequence_take(SequenceStep step) {
  Batch* b = step.at.batch;
  const SequenceRules* r = step.rules;
  int64_t rows = 0;
  if (!b->status->reason && !r->of->status->reason)
    for (int64_t t = 0; t < b->numTypes; t++) rows += (int64_t)r->of->stages[0].segments[t].picks;
  place_nodes(step.at, rows * r->length);
  for (int64_t number = warp_index(); number < rows; number += warp_count()) {
    int64_t t = 0, i = number;
    for (; i >= (int64_t)r->of->stages[0].segments[t].picks; t++) i -= (int64_t)r->of->stages[0].segments[t].picks;
    Row row = {b, r, number * r->length, 0, t, r->of->stages[0].segments[t].indices[i], 0, (u64*)b->sorting};
    if (r->timed) row.asOf = row.list(t)->times[row.seed];
    if (r->hops == 0) row.score();
    else if (r->hops == 1) row.pick();
    else row.reach();
    row.close();
  }
}
