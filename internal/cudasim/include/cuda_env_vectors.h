// CUDA's vector types for g++. Included by cuda_env.h only.
//
// A plain struct will not do: "float4 v = p[i]" would be split by g++ into four 4-byte loads, and neither the check for
// misaligned vectors nor the count of lines would see one access of 16 bytes. Copies therefore go through one load of a
// machine type of the same size; locals still end in registers, because everything is inlined.
#pragma once

typedef int cudasim_v16 __attribute__((vector_size(16), may_alias));
typedef long long cudasim_v8 __attribute__((may_alias));
typedef int cudasim_v4 __attribute__((may_alias));
typedef short cudasim_v2 __attribute__((may_alias));

#define CUDASIM_VECTOR(NAME, T, BYTES, ...)                                                          \
  struct alignas(BYTES) NAME {                                                                       \
    T __VA_ARGS__;                                                                                   \
    NAME() = default;                                                                                \
    __forceinline__ NAME(const NAME& o) { *(cudasim_v##BYTES*)this = *(const cudasim_v##BYTES*)&o; } \
    __forceinline__ NAME& operator=(const NAME& o) {                                                 \
      *(cudasim_v##BYTES*)this = *(const cudasim_v##BYTES*)&o;                                       \
      return *this;                                                                                  \
    }
#define CUDASIM_VECTOR4(NAME, T, BYTES)                                             \
  CUDASIM_VECTOR(NAME, T, BYTES, x, y, z, w)                                        \
    __forceinline__ NAME(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}            \
  };                                                                                \
  CUDASIM_INLINE NAME make_##NAME(T a, T b, T c, T d) { return NAME(a, b, c, d); }
#define CUDASIM_VECTOR2(NAME, T, BYTES)                                  \
  CUDASIM_VECTOR(NAME, T, BYTES, x, y)                                   \
    __forceinline__ NAME(T a, T b) : x(a), y(b) {}                       \
  };                                                                     \
  CUDASIM_INLINE NAME make_##NAME(T a, T b) { return NAME(a, b); }

CUDASIM_VECTOR4(float4, float, 16)
CUDASIM_VECTOR4(int4, int, 16)
CUDASIM_VECTOR4(uint4, unsigned, 16)
CUDASIM_VECTOR4(short4, short, 8)
CUDASIM_VECTOR4(ushort4, unsigned short, 8)
CUDASIM_VECTOR4(uchar4, unsigned char, 4)
CUDASIM_VECTOR2(float2, float, 8)
CUDASIM_VECTOR2(int2, int, 8)
CUDASIM_VECTOR2(uint2, unsigned, 8)
CUDASIM_VECTOR2(double2, double, 16)
CUDASIM_VECTOR2(longlong2, long long, 16)
CUDASIM_VECTOR2(ulonglong2, unsigned long long, 16)
CUDASIM_VECTOR2(short2, short, 4)
CUDASIM_VECTOR2(ushort2, unsigned short, 4)
CUDASIM_VECTOR2(uchar2, unsigned char, 2)

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
