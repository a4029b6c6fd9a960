// What the kernels that gather rows share: where a row lies, whose turn it is, and what is counted.
#pragma once

// A Column is n rows of bytes each, at base but for those that a cache holds.
struct Column {
  const char* base;
  int64_t n, bytes;
  const uint32_t* where;     // tier and slot of every row, see gather_find; null: all rows are in one place
  const char* hot;           // the rows of the cache by slot; null: there is none
  uint32_t* uses;            // how often each row was gathered, or null
  unsigned long long* words; // {1 once an id was out of range, rows gathered, rows that came out of the cache}
  volatile int64_t* fault;   // in host memory: {1 once the others are valid, position, id}
};

// Ids say what to gather. Only the device may know how many there are: then count says so, and room is how many there may be.
struct Ids {
  const void* ids;
  int64_t idBytes; // 4 or 8
  int64_t room;
  const int64_t* count; // or null
};

// Gather is what the kernels that gather take: row i of the result, at dst, is row id(i) of the column.
struct Gather {
  Column column;
  Ids ids;
  char* dst;
  int64_t unit;  // how many bytes, 1 to 16, divide every address and the row
  int64_t shift; // 1 << shift lanes copy a row
};

// A List is the Ids once their number is known: id(i) for i < length.
struct List {
  const void* ids;
  int64_t idBytes;
  int64_t length;

  __device__ __forceinline__ int64_t id(int64_t i) const {
    return idBytes == 4 ? ((const int32_t*)ids)[i] : ((const int64_t*)ids)[i];
  }
};

__device__ __forceinline__ List gather_list(const Ids& i) {
  return List{i.ids, i.idBytes, i.count && *i.count < i.room ? *i.count : i.room};
}

// What a thread counted.
struct Counts {
  unsigned long long rows, hits;
};

// gather_find returns where row id lies, or null for an id that is no row. One thread a row has lead: it reports what is out
// of range, and counts.
//
// The upper two bits of a row's entry in where are its tier, 0 its place in the column and 1 the cache; the rest is the slot.
// A cache without such a table holds the whole column in order.
__device__ __forceinline__ const char* gather_find(const Column& c, int64_t position, int64_t id, bool lead, Counts& counts) {
  if ((uint64_t)id >= (uint64_t)c.n) {
    if (lead && atomicCAS(c.words, 0ull, 1ull) == 0) { // of many, one is told: host memory is written once
      c.fault[1] = position;
      c.fault[2] = id;
      __threadfence_system();
      c.fault[0] = 1;
    }
    return nullptr;
  }
  if (lead) {
    counts.rows++;
    if (c.uses) atomicAdd(c.uses + id, 1u);
  }
  if (!c.hot) return c.base + id * c.bytes;
  int64_t slot = id;
  if (c.where) {
    const uint32_t entry = __ldg(c.where + id);
    if (entry >> 30 == 0) return c.base + id * c.bytes;
    slot = entry & 0x3fffffffu;
  }
  if (lead) counts.hits++;
  return c.hot + slot * c.bytes;
}

// gather_add adds up what the threads counted, one atomic a warp. All threads of a block call it.
__device__ __forceinline__ void gather_add(const Column& c, Counts counts) {
  for (int d = 16; d > 0; d >>= 1) {
    counts.rows += __shfl_down_sync(0xffffffffu, counts.rows, d);
    counts.hits += __shfl_down_sync(0xffffffffu, counts.hits, d);
  }
  if ((threadIdx.x & 31) != 0) return;
  if (counts.rows) atomicAdd(c.words + 1, counts.rows);
  if (counts.hits) atomicAdd(c.words + 2, counts.hits);
}
