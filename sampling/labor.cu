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

// How many edges of a slice have a variate that wanted says so of.
template <class F>
__device__ __forceinline__ int64_t count_where(const Column& c, const Slice& of, F wanted) {
  int64_t n = 0;
  for (int64_t j = of.from + lane_id(); j < of.to; j += kLanes) n += wanted(c.variate(j));
  return warp_sum(n);
}

// How many edges a destination takes of those that it may take.
struct LaborPicks {
  bool poisson;
  __device__ __forceinline__ int64_t operator()(const Segment* seg, int64_t found) const {
    return poisson || seg->fanout == kAll ? found : min(found, seg->fanout);
  }
};

// Whether a destination with this number of edges takes all of them.
__device__ __forceinline__ bool takes_all(const Segment* seg, int64_t degree) {
  return seg->fanout == kAll || degree <= seg->fanout;
}

// Counts the picks of a stage.
extern "C" __global__ void labor_count(LaborStep step) {
  const Batch* b = step.at.batch;
  count_each(
      step.at, [](const Place& p) { return p; },
      [&](const Segment* seg, const Place& p, const Slice& of) {
        int64_t degree = b->degree[p.x];
        if (!step.poisson || takes_all(seg, degree)) return of.to - of.from;
        return count_where(column_of(b, seg, p.x), of, [&](u64 u) { return bounded(u, degree) < (u64)seg->fanout; });
      },
      LaborPicks{step.poisson != 0});
}

// Takes the edges of a slice whose variates are up to limit, of those equal to it the first `ties`, in their order.
__device__ __forceinline__ void take_up_to(const Sink& to, const Column& c, const Slice& of, int64_t edge, u64 limit,
                                           int64_t ties) {
  for (int64_t base = of.from; base < of.to; base += kLanes) {
    int64_t j = base + lane_id();
    u64 u = j < of.to ? c.variate(j) : 0;
    unsigned below = (1u << lane_id()) - 1, less = __ballot_sync(kFull, j < of.to && u < limit);
    unsigned equal = __ballot_sync(kFull, j < of.to && u == limit);
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
    int64_t n = count_where(c, {0, c.degree, 0}, [&](u64 u) { return u <= middle; });
    if (n >= k) high = middle, upTo = n;
    else low = middle + 1, below = n;
  }
  take_up_to(to, c, {0, c.degree, 0}, edge, high, upTo == k ? c.degree : k - below);
}

// The k <= 32 edges of a slice with the least (variate, position), in one pass: the lanes keep the least so far.
__device__ __forceinline__ Least least_of(const Column& c, const Slice& of, int k) {
  Least least;
  for (int64_t base = of.from; base < of.to; base += kLanes) {
    int64_t j = base + lane_id();
    u64 u = j < of.to ? c.variate(j) : 0, greatest = __shfl_sync(kFull, least.key, k - 1);
    unsigned candidates = __ballot_sync(kFull, j < of.to && (least.have < k || u < greatest));
    least.insert(candidates, u, k, [&](int from) { return base + from; });
  }
  return least;
}

// Keeps those of each slice of hubs.
extern "C" __global__ void labor_least(LaborStep step) {
  const Batch* b = step.at.batch;
  each_slice(step.at, [&](const Hub*, const Place& p, const Slice& of, int64_t s) {
    if (step.poisson || p.seg->fanout > kLanes || takes_all(p.seg, b->degree[p.x])) return;
    least_of(column_of(b, p.seg, p.x), of, (int)p.seg->fanout).keep(b, s);
  });
}

// Writes the blocks' indptr, and picks; neighbor_expand does where the fan-out is kAll.
extern "C" __global__ void labor_pick(LaborStep step) {
  Batch* b = step.at.batch;
  pick_each(
      step.at, [](const Place& p) { return p; },
      [&](const Segment* seg, const Place& p, const Slice& of, int64_t edge) {
        if (seg->fanout == kAll) return;
        Sink to = sink_of(b, seg);
        Column c = column_of(b, seg, p.x);
        int k = (int)min(seg->fanout, (int64_t)kLanes);
        if (takes_all(seg, c.degree)) {
          for (int64_t j = of.from + lane_id(); j < of.to; j += kLanes) take(to, c.ids, 0, c.position(j), edge + j);
        } else if (step.poisson) {
          take_up_to(to, c, of, edge + of.before, share_of(seg->fanout, c.degree), c.degree);
        } else if (of.from == 0 && seg->fanout > kLanes) {
          take_least(to, c, seg->fanout, edge);
        } else if (of.from == 0) {
          Least least;
          if (b->eligible[p.x] < 0) least.merge(b, b->eligible[p.x], k, false);
          else least = least_of(c, of, k);
          int rank = least.rank(k);
          if (lane_id() < k) take(to, c.ids, 0, c.position(least.place), edge + rank);
        }
      },
      LaborPicks{step.poisson != 0});
}
