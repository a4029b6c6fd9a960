#include "cuda_env.h"
#include "rows.cuh"

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

// gather_whole copies rows that begin and end with a piece, there and here.
template <class Piece, int depth>
__device__ __forceinline__ void gather_whole(const Column& c, const List& list, char* dst, int shift, Counts& counts) {
  const int lanes = 1 << shift, lane = threadIdx.x & (lanes - 1);
  Walk w = gather_walk(shift);
  for (bool more = true; more;) {
    Piece piece[depth];
    Piece* to[depth];
#pragma unroll
    for (int u = 0; u < depth; u++) {
      if (more) more = gather_step<sizeof(Piece)>(w, c, list, lanes, lane, counts);
      const int p = w.start + lane;
      to[u] = nullptr;
      if (more && p >= 0 && p < w.pieces) {
        piece[u] = __ldg((const Piece*)w.from + p);
        to[u] = (Piece*)(dst + w.row * c.bytes) + p;
      }
    }
#pragma unroll
    for (int u = 0; u < depth; u++)
      if (to[u]) *to[u] = piece[u];
  }
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

// gather_ragged copies rows that do not, in the column or in the result: it reads words, and writes units of 1 or 2
// bytes of them. A word at the edge of a row holds bytes of what is beside the row, which are dropped. Memory begins
// and ends at words, so these can be read, except that what is allocated may end with the column: of its last word the
// row's own bytes are read.
template <class Unit, int depth>
__device__ __forceinline__ void gather_ragged(const Column& c, const List& list, char* dst, int shift, Counts& counts) {
  const int lanes = 1 << shift, lane = threadIdx.x & (lanes - 1);
  Walk w = gather_walk(shift);
  for (bool more = true; more;) {
    uint32_t word[depth];
    char* to[depth];      // where byte 0 of the word would go
    unsigned keep[depth]; // which bytes of the word belong to the row, a bit each
#pragma unroll
    for (int u = 0; u < depth; u++) {
      if (more) more = gather_step<4>(w, c, list, lanes, lane, counts);
      const int p = w.start + lane;
      const int offset = 4 * p - w.skip; // of the word in the row, which is of less than 1 GiB
      to[u] = dst + w.row * c.bytes + offset;
      keep[u] = 0;
      if (more && p >= 0 && p < w.pieces) {
        keep[u] = 0xfu << max(0, -offset) & 0xfu >> max(0, offset + 4 - (int)c.bytes);
        word[u] = gather_word(c, w.from + 4 * (int64_t)p, keep[u]);
      }
    }
#pragma unroll
    for (int u = 0; u < depth; u++)
#pragma unroll
      for (int b = 0; b < 4; b += sizeof(Unit))
        if (keep[u] >> b & 1) *(Unit*)(to[u] + b) = (Unit)(word[u] >> 8 * b);
  }
}

// gather_rows copies row id(i) of the column to row i of dst. Blocks have whole warps; any grid will do. Room for 4
// blocks a multiprocessor leaves it registers enough.
extern "C" __global__ void __launch_bounds__(256, 4) gather_rows(Gather g) {
  const List list = gather_list(g.ids);
  Counts counts{0, 0, 0};
  switch (g.unit) {
    case 16: gather_whole<uint4, 4>(g.column, list, g.dst, (int)g.shift, counts); break;
    case 8: gather_whole<uint2, 4>(g.column, list, g.dst, (int)g.shift, counts); break;
    default: gather_whole<uint32_t, 8>(g.column, list, g.dst, (int)g.shift, counts);
  }
  gather_add(g.column, counts);
}

// gather_rows_ragged is gather_rows for a unit of 2 or 1.
extern "C" __global__ void __launch_bounds__(256, 4) gather_rows_ragged(Gather g) {
  const List list = gather_list(g.ids);
  Counts counts{0, 0, 0};
  if (g.unit == 2) gather_ragged<uint16_t, 4>(g.column, list, g.dst, (int)g.shift, counts);
  else gather_ragged<uint8_t, 4>(g.column, list, g.dst, (int)g.shift, counts);
  gather_add(g.column, counts);
}

struct Mark {
  const int64_t* ids; // distinct and in range
  int64_t length;
  int64_t first; // slot of the first
  uint32_t* where;
  uint32_t place; // what an entry has beside the slot: the tier, and for rows of a peer its number
};

// cache_mark enters rows into the table of a cache (see gather_find): row ids[i] is in slot first + i of that place.
extern "C" __global__ void __launch_bounds__(256) cache_mark(Mark m) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < m.length; i += step)
    m.where[m.ids[i]] = m.place | (uint32_t)(m.first + i);
}
