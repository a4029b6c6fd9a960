// Labor on a device: how many edges each destination takes, and which. The counterpart of labor_pick.go;
// docs/sampling.md says what is picked. A warp looks at a destination; neighbor_expand takes all edges where the
// fan-out says so.
#include "cuda_env.h"
#include "pick.cuh"

struct LaborStep {
  Step at;
  int64_t poisson;
};

// The edges of one destination, of which it takes `fanout`, fewer than there are.
struct Column {
  const Segment* seg;
  const void* ids;
  int64_t start, degree, wide;
  Excluded excluded;

  // Where in the columns of the graph edge j is.
  __device__ __forceinline__ int64_t position(int64_t j) const { return excluded.column(start + j); }

  // The variate of edge j's source.
  __device__ __forceinline__ u64 variate(int64_t j) const {
    u64 id = (u64)load_id(ids, position(j), wide), key = seg->key;
    if (seg->turn && draw(stream_of(seg->phases, id), 0) >= seg->turn) key = seg->next;
    return draw(stream_of(key, id), 0);
  }
};

__device__ __forceinline__ Column column_of(const Batch* b, const Segment* seg, int64_t x) {
  return {seg, b->hotStart ? b->ids[x] : b->indices, b->start[x], b->degree[x], b->wideIds,
          excluded_of(b, b->start[x], b->degree[x])};
}

// The greatest variate that is below k/n, for 0 < k < n.
__device__ __forceinline__ u64 share_of(int64_t k, int64_t n) {
  u64 q = 0, rest = (u64)k - 1;  // of (k * 2^64 - 1) / n, a bit at a time
  for (int i = 0; i < 64; i++) {
    rest = rest * 2 + 1;
    q = q * 2 + (rest >= (u64)n);
    if (rest >= (u64)n) rest -= (u64)n;
  }
  return q;
}

// How many edges of a column have a variate that wanted says so of.
template <class F>
__device__ __forceinline__ int64_t count_where(const Column& c, F wanted) {
  int64_t n = 0;
  for (int64_t j = lane_id(); j < c.degree; j += kLanes) n += wanted(c.variate(j));
  return warp_sum(n);
}

// How many edges each lane's destination x takes. Lanes without one have degree -1.
__device__ __forceinline__ int64_t labor_picks(const Batch* b, const Segment* seg, bool poisson, int64_t degree,
                                               int64_t x) {
  int64_t fanout = seg->fanout, picks = max(degree, (int64_t)0);
  if (fanout == kAll) return picks;
  if (!poisson) return min(picks, fanout);
  unsigned some = __ballot_sync(kFull, degree > fanout && fanout > 0);
  if (fanout == 0) picks = 0;
  for (int64_t first = x - lane_id(); some; some &= some - 1) {
    int i = __ffs((int)some) - 1;
    Column c = column_of(b, seg, first + i);
    int64_t n = count_where(c, [&](u64 u) { return bounded(u, c.degree) < (u64)fanout; });
    if (lane_id() == i) picks = n;
  }
  return picks;
}

// Counts the picks of a stage.
extern "C" __global__ void labor_count(LaborStep step) {
  count_runs(step.at, [&](const Segment* seg, int64_t degree, int64_t x) {
    __syncwarp();  // start and degree, which other lanes read
    return labor_picks(step.at.batch, seg, step.poisson, degree, x);
  });
}

// Takes the edges whose variates are up to limit, of those equal to it the first `ties`, in their order.
__device__ __forceinline__ void take_up_to(const Sink& to, const Column& c, int64_t edge, u64 limit, int64_t ties) {
  for (int64_t base = 0; base < c.degree; base += kLanes) {
    int64_t j = base + lane_id();
    u64 u = j < c.degree ? c.variate(j) : 0;
    unsigned below = (1u << lane_id()) - 1, less = __ballot_sync(kFull, j < c.degree && u < limit);
    unsigned equal = __ballot_sync(kFull, j < c.degree && u == limit);
    bool tied = equal >> lane_id() & 1 && __popc(equal & below) < ties;
    unsigned taken = less | __ballot_sync(kFull, tied);
    if (taken >> lane_id() & 1) take(to, c.ids, 0, c.position(j), edge + __popc(taken & below));
    edge += __popc(taken);
    ties -= min((int64_t)__popc(equal), ties);
  }
}

// Takes the k edges with the least (variate, position), for any k below the degree: searches for a number that k are up
// to. The variates are spread evenly, so that interpolation finds one soon; from some step on the range is halved.
__device__ __forceinline__ void take_least(const Sink& to, const Column& c, int64_t k, int64_t edge) {
  constexpr int kEvenly = 8;
  u64 low = 0, high = ~0ull;
  int64_t below = 0, upTo = c.degree;
  for (int step = 0; upTo != k && low < high; step++) {
    u64 middle = low + (high - low) / 2;
    if (step < kEvenly) {
      double fraction = (double)(2 * (k - below) + 1) / (double)(2 * (upTo - below) + 2);
      middle = low + min((u64)((double)(high - low) * fraction), high - low - 1);
    }
    int64_t n = count_where(c, [&](u64 u) { return u <= middle; });
    if (n >= k) high = middle, upTo = n;
    else low = middle + 1, below = n;
  }
  take_up_to(to, c, edge, high, upTo == k ? c.degree : k - below);
}

// The same for k up to 32, in one pass: the lanes keep the k least so far, ascending.
__device__ __forceinline__ void take_few(const Sink& to, const Column& c, int k, int64_t edge) {
  Least least;
  for (int64_t base = 0; base < c.degree; base += kLanes) {
    int64_t j = base + lane_id();
    u64 u = j < c.degree ? c.variate(j) : 0, greatest = __shfl_sync(kFull, least.key, k - 1);
    unsigned candidates = __ballot_sync(kFull, j < c.degree && (least.have < k || u < greatest));
    least.insert(candidates, u, k, [&](int from) { return base + from; });
  }
  int rank = least.rank(k);
  if (lane_id() < k) take(to, c.ids, 0, c.position(least.place), edge + rank);
}

// Writes the block's indptr for a run, and picks; returns the picks of the run. before is those of the stage up to
// here. Several warps may share a run.
__device__ __forceinline__ int64_t labor_run(const LaborStep& step, Stage* st, int64_t run, int64_t before,
                                             int64_t part, int64_t parts) {
  Batch* b = step.at.batch;
  Segment* seg = segment_of<&Segment::firstDst>(st, run * kLanes);
  int64_t x = run * kLanes + lane_id(), dst = seg->lo + x - seg->firstDst;
  int64_t degree = dst < seg->hi && seg->fanout ? b->degree[x] : -1;
  int64_t picks = labor_picks(b, seg, step.poisson, degree, x);
  int64_t sum = warp_inclusive(picks), all = __shfl_sync(kFull, sum, kLanes - 1);
  int64_t edge = seg->have + before - seg->picksBefore + sum - picks;  // of the block, the first
  if (dst < seg->hi && part == 0) seg->indptr[dst + 1] = (int32_t)(edge + picks);
  if (seg->fanout <= 0 || !all) return all;
  Sink to = sink_of(b, seg);
  for (int i = part * kLanes / parts; i < (part + 1) * kLanes / parts; i++) {
    int64_t first = __shfl_sync(kFull, edge, i), of = __shfl_sync(kFull, degree, i);
    if (of <= 0) continue;
    Column c = column_of(b, seg, run * kLanes + i);
    if (of <= seg->fanout) {
      for (int64_t j = lane_id(); j < of; j += kLanes) take(to, c.ids, 0, c.position(j), first + j);
    } else if (step.poisson) {
      take_up_to(to, c, first, share_of(seg->fanout, of), of);
    } else if (seg->fanout <= kLanes) {
      take_few(to, c, (int)seg->fanout, first);
    } else {
      take_least(to, c, seg->fanout, first);
    }
  }
  return all;
}

// Picks for all destinations of a stage whose fan-out is not kAll, and writes the indptr of all. Where there are fewer
// runs than warps, a run is shared by several.
extern "C" __global__ void labor_pick(LaborStep step) {
  pick_runs(step.at, step.poisson, [&](Stage* st, int64_t run, int64_t before, int64_t part, int64_t parts) {
    return labor_run(step, st, run, before, part, parts);
  });
}
