// What all samplers share on a device: room for the picks; each node once, in the order of first appearance; local ids;
// the sizes of the next stage. The counterpart of assembly.go, relabel.go and forest.go.
#include "cuda_env.h"
#include "pick.cuh"

// Whether pick i of a segment is a node that this segment appends: of nodes of any type each has its own.
__device__ __forceinline__ bool is_own(const Batch* b, const Segment* seg, int64_t i) {
  const List* list = &b->lists[seg->source];
  return !seg->anyType || (u64)(seg->seeds[i] - list->offset) < (u64)list->count;
}

// Puts the nodes of a stage that no edge names into the table: the seeds, or nodes that were drawn.
extern "C" __global__ void assembly_seed(Step step) {
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
  Table table = table_of(b);
  for (int64_t w = warp_index(); w < st->words; w += warp_count()) {
    Segment* seg = segment_of<&Segment::firstPick>(st, w * kLanes);
    int64_t order = w * kLanes + lane_id(), i = order - seg->firstPick;
    if (i >= (int64_t)seg->picks) continue;
    if (!is_own(b, seg, i)) {
      if (seg->seeds[i] < 0 && seg->source == 0) seg->indices[i] = kNoSlot;
      continue;
    }
    int64_t root = seg->seedTimes ? root_of_time(b, seg->seedTimes[i]) : 0, slot = kNoSlot;
    int64_t offset = seg->anyType ? 0 : b->lists[seg->source].offset;
    if (root != kNoSlot) slot = table_note(table, root + seg->seeds[i] + offset, order);
    if (slot == kNoSlot) atomicOr(&b->status->full, 1ull);
    seg->indices[i] = (int32_t)slot;
  }
}

// Finds where the edges of a stage's destinations lie: what comes before assembly_hubs.
extern "C" __global__ void assembly_measure(Step step) {
  Batch* b = step.batch;
  const Stage* st = &b->stages[step.stage];
  Chunks chunks = chunks_of(b, st->runs);
  for (int64_t c = warp_index(); c < chunks.count; c += warp_count()) {
    int64_t sum = 0;
    for (int64_t run = chunk_begin(chunks, c); run < chunk_end(chunks, c); run++) {
      Place p = place_of(st, run * kLanes + lane_id());
      int64_t degree = p.seg->fanout ? measure(b, p.seg, p.dst, p.x) : 0;
      if (has_slices(p.seg)) sum += max(degree, (int64_t)0);
    }
    sum = warp_sum(sum);
    if (lane_id()) continue;
    b->partials[c] = 0;
    if (sum) atomicAdd(&hubs_of(b)->edges, (u64)sum);
  }
}

// Says which of the destinations are hubs: what comes before count_each.
extern "C" __global__ void assembly_hubs(Step step) {
  Batch* b = step.batch;
  const Stage* st = &b->stages[step.stage];
  int64_t least = least_slice(st, (int64_t)hubs_of(b)->edges);
  for (int64_t run = warp_index(); run < st->runs; run += warp_count()) {
    Place p = place_of(st, run * kLanes + lane_id());
    if (!is_there(p)) continue;
    int64_t degree = b->degree[p.x];
    b->eligible[p.x] = has_slices(p.seg) && degree >= 2 * least ? list_hub(b, p.x, degree, least) : 0;
  }
}

// Numbers the picks of a stage, and lets it go on if there is room for them. One block.
extern "C" __global__ void assembly_admit(Step step) {
  __shared__ int64_t cells[kLanes];
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
  Status* status = b->status;
  int64_t n = st->numSegments, picks = 0, words = 0, total;
  bool over = false, stopped = status->reason;
  block_prefix(b->partials, chunks_of(b, st->runs).count, cells);
  for (int64_t base = 0; base < n; base += blockDim.x) {
    int64_t i = base + threadIdx.x, own = 0;
    Segment* seg = i < n ? &st->segments[i] : nullptr;
    if (seg) {
      own = (int64_t)seg->picks;
      seg->have = seg->before ? seg->before->have + (int64_t)seg->before->picks : 0;
      st->made[i] = seg->have + own;
      over |= seg->have + own > seg->maxIndices;
    }
    int64_t below = block_exclusive(own, cells, &total);
    if (seg) seg->picksBefore = picks + below;
    picks += total;
    below = block_exclusive((own + kLanes - 1) / kLanes, cells, &total);
    if (seg) seg->firstPick = (words + below) * kLanes;
    words += total;
    if (seg && !stopped && !seg->before) seg->indptr[seg->lo] = 0;
  }
  over = __syncthreads_or(over || words * kLanes > b->maxPicks);
  if (threadIdx.x) return;
  stopped = stop_for(status, status->badNode != ~0ull ? kBadGraph : over ? kEdgesFull : kNotStopped, step.stage);
  st->words = stopped ? 0 : words;
  st->admitted = !stopped;
}

// Marks the picks that are the first appearance of their node, and counts them: for each chunk and for each segment.
extern "C" __global__ void assembly_flag(Step step) {
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
  Table table = table_of(b);
  Chunks chunks = chunks_of(b, st->words);
  for (int64_t c = warp_index(); c < chunks.count; c += warp_count()) {
    int64_t sum = 0;
    Segment* counted = nullptr; // new nodes of the chunk are summed up here: all warps add to the same few counters
    u64 fresh = 0;
    for (int64_t w = chunk_begin(chunks, c); w < chunk_end(chunks, c); w++) {
      Segment* seg = segment_of<&Segment::firstPick>(st, w * kLanes);
      if (seg != counted) {
        if (fresh && lane_id() == 0) atomicAdd(&counted->fresh, fresh);
        counted = seg;
        fresh = 0;
      }
      int64_t order = w * kLanes + lane_id(), i = order - seg->firstPick;
      int32_t slot = i < (int64_t)seg->picks && is_own(b, seg, i) ? seg->indices[seg->have + i] : kNoSlot;
      uint32_t mask = __ballot_sync(kFull, slot != kNoSlot && table_first(table, slot, order));
      if (lane_id() == 0) b->fresh[w] = mask;
      fresh += (u64)__popc(mask);
      sum += __popc(mask);
    }
    if (lane_id() == 0) {
      if (fresh) atomicAdd(&counted->fresh, fresh);
      b->partials[c] = sum;
    }
  }
}

// Says where the new nodes of each segment go in the lists: in the order of the segments within a type.
__device__ __forceinline__ bool place_nodes(Batch* b, int64_t stage, int64_t* cells) {
  Stage* st = &b->stages[stage];
  int64_t n = st->numSegments, carry = 0, total;
  for (int64_t base = 0; base < n; base += blockDim.x) {
    int64_t i = base + threadIdx.x;
    int64_t below = block_exclusive(i < n ? (int64_t)st->segments[i].fresh : 0, cells, &total);
    if (i < n) st->segments[i].freshBefore = carry + below;
    carry += total;
  }
  carry = 0;
  for (int64_t base = 0; base < n; base += blockDim.x) {
    int64_t i = base + threadIdx.x;
    Segment* seg = i < n ? &st->segments[st->bySource[i]] : nullptr;
    int64_t below = block_exclusive(seg ? (int64_t)seg->fresh : 0, cells, &total);
    if (seg) seg->firstLocal = carry + below;
    carry += total;
  }
  __syncthreads();
  bool over = false;
  for (int64_t t = threadIdx.x; t < b->numTypes; t += blockDim.x) {
    int64_t lo = st->sourceBegin[t], hi = st->sourceBegin[t + 1], from = 0, to = 0;
    if (lo < hi) {
      Segment* last = &st->segments[st->bySource[hi - 1]];
      from = st->segments[st->bySource[lo]].firstLocal;
      to = last->firstLocal + (int64_t)last->fresh;
    }
    int64_t had = stage ? b->lengths[(stage - 1) * b->numTypes + t] : 0;
    b->shifts[t] = had - from;
    b->lengths[stage * b->numTypes + t] = had + to - from;
    over |= had + to - from > b->lists[t].capacity;
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) st->segments[i].firstLocal += b->shifts[st->segments[i].source];
  return over;
}

// Says which nodes are the destinations of a stage, and returns in runs how many runs they are.
__device__ __forceinline__ bool place_destinations(Batch* b, int64_t stage, int64_t* cells, int64_t* runs) {
  Stage* st = &b->stages[stage];
  int64_t n = st->numSegments, carry = 0, total;
  bool over = false;
  for (int64_t base = 0; base < n; base += blockDim.x) {
    int64_t i = base + threadIdx.x, own = 0;
    Segment* seg = i < n ? &st->segments[i] : nullptr;
    if (seg) {
      seg->hi = b->lengths[(stage - 1) * b->numTypes + seg->target];
      int64_t had = st->newNodes ? stage - 1 - st->newNodes : -1;
      seg->lo = had < 0 ? 0 : b->lengths[had * b->numTypes + seg->target];
      if (!seg->anyType) {
        own = (seg->hi - seg->lo + kLanes - 1) / kLanes;
        over |= seg->hi >= seg->maxIndptr;
      }
    }
    int64_t below = block_exclusive(own, cells, &total);
    if (seg) seg->firstDst = (carry + below) * kLanes;
    carry += total;
  }
  *runs = carry;
  return over || carry * kLanes > b->maxDsts;
}

// Ends a stage: new lengths of the lists, and the destinations of the next stage. One block.
extern "C" __global__ void assembly_lists(Step step) {
  __shared__ int64_t cells[kLanes];
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
  int64_t stage = step.stage, runs = 0;
  block_prefix(b->partials, chunks_of(b, st->words).count, cells);
  bool over = place_nodes(b, stage, cells);
  __syncthreads();
  if (stage + 1 < b->numStages) over |= place_destinations(b, stage + 1, cells, &runs);
  over = __syncthreads_or(over);
  if (threadIdx.x) return;
  Status* status = b->status;
  bool bad = status->badEdge != ~0ull || status->badNode != ~0ull;
  Reason why = bad ? kBadGraph : status->full ? kTableFull : over ? kNodesFull : kNotStopped;
  bool stopped = stop_for(status, why, stage);
  if (stopped) st->words = 0;
  if (b->hubs) hubs_of(b)->hubs = hubs_of(b)->slices = hubs_of(b)->edges = 0;
  if (stage + 1 < b->numStages) b->stages[stage + 1].runs = stopped ? 0 : runs;
}

// Appends the new nodes to the lists, and lets the table give their local ids from now on.
template <bool Trees>
__device__ __forceinline__ void append(const Step& step) {
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
  Table table = table_of(b);
  Chunks chunks = chunks_of(b, st->words);
  for (int64_t c = warp_index(); c < chunks.count; c += warp_count()) {
    int64_t before = b->partials[c];
    for (int64_t w = chunk_begin(chunks, c); w < chunk_end(chunks, c); w++) {
      uint32_t mask = b->fresh[w];
      if (mask >> lane_id() & 1) {
        Segment* seg = segment_of<&Segment::firstPick>(st, w * kLanes);
        List* list = &b->lists[seg->source];
        int32_t slot = seg->indices[seg->have + w * kLanes + lane_id() - seg->firstPick];
        int64_t local = seg->firstLocal + before - seg->freshBefore + __popc(mask & ((1u << lane_id()) - 1));
        int64_t id = table_id(table, slot);
        if (Trees) {
          if (list->times) {
            list->times[local] = (int64_t)b->times[id / b->span];
            id %= b->span;
          }
          if (list->trees) list->trees[local] = (int32_t)(id / b->numNodes);
          id %= b->numNodes;
        }
        store_id(list->ids, local, b->wideIds, id - list->offset);
        table_settle(table, slot, local);
      }
      before += __popc(mask);
    }
  }
}

extern "C" __global__ void assembly_append(Step step) { append<false>(step); }

// The same where trees are kept apart, or times.
extern "C" __global__ void assembly_append_trees(Step step) { append<true>(step); }

// Replaces the slots in the blocks by local ids.
extern "C" __global__ void assembly_relabel(Step step) {
  Batch* b = step.batch;
  Stage* st = &b->stages[step.stage];
  Table table = table_of(b);
  for (int64_t w = warp_index(); w < st->words; w += warp_count()) {
    Segment* seg = segment_of<&Segment::firstPick>(st, w * kLanes);
    int64_t i = w * kLanes + lane_id() - seg->firstPick;
    if (i >= (int64_t)seg->picks || !is_own(b, seg, i)) continue;
    int32_t* cell = &seg->indices[seg->have + i];
    *cell = table_local(table, *cell);
  }
}
