// What the kernels that gather rows share: where a row lies, whose turn it is, how it is read, and what is counted.
#pragma once

// A Column is n rows of bytes each, at base but for those that a cache holds.
struct Column {
  const char* base;
  int64_t n, bytes;
  const uint32_t* where;     // tier and slot of every row, see gather_find; null: all rows are in one place
  const char* hot;           // the rows of the cache by slot; null: there is none
  const unsigned long long* peers; // where caches of other devices begin that this one reads, by number; null: none
  uint32_t* uses;            // how often each row was gathered, or null
  // words are {1 once an id was out of range, rows gathered, rows from the cache, rows from peers' caches}.
  unsigned long long* words;
  volatile int64_t* fault;   // in host memory: {1 once the others are valid, position, id}
};

// Ids say what to gather. Only the device may know how many there are: then count says so, and room is how many there
// may be.
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

// What a thread counted in one launch, in which it leads far less than 2^32 rows.
struct Counts {
  uint32_t rows, hits, far;
};

// Tiers of a row, the upper two bits of its entry in where. The rest is the slot, but for a peer's row: then the next
// three bits are the peer's number.
enum Tier : uint32_t { kAtHome, kCached, kAtPeer };
constexpr uint32_t kTierShift = 30, kPeerShift = 27;

// gather_find returns where row id lies, or null for an id that is no row. One thread a row has lead: it reports what
// is out of range, and counts.
//
// A cache without a table holds the whole column in order.
__device__ __forceinline__ const char* gather_find(const Column& c, int64_t position, int64_t id, bool lead,
                                                   Counts& counts) {
  if ((uint64_t)id >= (uint64_t)c.n) {
    if (lead && atomicCAS(c.words, 0ull, 1ull) == 0) { // of many, one is reported: host memory is written once
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
    const uint32_t tier = entry >> kTierShift;
    if (tier == kAtHome) return c.base + id * c.bytes;
    if (tier == kAtPeer) {
      if (lead) counts.far++;
      return (const char*)__ldg(c.peers + (entry >> kPeerShift & 7)) +
             (int64_t)(entry & ((1u << kPeerShift) - 1)) * c.bytes;
    }
    slot = entry & ((1u << kTierShift) - 1);
  }
  if (lead) counts.hits++;
  return c.hot + slot * c.bytes;
}

__device__ __forceinline__ void gather_sum(unsigned long long* to, uint32_t counted) {
  unsigned long long sum = counted;
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
  if ((threadIdx.x & 31) == 0 && sum) atomicAdd(to, sum);
}

// gather_add adds up what the threads counted, one atomic a warp and count. All threads of a block call it.
__device__ __forceinline__ void gather_add(const Column& c, const Counts& counts) {
  gather_sum(c.words + 1, counts.rows);
  gather_sum(c.words + 2, counts.hits);
  if (c.peers) gather_sum(c.words + 3, counts.far);
}

// Each row is copied by a group of lanes: 32, or fewer where a row has fewer pieces. A piece is what a lane moves at
// once.
//
// Host memory is read in requests of at most a line, 128 bytes, and a warp's load makes one for each line that its
// lanes touch; vectors of 8 and 16 bytes are served a half and a quarter of a warp at a time, 128 bytes again. So that
// no line is asked for twice, loads begin at lines: the first of a row at the line in which the row begins, with the
// lanes before the row idle. It is the addresses that decide, not the offsets in the column. Only a group whose lanes
// hold no more than 128 bytes begins with the row: that is one request for each line anyway.
//
// A group reads several pieces before it writes the first, of one row or of several, since it is requests under way
// that keep a bus busy.

// A Walk leads a group from load to load. All lanes of a group take the same steps.
struct Walk {
  int64_t row, stride;   // of the result, and how many groups there are
  const char* from;      // the row, rounded down to a piece
  int skip;              // bytes of the first piece that lie before the row
  int pieces;            // pieces that the row touches
  int start;             // the piece that the group's first lane reads next; negative before the row
};

// gather_step goes on to the next load, and says whether there is one.
template <int size>
__device__ __forceinline__ bool gather_step(Walk& w, const Column& c, const List& list, int lanes, int lane,
                                            Counts& counts) {
  w.start += lanes;
  if (w.start < w.pieces) return true;
  for (;;) {
    w.row += w.stride;
    if (w.row >= list.length) return false;
    const char* from = gather_find(c, w.row, list.id(w.row), lane == 0, counts);
    if (!from) continue;
    w.skip = (int)((uint64_t)from & (size - 1));
    w.from = from - w.skip;
    w.pieces = (int)((w.skip + c.bytes + size - 1) / size);
    w.start = w.pieces <= lanes && (size <= 4 || lanes * size <= 128) ? 0 : -(int)(((uint64_t)w.from & 127) / size);
    return true;
  }
}

__device__ __forceinline__ Walk gather_walk(int shift) {
  Walk w;
  w.stride = (int64_t)gridDim.x * blockDim.x >> shift;
  w.row = (((int64_t)blockIdx.x * blockDim.x + threadIdx.x) >> shift) - w.stride;
  w.pieces = w.start = 0;
  return w;
}

// gather_word reads those bytes of the word at an address whose bits are set in keep, and maybe the others.
__device__ __forceinline__ uint32_t gather_word(const Column& c, const char* at, unsigned keep) {
  const char* const end = c.base + c.n * c.bytes;
  if (at >= end || at + 4 <= end) return __ldg((const uint32_t*)at);
  uint32_t word = 0;
#pragma unroll 1
  for (int b = 0; b < 4; b++)
    if (keep >> b & 1) word |= (uint32_t)(uint8_t)at[b] << 8 * b;
  return word;
}
