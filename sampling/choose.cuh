// Which edges of a destination may be followed, and what they count: the counterpart of eligible.go and temporal.go. A
// warp looks at one destination at a time.
#pragma once
#include "pick.cuh"
#include "../internal/rng/log.cuh"

struct ChooseStep {
  Step at;
  const void* weights;
  int64_t weightBytes;  // 4 or 8; 0 without weights
  const void* mask;
  int64_t maskBytes;  // 1, 4 or 8; 0 without
  const void* times;  // of the edges
  int64_t timeBytes;  // 4 or 8; 0 without
  int64_t timed;      // whether times matter, of edges or of nodes
  int64_t chain, recent, replace;
  uint64_t share;  // as a multiple of 2^-32; 0 without
  double decay;    // of the logarithm of a weight with age, where recency counts; else 0
};

constexpr int64_t kFewEdges = 4 * kLanes;  // to look at each takes no longer than to bisect them
constexpr int64_t kFirstTime = (int64_t)(1ull << 63), kLastTime = (int64_t)(~0ull >> 1);

__device__ __forceinline__ int64_t load_time(const void* times, int64_t bytes, int64_t i) {
  return load_id(times, i, bytes == 8);
}

// Whether an edge may be followed, and its weight: 1 without weights, 0 where it may not.
struct Worth {
  bool may;
  double weight;
};

// A destination and its edges. Positions do not count edges that the batch leaves out; column says where in the columns
// an edge is.
struct Choice {
  const ChooseStep& step;
  Batch* b;
  const Segment* seg;
  const void* ids;
  int64_t base, all;  // its edges of the type: the first position, and how many
  int64_t first, n;   // of these, the ones that are looked at
  int64_t asOf;       // the time as of which it is looked at
  int64_t least, top; // the times that may be followed
  bool byTime;        // whether the edges need be asked for their times
  bool bySource;      // whether their sources need
  uint64_t stream;
  int64_t tree;       // what the table has before its sources, without their time
  Excluded excluded;

  __device__ __forceinline__ int64_t column(int64_t position) const { return excluded.column(position); }
  __device__ __forceinline__ bool filtered() const { return step.weightBytes || step.maskBytes || byTime || bySource; }

  // The same with those edges alone that are of a slice.
  __device__ __forceinline__ Choice cut(const Slice& of) const {
    Choice c = *this;
    int64_t from = min(of.from, n);
    c.first += from;
    c.n = min(of.to, n) - from;
    return c;
  }

  // What follows, up to worth_at, is for places in the columns.
  __device__ __forceinline__ int64_t time_of_edge(int64_t at) const {
    return load_time(step.times, step.timeBytes, at);
  }
  __device__ __forceinline__ int64_t time_of_source(int64_t own) const {
    return load_time(seg->sourceTimes, seg->sourceTimeBytes, own);
  }
  __device__ __forceinline__ bool past(int64_t time) const { return least <= time && time <= top; }

  // The source of an edge by its own id, or -1 where it is not a node of its type.
  __device__ __forceinline__ int64_t own_id(int64_t at) const {
    const List* list = &b->lists[seg->source];
    int64_t own = load_id(ids, at, b->wideIds) - list->offset;
    return (u64)own < (u64)list->count ? own : -1;
  }

  // The same, where -1 is noted.
  __device__ __forceinline__ int64_t source(int64_t at) const {
    int64_t own = own_id(at);
    if (own < 0) atomicMin(&b->status->badEdge, (u64)at);
    return own;
  }

  __device__ __forceinline__ bool masked_out(int64_t at) const {
    switch (step.maskBytes) {
      case 1: return ((const uint8_t*)step.mask)[at] == 0;
      case 4: return ((const int32_t*)step.mask)[at] == 0;
      case 8: return ((const int64_t*)step.mask)[at] == 0;
    }
    return false;
  }

  // What an edge is worth. An invalid weight is noted.
  __device__ __forceinline__ Worth worth_at(int64_t at) const {
    double w = 1;
    if (step.weightBytes == 4) w = (double)((const float*)step.weights)[at];
    if (step.weightBytes == 8) w = ((const double*)step.weights)[at];
    if (!(w >= 0 && w <= 1.7976931348623157e308)) {
      atomicMin(&b->status->badEdge, (u64)at);
      return {false, 0};
    }
    bool may = w > 0 && !masked_out(at) && (!byTime || past(time_of_edge(at)));
    if (may && bySource) {
      int64_t own = source(at);
      may = own >= 0 && past(time_of_source(own));
    }
    return {may, may ? w : 0};
  }

  __device__ __forceinline__ Worth worth(int64_t position) const { return worth_at(column(position)); }

  // The same of edge i of those that are looked at, for any i.
  __device__ __forceinline__ Worth worth_of(int64_t i) const { return i < n ? worth(first + i) : Worth{false, 0}; }

  // The time of the step over an edge that may be followed.
  __device__ __forceinline__ int64_t time_of_step(int64_t position) const {
    int64_t at = column(position);
    if (step.timeBytes) return time_of_edge(at);
    if (!seg->sourceTimes) return asOf;
    int64_t own = source(at);
    return own < 0 ? asOf : time_of_source(own);
  }

  // The first of the positions lo .. hi whose time is not before(time); times ascend there. It bisects until each lane
  // can look at one. Where time_at(position, time) says that there is no time, it returns -1.
  template <class T, class F>
  __device__ __forceinline__ int64_t first_time(int64_t lo, int64_t hi, T time_at, F before) const {
    int64_t time = 0;
    while (hi - lo > kLanes) {
      int64_t mid = (lo + hi) / 2;
      if (!time_at(mid, time)) return -1;
      if (before(time)) lo = mid + 1;
      else hi = mid;
    }
    bool mine = lo + lane_id() < hi, there = !mine || time_at(lo + lane_id(), time);
    if (!__all_sync(kFull, there)) return -1;
    return lo + __popc(__ballot_sync(kFull, mine && before(time)));
  }

  // Leaves the edges whose time may be followed, where they are in order of it: the destination then does without the
  // others. Returns whether all times that it asked for were there; else it leaves all.
  template <class T>
  __device__ __forceinline__ bool narrow(T time_at) {
    int64_t from = first;
    if (least > kFirstTime)
      from = first_time(first, first + n, time_at, [&](int64_t time) { return time < least; });
    if (from < 0) return false;
    int64_t to = first_time(from, first + n, time_at, [&](int64_t time) { return time <= top; });
    if (to < 0) return false;
    first = from;
    n = to - from;
    return true;
  }

  __device__ __forceinline__ bool narrow_by_time() {
    return narrow([&](int64_t position, int64_t& time) {
      time = time_of_edge(column(position));
      return true;
    });
  }

  // A source that is not a node of its type is noted by the code that reads each edge.
  __device__ __forceinline__ bool narrow_by_source() {
    return narrow([&](int64_t position, int64_t& time) {
      int64_t own = own_id(column(position));
      if (own >= 0) time = time_of_source(own);
      return own >= 0;
    });
  }

  // Says which times may be followed, none before the first.
  __device__ __forceinline__ void look_at_times(int64_t from) {
    if (seg->timeRule == kAnyTime) return;
    top = asOf;
    if (seg->window > 0 && asOf >= kFirstTime + seg->window) least = asOf - seg->window;
    least = max(least, from);
    bool none = seg->timeRule == kBefore && top == kFirstTime;
    if (seg->timeRule == kBefore && !none) top--;
    byTime = step.timeBytes;
    bySource = seg->sourceTimes;
    if (!byTime && !bySource) return;
    if (none || least > top) n = 0;
    if (n <= kFewEdges) return;
    if (byTime && seg->ordered) byTime = !narrow_by_time();
    if (bySource && seg->ascending) bySource = !narrow_by_source();
  }

  // Whether the edges that are looked at may all be followed, and the times of the steps over them ascend: then the
  // most recent are the last.
  __device__ __forceinline__ bool ascend() const {
    if (filtered()) return false;
    return step.timeBytes ? seg->ordered : !seg->sourceTimes || seg->ascending;
  }
};

// Turns to destination dst of a segment, which has number x.
__device__ __forceinline__ Choice choice_of(const ChooseStep& step, const Segment* seg, int64_t dst, int64_t x) {
  Batch* b = step.at.batch;
  const List* list = &b->lists[seg->target];
  Choice c = {step, b, seg, b->hotStart ? b->ids[x] : b->indices, b->start[x], b->degree[x], b->start[x], b->degree[x],
              0, kFirstTime, kLastTime, false, false, stream_of(seg->key, index_of(b, list, dst)),
              root_of(b, list, dst), excluded_of(b, b->start[x], b->degree[x])};
  if (!step.timed) return c;
  c.asOf = list->times[dst];
  c.stream = stream_of(c.stream, (uint64_t)c.asOf);
  c.look_at_times(b->from ? b->from[list->trees[dst]] : kFirstTime);
  return c;
}

// How many of the edges may be followed.
__device__ __forceinline__ int64_t eligible_of(const Choice& c) {
  if (!c.filtered()) return c.n;
  int64_t sum = 0;
  for (int64_t i = lane_id(); i - lane_id() < c.n; i += kLanes) sum += __popc(__ballot_sync(kFull, c.worth_of(i).may));
  return sum;
}

// How many picks a destination takes that may follow this number of edges.
__device__ __forceinline__ int64_t picks_of(const ChooseStep& step, const Segment* seg, int64_t eligible) {
  int64_t k = seg->fanout;
  if (eligible == 0 || k == 0) return 0;
  if (step.share) {
    u64 lo = (u64)eligible * step.share, up = lo + 0xffffffffull;
    u64 hi = __umul64hi((u64)eligible, step.share) + (up < lo);
    int64_t some = (int64_t)(hi << 32 | up >> 32);
    k = k == kAll ? some : min(k, some);
  } else if (k == kAll) {
    return eligible;
  }
  return step.replace && seg->fanout > 0 ? k : min(k, eligible);
}

// A number that orders as x does, of which there is one zero.
__device__ __forceinline__ u64 order_of(double x) {
  u64 b = (u64)__double_as_longlong(__dadd_rn(x, 0.0));
  return b >> 63 ? ~b : b | 1ull << 63;
}

// How much time lies between two times, negative where the second is the later.
__device__ __forceinline__ double age_of(int64_t asOf, int64_t time) {
  return time > asOf ? -(double)((u64)time - (u64)asOf) : (double)((u64)asOf - (u64)time);
}

// The key of an edge that may be followed, of which those of the least keys are picked.
__device__ __forceinline__ u64 key_of(const Choice& c, int64_t position, double weight) {
  if (c.step.recent) return ~(u64)c.time_of_step(position) ^ 1ull << 63;
  double key = -log_rn(unit_above_zero(draw(c.stream, (uint64_t)(position - c.base))));
  if (c.step.decay == 0) return order_of(__ddiv_rn(key, weight));
  if (!(key > 0)) return order_of(__longlong_as_double((long long)0xFFF0000000000000ull));
  double late = __dmul_rn(age_of(c.asOf, c.time_of_step(position)), c.step.decay);
  return order_of(__dadd_rn(__dadd_rn(log_rn(key), -log_of_weight(weight)), late));
}
