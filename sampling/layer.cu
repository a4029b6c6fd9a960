// FastGCN and Ladies on a device: the nodes of a hop are drawn, a lane a draw, then each destination takes those of its
// edges whose source was drawn, a warp a destination. For Ladies a stage before has listed all edges of the
// destinations; these are put in order of their sources, so that a lane adds up what a source sends in the order of the
// CPU. The counterpart of layered_pick.go.
#include "cuda_env.h"
#include "sort.cuh"
#include "../internal/rng/log.cuh"

struct LayerStep {
  Step at;
  const uint64_t* streams;  // of each hop's draws
  int64_t hop;
  int64_t nodes;            // draws of the hop; kAll takes every edge
  const uint64_t* sums;     // of the importance of all nodes up to and with each; none for Ladies
  const int64_t* guide;     // element i: the first node whose sum is above i * 2^shift
  int64_t shift;
  int64_t bits;             // the pool has 2^bits slots: in Batch::scratch nodes, how often each was drawn, its part
  int64_t room, sorted;     // for Ladies: edges that arrays have room for, and where they are in order
  const void* weights;
  int64_t weightBytes;  // 4 or 8; 0 without weights
};

constexpr u64 kFree = ~0ull;

// The factor of the message of an edge, whose destination has so many.
__device__ __forceinline__ double value_of(const LayerStep& step, int64_t position, int64_t degree) {
  return step.weightBytes == 4   ? (double)((const float*)step.weights)[position]
         : step.weightBytes == 8 ? ((const double*)step.weights)[position]
                                 : __ddiv_rn(1.0, (double)degree);
}

// What an edge of some value above 0 adds to the importance of its source.
__device__ __forceinline__ double importance(double a) {
  double square = __dmul_rn(a, a);
  return square < 0x1p-1000 ? 0x1p-1000 : square > 0x1p900 ? 0x1p900 : square;
}

// What Ladies knows of the edges that were listed, by their order: their importance; the first with the same source,
// and there the sum of the importances, as an integer, added to those before, and how often the source was drawn.
struct Near {
  double* worth;
  int64_t* first;
  u64 *sums, *times;
  const Item* sorted;
};
__device__ __forceinline__ Near near_of(const LayerStep& step) {
  const Batch* b = step.at.batch;
  int64_t room = step.room, *at = sort_array(b, room, 4);
  return {(double*)at, at + room, (u64*)at + 2 * room, (u64*)at + 3 * room, items_at(b, room, step.sorted)};
}

// Makes items of the edges that were listed, by their sources; of what is no edge, behind them all.
extern "C" __global__ void layer_key(LayerStep step) {
  Batch* b = step.at.batch;
  const Stage* st = &b->stages[step.at.stage - 1];
  Near near = near_of(step);
  int64_t* cells = sort_cells(b);
  if (!blockIdx.x && !threadIdx.x) cells[0] = st->words * kLanes;
  if (!blockIdx.x && threadIdx.x < kSortSums) cells[1 + threadIdx.x] = 0;
  for (int64_t w = warp_index(); w < st->words; w += warp_count()) {
    Segment* seg = segment_of<&Segment::firstPick>(st, w * kLanes);
    int64_t order = w * kLanes + lane_id(), i = order - seg->firstPick, key = b->allNodes;
    double worth = 0;
    if (i < (int64_t)seg->picks) {
      int64_t dst = first_not(seg->lo, seg->hi, [&](int64_t d) { return seg->indptr[d + 1] <= i; });
      int64_t position = ((const int64_t*)seg->positions)[i], x = seg->firstDst + dst - seg->lo;
      int64_t source = load_id(b->hotStart ? b->ids[x] : b->indices, position, b->wideIds);
      const List* list = &b->lists[seg->source];
      double a = value_of(step, position, b->degree[x]);
      if ((u64)(source - list->offset) < (u64)list->count && a >= 0 && a <= 1.7976931348623157e308) {
        key = source;
        if (a > 0) worth = importance(a);
      } else {
        atomicMin(&b->status->badEdge, (u64)position);
      }
    }
    items_at(b, step.room, 0)[order] = {(u64)key, order};
    near.worth[order] = worth;
    near.first[order] = order;
    near.sums[order] = near.times[order] = 0;
  }
}

// Adds up what each source sends, in the order in which edges were listed. Sums are doubles at first.
extern "C" __global__ void layer_sum(LayerStep step) {
  Batch* b = step.at.batch;
  Near near = near_of(step);
  u64* cells = (u64*)sort_cells(b);
  each_sum(
      b, near.sorted,
      [&](int64_t order, int64_t first) {
        near.first[order] = first;
        return near.worth[order];
      },
      [&](const Item& own, bool first, double sum) {
        if (!first) return;
        near.sums[own.order] = (u64)__double_as_longlong(sum);
        atomicAdd(&cells[1], 1ull);
        atomicMax(&cells[2], (u64)__double_as_longlong(sum));  // not negative, so that their bits order as they do
      });
}

// wholeWeight of negative_nodes.go.
__device__ __forceinline__ u64 whole_weight(double w, int scale) {
  if (w == 0) return 0;
  u64 bits = (u64)__double_as_longlong(w), m = (bits & ((1ull << 52) - 1)) | 1ull << 52;
  int shift = (int)(bits >> 52) - 1075 + scale;
  if (shift >= 0) return m << shift;
  return shift <= -64 ? 1 : (m >> -shift) + ((m >> -shift << -shift) != m);
}

// Makes integers of the sums, and adds up those of each chunk.
extern "C" __global__ void layer_whole(LayerStep step) {
  Batch* b = step.at.batch;
  Near near = near_of(step);
  const int64_t* cells = sort_cells(b);
  double most = __longlong_as_double((long long)cells[2]);
  int scale = most > 0 ? min(52, 62 - (64 - __clzll((long long)cells[1]))) - 1 - exponent_of(most) : 0;
  Chunks chunks = chunks_of(b, cells[0] / kLanes);
  for (int64_t c = warp_index(); c < chunks.count; c += warp_count()) {
    int64_t sum = 0;
    for (int64_t w = chunk_begin(chunks, c); w < chunk_end(chunks, c); w++) {
      u64* at = &near.sums[w * kLanes + lane_id()];
      sum += (int64_t)(*at = whole_weight(__longlong_as_double((long long)*at), scale));
    }
    sum = warp_sum(sum);
    if (lane_id() == 0) b->partials[c] = sum;
  }
}

// Adds up the chunks. One block.
extern "C" __global__ void layer_place(LayerStep step) {
  __shared__ int64_t cells[kLanes];
  Batch* b = step.at.batch;
  block_prefix(b->partials, chunks_of(b, *sort_cells(b) / kLanes).count, cells);
}

// Adds to each integer those before.
extern "C" __global__ void layer_add(LayerStep step) {
  Batch* b = step.at.batch;
  Near near = near_of(step);
  Chunks chunks = chunks_of(b, *sort_cells(b) / kLanes);
  for (int64_t c = warp_index(); c < chunks.count; c += warp_count()) {
    int64_t before = b->partials[c];
    for (int64_t w = chunk_begin(chunks, c); w < chunk_end(chunks, c); w++) {
      u64* at = &near.sums[w * kLanes + lane_id()];
      int64_t up = before + warp_inclusive((int64_t)*at);
      *at = (u64)up;
      before = __shfl_sync(kFull, up, kLanes - 1);
    }
  }
}

// Empties the pool.
extern "C" __global__ void layer_clear(LayerStep step) {
  int64_t* pool = step.at.batch->scratch;
  for (int64_t i = warp_index() * kLanes + lane_id(); i < 2ll << step.bits; i += warp_count() * kLanes)
    pool[i] = i < 1ll << step.bits ? (int64_t)kFree : 0;
}

// The slot of a node, or the free one where it belongs. A volatile pool is one that others write to.
template <class T>
__device__ __forceinline__ int64_t slot_of(const LayerStep& step, T* pool, int64_t v) {
  u64 mask = (1ull << step.bits) - 1, h = (u64)v * kGolden >> (64 - step.bits);
  while (pool[h] != kFree && pool[h] != (u64)v) h = (h + 1) & mask;
  return (int64_t)h;
}

// Counts a node that was drawn, with FastGCN, by its part of the sums.
__device__ __forceinline__ void count_node(const LayerStep& step, int64_t v, u64 part) {
  u64 *pool = (u64*)step.at.batch->scratch, had;
  int64_t slot;
  do {
    slot = slot_of(step, (volatile u64*)pool, v);
    had = atomicCAS(&pool[slot], kFree, (u64)v);
  } while (had != kFree && had != (u64)v);
  atomicAdd(&pool[(1ll << step.bits) + slot], 1ull);
  if (had == kFree) pool[(2ll << step.bits) + slot] = part;
}

// The sums that nodes are drawn by.
struct Sums {
  const u64* of;
  int64_t n;
  __device__ __forceinline__ u64 total() const { return n ? of[n - 1] : 0; }
  __device__ __forceinline__ u64 part(int64_t i) const { return i ? of[i] - of[i - 1] : of[0]; }
};
__device__ __forceinline__ Sums sums_of(const LayerStep& step) {
  const Batch* b = step.at.batch;
  if (step.sums) return {(const u64*)step.sums, b->allNodes};
  return {near_of(step).sums, *sort_cells(b)};
}

// Draws the nodes of a hop.
extern "C" __global__ void layer_draw(LayerStep step) {
  Sums sums = sums_of(step);
  u64 total = sums.total(), stream = step.streams[step.hop];
  if (total == 0) return;
  for (int64_t i = warp_index() * kLanes + lane_id(); i < step.nodes; i += warp_count() * kLanes) {
    uint64_t x = bounded(draw(stream, (uint64_t)i), total);
    const int64_t* guide = step.sums ? step.guide + (x >> step.shift) : nullptr;
    int64_t at = first_not(guide ? guide[0] : 0, guide ? guide[1] : sums.n, [&](int64_t u) { return sums.of[u] <= x; });
    if (step.sums) count_node(step, at, sums.part(at));
    else atomicAdd(&near_of(step).times[at], 1ull);
  }
}

// A destination, and the order of the first of its edges among those that were listed.
struct Listed {
  Edges edges;
  int64_t order;
};

__device__ __forceinline__ Listed listed(const Batch* b, const Place& p) {
  const Segment* reach = p.seg->reach;
  return {edges_of(b, p), reach ? reach->firstPick + reach->indptr[p.dst] : 0};
}

__device__ __forceinline__ Listed shuffled(const Listed& d, int i) {
  return {shuffled(d.edges, i), __shfl_sync(kFull, d.order, i)};
}

// What a destination counts one of its edges, -1 where it is not taken.
__device__ __forceinline__ double weight_of(const LayerStep& step, const Listed& d, int64_t position) {
  const Batch* b = step.at.batch;
  double scale = 1;
  if (step.nodes >= 0) {
    Sums sums = sums_of(step);
    u64 times, part;
    if (step.sums) {
      const u64* pool = (const u64*)b->scratch;
      int64_t slot = slot_of(step, pool, load_id(d.edges.ids, position, b->wideIds));
      if (pool[slot] == kFree) return -1;
      times = pool[(1ll << step.bits) + slot];
      part = pool[(2ll << step.bits) + slot];
    } else {
      Near near = near_of(step);
      int64_t at = near.first[d.order + position - d.edges.start];
      if (!(times = near.times[at])) return -1;
      part = sums.part(at);
    }
    scale = __ddiv_rn(__dmul_rn((double)times, (double)sums.total()), __dmul_rn((double)step.nodes, (double)part));
  }
  double value = value_of(step, position, d.edges.degree);
  return value > 0 ? __dmul_rn(value, scale) : -1;
}

// Counts the picks of a stage.
extern "C" __global__ void layer_count(LayerStep step) {
  Batch* b = step.at.batch;
  count_each(
      step.at, [&](const Place& p) { return listed(b, p); },
      [&](const Segment*, const Listed& d, const Slice& of) {
        return each_match(
            d.edges, of, [&](int64_t at) { return weight_of(step, d, at) >= 0; }, [](int64_t, int64_t, bool) {});
      });
}

// Writes the blocks, and the weights of their edges.
extern "C" __global__ void layer_pick(LayerStep step) {
  Batch* b = step.at.batch;
  pick_each(
      step.at, [&](const Place& p) { return listed(b, p); },
      [&](const Segment* seg, const Listed& d, const Slice& of, int64_t edge) {
        Sink to = sink_of(b, seg);
        double weight = 0;
        each_match(
            d.edges, of,
            [&](int64_t at) {
              weight = weight_of(step, d, at);
              return weight >= 0;
            },
            [&](int64_t at, int64_t number, bool has) {
              if (!has) return;
              int64_t e = edge + of.before + number;
              seg->weights[e] = (float)weight;
              take(to, d.edges.ids, 0, at, e);
            });
      });
}
