#include "cuda_env.h"
#include "rows.cuh"

// Rows that are stored narrow are read as gather_ragged reads rows, in words, and each word is widened where it is.
// The values are those that unified.DType and package narrow define, in integers but for one product, so that the bits
// are the CPU's.

// What a row has for each number.
enum From : int64_t { kHalf, kBrain, kInt8, kInt4 };
// What a number becomes.
enum To : int64_t { kFloat32, kFloat16, kBFloat16 };
constexpr int kGroup = 32; // numbers of kInt4 that share a scale

// Widen is a Gather that delivers numbers of another type.
struct Widen {
  Gather gather;
  int64_t width, from, to; // numbers of a row; From and To
  const float* scales;     // of each row of kInt8
};

__device__ __forceinline__ float widen_half(uint32_t h) {
  const uint32_t sign = (h & 0x8000) << 16, b = (h & 0x7fff) << 13;
  if (b > 0x7c00u << 13) return __uint_as_float(sign | b | 0x7fc00000); // not a number, a quiet one
  if (b == 0x7c00u << 13) return __uint_as_float(sign | 0x7f800000);
  if (b >= 1u << 23) return __uint_as_float(sign | (b + 0x38000000));
  return __uint_as_float(sign | __float_as_uint(__fmul_rn((float)(h & 0x3ff), 1.0f / (1 << 24))));
}

__device__ __forceinline__ uint16_t narrow_half(float x) {
  const uint32_t sign = __float_as_uint(x) >> 16 & 0x8000, b = __float_as_uint(x) & 0x7fffffff;
  if (b > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (b >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (b >= 0x38800000) return (uint16_t)(sign | (b + 0xc8000fffu + (b >> 13 & 1)) >> 13);
  return (uint16_t)(sign | (__float_as_uint(__fadd_rn(__uint_as_float(b), 0.5f)) - 0x3f000000));
}

__device__ __forceinline__ uint16_t narrow_brain(float x) {
  const uint32_t b = __float_as_uint(x);
  if ((b & 0x7fffffff) > 0x7f800000) return (uint16_t)(b >> 16 | 0x40);
  return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

__device__ __forceinline__ void widen_put(const Widen& w, int64_t at, float x) {
  switch (w.to) {
    case kFloat32: ((float*)w.gather.dst)[at] = x; break;
    case kFloat16: ((uint16_t*)w.gather.dst)[at] = narrow_half(x); break;
    default: ((uint16_t*)w.gather.dst)[at] = narrow_brain(x);
  }
}

// A Word is four bytes of a row, some of which may lie beside it.
struct Word {
  uint32_t bits;
  int offset;      // in the row, negative for one that begins before it
  unsigned keep;   // which bytes belong to the row, a bit each
  int64_t row;     // of the result
  const char* from; // the row
  float scale;
};

// widen_word writes the numbers of a word.
template <From from>
__device__ __forceinline__ void widen_word(const Widen& w, const Word& word) {
  const int64_t first = word.row * w.width;
  constexpr int size = from == kHalf || from == kBrain ? 2 : 1;
  const int codes = ((int)w.width + kGroup - 1) / kGroup * 2; // where numbers of kInt4 begin, behind the scales
#pragma unroll
  for (int b = 0; b < 4; b += size) {
    if (!(word.keep >> b & 1)) continue;
    const int at = word.offset + b;
    const uint32_t bits = word.bits >> 8 * b;
    if (from == kHalf) {
      widen_put(w, first + at / 2, widen_half(bits & 0xffff));
    } else if (from == kBrain) {
      widen_put(w, first + at / 2, __uint_as_float(bits << 16));
    } else if (from == kInt8) {
      widen_put(w, first + at, __fmul_rn((float)(int8_t)bits, word.scale));
    } else if (at >= codes) {
      const int k = 2 * (at - codes);
      const uint8_t* of = (const uint8_t*)word.from + k / kGroup * 2;
      const float scale = __uint_as_float((uint32_t)__ldg(of) << 16 | (uint32_t)__ldg(of + 1) << 24);
      if (k < w.width) widen_put(w, first + k, __fmul_rn((float)((int32_t)(bits << 28) >> 28), scale));
      if (k + 1 < w.width) widen_put(w, first + k + 1, __fmul_rn((float)((int32_t)(bits << 24) >> 28), scale));
    }
  }
}

template <From from>
__device__ __forceinline__ void widen_rows(const Widen& w, const List& list, Counts& counts) {
  constexpr int depth = 4;
  const Column& c = w.gather.column;
  const int lanes = 1 << w.gather.shift, lane = threadIdx.x & (lanes - 1);
  Walk walk = gather_walk((int)w.gather.shift);
  for (bool more = true; more;) {
    Word word[depth];
#pragma unroll
    for (int u = 0; u < depth; u++) {
      if (more) more = gather_step<4>(walk, c, list, lanes, lane, counts);
      const int p = walk.start + lane, offset = 4 * p - walk.skip;
      word[u].keep = 0;
      if (!more || p < 0 || p >= walk.pieces) continue;
      word[u].offset = offset;
      word[u].keep = 0xfu << max(0, -offset) & 0xfu >> max(0, offset + 4 - (int)c.bytes);
      word[u].bits = gather_word(c, walk.from + 4 * (int64_t)p, word[u].keep);
      word[u].row = walk.row;
      word[u].from = walk.from + walk.skip;
      if (from == kInt8) word[u].scale = __ldg(w.scales + list.id(walk.row));
    }
#pragma unroll
    for (int u = 0; u < depth; u++)
      if (word[u].keep) widen_word<from>(w, word[u]);
  }
}

// gather_widen writes row id(i) of the column to row i of dst, as numbers of another type. Groups are those of
// gather_rows_ragged.
extern "C" __global__ void __launch_bounds__(256, 4) gather_widen(Widen w) {
  const List list = gather_list(w.gather.ids);
  Counts counts{0, 0, 0};
  switch (w.from) {
    case kHalf: widen_rows<kHalf>(w, list, counts); break;
    case kBrain: widen_rows<kBrain>(w, list, counts); break;
    case kInt8: widen_rows<kInt8>(w, list, counts); break;
    default: widen_rows<kInt4>(w, list, counts);
  }
  gather_add(w.gather.column, counts);
}
