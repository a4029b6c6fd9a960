// Sparse products, products sampled at the edges, and softmax over edges, on a device. plain.go, sddmm.go and
// softmax.go say what is computed; sums have the same order here, and nothing is contracted, so results are the same to
// the bit.
#include "cuda_env.h"

// A sparse matrix in compressed rows. Edges whose column is out of range count as if they were not there.
struct Sparse {
  const void *indptr, *indices;
  int64_t rows, cols, edges;
  int64_t wideIndptr, wideIndices; // 1: int64
};

static __device__ __forceinline__ int64_t element(const void* a, int64_t wide, int64_t i) {
  return wide ? __ldg((const long long*)a + i) : __ldg((const int*)a + i);
}

static __device__ __forceinline__ int64_t begin_of(const Sparse& a, int64_t row) {
  return element(a.indptr, a.wideIndptr, row);
}

// The row of a warp or of a smaller group of 1 << shift lanes, and how many groups there are.
static __device__ __forceinline__ int64_t group_of(int shift) {
  return ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) >> shift;
}
static __device__ __forceinline__ int64_t groups(int shift) { return (int64_t)gridDim.x * blockDim.x >> shift; }

struct Multiply {
  Sparse a;
  const float* values; // [heads, edges], or null
  const float* x;
  float* y;
  int64_t width, part; // of a row, and of a head
  int64_t mean;
  int64_t shift; // 1 << shift lanes compute a row
};

// y = a x. A lane sums up to 4 columns at once, each in the order of the edges.
extern "C" __global__ void __launch_bounds__(256) sparse_multiply(Multiply m) {
  const int shift = (int)m.shift, lanes = 1 << shift, lane = (int)(threadIdx.x & (lanes - 1));
  for (int64_t row = group_of(shift); row < m.a.rows; row += groups(shift)) {
    const int64_t lo = begin_of(m.a, row), hi = begin_of(m.a, row + 1);
    for (int64_t first = lane; first < m.width; first += 4 * lanes) {
      float sum[4] = {0, 0, 0, 0};
      int64_t head[4];
#pragma unroll
      for (int u = 0; u < 4; u++) head[u] = m.values ? (first + u * lanes) / m.part * m.a.edges : 0;
      for (int64_t e = lo; e < hi; e++) {
        const int64_t j = element(m.a.indices, m.a.wideIndices, e);
        if ((uint64_t)j >= (uint64_t)m.a.cols) continue;
        const float* from = m.x + j * m.width;
#pragma unroll
        for (int u = 0; u < 4; u++) {
          const int64_t k = first + u * lanes;
          if (k >= m.width) break;
          const float v = __ldg(from + k);
          sum[u] = __fadd_rn(sum[u], m.values ? __fmul_rn(__ldg(m.values + head[u] + e), v) : v);
        }
      }
      const float scale = hi > lo ? __fdiv_rn(1.0f, (float)(hi - lo)) : 0.0f;
#pragma unroll
      for (int u = 0; u < 4; u++) {
        const int64_t k = first + u * lanes;
        if (k < m.width) m.y[row * m.width + k] = m.mean ? __fmul_rn(sum[u], scale) : sum[u];
      }
    }
  }
}

struct Sampled {
  Sparse a;
  const float *u, *v;
  float* out; // [heads, edges]
  int64_t width, part;
};

// Dot products at the ends of the edges. Half a warp computes one: lane l takes columns l, l + 16, ..., and halves are
// added.
extern "C" __global__ void __launch_bounds__(256) sparse_sample(Sampled s) {
  const int lane = (int)(threadIdx.x & 15), half = (int)(threadIdx.x >> 4 & 1);
  for (int64_t row = group_of(5); row < s.a.rows; row += groups(5)) {
    const int64_t lo = begin_of(s.a, row), hi = begin_of(s.a, row + 1);
    const float* u = s.u + row * s.width;
    for (int64_t two = lo; two < hi; two += 2) {
      const int64_t e = two + half, j = e < hi ? element(s.a.indices, s.a.wideIndices, e) : -1;
      const bool there = (uint64_t)j < (uint64_t)s.a.cols;
      for (int64_t first = 0, to = e; first < s.width; first += s.part, to += s.a.edges) {
        float sum = 0;
        if (there)
          for (int64_t k = first + lane; k < first + s.part; k += 16)
            sum = __fadd_rn(sum, __fmul_rn(__ldg(u + k), __ldg(s.v + j * s.width + k)));
#pragma unroll
        for (int n = 8; n > 0; n /= 2) sum = __fadd_rn(sum, __shfl_down_sync(0xffffffffu, sum, n, 16));
        if (lane == 0 && e < hi) s.out[to] = sum;
      }
    }
  }
}

struct Softmax {
  Sparse a;
  const float* scores; // [heads, edges]
  const float* given;  // of the result, in the gradient alone
  float* out;          // the same, and maybe the same memory
  int64_t heads;
};

// Adds the terms of up to 32 edges to a sum, in their order: those of lanes 0 to n-1.
static __device__ __forceinline__ float summed(float sum, float term, int64_t n) {
  const int m = (int)min(n, (int64_t)32);
  for (int i = 0; i < m; i++) sum = __fadd_rn(sum, __shfl_sync(0xffffffffu, term, i));
  return sum;
}

// exp of softmax.go: e^x for x up to 0.
static __device__ __forceinline__ float exponential(float x) {
  if ((__float_as_int(x) & 0x7fffffff) > 0x7f800000) return x; // NaN
  if (x < -104.0f) return 0;
  if (x > 88.0f) return __int_as_float(0x7f800000);
  const double shifter = 6755399441055744.0; // 1.5 * 2^52: adding to it rounds to whole numbers, to even
  const double whole = __dadd_rn(__dmul_rn((double)x, 1.4426950408889634), shifter);
  const double r = __dsub_rn((double)x, __dmul_rn(__dsub_rn(whole, shifter), 0.6931471805599453));
  double p = __dadd_rn(__dmul_rn(r, 1.0 / 362880), 1.0 / 40320);
  p = __dadd_rn(__dmul_rn(p, r), 1.0 / 5040);
  p = __dadd_rn(__dmul_rn(p, r), 1.0 / 720);
  p = __dadd_rn(__dmul_rn(p, r), 1.0 / 120);
  p = __dadd_rn(__dmul_rn(p, r), 1.0 / 24);
  p = __dadd_rn(__dmul_rn(p, r), 1.0 / 6);
  p = __dadd_rn(__dmul_rn(p, r), 0.5);
  p = __dadd_rn(__dmul_rn(p, r), 1.0);
  p = __dadd_rn(__dmul_rn(p, r), 1.0);
  const long long k = __double_as_longlong(whole) - __double_as_longlong(shifter);
  return (float)__dmul_rn(p, __longlong_as_double((k + 1023) << 52));
}

// Integers in the order of floats. A NaN is greater than all, or less: its own element makes its row NaN then.
static __device__ __forceinline__ int ordered(float x) {
  const int bits = __float_as_int(x);
  return bits ^ (bits >> 31 & 0x7fffffff);
}

// Softmax over the edges of each row and head. A warp computes a row; its sum has the order of the edges.
extern "C" __global__ void __launch_bounds__(256) sparse_softmax(Softmax s) {
  const int lane = (int)(threadIdx.x & 31);
  for (int64_t row = group_of(5); row < s.a.rows; row += groups(5)) {
    const int64_t first = begin_of(s.a, row), degree = begin_of(s.a, row + 1) - first;
    for (int64_t h = 0; h < s.heads; h++) {
      const float* scores = s.scores + h * s.a.edges + first;
      float* out = s.out + h * s.a.edges + first;
      int most = ordered(__int_as_float((int)0xff800000u)); // -infinity
      for (int64_t e = lane; e < degree; e += 32) most = max(most, ordered(scores[e]));
#pragma unroll
      for (int n = 16; n > 0; n /= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, n));
      const float greatest = __int_as_float(most ^ (most >> 31 & 0x7fffffff));
      float sum = 0;
      for (int64_t base = 0; base < degree; base += 32) {
        const int64_t e = base + lane;
        float t = 0;
        if (e < degree) out[e] = t = exponential(__fsub_rn(scores[e], greatest));
        sum = summed(sum, t, degree - base);
      }
      for (int64_t e = lane; e < degree; e += 32) out[e] = __fdiv_rn(out[e], sum);
    }
  }
}

// The gradient of softmax with respect to the scores, where these are its result.
extern "C" __global__ void __launch_bounds__(256) sparse_softmax_backward(Softmax s) {
  const int lane = (int)(threadIdx.x & 31);
  for (int64_t row = group_of(5); row < s.a.rows; row += groups(5)) {
    const int64_t first = begin_of(s.a, row), degree = begin_of(s.a, row + 1) - first;
    for (int64_t h = 0; h < s.heads; h++) {
      const int64_t at = h * s.a.edges + first;
      float sum = 0;
      for (int64_t base = 0; base < degree; base += 32) {
        const int64_t e = at + base + lane;
        sum = summed(sum, base + lane < degree ? __fmul_rn(s.scores[e], s.given[e]) : 0, degree - base);
      }
      for (int64_t e = at + lane; e < at + degree; e += 32)
        s.out[e] = __fmul_rn(s.scores[e], __fsub_rn(s.given[e], sum));
    }
  }
}
