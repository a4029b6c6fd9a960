#include "cuda_env.h"
#include "rows.cuh"

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
