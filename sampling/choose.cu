// Neighbor on a device where the edges of a destination are not all alike: some may not be followed, they have weights,
// or times. The counterpart of choose.go and choose_how.go; docs/sampling.md says what is picked.
#include "cuda_env.h"
#include "choose.cuh"
#include "../internal/rng/subset.cuh"

// How many edges a destination takes of those that it may follow.
struct ChosenPicks {
  const ChooseStep& step;
  __device__ __forceinline__ int64_t operator()(const Segment* seg, int64_t eligible) const {
    return picks_of(step, seg, eligible);
  }
};

// Counts the picks of a stage.
extern "C" __global__ void choose_count(ChooseStep step) {
  count_each(
      step.at, [](const Place& p) { return p; },
      [&](const Segment* seg, const Place& p, const Slice& of) {
        return eligible_of(choice_of(step, seg, p.dst, p.x).cut(of));
      },
      ChosenPicks{step});
}

// Where the picks of a destination go: `count` edges of the block from `edge` on. Before those that are looked at come
// `before` that may be followed.
struct Picks {
  const Sink& to;
  int64_t edge, count, before;

  // Makes the edge at a position pick j.
  __device__ __forceinline__ void put(const Choice& c, int64_t j, int64_t position, int64_t root) const {
    int64_t at = c.column(position);
    take_with(to, c.ids, at, edge + j, [&](int64_t own) {
      if (!c.step.chain) return root;
      int64_t time = c.step.timeBytes ? c.time_of_edge(at) : c.seg->sourceTimes ? c.time_of_source(own) : c.asOf;
      int64_t before = root_of_time(c.b, time);
      return before == kNoSlot ? before : before + c.tree;
    });
  }
};

__device__ __forceinline__ int nth_bit(unsigned mask, int64_t n) {
  for (; n > 0; n--) mask &= mask - 1;
  return __ffs((int)mask) - 1;
}

// Takes all edges that may be followed.
__device__ __forceinline__ void take_all(const Choice& c, const Picks& p, int64_t root) {
  int64_t before = p.before;
  for (int64_t i = lane_id(); i - lane_id() < c.n; i += kLanes) {
    bool may = c.filtered() ? c.worth_of(i).may : i < c.n;
    unsigned which = __ballot_sync(kFull, may);
    if (may) p.put(c, before + __popc(which & ((1u << lane_id()) - 1)), c.first + i, root);
    before += __popc(which);
  }
}

// Takes, for each lane that wants it, the edge before which this number of others may be followed, as pick j.
__device__ __forceinline__ void take_nth(const Choice& c, const Picks& p, int64_t root, bool wants, int64_t nth,
                                         int64_t j) {
  if (!c.filtered()) {
    if (wants) p.put(c, j, c.first + nth, root);
    return;
  }
  int64_t before = p.before;
  for (int64_t base = 0; base < c.n && __any_sync(kFull, wants && nth >= before); base += kLanes) {
    unsigned which = __ballot_sync(kFull, c.worth_of(base + lane_id()).may);
    int64_t many = __popc(which);
    if (wants && nth >= before && nth < before + many) p.put(c, j, c.first + base + nth_bit(which, nth - before), root);
    before += many;
  }
}

// Takes a uniform subset of the edges that may be followed, fewer than there are.
__device__ __forceinline__ void take_subset(const Choice& c, const Picks& p, int64_t root, int64_t eligible) {
  int64_t k = p.count;
  if (k <= kLanes) {
    int rank;
    int64_t nth = eligible >> 32 ? small_subset<uint64_t>((int)k, kLanes, true, eligible, c.stream, rank)
                                 : small_subset<uint32_t>((int)k, kLanes, true, eligible, c.stream, rank);
    return take_nth(c, p, root, lane_id() < k, nth, rank);
  }
  int64_t* set = c.b->scratch + p.to.firstPick + p.edge - p.to.have;
  large_subset(set, (int)k, eligible, c.stream);
  if (!c.filtered()) {
    for (int64_t j = lane_id(); j < k; j += kLanes) p.put(c, j, c.first + set[j], root);
    return;
  }
  int64_t before = 0, at = 0;
  for (int64_t base = 0; base < c.n && at < k; base += kLanes) {
    unsigned which = __ballot_sync(kFull, c.worth_of(base + lane_id()).may);
    int64_t next = at + lane_id(), nth = next < k ? set[next] - before : kLanes;
    bool here = nth < __popc(which);
    if (here) p.put(c, next, c.first + base + nth_bit(which, nth), root);
    at += __popc(__ballot_sync(kFull, here));
    before += __popc(which);
  }
}

// Takes the last edges.
__device__ __forceinline__ void take_last(const Choice& c, const Picks& p, int64_t root) {
  for (int64_t j = lane_id(); j < p.count; j += kLanes) p.put(c, j, c.first + c.n - p.count + j, root);
}

// Takes edges that may be followed, each independently.
__device__ __forceinline__ void take_again(const Choice& c, const Picks& p, int64_t root, int64_t eligible) {
  for (int64_t base = 0; base < p.count; base += kLanes) {
    int64_t j = base + lane_id();
    take_nth(c, p, root, j < p.count, (int64_t)bounded(draw(c.stream, j), eligible), j);
  }
}

__device__ __forceinline__ u64 warp_sum(u64 n) { return __shfl_sync(kFull, warp_inclusive(n), kLanes - 1); }

// The same with probabilities in proportion to weights.
__device__ __forceinline__ void take_weighted_again(const Choice& c, const Picks& p, int64_t root) {
  u64 most = 0, sum = 0;  // the bits of the greatest weight; those of numbers above 0 order as these do
  for (int64_t i = lane_id(); i < c.n; i += kLanes) most = max(most, (u64)__double_as_longlong(c.worth_of(i).weight));
  for (int d = 1; d < kLanes; d *= 2) most = max(most, (u64)__shfl_xor_sync(kFull, most, d));
  int scale = 61 - (64 - __clzll((long long)c.all)) - exponent_of(__longlong_as_double((long long)most));
  for (int64_t i = lane_id(); i < c.n; i += kLanes) sum += fixed_weight(c.worth_of(i).weight, scale);
  sum = warp_sum(sum);
  for (int64_t first = 0; first < p.count; first += kLanes) {
    int64_t j = first + lane_id();
    u64 want = j < p.count ? bounded(draw(c.stream, j), sum) : ~0ull, before = 0;
    for (int64_t base = 0; base < c.n && __any_sync(kFull, j < p.count && want >= before); base += kLanes) {
      u64 up = before + warp_inclusive(fixed_weight(c.worth_of(base + lane_id()).weight, scale));
      u64 end = __shfl_sync(kFull, up, kLanes - 1);
      bool here = want >= before && want < end;
      if (__any_sync(kFull, here)) {
        int at = 0;  // how many edges end at or before what is wanted
        for (int i = 0; i < kLanes; i++) at += __shfl_sync(kFull, up, i) <= want;
        if (here) p.put(c, j, c.first + base + at, root);
      }
      before = end;
    }
  }
}

// The edges in the order in which they are looked at for the least keys: of equal ones the first counts as less. Edges
// by recency come from behind.
struct Walk {
  const Choice& c;

  __device__ __forceinline__ int64_t position(int64_t i) const { return c.first + (c.step.recent ? c.n - 1 - i : i); }

  // The key of edge i, if it may be followed and has one that may be below the limit.
  __device__ __forceinline__ bool key(int64_t i, u64 limit, bool bound, u64& key) const {
    if (i >= c.n) return false;
    Worth w = c.filtered() ? c.worth(position(i)) : Worth{true, 1};
    if (!w.may) return false;
    key = key_of(c, position(i), w.weight);
    return !bound || key < limit;
  }
};

// The k <= 32 edges of the least keys: the lanes keep the k least so far, ascending.
__device__ __forceinline__ Least least_of(const Choice& c, int k) {
  Walk walk = {c};
  Least least;
  for (int64_t base = 0; base < c.n; base += kLanes) {
    u64 key = 0, greatest = __shfl_sync(kFull, least.key, k - 1);
    unsigned candidates = __ballot_sync(kFull, walk.key(base + lane_id(), greatest, least.have == k, key));
    least.insert(candidates, key, k, [&](int from) { return walk.position(base + from); });
  }
  return least;
}

// Takes these, of a hub from what was kept of its slices.
__device__ __forceinline__ void take_few(const Choice& c, const Picks& p, int64_t root, int64_t e) {
  Least least;
  int k = (int)p.count;
  if (e < 0) least.merge(c.b, e, k, c.step.recent);
  else least = least_of(c, k);
  int rank = least.rank(k);
  if (lane_id() < k) p.put(c, rank, least.place, root);
}

// Merges the keys of the lanes that want it, equal ones after those of the set, into a set of `size` keys that has room
// for k. Returns how many it then has.
__device__ __forceinline__ int64_t merge(u64* set, int64_t size, int64_t k, bool wants, u64 key) {
  int64_t at = size;  // how many of the set are not greater
  for (int64_t lo = 0; wants && lo < at;) {
    int64_t mid = (lo + at) / 2;
    if (set[mid] <= key) lo = mid + 1;
    else at = mid;
  }
  int rank = 0;
  unsigned which = __ballot_sync(kFull, wants);
  for (unsigned left = which; left; left &= left - 1) {
    int i = __ffs((int)left) - 1;
    u64 other = __shfl_sync(kFull, key, i);
    rank += other < key || (other == key && i < lane_id());
  }
  for (int64_t end = size; end > 0; end -= kLanes) {
    int64_t i = end - 1 - lane_id();
    u64 member = i >= 0 ? set[i] : 0;
    int less = 0;  // how many of the lanes' keys go before it
    for (unsigned left = which; left; left &= left - 1) less += __shfl_sync(kFull, key, __ffs((int)left) - 1) < member;
    __syncwarp();
    if (i >= 0 && i + less < k) set[i + less] = member;
    __syncwarp();
    if (__all_sync(kFull, less == 0)) break;  // nor before those before
  }
  if (wants && at + rank < k) set[at + rank] = key;
  __syncwarp();
  return min(size + __popc(which), k);
}

// The same for k > 32: finds the greatest key that counts, then takes what is up to it.
__device__ __forceinline__ void take_many(const Choice& c, const Picks& p, int64_t root) {
  Walk walk = {c};
  u64* set = (u64*)(c.b->scratch + p.to.firstPick + p.edge - p.to.have);
  int64_t size = 0, k = p.count;
  for (int64_t base = 0; base < c.n; base += kLanes) {
    u64 key = 0;
    bool may = walk.key(base + lane_id(), size == k ? set[k - 1] : 0, size == k, key);
    if (__any_sync(kFull, may)) size = merge(set, size, k, may, key);
  }
  u64 limit = set[k - 1];
  int64_t ties = 0, done = 0;  // of those equal to the limit, the first so many
  for (int64_t i = lane_id(); i - lane_id() < k; i += kLanes)
    ties += __popc(__ballot_sync(kFull, i < k && set[i] == limit));
  for (int64_t base = 0; base < c.n && done < k; base += kLanes) {
    u64 key = 0;
    int64_t i = base + lane_id();
    bool may = walk.key(i, 0, false, key);
    unsigned below = (1u << lane_id()) - 1, equal = __ballot_sync(kFull, may && key == limit);
    bool taken = may && (key < limit || (key == limit && __popc(equal & below) < ties));
    unsigned which = __ballot_sync(kFull, taken);
    int64_t j = done + __popc(which & below);
    if (taken) p.put(c, c.step.recent ? k - 1 - j : j, walk.position(i), root);
    done += __popc(which);
    ties -= min((int64_t)__popc(equal), ties);
  }
}

// How the picks of a destination are made.
enum How { kAgainWeighted, kAgain, kTakeAll, kSubset, kLast, kFew, kMany };
__device__ __forceinline__ How how_of(const Choice& c, int64_t count, int64_t eligible) {
  bool weighted = c.step.weightBytes;
  if (c.step.replace && c.seg->fanout > 0) return weighted ? kAgainWeighted : kAgain;
  if (count == eligible) return kTakeAll;
  if (!weighted && !c.step.recent && c.step.decay == 0) return kSubset;
  if (c.step.recent && c.ascend()) return kLast;
  return count <= kLanes ? kFew : kMany;
}

// Keeps the edges of the least keys of each slice of hubs.
extern "C" __global__ void choose_least(ChooseStep step) {
  const Batch* b = step.at.batch;
  each_slice(step.at, [&](const Hub*, const Place& p, const Slice& of, int64_t s) {
    int64_t eligible = found_of(b, p), k = picks_of(step, p.seg, eligible);
    Choice c = choice_of(step, p.seg, p.dst, p.x);
    if (k && how_of(c, k, eligible) == kFew)
      least_of(c.cut(of), (int)k).keep(b, s);
  });
}

// Makes the picks that a slice of a destination has, of which this number of edges may be followed. Where slices cannot
// be told apart the first is all.
__device__ __forceinline__ void choose(const Choice& all, Picks p, int64_t eligible, const Slice& of, int64_t e) {
  How how = how_of(all, p.count, eligible);
  bool some = how == kAgain || (how == kSubset && p.count <= kLanes);
  bool apart = how == kTakeAll || (some && all.filtered());
  if (!apart && of.from) return;
  Choice c = apart ? all.cut(of) : all;
  int64_t root = c.tree;
  if (c.step.timed && !c.step.chain) root += root_of_time(c.b, c.asOf);  // it is there
  switch (how) {
    case kAgainWeighted: return take_weighted_again(c, p, root);
    case kAgain: return take_again(c, p, root, eligible);
    case kTakeAll: return take_all(c, p, root);
    case kSubset: return take_subset(c, p, root, eligible);
    case kLast: return take_last(c, p, root);
    case kFew: return take_few(c, p, root, e);
    default: return take_many(c, p, root);
  }
}

// Writes the blocks' indptr, and picks for all destinations of a stage.
extern "C" __global__ void choose_pick(ChooseStep step) {
  Batch* b = step.at.batch;
  pick_each(
      step.at, [](const Place& p) { return p; },
      [&](const Segment* seg, const Place& p, const Slice& of, int64_t edge) {
        int64_t eligible = found_of(b, p);
        Sink to = sink_of(b, seg);
        choose(choice_of(step, seg, p.dst, p.x), {to, edge, picks_of(step, seg, eligible), of.before}, eligible, of,
               b->eligible[p.x]);
      },
      ChosenPicks{step});
}
