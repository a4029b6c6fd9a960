// Neighbor on a device: how many edges each destination takes, room for them, and the picks. The counterpart of
// neighbor_worker.go and pick.go; docs/sampling.md says what is picked.
#include "cuda_env.h"
#include "batch.cuh"
#include "table.cuh"
#include "../internal/rng/subset.cuh"

constexpr int64_t kAll = -1;

struct Range {
  int64_t from, to;
};

// Reads the type column 16 bytes at a time and keeps the last 16: a search of neighbouring types then takes few accesses, which
// is what counts over the bus.
template <class T>
struct TypeReader {
  static constexpr int64_t kCount = 16 / sizeof(T);
  const T* column;
  int64_t limit;       // positions from here on are read one by one
  int64_t first = -1;  // position of what is kept
  ulonglong2 kept = {};

  __device__ __forceinline__ TypeReader(const void* types, int64_t numEdges)
      : column((const T*)types), limit(((u64)types & 15) == 0 ? numEdges & -kCount : 0) {}

  __device__ __forceinline__ T at(int64_t position) {
    if (position >= limit) return column[position];
    if ((position & -kCount) != first) {
      first = position & -kCount;
      kept = *(const ulonglong2*)(column + first);
    }
    int64_t bits = (position - first) * (int64_t)sizeof(T) * 8;
    return (T)((bits < 64 ? kept.x : kept.y) >> (bits & 63));
  }

  // The first position of lo .. hi whose type is at least `type`; types ascend there.
  __device__ __forceinline__ int64_t first_of(int64_t lo, int64_t hi, int64_t type) {
    while (lo < hi) {
      int64_t mid = (lo + hi) / 2;
      if (at(mid) < type) lo = mid + 1;
      else hi = mid;
    }
    return lo;
  }
};

// The part of a column whose edges have a type.
template <class T>
__device__ __forceinline__ Range narrow(TypeReader<T> types, Range r, int64_t type) {
  r.from = types.first_of(r.from, r.to, type);
  if (r.from < r.to && types.at(r.from) != type) r.to = r.from;  // of many types, most are absent
  r.to = types.first_of(r.from, r.to, type + 1);
  return r;
}

// How many picks a destination of that degree takes.
__device__ __forceinline__ int64_t picks_of(const Batch* b, const Segment* seg, int64_t degree) {
  if (seg->fanout == kAll) return degree;
  if (b->replace) return degree > 0 ? seg->fanout : 0;
  return min(degree, seg->fanout);
}

// Where the edges of each lane's node v lie; lanes without a node have v = -1. Two lanes read the two ends for one of them, so that
// each pair is one access: over the bus every access counts.
__device__ __forceinline__ Range range_of(const Batch* b, int64_t v) {
  int64_t end[2];  // of nodes 0 .. 15 of the warp, and of the others
  for (int half = 0; half < 2; half++) {
    int64_t of = __shfl_sync(kFull, v, half * 16 + lane_id() / 2);
    end[half] = of < 0 ? 0 : b->indptr[of + (lane_id() & 1)];
  }
  Range r = {};
  for (int half = 0; half < 2; half++) {
    int at = 2 * (lane_id() & 15);
    int64_t from = __shfl_sync(kFull, end[half], at), to = __shfl_sync(kFull, end[half], at + 1);
    if (lane_id() / 16 == half) r = {from, to};
  }
  return r;
}

// What a column's copy is indexed by its positions from: the copy begins `ahead` elements further.
__device__ __forceinline__ const void* copied(const void* copies, int64_t ahead, int64_t size) {
  return (const void*)((u64)copies + (u64)(ahead * size));
}

// Finds where the edges of destination `dst` lie, notes it under number x, and returns how many picks it takes. All lanes of the warp take part; those whose destination is none of the segment's return 0.
__device__ __forceinline__ int64_t measure(Batch* b, const Segment* seg, int64_t dst, int64_t x) {
  const List* list = &b->lists[seg->target];
  int64_t v = dst < seg->hi ? load_id(list->ids, dst, b->wideIds) + list->offset : -1;
  Range r = range_of(b, v);
  if (v < 0) return 0;
  if ((u64)r.from > (u64)r.to || r.to > b->numEdges) {
    atomicMin(&b->status->badNode, (u64)v);
    r = {};
  }
  const void *ids = b->indices, *types = b->types;
  int64_t numTyped = b->numEdges;
  uint32_t hot = b->hotStart ? b->hotStart[v] : kCold;
  if (hot != kCold) {
    ids = copied(b->hotIndices, hot - r.from, b->wideIds ? 8 : 4);
    types = copied(b->hotTypes, hot - r.from, b->typeBytes);
    numTyped = 0;  // the copies do not begin and end at 16 bytes
  }
  if (b->hotStart) b->ids[x] = ids;
  if (b->typeBytes == 1) r = narrow(TypeReader<uint8_t>(types, numTyped), r, seg->edgeType);
  if (b->typeBytes == 2) r = narrow(TypeReader<uint16_t>(types, numTyped), r, seg->edgeType);
  b->start[x] = r.from;
  b->degree[x] = r.to - r.from;
  return picks_of(b, seg, r.to - r.from);
}

// Counts the picks of a stage: of each chunk of destinations and of each segment.
extern "C" __global__ void neighbor_count(Step step) {
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
  Chunks chunks = chunks_of(b, st->runs);
  for (int64_t c = warp_index(); c < chunks.count; c += warp_count()) {
    int64_t sum = 0;
    for (int64_t run = chunk_begin(chunks, c); run < chunk_end(chunks, c); run++) {
      int64_t x = run * kLanes + lane_id();
      Segment* seg = segment_of<&Segment::firstDst>(st, run * kLanes);
      int64_t dst = seg->lo + x - seg->firstDst;
      int64_t picks = seg->fanout ? measure(b, seg, dst, x) : 0;
      int64_t all = __shfl_sync(kFull, warp_inclusive(picks), kLanes - 1);
      if (lane_id() == 0 && all) atomicAdd(&seg->picks, (u64)all);
      sum += all;
    }
    if (lane_id() == 0) b->partials[c] = sum;
  }
}

// Numbers the picks of a stage, and lets it go on if there is room for them. One block.
extern "C" __global__ void neighbor_admit(Step step) {
  __shared__ int64_t cells[kLanes];
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
  Status* status = b->status;
  int64_t n = st->numSegments, picks = 0, words = 0, total;
  bool over = false, stopped = status->reason;
  block_prefix(b->partials, chunks_of(b, st->runs).count, cells);
  for (int64_t base = 0; base < n; base += blockDim.x) {
    int64_t i = base + threadIdx.x, own = 0;
    Segment* seg = i < n ? &st->segments[i] : nullptr;
    if (seg) {
      own = (int64_t)seg->picks;
      seg->have = seg->before ? seg->before->have + (int64_t)seg->before->picks : 0;
      st->made[i] = seg->have + own;
      over |= seg->have + own > seg->maxIndices;
    }
    int64_t below = block_exclusive(own, cells, &total);
    if (seg) seg->picksBefore = picks + below;
    picks += total;
    below = block_exclusive((own + kLanes - 1) / kLanes, cells, &total);
    if (seg) seg->firstPick = (words + below) * kLanes;
    words += total;
    if (seg && !stopped && seg->lo == 0) seg->indptr[0] = 0;
  }
  over = __syncthreads_or(over || words * kLanes > b->maxPicks);
  if (threadIdx.x) return;
  stopped = stop_for(status, status->badNode != ~0ull ? kBadGraph : over ? kEdgesFull : kNotStopped, step.stage);
  st->words = stopped ? 0 : words;
  st->admitted = !stopped;
}

// Where the picks of a segment go.
struct Sink {
  Batch* b;
  Table table;
  int32_t* indices;
  void* positions;
  int64_t offset, count;  // of the source type
  int64_t firstPick, have;
};

__device__ __forceinline__ Sink sink_of(Batch* b, const Segment* seg) {
  const List* list = &b->lists[seg->source];
  return {b, table_of(b), seg->indices, seg->positions, list->offset, list->count, seg->firstPick, seg->have};
}

// Makes the edge at a position of the graph the block's edge e. ids has its source.
__device__ __forceinline__ void take(const Sink& to, const void* ids, int64_t position, int64_t e) {
  int64_t id = load_id(ids, position, to.b->wideIds), slot = kNoSlot;
  if ((u64)(id - to.offset) >= (u64)to.count) {
    atomicMin(&to.b->status->badEdge, (u64)position);
  } else {
    slot = table_note(to.table, id, to.firstPick + e - to.have);
    if (slot == kNoSlot) atomicOr(&to.b->status->full, 1ull);
  }
  to.indices[e] = (int32_t)slot;
  if (to.positions) store_id(to.positions, e, to.b->widePositions, position);
}

// What one lane knows of its destination.
struct Destination {
  const void* ids;
  int64_t start, degree;
  uint64_t stream;
  int32_t picks;
  int32_t edge;  // of the block, the first
};

__device__ __forceinline__ Destination shuffled(const Destination& d, int from) {
  return {(const void*)__shfl_sync(kFull, (u64)d.ids, from), __shfl_sync(kFull, d.start, from), __shfl_sync(kFull, d.degree, from),
          __shfl_sync(kFull, d.stream, from), __shfl_sync(kFull, d.picks, from), __shfl_sync(kFull, d.edge, from)};
}

// Picks for the 32 destinations of a run, with as many lanes a destination as the fan-out needs, in `part` of `parts`.
__device__ __forceinline__ void pick_small(const Sink& to, const Destination& mine, int fanout, int64_t part, int64_t parts) {
  int width = 1;  // lanes a destination, and so the rounds
  while (width < fanout) width *= 2;
  int j = lane_id() & (width - 1);
  for (int round = part * width / parts; round < (part + 1) * width / parts; round++) {
    Destination d = shuffled(mine, (round * kLanes + lane_id()) / width);
    int64_t t = j;
    int rank = j;
    if (to.b->replace) t = (int64_t)bounded(draw(d.stream, j), d.degree);
    else if (__any_sync(kFull, d.picks < d.degree)) {
      bool choose = d.picks < d.degree;  // then the picks are as many as the fan-out
      int r;
      int64_t member = __any_sync(kFull, d.degree >> 32 != 0) ? small_subset<uint64_t>(fanout, width, choose, d.degree, d.stream, r)
                                                              : small_subset<uint32_t>(fanout, width, choose, d.degree, d.stream, r);
      if (choose) t = member, rank = r;
    }
    if (j < d.picks) take(to, d.ids, d.start + t, d.edge + rank);
  }
}

// The same with a whole warp a destination, for fan-outs above 32.
__device__ __forceinline__ void pick_large(const Sink& to, const Destination& mine, int64_t part, int64_t parts) {
  for (int i = part * kLanes / parts; i < (part + 1) * kLanes / parts; i++) {
    Destination d = shuffled(mine, i);
    bool choose = !to.b->replace && d.picks < d.degree;
    int64_t* set = choose ? to.b->subsets + to.firstPick + d.edge - to.have : nullptr;
    if (choose) large_subset(set, d.picks, d.degree, d.stream);
    for (int j = lane_id(); j < d.picks; j += kLanes) {
      int64_t t = to.b->replace ? (int64_t)bounded(draw(d.stream, j), d.degree) : choose ? set[j] : j;
      take(to, d.ids, d.start + t, d.edge + j);
    }
  }
}

// Writes the block's indptr for a run, and picks; returns the picks of the run. before is those of the stage up to here.
__device__ __forceinline__ int64_t pick_run(Batch* b, Stage* st, int64_t run, int64_t before, int64_t part, int64_t parts) {
  Segment* seg = segment_of<&Segment::firstDst>(st, run * kLanes);
  int64_t x = run * kLanes + lane_id(), dst = seg->lo + x - seg->firstDst;
  Destination d = {};
  if (dst < seg->hi && seg->fanout) {
    d.ids = b->hotStart ? b->ids[x] : b->indices;
    d.start = b->start[x];
    d.degree = b->degree[x];
    d.picks = (int32_t)picks_of(b, seg, d.degree);
    d.stream = stream_of(seg->key, load_id(b->lists[seg->target].ids, dst, b->wideIds));
  }
  int32_t sum = warp_inclusive(d.picks), all = __shfl_sync(kFull, sum, kLanes - 1);
  d.edge = (int32_t)(seg->have + before - seg->picksBefore) + sum - d.picks;
  if (dst < seg->hi && part == 0) seg->indptr[dst + 1] = d.edge + d.picks;
  if (seg->fanout > 0 && all) {
    Sink to = sink_of(b, seg);
    if (seg->fanout <= kLanes) pick_small(to, d, (int)seg->fanout, part, parts);
    else pick_large(to, d, part, parts);
  }
  return all;
}

// Picks for all destinations of a stage whose fan-out is not kAll, and writes the indptr of all. Where there are fewer runs than
// warps, a run is shared by several.
extern "C" __global__ void neighbor_pick(Step step) {
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
  if (!st->admitted || !st->runs) return;
  Chunks chunks = chunks_of(b, st->runs);
  int64_t parts = chunks.each > 1 ? 1 : min(b->warps / st->runs, (int64_t)kLanes);
  for (int64_t u = warp_index(); u < chunks.count * parts; u += warp_count()) {
    int64_t before = b->partials[u / parts];
    for (int64_t run = chunk_begin(chunks, u / parts); run < chunk_end(chunks, u / parts); run++)
      before += pick_run(b, st, run, before, u % parts, parts);
  }
}

// Takes all edges of the destinations whose fan-out is kAll: a lane an edge, so that hubs are shared by many warps.
extern "C" __global__ void neighbor_expand(Step step) {
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
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
    take(sink_of(b, seg), b->hotStart ? b->ids[x] : b->indices, b->start[x] + e - seg->indptr[lo], e);
  }
}
