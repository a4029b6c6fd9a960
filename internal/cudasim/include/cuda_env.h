// The CPU side of the first line of every .cu file: the names of CUDA C++ for plain g++. The NVRTC side is a file of
// the same name elsewhere. Names are missing on purpose: see "What a kernel may use" in ../README.md.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <utility>

#define __global__ __attribute__((noinline, used))
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)   // the limit itself is read from the PTX (.maxntid)
#define __align__(n) __attribute__((aligned(n)))
#define warpSize 32

// thread_local is the one C++ storage class that fits both forms of shared memory: inside a function it implies static
// ("__shared__ int s[256];"), and "extern thread_local int s[];" is legal ("extern __shared__ int s[];"), which "extern
// static" is not. All blocks run on one thread of the system, so all their fibers see one copy.
#define __shared__ thread_local
// Constants have internal linkage, so that a header with tables may be included by several .cu files.
#define __constant__ static

#define CUDASIM_HIDDEN __attribute__((visibility("hidden")))
#define CUDASIM_INLINE static inline __attribute__((always_inline, unused))

#include "cuda_env_vectors.h"

// --- What the simulator provides -------------------------------------------------------------------------------------

extern "C" {
// Built-in variables come by value out of "const" functions: a plain global "threadIdx" would itself be instrumented,
// one reported read per use, where a struct returned in registers is not.
CUDASIM_HIDDEN uint3 cudasim_thread_idx() __attribute__((const));
CUDASIM_HIDDEN uint3 cudasim_block_idx() __attribute__((const));
CUDASIM_HIDDEN uint3 cudasim_block_dim() __attribute__((const));
CUDASIM_HIDDEN uint3 cudasim_grid_dim() __attribute__((const));
CUDASIM_HIDDEN int cudasim_barrier(int line, int predicate);   // how many threads had the predicate
CUDASIM_HIDDEN uint64_t cudasim_warp(int op, unsigned mask, uint64_t value, int arg, int width, int line);
CUDASIM_HIDDEN uint64_t cudasim_atomic(int op, int bytes, void* p, uint64_t a, uint64_t b);
CUDASIM_HIDDEN void cudasim_trap(int line) __attribute__((noreturn));
CUDASIM_HIDDEN void cudasim_register(const char* name, void* function, void (*call)(void*, void**), int params,
                                     const int* sizes);
}
#define threadIdx (cudasim_thread_idx())
#define blockIdx (cudasim_block_idx())
#define blockDim (cudasim_block_dim())
#define gridDim (cudasim_grid_dim())

// --- Barriers and warp collectives -----------------------------------------------------------------------------------

// The source line, not the program counter, names a barrier: g++ may duplicate code.
#define __syncthreads() ((void)cudasim_barrier(__LINE__, 0))
#define __syncthreads_count(p) (cudasim_barrier(__LINE__, !!(p)))
#define __syncthreads_or(p) (cudasim_barrier(__LINE__, !!(p)) != 0)
#define __syncthreads_and(p) (cudasim_barrier(__LINE__, !(p)) == 0)
#define __trap() (cudasim_trap(__LINE__))

enum {
  CUDASIM_SYNC,
  CUDASIM_SHFL,
  CUDASIM_SHFL_UP,
  CUDASIM_SHFL_DOWN,
  CUDASIM_SHFL_XOR,
  CUDASIM_BALLOT,
  CUDASIM_MATCH
};

CUDASIM_INLINE void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE()) {
  cudasim_warp(CUDASIM_SYNC, mask, 0, 0, 32, line);
}

template <class T> CUDASIM_INLINE T cudasim_exchange(int op, unsigned mask, T v, int arg, int width, int line) {
  static_assert(sizeof v <= 8, "a warp exchanges values of at most 8 bytes");
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &v, sizeof v);
  bits = cudasim_warp(op, mask, bits, arg, width, line);
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}
#define CUDASIM_EXCHANGE(NAME, OP)                                                                          \
  template <class T> CUDASIM_INLINE T NAME(unsigned mask, T v, int arg, int width = 32, int line = __builtin_LINE()) { \
    return cudasim_exchange(OP, mask, v, arg, width, line);                                                 \
  }
CUDASIM_EXCHANGE(__shfl_sync, CUDASIM_SHFL)
CUDASIM_EXCHANGE(__shfl_up_sync, CUDASIM_SHFL_UP)
CUDASIM_EXCHANGE(__shfl_down_sync, CUDASIM_SHFL_DOWN)
CUDASIM_EXCHANGE(__shfl_xor_sync, CUDASIM_SHFL_XOR)

CUDASIM_INLINE unsigned __ballot_sync(unsigned mask, int p, int line = __builtin_LINE()) {
  return cudasim_warp(CUDASIM_BALLOT, mask, !!p, 0, 32, line);
}
CUDASIM_INLINE int __any_sync(unsigned mask, int p, int line = __builtin_LINE()) {
  return __ballot_sync(mask, p, line) != 0;
}
CUDASIM_INLINE int __all_sync(unsigned mask, int p, int line = __builtin_LINE()) {
  return __ballot_sync(mask, !p, line) == 0;
}
template <class T> CUDASIM_INLINE unsigned __match_any_sync(unsigned mask, T v, int line = __builtin_LINE()) {
  return cudasim_exchange<uint64_t>(CUDASIM_MATCH, mask, (uint64_t)v, 0, 32, line);
}

// --- Atomics ---------------------------------------------------------------------------------------------------------

// One call each: the simulator sees the whole operation, and may let another lane go first.
enum {
  CUDASIM_ADD,
  CUDASIM_MIN,
  CUDASIM_MAX,
  CUDASIM_SMIN,
  CUDASIM_SMAX,
  CUDASIM_EXCH,
  CUDASIM_CAS,
  CUDASIM_OR,
  CUDASIM_AND,
  CUDASIM_XOR,
  CUDASIM_ADD_REAL
};
#define CUDASIM_ATOMIC(NAME, T, OP) \
  CUDASIM_INLINE T NAME(T* p, T v) { return (T)cudasim_atomic(OP, sizeof(T), p, (uint64_t)v, 0); }
#define CUDASIM_ATOMICS(NAME, SIGNED_OP, OP)                                 \
  CUDASIM_ATOMIC(NAME, int, SIGNED_OP) CUDASIM_ATOMIC(NAME, unsigned, OP) \
  CUDASIM_ATOMIC(NAME, unsigned long long, OP)
CUDASIM_ATOMICS(atomicAdd, CUDASIM_ADD, CUDASIM_ADD)
CUDASIM_ATOMICS(atomicMin, CUDASIM_SMIN, CUDASIM_MIN)
CUDASIM_ATOMICS(atomicMax, CUDASIM_SMAX, CUDASIM_MAX)
CUDASIM_ATOMICS(atomicExch, CUDASIM_EXCH, CUDASIM_EXCH)
CUDASIM_ATOMICS(atomicOr, CUDASIM_OR, CUDASIM_OR)
CUDASIM_ATOMICS(atomicAnd, CUDASIM_AND, CUDASIM_AND)
CUDASIM_ATOMICS(atomicXor, CUDASIM_XOR, CUDASIM_XOR)
CUDASIM_ATOMIC(atomicMin, long long, CUDASIM_SMIN)
CUDASIM_ATOMIC(atomicMax, long long, CUDASIM_SMAX)
CUDASIM_INLINE int atomicSub(int* p, int v) { return atomicAdd(p, -v); }
CUDASIM_INLINE unsigned atomicSub(unsigned* p, unsigned v) { return atomicAdd(p, 0u - v); }
#define CUDASIM_ATOMIC_CAS(T)                                                            \
  CUDASIM_INLINE T atomicCAS(T* p, T expected, T v) {                                    \
    return (T)cudasim_atomic(CUDASIM_CAS, sizeof v, p, (uint64_t)expected, (uint64_t)v); \
  }
CUDASIM_ATOMIC_CAS(int)
CUDASIM_ATOMIC_CAS(unsigned)
CUDASIM_ATOMIC_CAS(unsigned long long)
template <class T> CUDASIM_INLINE T cudasim_add_real(T* p, T v) {
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &v, sizeof v);
  bits = cudasim_atomic(CUDASIM_ADD_REAL, sizeof v, p, bits, 0);
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}
CUDASIM_INLINE float atomicAdd(float* p, float v) { return cudasim_add_real(p, v); }
CUDASIM_INLINE double atomicAdd(double* p, double v) { return cudasim_add_real(p, v); }
// A fence orders nothing for the race check: a value handed over by a fence and a flag is reported (see ../README.md).
CUDASIM_INLINE void __threadfence() { __asm__ volatile("" ::: "memory"); }
CUDASIM_INLINE void __threadfence_system() { __asm__ volatile("" ::: "memory"); }
CUDASIM_INLINE void __threadfence_block() { __asm__ volatile("" ::: "memory"); }

// --- Arithmetic: what compute_70 has, with CUDA's answers at the corners ---------------------------------------------

template <class T> CUDASIM_INLINE T __ldg(const T* p) { return *p; }
CUDASIM_INLINE int __popc(unsigned v) { return __builtin_popcount(v); }
CUDASIM_INLINE int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
CUDASIM_INLINE int __ffs(int v) { return __builtin_ffs(v); }
CUDASIM_INLINE int __ffsll(long long v) { return __builtin_ffsll(v); }
CUDASIM_INLINE int __clz(int v) { return v ? __builtin_clz(v) : 32; }
CUDASIM_INLINE int __clzll(long long v) { return v ? __builtin_clzll(v) : 64; }
CUDASIM_INLINE unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) r |= (v >> i & 1) << (31 - i);
  return r;
}
CUDASIM_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (uint64_t)a * b >> 32; }
CUDASIM_INLINE int __mulhi(int a, int b) { return (int64_t)a * b >> 32; }
CUDASIM_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned __int128)a * b >> 64;
}
CUDASIM_INLINE long long __mul64hi(long long a, long long b) { return (__int128)a * b >> 64; }
// Rounded once each, never contracted into a fused multiply-add: needs -ffp-contract=off.
CUDASIM_INLINE double __dmul_rn(double a, double b) { return a * b; }
CUDASIM_INLINE double __dadd_rn(double a, double b) { return a + b; }
CUDASIM_INLINE double __dsub_rn(double a, double b) { return a - b; }
CUDASIM_INLINE double __ddiv_rn(double a, double b) { return a / b; }
CUDASIM_INLINE double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
CUDASIM_INLINE float __fmul_rn(float a, float b) { return a * b; }
CUDASIM_INLINE float __fadd_rn(float a, float b) { return a + b; }
CUDASIM_INLINE float __fsub_rn(float a, float b) { return a - b; }
CUDASIM_INLINE float __fdiv_rn(float a, float b) { return a / b; }
CUDASIM_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
template <class To, class From> CUDASIM_INLINE To cudasim_bits(From v) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To r;
  __builtin_memcpy(&r, &v, sizeof r);
  return r;
}
CUDASIM_INLINE long long __double_as_longlong(double v) { return cudasim_bits<long long>(v); }
CUDASIM_INLINE double __longlong_as_double(long long v) { return cudasim_bits<double>(v); }
CUDASIM_INLINE int __float_as_int(float v) { return cudasim_bits<int>(v); }
CUDASIM_INLINE float __int_as_float(int v) { return cudasim_bits<float>(v); }
CUDASIM_INLINE unsigned __float_as_uint(float v) { return cudasim_bits<unsigned>(v); }
CUDASIM_INLINE float __uint_as_float(unsigned v) { return cudasim_bits<float>(v); }
// Stricter than CUDA's overloads: both sides have one type. What compiles here means the same there.
template <class T> CUDASIM_INLINE T min(T a, T b) { return b < a ? b : a; }
template <class T> CUDASIM_INLINE T max(T a, T b) { return a < b ? b : a; }

// --- Registration ----------------------------------------------------------------------------------------------------

// CUDASIM_KERNEL(f) takes the parameter types of f from its signature, so that cuLaunchKernel's void** can be copied
// (sizes) and passed (types). The build writes these lines; no .cu file holds one.
template <class... A> struct CudasimCall {
  template <size_t... I> __attribute__((no_sanitize("thread"), noinline))
  static void go(void* f, void** p, std::integer_sequence<size_t, I...>) { ((void (*)(A...))f)(*(A*)p[I]...); }
  __attribute__((no_sanitize("thread"))) static void call(void* f, void** p) {
    go(f, p, std::make_integer_sequence<size_t, sizeof...(A)>());
  }
};
template <class... A> inline bool cudasim_register_kernel(const char* name, void (*f)(A...)) {
  static const int sizes[] = {(int)sizeof(A)..., 0};
  cudasim_register(name, (void*)f, &CudasimCall<A...>::call, sizeof...(A), sizes);
  return true;
}
#define CUDASIM_KERNEL(f) static bool cudasim_registered_##f = cudasim_register_kernel(#f, f);
