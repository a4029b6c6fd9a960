// What the C++ of PTX instructions is made of (ptx.py): their answers at the corners, where C++ has none.
#pragma once
#include <type_traits>

#include "cuda_env.h"

// A register's bits as another type of the same size.
template <class To, class From> CUDASIM_INLINE To ptx_as(From v) { return cudasim_bits<To>(v); }

template <class T> CUDASIM_INLINE T ptx_param(const void* p) {
  T v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Shifts by more than the width shift everything out; C++ would take the amount modulo the width, or anything.
template <class T> CUDASIM_INLINE T ptx_shl(T v, uint32_t n) { return n >= 8 * sizeof v ? T(0) : T(v << n); }
template <class T> CUDASIM_INLINE T ptx_shr(T v, uint32_t n) {
  return n < 8 * sizeof v ? T(v >> n) : std::is_signed_v<T> && v < 0 ? T(-1) : T(0);
}

// A division by zero gives all ones on a device; the processor here would stop the program.
template <class T> CUDASIM_INLINE T ptx_div(T a, T b) {
  if (b == 0) return T(-1);
  if (std::is_signed_v<T> && b == T(-1)) return T(0 - std::make_unsigned_t<T>(a));
  return a / b;
}
template <class T> CUDASIM_INLINE T ptx_rem(T a, T b) { return a - ptx_div(a, b) * b; }
CUDASIM_INLINE float ptx_div(float a, float b) { return a / b; }
CUDASIM_INLINE double ptx_div(double a, double b) { return a / b; }

template <class T> CUDASIM_INLINE T ptx_mul_hi(T a, T b) {
  typedef std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128> Wide;
  return T(Wide(a) * Wide(b) >> (8 * sizeof(T)));
}
CUDASIM_INLINE uint32_t ptx_clz(uint32_t v) { return v ? __builtin_clz(v) : 32; }
CUDASIM_INLINE uint32_t ptx_clz(uint64_t v) { return v ? __builtin_clzll(v) : 64; }
template <class T> CUDASIM_INLINE uint32_t ptx_shiftamt(T v) { return v ? ptx_clz(v) : ~0u; }
template <class T> CUDASIM_INLINE T ptx_bfi(T bits, T into, uint32_t at, uint32_t count) {
  const uint32_t width = 8 * sizeof(T);
  at &= 255, count &= 255;
  if (at >= width) return into;
  T mask = (count >= width ? ~T(0) : (T(1) << count) - 1) << at;
  return (into & ~mask) | ((bits << at) & mask);
}
CUDASIM_INLINE uint32_t ptx_brev(uint32_t v) { return __brev(v); }
CUDASIM_INLINE uint64_t ptx_brev(uint64_t v) { return (uint64_t)__brev(v) << 32 | __brev(v >> 32); }

// Rounded towards zero and held within what the integer can be; what is not a number gives 0.
template <class To, class From> CUDASIM_INLINE To ptx_truncate(From v) {
  typedef std::make_unsigned_t<To> U;
  const To least = std::is_signed_v<To> ? To(U(1) << (8 * sizeof(To) - 1)) : To(0), most = To(U(least) - 1);
  const From limit = From(2) * From(U(1) << (8 * sizeof(To) - 1 - std::is_signed_v<To>));
  return v != v ? To(0) : v >= limit ? most : v <= From(least) ? least : To(v);
}

enum { PTX_IDX = CUDASIM_SHFL, PTX_UP = CUDASIM_SHFL_UP, PTX_DOWN = CUDASIM_SHFL_DOWN, PTX_BFLY = CUDASIM_SHFL_XOR };
// c holds the lanes of a segment: 32 less its width, above the lane to stop at, which the width gives as well.
CUDASIM_INLINE uint32_t ptx_shfl(int mode, uint32_t v, uint32_t lane, uint32_t c, uint32_t mask, int line) {
  return cudasim_warp(mode, mask, v, lane, 32 - (c >> 8 & 31), line);
}
CUDASIM_INLINE uint32_t ptx_ballot(bool p, uint32_t mask, int line) {
  return cudasim_warp(CUDASIM_BALLOT, mask, p, 0, 32, line);
}
CUDASIM_INLINE uint32_t ptx_match(uint64_t v, uint32_t mask, int line) {
  return cudasim_warp(CUDASIM_MATCH, mask, v, 0, 32, line);
}
