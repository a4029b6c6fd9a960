// What pickers share on a device: where the edges of each destination lie, how many picks there are, and where they go.
// The counterpart of assembly.ranges and stream.go. A picker is two kernels around assembly_admit: one calls
// count_picks, the other writes the block's indptr and takes edges.
#pragma once
#include "batch.cuh"
#include "table.cuh"

struct Range {
  int64_t from, to;

  // Whether it is one of 0 .. n.
  __device__ __forceinline__ bool is_of(int64_t n) const { return (u64)from <= (u64)to && (u64)to <= (u64)n; }
};

// Reads a column of integers 16 bytes at a time and keeps the last 16: a search that ends among neighbours then takes
// few accesses, which is what counts over the bus. Integers of 1 and 2 bytes have no sign.
struct ColumnReader {
  const void* data;
  int log;             // of the bytes of an integer
  int64_t limit;       // positions from here on are read one by one
  int64_t first = -1;  // position of what is kept
  ulonglong2 kept = {};

  __device__ __forceinline__ ColumnReader(const void* data, int64_t size, int64_t n)
      : data(data), log(31 - __clz((int)size)), limit(((u64)data & 15) == 0 ? n & -(int64_t)(16 >> log) : 0) {}

  // The first of the positions that are read together with one.
  __device__ __forceinline__ int64_t begin(int64_t i) const { return i & -(int64_t)(i < limit ? 16 >> log : 1); }

  __device__ __forceinline__ int64_t at(int64_t i) {
    if (i >= limit)
      return log == 0 ? ((const uint8_t*)data)[i] : log == 1 ? ((const uint16_t*)data)[i] : load_id(data, i, log == 3);
    if (begin(i) != first) {
      first = begin(i);
      kept = ((const ulonglong2*)data)[i >> (4 - log)];
    }
    int bits = (int)(i - first) << log << 3;
    u64 from = (bits < 64 ? kept.x : kept.y) >> (bits & 63);
    return log == 0 ? (uint8_t)from : log == 1 ? (uint16_t)from : log == 2 ? (int32_t)from : (int64_t)from;
  }

  // The first position of lo .. hi whose integer is at least x; they ascend there.
  __device__ __forceinline__ int64_t first_of(int64_t lo, int64_t hi, int64_t x) {
    return first_not(lo, hi, [&](int64_t i) { return at(i) < x; });
  }

  // The first position of lo .. hi that has x, -1 if none has: of ids below n, which ascend there. It looks where x
  // would be if they were even, between what it has read; where that does not soon help, by halves. any(more) says
  // whether lanes that search together go on.
  template <class A>
  __device__ __forceinline__ int64_t find(int64_t lo, int64_t hi, int64_t x, int64_t n, A any) {
    int64_t below = -1, above = n;  // the ids before lo and at hi
    bool has = false;               // hi has x
    for (int guesses = 3; any(lo < hi); guesses--) {
      if (lo >= hi) continue;
      double part = ((double)x - (double)below) / ((double)above - (double)below), far = part * (double)(hi - lo);
      int64_t mid = guesses <= 0 ? (lo + hi) / 2 : far >= (double)(hi - lo) ? hi - 1 : far > 0 ? lo + (int64_t)far : lo;
      int64_t from = max(lo, begin(mid)), last = min(hi, begin(mid) + (mid < limit ? 16 >> log : 1)) - 1, id = at(last);
      if (id < x) {
        lo = last + 1;
        below = id;
        continue;
      }
      hi = first_of(from, last, x);
      above = hi == last ? id : at(hi);
      has = above == x;
      if (hi > from) lo = hi;
    }
    return has ? hi : -1;
  }
};

// The part of a node's edges that has a type.
__device__ __forceinline__ Range narrow(ColumnReader types, Range r, int64_t type) {
  r.from = types.first_of(r.from, r.to, type);
  if (r.from < r.to && types.at(r.from) != type) r.to = r.from;  // of many types, most are absent
  r.to = types.first_of(r.from, r.to, type + 1);
  return r;
}

// Where the edges of each lane's node v lie; lanes without a node have v = -1. Two lanes read the two ends for one of
// them, so that each pair is one access: over the bus every access counts.
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

// How many of the edges that the batch leaves out are before a position.
__device__ __forceinline__ int64_t first_excluded(const Batch* b, int64_t position) {
  return first_not(0, b->numExcluded, [&](int64_t i) { return b->excluded[i] < position; });
}

// The edges of a destination that the batch leaves out, by their positions. Pickers count positions from the first edge
// on as if these were not there: edge i of a destination has position start + i.
struct Excluded {
  const int64_t* list;
  int64_t n;

  // Where in the columns of the graph the edge at such a position is.
  __device__ __forceinline__ int64_t column(int64_t at) const {
    // the first excluded edge beyond it, which is the number of those before it
    return at + first_not(0, n, [&](int64_t i) { return list[i] - i <= at; });
  }
};

// Those of a destination whose edges begin at start, of which `degree` are left.
__device__ __forceinline__ Excluded excluded_of(const Batch* b, int64_t start, int64_t degree) {
  if (!b->numExcluded) return {nullptr, 0};
  int64_t before = first_excluded(b, start), last = start + degree - 1;
  Excluded h = {b->excluded + before, b->numExcluded - before};
  h.n = h.column(last) - last;  // further ones are of others, or behind its last edge
  return h;
}

// Finds where the edges of destination `dst` lie, notes it under number x, and returns how many they are, without those
// that the batch leaves out. All lanes of the warp take part; those whose destination is not one of the segment's
// return -1.
__device__ __forceinline__ int64_t measure(Batch* b, const Segment* seg, int64_t dst, int64_t x) {
  const List* list = &b->lists[seg->target];
  int64_t v = dst < seg->hi ? load_id(list->ids, dst, b->wideIds) + list->offset : -1;
  Range r = range_of(b, v);
  if (v < 0) return -1;
  if (!r.is_of(b->numEdges)) {
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
  if (b->typeBytes && seg->edgeType >= 0) r = narrow(ColumnReader(types, b->typeBytes, numTyped), r, seg->edgeType);
  int64_t degree = r.to - r.from;
  if (b->numExcluded) degree -= first_excluded(b, r.to) - first_excluded(b, r.from);
  b->start[x] = r.from;
  b->degree[x] = degree;
  return degree;
}

__device__ __forceinline__ int64_t shuffled(int64_t x, int from) { return __shfl_sync(kFull, x, from); }
__device__ __forceinline__ int64_t warp_sum(int64_t n) { return __shfl_sync(kFull, warp_inclusive(n), kLanes - 1); }

// Counts the picks of a stage: of each chunk of destinations and of each segment. picks_of(seg, degree) says how many a
// destination takes; a segment with fan-out 0 takes none.
template <class F>
__device__ __forceinline__ void count_picks(const Step& step, F picks_of) {
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
  Chunks chunks = chunks_of(b, st->runs);
  for (int64_t c = warp_index(); c < chunks.count; c += warp_count()) {
    int64_t sum = 0;
    for (int64_t run = chunk_begin(chunks, c); run < chunk_end(chunks, c); run++) {
      int64_t x = run * kLanes + lane_id();
      Segment* seg = segment_of<&Segment::firstDst>(st, run * kLanes);
      int64_t degree = seg->fanout ? measure(b, seg, seg->lo + x - seg->firstDst, x) : -1;
      int64_t all = warp_sum(degree < 0 ? 0 : picks_of(seg, degree));
      if (lane_id() == 0 && all) atomicAdd(&seg->picks, (u64)all);
      sum += all;
    }
    if (lane_id() == 0) b->partials[c] = sum;
  }
}

// Where there are fewer runs than warps, this number of warps share a run.
__device__ __forceinline__ int64_t parts_of(const Batch* b, const Chunks& chunks) {
  return chunks.each > 1 ? 1 : min(b->warps / max(chunks.items, (int64_t)1), (int64_t)kLanes);
}

// Whether the destination of this lane is one of a part of a run.
__device__ __forceinline__ bool in_part(int64_t part, int64_t parts) {
  return lane_id() >= part * kLanes / parts && lane_id() < (part + 1) * kLanes / parts;
}

// Picks for all destinations of a stage whose picks were counted. All lanes of a warp call pick_run(st, run, before,
// part, parts), which writes the indptr of a run, picks, and returns the picks of the run; before is those of the stage
// up to there. Each of the warps that share a run makes a part.
template <class F>
__device__ __forceinline__ void pick_runs(const Step& step, F pick_run) {
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
  if (!st->admitted || !st->runs) return;
  Chunks chunks = chunks_of(b, st->runs);
  int64_t parts = parts_of(b, chunks);
  for (int64_t u = warp_index(); u < chunks.count * parts; u += warp_count()) {
    int64_t before = b->partials[u / parts];
    for (int64_t run = chunk_begin(chunks, u / parts); run < chunk_end(chunks, u / parts); run++)
      before += pick_run(st, run, before, u % parts, parts);
  }
}

// Destinations of many edges are hubs, as long as there is room for their slices, of which warps take one at a time.
// Batch::eligible has -1 - the hub's number for them.
constexpr int64_t kMergedSlices = 64, kMostSlices = 8192, kMostHubs = kMostSlices / 2;

struct Hub {
  int64_t x;      // number of the destination
  u64 found;      // so far; above 2^40 the slices that were counted
  int64_t first;  // number of its first slice
  int64_t each;   // edges of a slice
};
constexpr int kCounted = 40;  // bits of Hub::found below the number of slices

// A stage's hubs, with what they share: Batch::hubs.
struct Hubs {
  u64 hubs, slices;  // how many were asked for
  u64 edges;         // of destinations that may be hubs
  Hub at[kMostHubs];
  int64_t hubOf[kMostSlices];            // the number of each slice's hub, or -1
  int64_t found[kMostSlices];            // edges of each slice
  u64 least[kMostSlices][2][kLanes];     // the keys and places of a Least of each; only where the picker needs them
};

__device__ __forceinline__ Hubs* hubs_of(const Batch* b) { return (Hubs*)b->hubs; }

// How many edges make a slice, and two of these a hub, by the number of edges that all destinations of a stage have.
// Where destinations are many, warps have enough to do; and there is room for all slices.
__device__ __forceinline__ int64_t least_slice(const Stage* st, int64_t edges) {
  int64_t least = st->runs < 1024 ? 128 : 1024, rounded = (edges * 3 / (2 * kMostSlices) + kLanes - 1) & -kLanes;
  return max(least, rounded);
}

// Whether a destination may be a hub. Of edges in order of time few are read.
__device__ __forceinline__ bool has_slices(const Segment* seg) { return !seg->ordered && !seg->ascending; }

// The edges from .. to of a destination, behind slices where `before` edges were found; `most` are to be found of them.
struct Slice {
  int64_t from, to, before;
  int64_t most = (int64_t)(~0ull >> 1);
};
__device__ __forceinline__ int64_t slices_of(int64_t degree, int64_t each) { return (degree + each - 1) / each; }

// Makes a destination a hub, of slices of `least` edges at least, if there is room. Returns its Batch::eligible.
__device__ __forceinline__ int64_t list_hub(const Batch* b, int64_t x, int64_t degree, int64_t least) {
  Hubs* all = hubs_of(b);
  int64_t each = max(((degree + b->maxSlices - 1) / b->maxSlices + kLanes - 1) & -kLanes, least);
  int64_t n = slices_of(degree, each), first = (int64_t)atomicAdd(&all->slices, (u64)n);
  bool room = first + n <= kMostSlices;
  int64_t number = room ? (int64_t)atomicAdd(&all->hubs, 1ull) : -1;
  for (int64_t s = first; s < min(first + n, kMostSlices); s++) all->hubOf[s] = number;
  if (!room) return 0;
  all->at[number] = {x, 0, first, each};
  return -1 - number;
}

// Where destination x of a stage is.
struct Place {
  Segment* seg;
  int64_t x, dst;
};
__device__ __forceinline__ Place place_of(const Stage* st, int64_t x) {
  Segment* seg = segment_of<&Segment::firstDst>(st, x & -kLanes);
  return {seg, x, seg->lo + x - seg->firstDst};
}
__device__ __forceinline__ Place shuffled(const Place& p, int i) {
  return {p.seg, __shfl_sync(kFull, p.x, i), __shfl_sync(kFull, p.dst, i)};
}
__device__ __forceinline__ bool is_there(const Place& p) { return p.dst < p.seg->hi && p.seg->fanout; }

// Calls slice(hub, its place, slice, the slice's number) for every slice of the hubs of a stage.
template <class F>
__device__ __forceinline__ void each_slice(const Step& step, F slice) {
  Batch* b = step.batch;
  Hubs* all = hubs_of(b);
  int64_t slices = (int64_t)min(all->slices, (u64)kMostSlices);
  for (int64_t s = warp_index(); s < slices; s += warp_count()) {
    if (all->hubOf[s] < 0) continue;
    Hub* hub = &all->at[all->hubOf[s]];
    int64_t from = (s - hub->first) * hub->each;
    slice(hub, place_of(&b->stages[step.stage], hub->x), Slice{from, min(from + hub->each, b->degree[hub->x]), 0}, s);
  }
}

struct AllFound {
  __device__ __forceinline__ int64_t operator()(const Segment*, int64_t found) const { return found; }
};

// Counts the picks of a stage a destination at a time, behind assembly_hubs. Each lane calls prepare(place) for its
// own; then all lanes of the warp call count_of(seg, prepared, slice), for one after another, which says how many of
// these edges it may take, and picks_of(seg, how many) says how many it does take. Batch::eligible keeps the former.
// Unless Shared, and then without these kernels, there are no hubs and no slices.
template <bool Shared = true, class P, class F, class N = AllFound>
__device__ __forceinline__ void count_each(const Step& step, P prepare, F count_of, N picks_of = {}) {
  Batch* b = step.batch;
  const Stage* st = &b->stages[step.stage];
  Chunks chunks = chunks_of(b, st->runs);
  int64_t parts = parts_of(b, chunks);
  for (int64_t u = warp_index(); u < chunks.count * parts; u += warp_count()) {
    int64_t sum = 0, c = u / parts;
    for (int64_t run = chunk_begin(chunks, c); run < chunk_end(chunks, c); run++) {
      Place p = place_of(st, run * kLanes + lane_id());
      bool some = in_part(u % parts, parts) && is_there(p) && !(Shared && b->eligible[p.x] < 0);
      int64_t degree = Shared && some ? b->degree[p.x] : 0, found = 0;
      auto mine = some ? prepare(p) : decltype(prepare(p)){};
      for (unsigned left = __ballot_sync(kFull, some && (degree || !Shared)); left; left &= left - 1) {
        int i = __ffs((int)left) - 1;
        int64_t n = count_of(p.seg, shuffled(mine, i), Slice{0, __shfl_sync(kFull, degree, i), 0});
        if (lane_id() == i) found = n;
      }
      if (some) b->eligible[p.x] = found;
      int64_t all = warp_sum(some ? picks_of(p.seg, found) : 0);
      if (lane_id() == 0 && all) atomicAdd(&p.seg->picks, (u64)all);
      sum += all;
    }
    if (lane_id() == 0 && sum) atomicAdd((u64*)&b->partials[c], (u64)sum);
  }
  if (!Shared) return;
  each_slice(step, [&](Hub* hub, const Place& p, const Slice& of, int64_t s) {
    int64_t n = count_of(p.seg, prepare(p), of);
    if (lane_id()) return;
    hubs_of(b)->found[s] = n;
    u64 more = (u64)n + (1ull << kCounted), now = atomicAdd(&hub->found, more) + more;
    if ((int64_t)(now >> kCounted) < slices_of(b->degree[p.x], hub->each)) return;
    int64_t all = picks_of(p.seg, (int64_t)(now & ((1ull << kCounted) - 1)));
    atomicAdd(&p.seg->picks, (u64)all);
    atomicAdd((u64*)&b->partials[p.x / kLanes / chunks.each], (u64)all);
  });
}

// What count_each has found for a destination that is there.
__device__ __forceinline__ int64_t found_of(const Batch* b, const Place& p) {
  int64_t found = b->eligible[p.x];
  return found < 0 ? (int64_t)(hubs_of(b)->at[-1 - found].found & ((1ull << kCounted) - 1)) : found;
}

// Writes the blocks' indptr and picks, where count_each has counted: all lanes of a warp call take(seg, prepared,
// slice, edge) for a destination, of which the first edge of the block is edge.
template <bool Shared = true, class P, class F, class N = AllFound>
__device__ __forceinline__ void pick_each(const Step& step, P prepare, F take, N picks_of = {}) {
  Batch* b = step.batch;
  pick_runs(step, [&](Stage* st, int64_t run, int64_t before, int64_t part, int64_t parts) {
    Place p = place_of(st, run * kLanes + lane_id());
    int64_t found = is_there(p) ? found_of(b, p) : 0, picks = is_there(p) ? picks_of(p.seg, found) : 0;
    int64_t sum = warp_inclusive(picks);
    int64_t edge = p.seg->have + before - p.seg->picksBefore + sum - picks;
    if (p.dst < p.seg->hi && part == 0) p.seg->indptr[p.dst + 1] = (int32_t)(edge + picks);
    bool some = in_part(part, parts) && picks && !(Shared && b->eligible[p.x] < 0);
    int64_t degree = Shared && some ? b->degree[p.x] : 0;
    auto mine = some ? prepare(p) : decltype(prepare(p)){};
    for (unsigned left = __ballot_sync(kFull, some); left; left &= left - 1) {
      int i = __ffs((int)left) - 1;
      Slice whole = {0, __shfl_sync(kFull, degree, i), 0, __shfl_sync(kFull, found, i)};
      take(p.seg, shuffled(mine, i), whole, __shfl_sync(kFull, edge, i));
    }
    return __shfl_sync(kFull, sum, kLanes - 1);
  });
  Stage* st = &b->stages[step.stage];
  if (!Shared || !st->admitted) return;
  Chunks chunks = chunks_of(b, st->runs);
  each_slice(step, [&](Hub* hub, const Place& p, Slice of, int64_t s) {
    int64_t chunk = p.x / kLanes / chunks.each, before = 0;
    for (int64_t x = chunk_begin(chunks, chunk) * kLanes + lane_id(); x < p.x; x += kLanes) {
      Place other = place_of(st, x);
      if (is_there(other)) before += picks_of(other.seg, found_of(b, other));
    }
    for (int64_t i = hub->first + lane_id(); i < s; i += kLanes) of.before += hubs_of(b)->found[i];
    of.before = warp_sum(of.before);
    of.most = hubs_of(b)->found[s];
    take(p.seg, prepare(p), of, p.seg->have + b->partials[chunk] - p.seg->picksBefore + warp_sum(before));
  });
}

// The k <= 32 least keys so far, and the places where they were found: one a lane, ascending.
struct Least {
  u64 key = ~0ull;
  int64_t place = 0;
  int have = 0;

  // Takes in keys of lanes, whose bits are in candidates. All lanes of the warp call it.
  template <class F>
  __device__ __forceinline__ void insert(unsigned candidates, u64 keys, int k, F place_of) {
    for (; candidates; candidates &= candidates - 1) {
      int from = __ffs((int)candidates) - 1;
      u64 next = __shfl_sync(kFull, keys, from);
      bool after = lane_id() >= have || key > next;  // what is equal came before
      unsigned moved = __ballot_sync(kFull, after);
      u64 left = __shfl_up_sync(kFull, key, 1);
      int64_t leftPlace = __shfl_up_sync(kFull, place, 1), at = place_of(from);
      if (after) {
        bool first = lane_id() == 0 || !(moved >> (lane_id() - 1) & 1);
        key = first ? next : left;
        place = first ? at : leftPlace;
      }
      have = min(have + 1, k);
    }
  }

  // Keeps it as that of a slice.
  __device__ __forceinline__ void keep(const Batch* b, int64_t slice) const {
    hubs_of(b)->least[slice][0][lane_id()] = lane_id() < have ? key : ~0ull;
    hubs_of(b)->least[slice][1][lane_id()] = lane_id() < have ? (u64)place : ~0ull;
  }

  // Takes in what was kept of the slices of the hub with Batch::eligible e, in their order or from behind. Where k of
  // the slices' least keys are up to a limit, slices whose least key is above it have none that counts.
  __device__ __forceinline__ void merge(const Batch* b, int64_t e, int k, bool behind) {
    const Hubs* all = hubs_of(b);
    Hub hub = all->at[-1 - e];
    int64_t n = slices_of(b->degree[hub.x], hub.each);
    u64 heads[kMergedSlices / kLanes], which = 0;
    Least few;
    for (int i = 0; i < kMergedSlices / kLanes; i++) {
      bool there = i * kLanes + lane_id() < n;
      heads[i] = there ? all->least[hub.first + i * kLanes + lane_id()][0][0] : 0;
      few.insert(__ballot_sync(kFull, there), heads[i], k, [](int) { return 0; });
    }
    u64 limit = few.have < k ? ~0ull : __shfl_sync(kFull, few.key, k - 1);
    for (int i = 0; i < kMergedSlices / kLanes; i++)
      which |= (u64)__ballot_sync(kFull, i * kLanes + lane_id() < n && heads[i] <= limit) << i * kLanes;
    while (which) {
      int i = behind ? 63 - __clzll((long long)which) : __ffsll((long long)which) - 1;
      which ^= 1ull << i;
      u64 keys = all->least[hub.first + i][0][lane_id()], places = all->least[hub.first + i][1][lane_id()];
      u64 greatest = __shfl_sync(kFull, key, k - 1);
      unsigned candidates = __ballot_sync(kFull, places != ~0ull && (have < k || keys < greatest));
      insert(candidates, keys, k, [&](int from) { return (int64_t)__shfl_sync(kFull, places, from); });
    }
  }

  // Returns how many of k places are before this lane's.
  __device__ __forceinline__ int rank(int k) const {
    int rank = 0;
    for (int i = 0; i < k; i++) rank += __shfl_sync(kFull, place, i) < place;
    return rank;
  }
};

// What destination `dst` of a list draws by: its id, beyond those of the trees before where trees are kept apart.
__device__ __forceinline__ int64_t index_of(const Batch* b, const List* list, int64_t dst) {
  int64_t id = load_id(list->ids, dst, b->wideIds);
  return list->trees ? list->trees[dst] * list->count + id : id;
}

// What the table has before the sources of destination `dst`: 0 unless trees are kept apart.
__device__ __forceinline__ int64_t root_of(const Batch* b, const List* list, int64_t dst) {
  return list->trees ? list->trees[dst] * b->numNodes : 0;
}

// The edges of the destination that a lane has. A warp goes through them 32 at a time.
struct Edges {
  const void* ids;
  int64_t start, degree, root;
};

__device__ __forceinline__ Edges edges_of(const Batch* b, const Place& p) {
  return {b->hotStart ? b->ids[p.x] : b->indices, b->start[p.x], b->degree[p.x],
          root_of(b, &b->lists[p.seg->target], p.dst)};
}

__device__ __forceinline__ Edges shuffled(const Edges& d, int i) {
  return {(const void*)__shfl_sync(kFull, (u64)d.ids, i), __shfl_sync(kFull, d.start, i),
          __shfl_sync(kFull, d.degree, i), __shfl_sync(kFull, d.root, i)};
}

// Calls found(position, its number among those that match, whether it does) of a slice of the edges, of which
// match(position) says whether they do, until as many as there are were found; returns how many do. A warp reads whole
// lines.
template <class M, class F>
__device__ __forceinline__ int64_t each_match(const Edges& d, const Slice& of, M match, F found) {
  int64_t n = 0, first = of.from - ((d.start + of.from) & (kLanes - 1));
  for (int64_t base = first; base < of.to && n < of.most; base += kLanes) {
    int64_t at = base + lane_id();
    bool has = at >= of.from && at < of.to && match(d.start + at);
    unsigned which = __ballot_sync(kFull, has);
    found(d.start + at, n + __popc(which & ((1u << lane_id()) - 1)), has);
    n += __popc(which);
  }
  return n;
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

// Makes the block's edge e one from a node, by its key in the table; kNoSlot where the table was full before.
__device__ __forceinline__ void take_key(const Sink& to, int64_t key, int64_t e) {
  int64_t slot = key == kNoSlot ? key : table_note(to.table, key, to.firstPick + e - to.have);
  if (slot == kNoSlot) atomicOr(&to.b->status->full, 1ull);
  to.indices[e] = (int32_t)slot;
}

// Makes the edge at a position of the graph the block's edge e. ids has its source. root_of_source(own id) is what the
// table has before the source's fused id, or kNoSlot.
template <class F>
__device__ __forceinline__ void take_with(const Sink& to, const void* ids, int64_t position, int64_t e,
                                          F root_of_source) {
  if (!to.indices) {
    ((int64_t*)to.positions)[e] = position;
    return;
  }
  int64_t id = load_id(ids, position, to.b->wideIds);
  if ((u64)(id - to.offset) >= (u64)to.count) {
    atomicMin(&to.b->status->badEdge, (u64)position);
    to.indices[e] = kNoSlot;
  } else {
    int64_t root = root_of_source(id - to.offset);
    take_key(to, root == kNoSlot ? root : root + id, e);
  }
  if (!to.positions) return;
  const void* moved = to.b->moved;
  store_id(to.positions, e, to.b->widePositions, moved ? load_id(moved, position, to.b->widePositions) : position);
}

// The same where the source is in the tree of its destination, whose root_of is root.
__device__ __forceinline__ void take(const Sink& to, const void* ids, int64_t root, int64_t position, int64_t e) {
  take_with(to, ids, position, e, [&](int64_t) { return root; });
}
