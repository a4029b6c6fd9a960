// What samplers share that draw nodes otherwise than by edges of a frontier. A kernel writes the nodes that a stage
// places to Batch::scratch, by fused id, -1 for none; assembly_seed and what follows append them to the lists.
#pragma once
#include "pick.cuh"

// Says that a stage places n nodes. All threads may call it.
__device__ __forceinline__ void place_nodes(const Step& step, int64_t n) {
  if (blockIdx.x || threadIdx.x) return;
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
  int64_t words = (n + kLanes - 1) / kLanes;
  for (int64_t t = 0; t < st->numSegments; t++) {
    st->segments[t].picks = (u64)n;
    st->segments[t].firstPick = t * words * kLanes;
  }
  st->words = b->status->reason ? 0 : st->numSegments * words;
}

// The in-edges of a node: positions in the graph, and what is indexed by them.
struct InEdges {
  const void *ids, *types;
  int64_t from, to;
  bool bad;
};

__device__ __forceinline__ InEdges in_edges(Batch* b, int64_t v, Range r) {
  InEdges e = {b->indices, b->types, r.from, r.to, false};
  if (!r.is_of(b->numEdges)) {
    atomicMin(&b->status->badNode, (u64)v);
    e.bad = true;
    e.from = e.to = 0;
  }
  uint32_t hot = b->hotStart ? b->hotStart[v] : kCold;
  if (hot != kCold) {
    e.ids = copied(b->hotIndices, hot - e.from, b->wideIds ? 8 : 4);
    e.types = copied(b->hotTypes, hot - e.from, b->typeBytes);
  }
  return e;
}

__device__ __forceinline__ InEdges in_edges(Batch* b, int64_t v) {
  return in_edges(b, v, {b->indptr[v], b->indptr[v + 1]});
}

__device__ __forceinline__ int64_t type_at(const Batch* b, const InEdges& e, int64_t position) {
  return b->typeBytes == 0 ? 0 : b->typeBytes == 1 ? ((const uint8_t*)e.types)[position]
                                                   : ((const uint16_t*)e.types)[position];
}

// The first position of lo .. hi whose type is at least `type`.
__device__ __forceinline__ int64_t first_of_type(const Batch* b, const InEdges& e, int64_t lo, int64_t hi,
                                                 int64_t type) {
  return first_not(lo, hi, [&](int64_t i) { return type_at(b, e, i) < type; });
}

// The source that the edge at a position has; -1, which the batch notes, where it is no node.
__device__ __forceinline__ int64_t checked(Batch* b, int64_t source, int64_t position) {
  if ((u64)source < (u64)b->allNodes) return source;
  atomicMin(&b->status->badEdge, (u64)position);
  return -1;
}

__device__ __forceinline__ int64_t source_at(Batch* b, const InEdges& e, int64_t position) {
  return checked(b, load_id(e.ids, position, b->wideIds), position);
}
