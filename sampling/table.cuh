// The table of local ids: from fused ids to where they first appeared in the batch, and then to their local ids.
//
// A value is 64 bits: the upper half tells the batch and falls from batch to batch, the lower half is a local id, or a
// first appearance with kTentative. So entries of earlier batches are greater than all of this one, local ids are
// smaller than first appearances, and one atomic minimum keeps what counts: nothing is ever cleared.
//
// Without keys the slot of an id is the id. With keys the table is open-addressed with linear probing at a load of at
// most one half; a key is an id below 2^40 under 24 bits of the batch's stamp, so that keys of earlier batches are free
// slots. Where times matter a key is an id below 2^63 under one bit, and each batch finds the table empty.
#pragma once
#include "batch.cuh"
#include "../internal/rng/rng.cuh"

constexpr uint32_t kTentative = 1u << 31;
constexpr int32_t kNoSlot = -1;
constexpr int kMaxProbes = 1024;  // at a load of one half runs of this length do not occur by chance
constexpr u64 kNoTime = ~0ull;

struct Table {
  u64* values;
  u64* keys;
  int64_t bits;
  u64 upper;  // of this batch's values
  u64 stamp;  // of this batch's keys
  int64_t idBits;
};

__device__ __forceinline__ Table table_of(const Batch* b) {
  return {b->tableValues, b->tableKeys, b->tableBits, ~b->stamp << 32, b->stamp << b->idBits, b->idBits};
}

// The slot of an id, taken if it had none; kNoSlot if there is none left.
__device__ __forceinline__ int64_t table_claim(const Table& t, int64_t id) {
  if (!t.keys) return id;
  u64 mine = t.stamp | (u64)id, mask = (1ull << t.bits) - 1;
  u64 h = (u64)id * kGolden >> (64 - t.bits);
  for (int probe = 0; probe < kMaxProbes; probe++, h = (h + 1) & mask) {
    u64 key = *(volatile u64*)&t.keys[h];
    if (key == mine) return (int64_t)h;
    if ((key ^ t.stamp) >> t.idBits == 0) continue;
    u64 had = atomicCAS(&t.keys[h], key, mine);
    if (had == key || had == mine) return (int64_t)h;
  }
  return kNoSlot;
}

// Notes that an id appears as pick number `order` of the stage, and returns its slot, or kNoSlot.
__device__ __forceinline__ int64_t table_note(const Table& t, int64_t id, int64_t order) {
  int64_t slot = table_claim(t, id);
  if (slot != kNoSlot) atomicMin(&t.values[slot], t.upper | kTentative | (u64)order);
  return slot;
}

// The local id of an id that was settled; kNoSlot for one that is not in the batch.
__device__ __forceinline__ int32_t table_find(const Table& t, int64_t id) {
  int64_t slot = id;
  if (t.keys) {
    u64 mine = t.stamp | (u64)id, mask = (1ull << t.bits) - 1;
    u64 h = (u64)id * kGolden >> (64 - t.bits);
    int probe = 0;
    for (; probe < kMaxProbes && t.keys[h] != mine; probe++, h = (h + 1) & mask)
      if ((t.keys[h] ^ t.stamp) >> t.idBits) return kNoSlot;  // free, or of an earlier batch
    if (probe == kMaxProbes) return kNoSlot;
    slot = (int64_t)h;
  }
  u64 value = t.values[slot];
  return value >> 32 == t.upper >> 32 && !(value & kTentative) ? (int32_t)value : kNoSlot;
}

// Whether pick number `order` is the first appearance of the id in a slot.
__device__ __forceinline__ bool table_first(const Table& t, int64_t slot, int64_t order) {
  return t.values[slot] == (t.upper | kTentative | (u64)order);
}

// The id in a slot.
__device__ __forceinline__ int64_t table_id(const Table& t, int64_t slot) {
  return t.keys ? (int64_t)(t.keys[slot] & ((1ull << t.idBits) - 1)) : slot;
}

__device__ __forceinline__ void table_settle(const Table& t, int64_t slot, int64_t local) {
  t.values[slot] = t.upper | (u64)local;
}
__device__ __forceinline__ int32_t table_local(const Table& t, int64_t slot) { return (int32_t)t.values[slot]; }

// The number of a time: its slot in a table like the other, which each batch finds empty, or kNoSlot if there is none
// left. What marks a free slot is the time -1, whose number is that of the cell after the last.
__device__ __forceinline__ int64_t time_number(const Batch* b, int64_t time) {
  u64 mine = (u64)time, mask = (1ull << b->tableBits) - 1, h = mine * kGolden >> (64 - b->tableBits);
  if (mine == kNoTime) return (int64_t)mask + 1;
  for (int probe = 0; probe < kMaxProbes; probe++, h = (h + 1) & mask) {
    u64 had = *(volatile u64*)&b->times[h];
    if (had == kNoTime) had = atomicCAS(&b->times[h], kNoTime, mine);
    if (had == kNoTime || had == mine) return (int64_t)h;
  }
  return kNoSlot;
}

// What the table has before the tree and fused id of a node that is looked at as of a time, or kNoSlot.
__device__ __forceinline__ int64_t root_of_time(const Batch* b, int64_t time) {
  int64_t n = time_number(b, time);
  return n == kNoSlot ? kNoSlot : n * b->span;
}
