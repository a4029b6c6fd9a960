// The logarithm and the unit interval of log.go for kernels: the same operations in the same order, each rounded once.
#pragma once
#include "rng.cuh"

// A draw as a number between 0 and 1 that is never 0.
__device__ __forceinline__ double unit_above_zero(uint64_t d) {
  return __dmul_rn(__dadd_rn((double)(d >> 11), 0.5), 1.0 / 9007199254740992.0);
}

// The natural logarithm of a positive, finite x that is not below 2^-1022.
__device__ __forceinline__ double log_rn(double x) {
  uint64_t b = (uint64_t)__double_as_longlong(x), above = b - 0x3FE6A09E00000000ull;
  double k = (double)((int64_t)above >> 52);
  double f = __dadd_rn(__longlong_as_double((long long)(b - (above & ~((1ull << 52) - 1)))), -1.0);
  double s = __ddiv_rn(f, __dadd_rn(2.0, f)), s2 = __dmul_rn(s, s), s4 = __dmul_rn(s2, s2);
  double odd = __dadd_rn(1.818357216161805012e-01, __dmul_rn(s4, 1.479819860511658591e-01));
  odd = __dadd_rn(2.857142874366239149e-01, __dmul_rn(s4, odd));
  odd = __dmul_rn(s2, __dadd_rn(6.666666666666735130e-01, __dmul_rn(s4, odd)));
  double even = __dadd_rn(2.222219843214978396e-01, __dmul_rn(s4, 1.531383769920937332e-01));
  even = __dmul_rn(s4, __dadd_rn(3.999999999940941908e-01, __dmul_rn(s4, even)));
  double half = __dmul_rn(__dmul_rn(0.5, f), f);
  double low = __dadd_rn(__dmul_rn(s, __dadd_rn(half, __dadd_rn(odd, even))), __dmul_rn(k, 1.90821492927058770002e-10));
  return __dadd_rn(__dmul_rn(k, 6.93147180369123816490e-01), -__dadd_rn(__dadd_rn(half, -low), -f));
}

// The same for any weight above 0.
__device__ __forceinline__ double log_of_weight(double w) {
  const double least = 2.2250738585072014e-308;
  if (w >= least) return log_rn(w);
  return __dadd_rn(log_rn(__dmul_rn(w, 18014398509481984.0)), -37.42994775023705);  // 54 * log(2)
}

// x of the greatest power of two, 2^x, that is at most w > 0.
__device__ __forceinline__ int exponent_of(double w) {
  uint64_t b = (uint64_t)__double_as_longlong(w);
  return b >> 52 ? (int)(b >> 52) - 1023 : 63 - __clzll((long long)b) - 1074;
}

// floor(w * 2^scale), which is below 2^62.
__device__ __forceinline__ uint64_t fixed_weight(double w, int scale) {
  uint64_t b = (uint64_t)__double_as_longlong(w), m = b & ((1ull << 52) - 1);
  int x = (int)(b >> 52);
  if (x > 0) m |= 1ull << 52, x--;
  int shift = x - 1074 + scale;  // w = m * 2^(x-1074)
  return shift >= 0 ? m << shift : m >> min(-shift, 63);
}
