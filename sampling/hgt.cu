// HGT on a device: a stage lists the in-edges of the nodes that were appended last, and the next draws nodes by their
// budgets. All edges that a batch has listed are put in order of their sources, so that a lane adds up a budget in the
// order of the CPU; then nodes in order of their keys in the race, and of their types. The counterpart of hgt.go.
#include "cuda_env.h"
#include "place.cuh"
#include "sort.cuh"
#include "../internal/rng/log.cuh"

// What the host sends of a node type at a hop.
struct HgtRace {
  uint64_t key;   // of the draws
  int64_t nodes;  // that are drawn; kAll for all
};

struct HgtStep {
  Step at;
  const HgtRace* races;    // of the hop
  const int64_t* sources;  // the type of the sources of each edge type
  int64_t numEdgeTypes;
  int64_t room;            // edges that arrays have room for
  int64_t from, to;        // where items are, and go: cells an item before the arrays
};

// How many edges earlier hops have listed; all stages of hops are two.
__device__ __forceinline__ int64_t listed_before(const Batch* b, int64_t stage) {
  int64_t words = 0;
  for (int64_t s = 1; s + 1 < stage; s += 2) words += b->stages[s].words;
  return words * kLanes;
}

// The edges that were listed, by their sources, and what each gives: arrays that later hops go on from.
__device__ __forceinline__ Item* given_at(const Batch* b, int64_t room) { return items_at(b, room, 0); }
__device__ __forceinline__ double* amounts_at(const Batch* b, int64_t room) {
  return (double*)sort_array(b, room, 2);
}

// Notes what the edges that were listed last give to their sources that are not in the batch.
extern "C" __global__ void hgt_give(HgtStep step) {
  Batch* b = step.at.batch;
  const Stage* st = &b->stages[step.at.stage - 1];
  int64_t before = listed_before(b, step.at.stage);
  bool stopped = b->status->reason;
  if (!blockIdx.x && !threadIdx.x) *sort_cells(b) = stopped ? 0 : before + st->words * kLanes;
  Table table = table_of(b);
  for (int64_t w = warp_index(); w < st->words; w += warp_count()) {
    Segment* seg = segment_of<&Segment::firstPick>(st, w * kLanes);
    int64_t order = w * kLanes + lane_id(), i = order - seg->firstPick, key = b->allNodes;
    double amount = 0;
    if (i < (int64_t)seg->picks) {
      const List* list = &b->lists[seg->target];
      int64_t dst = first_not(seg->lo, seg->hi, [&](int64_t d) { return seg->indptr[d + 1] <= i; });
      InEdges e = in_edges(b, load_id(list->ids, dst, b->wideIds) + list->offset);
      int64_t position = ((const int64_t*)seg->positions)[i], type = type_at(b, e, position);
      int64_t source = load_id(e.ids, position, b->wideIds);
      if (b->typeBytes) {
        e.from = first_of_type(b, e, e.from, position, type);
        e.to = first_of_type(b, e, position, e.to, type + 1);
      }
      const List* of = &b->lists[step.sources[min(type, step.numEdgeTypes - 1)]];
      if ((u64)(source - of->offset) >= (u64)of->count) atomicMin(&b->status->badEdge, (u64)position);
      else if (table_find(table, source) == kNoSlot) key = source;
      amount = __ddiv_rn(1.0, (double)(e.to - e.from));
    }
    given_at(b, step.room)[before + order] = {(u64)key, before + order};
    amounts_at(b, step.room)[before + order] = amount;
  }
}

__device__ __forceinline__ int64_t type_of(const Batch* b, int64_t v) {
  int64_t t = 0;
  while (v - b->lists[t].offset >= b->lists[t].count) t++;
  return t;
}

// Adds up the budget of each node that is not in the batch, and makes its key in the race an item, in place of the
// first edge that gave to it.
extern "C" __global__ void hgt_race(HgtStep step) {
  Batch* b = step.at.batch;
  const Item* by = items_at(b, step.room, step.from);
  const double* amounts = amounts_at(b, step.room);
  Table table = table_of(b);
  each_item(b, [&](int64_t i) {
    u64 key = by[i].key;
    int64_t first = by[i].order;
    Item race = {~0ull, first};
    if (key != (u64)b->allNodes && !(i && by[i - 1].key == key) && table_find(table, (int64_t)key) == kNoSlot) {
      double sum = amounts[first];
      for (int64_t j = i + 1; j < *sort_cells(b) && by[j].key == key; j++) sum = __dadd_rn(sum, amounts[by[j].order]);
      int64_t t = type_of(b, (int64_t)key);
      uint64_t d = draw(stream_of(step.races[t].key, key - (u64)b->lists[t].offset), 0);
      double at = __dadd_rn(__ddiv_rn(-log_rn(unit_above_zero(d)), __dmul_rn(sum, sum)), 0.0);  // one zero
      race.key = (u64)__double_as_longlong(at);  // not negative, so that its bits order as it does
    }
    items_at(b, step.room, step.to)[first] = race;
  });
}

// Gives items that are in order of their keys those of their types.
extern "C" __global__ void hgt_type(HgtStep step) {
  Batch* b = step.at.batch;
  Item* items = items_at(b, step.room, step.from);
  each_item(b, [&](int64_t i) {
    u64 t = (u64)b->numTypes;
    if (items[i].key != ~0ull) t = (u64)type_of(b, (int64_t)given_at(b, step.room)[items[i].order].key);
    items[i].key = t;
  });
}

// Places the first of each type.
extern "C" __global__ void hgt_place(HgtStep step) {
  Batch* b = step.at.batch;
  const Item* items = items_at(b, step.room, step.from);
  int64_t n = *sort_cells(b), *nodes = b->scratch;
  place_nodes(step.at, n);
  each_item(b, [&](int64_t i) {
    u64 t = items[i].key;
    bool drawn = t < (u64)b->numTypes;
    if (drawn && step.races[t].nodes >= 0)
      drawn = i - first_not(0, n, [&](int64_t j) { return items[j].key < t; }) < step.races[t].nodes;
    nodes[items[i].order] = drawn ? (int64_t)given_at(b, step.room)[items[i].order].key : -1;
  });
}
