#include "cuda_env.h"

// out[i] = table[ids[i]], a warp for each row of `words` 4-byte words.
extern "C" __global__ void sim_gather(const float* table, const int* ids, float* out, int64_t rows, int64_t words) {
  int64_t row = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) >> 5;
  int lane = threadIdx.x & 31;
  if (row >= rows) return;
  const float* from = table + ids[row] * words;
  float* to = out + row * words;
  for (int w = lane; w < words; w += 32) to[w] = from[w];
}
// The same, but each warp instruction starts on a 128-byte line of the source; lanes outside of the row are masked.
extern "C" __global__ void sim_gather_aligned(const float* table, const int* ids, float* out, int64_t rows,
                                              int64_t words) {
  int64_t row = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) >> 5;
  int lane = threadIdx.x & 31;
  if (row >= rows) return;
  const float* from = table + ids[row] * words;
  float* to = out + row * words;
  int offset = ((uint64_t)from & 127) >> 2;
  for (int w = lane - offset; w < words; w += 32)
    if (w >= 0) to[w] = __ldg(from + w);
}
// Every warp instruction reads one line, however the lanes diverge.
extern "C" __global__ void sim_diverge(const float* p, const float* q, float* out, int64_t n) {
  int lane = threadIdx.x & 31;
  float x = 0;
  for (int i = 0; i < n; i++) {
    if ((i + lane) % 3 == 0) continue;
    x += p[i * 32 + lane];
  }
  for (int i = 0; i < n - (lane & 1); i++) {      // the number of rounds differs
    if (i < lane && (lane & 2)) x -= q[i * 32 + lane];
    else x += q[(n + i) * 32 + lane];
  }
  out[threadIdx.x] = x;
}
// Lane i reads one element of `stride` bytes each; 4 or 16 bytes.
extern "C" __global__ void sim_stride(const char* in, int64_t stride, int* out) {
  out[threadIdx.x] = *(const int*)(in + threadIdx.x * stride);
}
extern "C" __global__ void sim_vectors(const int4* in, int4* out) {
  out[threadIdx.x] = __ldg(in + threadIdx.x);
}
