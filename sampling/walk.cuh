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

// How many edges from x there are, and the position of number k of them, -1 where there are not as many. In-edges are
// ordered by type and source.
struct EdgesFrom {
  int64_t position, count;
};
__device__ __forceinline__ EdgesFrom edges_from(const Batch* b, const InEdges& e, int64_t x, int64_t k) {
  EdgesFrom found = {-1, 0};
  for (int64_t from = e.from; from < e.to;) {
    int64_t end = b->typeBytes ? first_of_type(b, e, from, e.to, type_at(b, e, from) + 1) : e.to;
    int64_t lo = first_not(from, end, [&](int64_t i) { return load_id(e.ids, i, b->wideIds) < x; });
    for (; lo < end && load_id(e.ids, lo, b->wideIds) == x; lo++)
      if (found.count++ == k) found.position = lo;
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
  int64_t phase;      // place in the path
  uint64_t number;    // among the walks of the root

  __device__ __forceinline__ uint64_t stream(uint64_t type, uint64_t purpose) const {
    return stream_of(stage_key(r->key, type, purpose, number), (uint64_t)own);
  }

  // The weight of an edge for a walk of second order.
  __device__ __forceinline__ double weight(const InEdges& e, int64_t position) const {
    int64_t x = load_id(e.ids, position, b->wideIds);
    if (x == before) return r->back;
    return edges_from(b, in_edges(b, before), x, 0).count ? 1.0 : r->away;
  }

  // Decides on a candidate, and may put an edge from the node before in its place: what that has above the greatest
  // weight of the others is an area of its own.
  __device__ __forceinline__ bool accepts(const InEdges& e, uint64_t accept, uint64_t number, int64_t* position) const {
    double u = unit_double(draw(accept, number)), n = (double)(e.to - e.from);
    double area = __dmul_rn(n, r->most), extra = 0;
    if (r->back > r->most) {
      int64_t same = edges_from(b, e, before, 0).count;
      extra = __dmul_rn((double)same, __dadd_rn(r->back, -r->most));
      double y = __dmul_rn(u, __dadd_rn(area, extra));
      if (y >= area) {
        int64_t k = (int64_t)__dmul_rn((double)same, __ddiv_rn(__dadd_rn(y, -area), extra));
        *position = edges_from(b, e, before, min(k, same - 1)).position;
        return true;
      }
    }
    double y = __ddiv_rn(__dmul_rn(u, __dadd_rn(area, extra)), n);
    return y < r->least || y < weight(e, *position);
  }

  // Chooses among all in-edges by their weights, summed in order.
  __device__ __forceinline__ int64_t enumerate(const InEdges& e, double u) const {
    double sum = 0, target;
    for (int64_t i = e.from; i < e.to; i++) sum = __dadd_rn(sum, weight(e, i));
    target = __dmul_rn(u, sum);
    sum = 0;
    for (int64_t i = e.from; i < e.to; i++) {
      sum = __dadd_rn(sum, weight(e, i));
      if (sum > target) return i;
    }
    return e.to - 1;
  }

  // The next edge of a walk of second order at a node that has some.
  __device__ __forceinline__ int64_t biased(const InEdges& e, int64_t s) const {
    uint64_t draws = stream(0, kWalk), accept = stream(0, kAccept);
    for (uint64_t t = 0; t < kMostTries; t++) {
      uint64_t number = t << 32 | (uint64_t)s;
      int64_t position = e.from + (int64_t)bounded(draw(draws, number), e.to - e.from);
      if (accepts(e, accept, number, &position)) return position;
    }
    return enumerate(e, unit_double(draw(accept, kMostTries << 32 | (uint64_t)s)));
  }

  // Takes step s. Returns the position of its edge, -1 for a jump to the root, or -2 where the walk ends.
  __device__ __forceinline__ int64_t step(int64_t s) {
    if (r->goOn > 0) {
      double u = unit_double(draw(stream(0, kGoOn), (uint64_t)s));
      if (u < r->stop) return -2;
      if (u < r->goOn) return jump();
    }
    InEdges e = in_edges(b, at);
    uint64_t type = 0;
    if (r->pathLength) {
      const int64_t* path = path_of(r);
      int64_t place = phase % r->pathLength;
      if (b->typeBytes) {
        e.from = first_of_type(b, e, e.from, e.to, path[place]);
        e.to = first_of_type(b, e, e.from, e.to, path[place] + 1);
      }
      type = (uint64_t)path[r->pathLength + place];
    }
    if (e.bad) return -2;
    if (e.from == e.to) return r->restarts && at != root ? jump() : -2;
    int64_t position = r->biased && s > 0 ? biased(e, s)
                                          : e.from + (int64_t)bounded(draw(stream(type, kWalk), (uint64_t)s),
                                                                      e.to - e.from);
    int64_t source = source_at(b, e, position);
    if (source < 0) return -2;
    before = at;
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
  return {b, r, own + list->offset, own, own + list->offset, -1, 0, (uint64_t)number};
}
