// Negatives of edges: the counterpart of negative.go and negative_nodes.go; docs/sampling.md, "Negatives", says what is
// drawn. A thread draws one negative, as often as it takes.
#include "cuda_env.h"
#include "pick.cuh"

enum Law : int64_t { kUniform, kByDegree, kByWeight, kInBatch, kHistorical };  // Law of negative.go
enum End : int64_t { kTargetEnd, kSourceEnd, kEitherEnd, kBothEnds };         // End

// The nodes that a negative may have at one end of the edges of a type: negativeNodes of negative_nodes.go.
struct NegativeNodes {
  int64_t nodes;
  const int64_t* order;   // by kind, time and id; none: by id
  const int64_t* sorted;  // their times, in that order; none where nodes are always there
  const u64* sums;        // of weights up to and with each, in that order; none: all alike
};

// An edge as the node at one end has it: pastEdge of negative_past.go.
struct PastEdge {
  int64_t time, other;
};

// The edges of a type by the node at one end: pastEdges of negative_past.go.
struct PastEdges {
  const int64_t* starts;  // where those of each node begin, and those of the last end
  const PastEdge* edges;  // of each node by (time, other end)
};

// The edges of one type in the batch: count of them, from number first on, with negatives from number firstNegative on.
struct Links {
  int64_t first, count, firstNegative;
  int64_t edgeType, ordered;  // ordered: by source
  int64_t source, target;     // fused id of own id 0 at either end
  int64_t loops;              // whether both ends are of one node type
  uint64_t key;               // of the draws
  NegativeNodes sources, targets;
  PastEdges bySource, byTarget;
};

struct NegativeStep {
  const int64_t* indptr;  // of the graph, for strict
  const void* indices;
  const void* types;
  int64_t numNodes, numEdges, typeBytes, wideIds;
  const Links* links;
  int64_t numLinks, negatives;
  // of each edge: own ids of its ends, its item, its time and, in-batch, the times from which on its ends are there
  const int64_t* sources;
  const int64_t* targets;
  const int64_t* items;
  const int64_t* times;
  const int64_t* sourceTimes;
  const int64_t* targetTimes;
  // of each edge, where nodes have kinds: the places of those like its ends, first and behind the last
  const int64_t* sourceKinds;
  const int64_t* targetKinds;
  double ratio;
  Law law;
  End replace;
  int64_t timed, typed, strict, tries, fills;  // fills: tries at the end that are uniform
  int64_t* made;  // result: source and target of each negative; -1 where it was refused at each try
  u64* badNode;   // result: the least fused id whose range of edges makes no sense; all ones if there is none
};

// How many negatives the first count edges of a type have together.
__device__ __forceinline__ int64_t negatives_of(const NegativeStep& step, int64_t count) {
  return (int64_t)__dmul_rn((double)count, step.ratio);
}

// The last i of 0 .. n-1 for which begins(i) is at most x; begins(0) is.
template <class F>
__device__ __forceinline__ int64_t last_begun(int64_t n, int64_t x, F begins) {
  int64_t lo = 0;
  while (n - lo > 1) {
    int64_t mid = (lo + n) / 2;
    if (begins(mid) <= x) lo = mid;
    else n = mid;
  }
  return lo;
}

// The first i of 0 .. n-1 for which is(i), which holds from there on; n if none.
template <class F>
__device__ __forceinline__ int64_t first_where(int64_t n, F is) {
  int64_t lo = 0;
  while (lo < n) {
    int64_t mid = (lo + n) / 2;
    if (is(mid)) n = mid;
    else lo = mid + 1;
  }
  return lo;
}

// The node that a draw stands for, of those at places from .. to-1 that are there by a time; -1 if none is.
__device__ __forceinline__ int64_t negative_node(const NegativeNodes& in, uint64_t d, int64_t from, int64_t to,
                                                 int64_t time) {
  int64_t m = to - from, k = from;
  if (in.sorted) m = first_where(m, [&](int64_t i) { return in.sorted[from + i] > time; });
  if (m == 0) return -1;
  if (in.sums) {
    u64 before = from ? in.sums[from - 1] : 0, all = in.sums[from + m - 1] - before;
    if (all == 0) return -1;
    u64 x = before + bounded(d, all);
    k += first_where(m, [&](int64_t i) { return in.sums[from + i] > x; });
  } else {
    k += (int64_t)bounded(d, (u64)m);
  }
  return in.order ? in.order[k] : k;
}

// How many edges of a node are before one, by (time, other end).
__device__ __forceinline__ int64_t past_before(const PastEdges& in, int64_t node, int64_t time, int64_t other) {
  const PastEdge* run = in.edges + in.starts[node];
  return first_where(in.starts[node + 1] - in.starts[node], [&](int64_t i) {
    return run[i].time > time || (run[i].time == time && run[i].other >= other);
  });
}

// Whether a node has an edge to another at a time.
__device__ __forceinline__ bool past_has(const PastEdges& in, int64_t node, int64_t time, int64_t other) {
  int64_t i = in.starts[node] + past_before(in, node, time, other);
  return i < in.starts[node + 1] && in.edges[i].time == time && in.edges[i].other == other;
}

// The same of either end of edge i of a type.
__device__ __forceinline__ int64_t negative_end(const NegativeStep& step, const Links& l, Law law, bool target,
                                                uint64_t d, int64_t i) {
  int64_t time = step.timed ? step.times[l.first + i] : 0;
  if (law == kHistorical) {
    const PastEdges& in = target ? l.bySource : l.byTarget;
    int64_t node = (target ? step.sources : step.targets)[l.first + i];
    int64_t n = past_before(in, node, time, (int64_t)(1ull << 63));
    return n ? in.edges[in.starts[node] + (int64_t)bounded(d, (u64)n)].other : -1;
  }
  if (law != kInBatch) {
    const NegativeNodes& in = target ? l.targets : l.sources;
    const int64_t* kinds = (target ? step.targetKinds : step.sourceKinds) + 2 * (l.first + i);
    return step.typed ? negative_node(in, d, kinds[0], kinds[1], time) : negative_node(in, d, 0, in.nodes, time);
  }
  int64_t of = l.first + (int64_t)bounded(d, (u64)l.count);
  if (step.timed && (target ? step.targetTimes : step.sourceTimes)[of] > time) return -1;
  return (target ? step.targets : step.sources)[of];
}

// Whether there is an edge of a type between two nodes, by their own ids.
__device__ __forceinline__ bool is_edge(const NegativeStep& step, const Links& l, int64_t source, int64_t target) {
  int64_t v = target + l.target, u = source + l.source;
  ColumnReader ends(step.indptr, 8, step.numNodes + 1), ids(step.indices, step.wideIds ? 8 : 4, step.numEdges);
  Range r = {ends.at(v), ends.at(v + 1)};
  if (!r.is_of(step.numEdges)) {
    atomicMin(step.badNode, (u64)v);
    return false;
  }
  if (step.typeBytes) r = narrow(ColumnReader(step.types, step.typeBytes, step.numEdges), r, l.edgeType);
  if (l.ordered) return ids.find(r.from, r.to, u, step.numNodes, [](bool more) { return more; }) >= 0;
  while (r.from < r.to && ids.at(r.from) != u) r.from++;
  return r.from < r.to;
}

struct Pair {
  int64_t source, target;
};

// A negative of edge i of a type by a law and the draws from number first on; the source is -1 where it is refused.
__device__ __forceinline__ Pair negative_of(const NegativeStep& step, const Links& l, Law law, int64_t i,
                                            uint64_t stream, int64_t first) {
  End end = step.replace;
  if (end == kEitherEnd) end = bounded(draw(stream, first), 2) ? kTargetEnd : kSourceEnd;
  Pair seed = {step.sources[l.first + i], step.targets[l.first + i]}, p = seed;
  if (end != kTargetEnd) p.source = negative_end(step, l, law, false, draw(stream, first + 1), i);
  if (end != kSourceEnd && p.source >= 0) p.target = negative_end(step, l, law, true, draw(stream, first + 2), i);
  if (p.source < 0 || p.target < 0) return {-1, -1};
  if (step.law == kHistorical) {
    bool target = end == kTargetEnd;
    int64_t stays = target ? p.source : p.target, drawn = target ? p.target : p.source;
    bool now = drawn == (target ? seed.target : seed.source) ||
               past_has(target ? l.bySource : l.byTarget, stays, step.times[l.first + i], drawn);
    return now ? Pair{-1, -1} : p;
  }
  if (!step.strict) return p;
  bool same = (p.source == p.target && l.loops) || (p.source == seed.source && p.target == seed.target);
  return same || is_edge(step, l, p.source, p.target) ? Pair{-1, -1} : p;
}

extern "C" __global__ void negative_draw(NegativeStep step) {
  for (int64_t x = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; x < step.negatives;
       x += (int64_t)gridDim.x * blockDim.x) {
    const Links& l = step.links[last_begun(step.numLinks, x, [&](int64_t t) { return step.links[t].firstNegative; })];
    int64_t k = x - l.firstNegative, i = last_begun(l.count, k, [&](int64_t c) { return negatives_of(step, c); });
    int64_t j = k - negatives_of(step, i);
    uint64_t stream = stream_of(l.key, (uint64_t)step.items[l.first + i]);
    Pair p = {-1, -1};
    for (int64_t t = 0; t < step.tries && p.source < 0; t++)
      p = negative_of(step, l, t < step.tries - step.fills ? step.law : kUniform, i, stream,
                      3 * (j * step.tries + t));
    step.made[2 * x] = p.source;
    step.made[2 * x + 1] = p.target;
  }
}
