// Walks from nodes of a batch: the counterpart of walk_worker.go and walk_biased.go. A lane takes a walk.
#pragma once
#include "place.cuh"
#include "../internal/rng/log.cuh"

constexpr uint64_t kWalk = 3, kGoOn = 10, kAccept = 11;  // purposes of draws
constexpr uint64_t kMostTries = 64;

// What the host sends of walks. The edge types of a path, and the keys of these, lie behind it.
struct WalkRules {
  uint64_t key;  // of the batch
  int64_t length, perSeed;
  double stop, goOn;     // up to stop a walk ends, then up to goOn it goes back to its root
  int64_t restarts;      // whether some go back
  int64_t biased;        // node2vec
  double back, away;     // 1/p and 1/q
  double most, least;    // of the weights without 1/p, and of all
  int64_t pathLength;    // 0 where edges of all types are followed alike
  int32_t* types;        // result: the types of the nodes, or none
  void* edges;           // result: the positions of the edges, or none
};

struct WalkStep {
  Step at;
  const WalkRules* rules;
};

__device__ __forceinline__ const int64_t* path_of(const WalkRules* r) { return (const int64_t*)(r + 1); }

__device__ __forceinline__ ColumnReader ids_of(const Batch* b, const InEdges& e) {
  return ColumnReader(e.ids, b->wideIds ? 8 : 4, e.ids == b->indices ? b->numEdges : 0);
}

__device__ __forceinline__ bool any_lane(bool is) { return __ballot_sync(kFull, is) != 0; }

// How many edges from x there are, and the position of number k of them, -1 where there are not as many. In-edges are
// ordered by type and source; ids has the sources. All lanes of the warp take part, those without a question with none.
struct EdgesFrom {
  int64_t position, count;
};
__device__ __forceinline__ EdgesFrom edges_from(const Batch* b, const InEdges& e, ColumnReader& ids, int64_t x,
                                                int64_t k, bool asks) {
  EdgesFrom found = {-1, 0};
  ColumnReader types(e.types, max(b->typeBytes, (int64_t)1), e.types == b->types ? b->numEdges : 0);
  for (int64_t from = asks ? e.from : e.to; any_lane(from < e.to);) {
    int64_t end = b->typeBytes && from < e.to ? types.first_of(from, e.to, types.at(from) + 1) : e.to;
    for (int64_t i = ids.find(from, end, x, b->allNodes, any_lane); i >= 0 && i < end && ids.at(i) == x; i++)
      if (found.count++ == k) found.position = i;
    from = end;
  }
  return found;
}

// A walk that is under way.
struct Walk {
  Batch* b;
  const WalkRules* r;
  int64_t root, own;  // fused, and own id
  int64_t at, before; // fused; before is -1 at first
  InEdges left;       // those of the node before
  int64_t phase;      // place in the path
  uint64_t number;    // among the walks of the root

  __device__ __forceinline__ uint64_t stream(uint64_t type, uint64_t purpose) const {
    return stream_of(stage_key(r->key, type, purpose, number), (uint64_t)own);
  }

  // The weight of an edge for a walk of second order. All lanes call this and what follows, and say whether they ask.
  __device__ __forceinline__ double weight(ColumnReader& ids, int64_t position, bool asks) const {
    int64_t x = asks ? ids.at(position) : before;
    ColumnReader others = ids_of(b, left);
    int64_t count = edges_from(b, left, others, x, 0, x != before).count;
    return x == before ? r->back : count ? 1.0 : r->away;
  }

  // Decides on a candidate, and may put an edge from the node before, of which some are the same, in its place: what
  // that has above the greatest weight of the others is an area of its own.
  __device__ __forceinline__ bool accepts(const InEdges& e, ColumnReader& ids, const EdgesFrom& same, double u,
                                          int64_t* position, bool asks) const {
    double n = (double)(e.to - e.from), area = __dmul_rn(n, r->most), extra = 0, y = 0;
    int64_t k = 0;  // of those from the node before
    bool back = false;
    if (r->back > r->most) {
      extra = __dmul_rn((double)same.count, __dadd_rn(r->back, -r->most));
      y = __dmul_rn(u, __dadd_rn(area, extra));
      back = asks && y >= area;
      if (back) k = min((int64_t)__dmul_rn((double)same.count, __ddiv_rn(__dadd_rn(y, -area), extra)), same.count - 1);
      int64_t other = edges_from(b, e, ids, before, k, k != 0).position;
      if (back) *position = k ? other : same.position;
    }
    y = __ddiv_rn(__dmul_rn(u, __dadd_rn(area, extra)), n);
    bool heavy = asks && !back && y >= r->least;
    double w = weight(ids, *position, heavy);
    return !heavy || y < w;
  }

  // Chooses among all in-edges by their weights, summed in order: first for the sum, then for the edge.
  __device__ __forceinline__ int64_t enumerate(const InEdges& e, ColumnReader& ids, double u, bool asks) const {
    int64_t n = e.to - e.from, chosen = e.to - 1;
    double sum = 0, target = 0;
    for (int64_t i = 0; any_lane(asks && i < 2 * n); i++) {
      asks = asks && i < 2 * n;
      if (i == n) target = __dmul_rn(u, sum), sum = 0;
      sum = __dadd_rn(sum, weight(ids, asks ? e.from + i % n : 0, asks));
      if (!asks || i < n || sum <= target) continue;
      chosen = e.from + i - n;
      asks = false;
    }
    return chosen;
  }

  // The next edge of a walk of second order at a node that has some.
  __device__ __forceinline__ int64_t biased(const InEdges& e, ColumnReader& ids, int64_t s, bool asks) const {
    uint64_t draws = stream(0, kWalk), accept = stream(0, kAccept);
    EdgesFrom same = edges_from(b, e, ids, before, 0, asks && r->back > r->most);
    int64_t chosen = -1;
    for (uint64_t t = 0; t < kMostTries && any_lane(asks); t++) {
      uint64_t number = t << 32 | (uint64_t)s;
      int64_t position = e.from + (int64_t)bounded(draw(draws, number), e.to - e.from);
      bool ok = accepts(e, ids, same, unit_double(draw(accept, number)), &position, asks);
      if (asks && ok) chosen = position;
      asks = asks && !ok;
    }
    int64_t listed = enumerate(e, ids, unit_double(draw(accept, kMostTries << 32 | (uint64_t)s)), asks);
    return asks ? listed : chosen;
  }

  // Takes step s, behind one that returned last. All lanes of the warp call it. Returns the position of its edge, -1
  // for a jump to the root, or -2 where the walk has ended.
  template <bool Biased>
  __device__ __forceinline__ int64_t step(int64_t s, int64_t last) {
    int64_t next = last == -2 ? last : 0, position = 0;
    if (!next && r->goOn > 0) {
      double u = unit_double(draw(stream(0, kGoOn), (uint64_t)s));
      next = u < r->stop ? -2 : u < r->goOn ? jump() : 0;
    }
    Range edges = range_of(b, next ? -1 : at);
    InEdges e = {}, all = {};
    uint64_t type = 0;
    if (!next) e = all = in_edges(b, at, edges);
    if (!next && r->pathLength) {
      const int64_t* path = path_of(r);
      int64_t place = phase % r->pathLength;
      if (b->typeBytes) {
        e.from = first_of_type(b, e, e.from, e.to, path[place]);
        e.to = first_of_type(b, e, e.from, e.to, path[place] + 1);
      }
      type = (uint64_t)path[r->pathLength + place];
    }
    if (e.bad) next = -2;
    if (!next && e.from == e.to) next = r->restarts && at != root ? jump() : -2;
    ColumnReader ids = ids_of(b, e);
    if (Biased && r->biased && s > 0) position = biased(e, ids, s, !next);
    else if (!next) position = e.from + (int64_t)bounded(draw(stream(type, kWalk), (uint64_t)s), e.to - e.from);
    if (next) return next;
    int64_t source = Biased && r->biased ? checked(b, ids.at(position), position) : source_at(b, e, position);
    if (source < 0) return -2;
    before = at;
    left = all;
    at = source;
    phase++;
    return position;
  }

  __device__ __forceinline__ int64_t jump() {
    at = root;
    phase = 0;
    return -1;
  }
};

__device__ __forceinline__ Walk walk_from(Batch* b, const WalkRules* r, const List* list, int64_t own, int64_t number) {
  return {b, r, own + list->offset, own, own + list->offset, -1, {}, 0, (uint64_t)number};
}
