// What the kernels of a batch share: its description in device memory, and warp and block arithmetic.
//
// A batch is a row of stages: the seeds, then the hops. A stage's work is numbered in two ways, over all its segments
// (edge types; for the seeds, node types): destinations, and picks. Each segment begins at a multiple of 32 in both, so
// that a warp has to do with one segment at a time: 32 destinations are a run, 32 picks a word. Kernels learn the sizes
// from here, never from the host. A stage that was stopped has no runs and no words, so that what follows does nothing.
//
// The host writes this description and sends it with every batch: batch_launch.go has the same structs in Go.
#pragma once

typedef unsigned long long u64;  // what 64-bit atomics take

constexpr int kLanes = 32;
constexpr unsigned kFull = 0xffffffffu;
constexpr uint32_t kCold = 0xffffffffu;
constexpr int64_t kAll = -1;  // the fan-out that takes every edge

// The nodes of one type that the batch has reached.
struct List {
  void* ids;         // own ids, as wide as those of the graph
  int64_t capacity;  // of ids
  int64_t offset;    // fused id of own id 0
  int64_t count;     // nodes of the type in the graph
  int32_t* trees;    // the tree of each node, where trees are kept apart, or none
  int64_t* times;    // as of which each node is looked at, where times matter, or none
  float* norms;      // of the nodes, where the sampler delivers some, or none
};

enum TimeRule : int64_t { kNotAfter, kBefore, kAnyTime };  // TimeRule of temporal.go

// One edge type at one hop, or the seeds of one node type.
struct Segment {
  // from the host
  int64_t edgeType;        // -1: edges of all types
  int64_t source, target;  // node types
  int64_t fanout;          // picks a destination; -1 is all
  uint64_t key;            // of the stage's draws
  uint64_t next, phases, turn;  // LABOR's, where variates stay for several batches; turn is 0 otherwise (labor_pick.go)
  int32_t* indptr;         // of the block
  // Of the block; table slots until they are relabelled. For seeds, their local ids. None in a stage that only lists
  // edges, whose positions are int64.
  int32_t* indices;
  void* positions;         // of the block, or none
  float* weights;          // of the block's edges, where the sampler delivers some, or none
  // Nodes, in the stage of the seeds: own ids, where trees are kept apart tree * numNodes + own id. In a stage that
  // places nodes: fused ids of any type, of which a segment has those of its own; -1 is no node.
  const int64_t* seeds;
  int64_t anyType;           // whether seeds are of any type
  const int64_t* seedTimes;  // as of which they are looked at, where times matter, or none
  const void* sourceTimes;   // the times of the sources, by own id, or none
  int64_t sourceTimeBytes;   // 4 or 8
  int64_t ordered;           // whether edges lie in order of the times that the picker looks at
  int64_t ascending;         // whether they lie in order of the times of their sources
  TimeRule timeRule;         // which times may be followed
  int64_t window;            // the greatest age, 0 for any
  int64_t maxIndptr, maxIndices;
  const Segment* reach;  // the segment of the stage before that has listed what this one picks from, or none
  Segment* before;  // the same block at the hop before, whose edges this one goes on from; none if it begins empty

  // from assembly_lists of the stage before
  int64_t firstDst;  // number of the first destination in the stage
  int64_t lo, hi;    // the destinations' positions in the list of type target

  // from count_picks and assembly_admit; from the host for seeds
  u64 picks;
  int64_t picksBefore;  // of the segments before it
  int64_t firstPick;    // number of the first pick in the stage
  int64_t have;         // edges that the block had before

  // from assembly_flag and assembly_lists
  u64 fresh;            // picks that are the first appearance of their node
  int64_t freshBefore;  // of the segments before it
  int64_t firstLocal;   // local id of the first of them
};

struct Stage {
  Segment* segments;
  int64_t numSegments;
  const int64_t* bySource;     // the segments, by source type and then in order
  const int64_t* sourceBegin;  // where each node type begins there [types + 1]
  int64_t* made;               // result: edges of each block when the stage was done

  // Where destinations are those nodes alone that a stage before has appended, how many stages before; else 0.
  int64_t newNodes;

  int64_t runs, words;
  int64_t admitted;  // whether there is room for the picks
};

// Why a batch was stopped.
enum Reason : int64_t { kNotStopped, kBadGraph, kTableFull, kEdgesFull, kNodesFull, kExcludedFull };

struct Status {
  Reason reason;
  int64_t stage;  // that was stopped; else the last one that was done
  u64 badNode;  // the least fused id whose range of edges makes no sense; all ones if there is none
  u64 badEdge;  // the least position whose source is no node of its type; all ones if there is none
  u64 full;     // not 0: the table had no slot left
  int64_t excluded;  // edges that the batch leaves out
};

// Edges that a batch leaves out, by their ends.
struct LeftOut {
  int64_t target, edgeType, source;  // fused ids
  int64_t ordered;                   // whether edges of the type are in order of their sources
};

struct Batch {
  // the graph
  const int64_t* indptr;
  const void* indices;
  const void* types;
  int64_t numEdges;
  int64_t typeBytes;  // 0 (one type), 1 or 2
  int64_t wideIds, widePositions;  // 0: 32 bits, 1: 64 bits

  // copies of the columns of some nodes, if there are any
  const uint32_t* hotStart;  // of each node: where its column begins in them, or kCold
  const void* hotIndices;
  const void* hotTypes;

  const void* moved;  // positions of the edges in the graph that is delivered, where that is another one, or none

  const void* const* columns;  // of the edges, that the picker reads, in the order that it names them

  // The positions of the edges that the batch leaves out, ascending: for pickers that ask (pick.cuh). exclude.cu finds
  // them by the pairs of their ends.
  int64_t* excluded;
  int64_t numExcluded, maxExcluded;
  const LeftOut* pairs;
  int64_t numPairs;
  int64_t* pairEnds;  // where the positions of each pair begin

  int64_t numTypes;  // of nodes
  int64_t allNodes;  // of the graph
  // Of the graph where trees are kept apart, or times: the table then has number of the time * span + tree * numNodes +
  // fused id. Else 0.
  int64_t numNodes;
  int64_t span;      // numNodes times the number of trees

  // the table of local ids (table.cuh)
  u64* tableValues;
  u64* tableKeys;
  int64_t tableBits;  // the table has 2^bits slots, where it has keys
  int64_t idBits;     // of an id in a key
  u64* times;         // where times matter, the numbers of those that are looked at (table.cuh), or none
  const int64_t* from;  // the first times of the items, or none; their trees are then apart
  uint64_t stamp;

  // scratch
  int64_t* start;    // of each destination's edges
  int64_t* degree;   // how many they are
  const void** ids;  // which array, indexed by position, has their sources; only where there are copies
  int64_t* eligible; // how many of its edges may be followed; only for a picker that asked for it
  void* hubs;        // of a stage (pick.cuh); only with eligible
  int64_t maxSlices; // of a hub
  int64_t maxDsts;   // that these have room for
  uint32_t* fresh;   // a bit for each pick
  int64_t* scratch;  // the sampler's own: a cell for each pick, or as many as it asked for
  int64_t* sorting;  // of it, what sort.cuh has; at 16 bytes
  int64_t maxPicks;  // that these have room for
  int64_t* partials; // a sum for each warp
  int64_t warps;     // that work is cut for
  int64_t* shifts;   // a cell for each node type

  List* lists;
  Stage* stages;
  int64_t numStages;
  Status* status;    // result
  int64_t* lengths;  // result: of the lists when each stage was done [stage][type]
};

// What every kernel takes: the batch, in device memory, and the stage that it works on.
struct Step {
  Batch* batch;
  int64_t stage;
};

__device__ __forceinline__ int lane_id() { return threadIdx.x & (kLanes - 1); }
__device__ __forceinline__ int64_t warp_index() { return ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / kLanes; }
__device__ __forceinline__ int64_t warp_count() { return (int64_t)gridDim.x * blockDim.x / kLanes; }

// Stops the batch at a stage if there is a reason, unless it was stopped before; returns whether it is stopped.
__device__ __forceinline__ bool stop_for(Status* status, Reason why, int64_t stage) {
  if (status->reason) return true;
  status->reason = why;
  status->stage = stage;
  return why;
}

// Work is cut into chunks of equal length, at most one for each warp that it was cut for.
struct Chunks {
  int64_t items, each, count;
};
__device__ __forceinline__ Chunks chunks_of(const Batch* b, int64_t items) {
  int64_t each = (items + b->warps - 1) / b->warps;
  return {items, each, each ? (items + each - 1) / each : 0};
}
__device__ __forceinline__ int64_t chunk_begin(const Chunks& c, int64_t i) { return i * c.each; }
__device__ __forceinline__ int64_t chunk_end(const Chunks& c, int64_t i) { return min((i + 1) * c.each, c.items); }

// The first of the positions lo .. hi that is not before what is looked for, hi where all are. They ascend.
template <class F>
__device__ __forceinline__ int64_t first_not(int64_t lo, int64_t hi, F before) {
  while (lo < hi) {
    int64_t mid = (lo + hi) / 2;
    if (before(mid)) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

// The segment that has number x of the stage, by destinations (&Segment::firstDst) or picks (&Segment::firstPick).
template <int64_t Segment::*First>
__device__ __forceinline__ Segment* segment_of(const Stage* st, int64_t x) {
  int64_t lo = 0, hi = st->numSegments;  // the last one that begins at x or before: those before it that do are empty
  while (hi - lo > 1) {
    int64_t mid = (lo + hi) / 2;
    if (st->segments[mid].*First <= x) lo = mid;
    else hi = mid;
  }
  return &st->segments[lo];
}

__device__ __forceinline__ int64_t load_id(const void* ids, int64_t i, int64_t wide) {
  return wide ? ((const int64_t*)ids)[i] : (int64_t)((const int32_t*)ids)[i];
}
__device__ __forceinline__ void store_id(void* ids, int64_t i, int64_t wide, int64_t id) {
  if (wide) ((int64_t*)ids)[i] = id;
  else ((int32_t*)ids)[i] = (int32_t)id;
}

// Sum of x over this lane and those below it.
template <class T>
__device__ __forceinline__ T warp_inclusive(T x) {
  for (int d = 1; d < kLanes; d *= 2) {
    T y = __shfl_up_sync(kFull, x, d);
    if (lane_id() >= d) x += y;
  }
  return x;
}

// Sum of x over the threads of the block below this one, and over all of it in total. All threads of the block take
// part. cells is shared memory for a cell a warp.
__device__ __forceinline__ int64_t block_exclusive(int64_t x, int64_t* cells, int64_t* total) {
  int64_t sum = warp_inclusive(x);
  if (lane_id() == kLanes - 1) cells[threadIdx.x / kLanes] = sum;
  __syncthreads();
  int64_t below = 0, all = 0;
  for (unsigned w = 0; w < blockDim.x / kLanes; w++) {
    if (w < threadIdx.x / kLanes) below += cells[w];
    all += cells[w];
  }
  __syncthreads();
  *total = all;
  return below + sum - x;
}

// Replaces the n numbers at p by the sums of those before each. One block.
__device__ __forceinline__ void block_prefix(int64_t* p, int64_t n, int64_t* cells) {
  constexpr int each = 8;
  int64_t carry = 0;
  for (int64_t base = 0; base < n; base += (int64_t)blockDim.x * each) {
    int64_t v[each], at = base + (int64_t)threadIdx.x * each, sum = 0, total;
    for (int i = 0; i < each; i++) {
      v[i] = at + i < n ? p[at + i] : 0;
      sum += v[i];
    }
    sum = carry + block_exclusive(sum, cells, &total);
    for (int i = 0; i < each; i++) {
      if (at + i < n) p[at + i] = sum;
      sum += v[i];
    }
    carry += total;
  }
}
