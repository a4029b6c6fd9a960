// HGT on a device: a stage lists the in-edges of the nodes that were appended last, and the next draws nodes by their
// budgets. All edges that a batch has listed are put in order of their sources, so that a budget is added up in the
// order of the CPU. Up to which key nodes of a type are drawn is then found 11 bits at a time. The counterpart of
// hgt.go.
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
  int64_t from, to;        // where sorted items are, and keys in the race go: cells an item before the arrays
  int64_t shift;           // of the digit of keys that is looked at
};

constexpr int kDigitBits = 11, kBins = 1 << kDigitBits;
constexpr u64 kNotInRace = ~0ull;

// Nodes of a type are drawn whose keys are below it, and `left` of those with this key. Until all digits are known,
// `left` of those with the known digits.
struct HgtBound {
  u64 key;
  int64_t left;
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

// Behind them, the bound of each type, and how many keys have each digit.
__device__ __forceinline__ HgtBound* bounds_of(const HgtStep& step) {
  return (HgtBound*)sort_array(step.at.batch, step.room, 7);
}
__device__ __forceinline__ u64* bins_of(const HgtStep& step, int64_t t) {
  return (u64*)(bounds_of(step) + step.at.batch->numTypes) + t * kBins;
}
__device__ __forceinline__ u64* keys_of(const HgtStep& step) {
  return (u64*)sort_array(step.at.batch, step.room, step.to);
}

// Begins the search for the bounds.
__device__ __forceinline__ void open_race(const HgtStep& step) {
  int64_t numTypes = step.at.batch->numTypes;
  for (int64_t i = warp_index() * kLanes + lane_id(); i < numTypes * kBins; i += warp_count() * kLanes) {
    bins_of(step, 0)[i] = 0;
    if (i >= numTypes) continue;
    int64_t n = step.races[i].nodes;
    bounds_of(step)[i] = n < 0 ? HgtBound{kNotInRace, 0} : HgtBound{0, n};
  }
}

// Notes what the edges that were listed last give to their sources that are not in the batch.
extern "C" __global__ void hgt_give(HgtStep step) {
  Batch* b = step.at.batch;
  const Stage* st = &b->stages[step.at.stage - 1];
  int64_t before = listed_before(b, step.at.stage);
  bool stopped = b->status->reason;
  if (!blockIdx.x && !threadIdx.x) *sort_cells(b) = stopped ? 0 : before + st->words * kLanes;
  open_race(step);
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

// Counts the digit of a lane's key, if its node is in the race and has the digits that are known. All lanes of a warp
// call it.
__device__ __forceinline__ void count_digit(const HgtStep& step, u64 key, int64_t order) {
  const Batch* b = step.at.batch;
  u64* bin = nullptr;
  if (key != kNotInRace) {
    int64_t t = type_of(b, (int64_t)given_at(b, step.room)[order].key);
    HgtBound bound = bounds_of(step)[t];
    if (bound.left && key >> step.shift >> kDigitBits == bound.key >> step.shift >> kDigitBits)
      bin = bins_of(step, t) + (key >> step.shift & (kBins - 1));
  }
  unsigned same = __match_any_sync(kFull, (u64)bin);
  if (bin && lane_id() == __ffs((int)same) - 1) atomicAdd(bin, (u64)__popc(same));
}

// Adds up the budget of each node that is not in the batch, and notes its key in the race for the first edge that gave
// to it.
extern "C" __global__ void hgt_race(HgtStep step) {
  Batch* b = step.at.batch;
  const double* amounts = amounts_at(b, step.room);
  Table table = table_of(b);
  each_sum(
      b, items_at(b, step.room, step.from), [&](int64_t order, int64_t) { return amounts[order]; },
      [&](const Item& own, bool first, double sum) {
        u64 key = kNotInRace;
        if (first && table_find(table, (int64_t)own.key) == kNoSlot) {
          int64_t t = type_of(b, (int64_t)own.key);
          uint64_t d = draw(stream_of(step.races[t].key, own.key - (u64)b->lists[t].offset), 0);
          double at = __dadd_rn(__ddiv_rn(-log_rn(unit_above_zero(d)), __dmul_rn(sum, sum)), 0.0);  // one zero
          key = (u64)__double_as_longlong(at);  // not negative, so that its bits order as it does
        }
        keys_of(step)[own.order] = key;
        count_digit(step, key, own.order);
      });
}

// Counts the next digit.
extern "C" __global__ void hgt_count(HgtStep step) {
  each_item(step.at.batch, [&](int64_t i) { count_digit(step, keys_of(step)[i], i); });
}

// Finds that digit of each bound. One block.
extern "C" __global__ void hgt_bound(HgtStep step) {
  __shared__ int64_t cells[kLanes];
  for (int64_t t = 0; t < step.at.batch->numTypes; t++) {
    HgtBound *to = &bounds_of(step)[t], bound = *to;
    if (!bound.left) continue;
    int64_t before = 0, total;
    for (int64_t base = 0; base < kBins; base += blockDim.x) {
      int64_t digit = base + threadIdx.x, n = digit < kBins ? (int64_t)bins_of(step, t)[digit] : 0;
      int64_t below = before + block_exclusive(n, cells, &total);
      before += total;
      if (n) bins_of(step, t)[digit] = 0;
      if (below >= bound.left || below + n < bound.left) continue;
      bool all = below + n == bound.left;
      *to = {bound.key + ((u64)(digit + all) << step.shift), all ? 0 : bound.left - below};
    }
    if (before < bound.left && threadIdx.x == 0) *to = {kNotInRace, 0};
  }
}

// Places the first of each type.
extern "C" __global__ void hgt_place(HgtStep step) {
  Batch* b = step.at.batch;
  place_nodes(step.at, *sort_cells(b));
  each_item(b, [&](int64_t i) {
    u64 key = keys_of(step)[i], node = given_at(b, step.room)[i].key;
    bool drawn = key != kNotInRace;
    if (drawn) {
      int64_t t = type_of(b, (int64_t)node), before = 0;
      HgtBound bound = bounds_of(step)[t];
      for (int64_t j = 0; key == bound.key && j < i; j++)
        before += keys_of(step)[j] == key && type_of(b, (int64_t)given_at(b, step.room)[j].key) == t;
      drawn = key < bound.key || (key == bound.key && before < bound.left);
    }
    b->scratch[i] = drawn ? (int64_t)node : -1;
  });
}
