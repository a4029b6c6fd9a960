#include "cuda_env.h"

// Right by themselves: what is wrong in the tests is the memory, or how streams use it.

extern "C" __global__ void sim_copy(const int* in, int* out, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

extern "C" __global__ void sim_copy16(const uint16_t* in, uint16_t* out, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

extern "C" __global__ void sim_increment(int* cells, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) cells[i] += 1;
}

struct Cells {
  int* at;
  int64_t n;
};
extern "C" __global__ void sim_increase(Cells cells) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < cells.n) cells.at[i] += 1;
}

// Reads in[n] in its last thread.
extern "C" __global__ void sim_copy_past_end(const int* in, int* out, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i + 1];
}

// One float4 for each thread, `offset` floats into the array.
extern "C" __global__ void sim_vector(const float* in, float* out, int64_t offset) {
  const float4* v = (const float4*)(in + offset);
  float4 a = v[threadIdx.x];
  out[threadIdx.x] = a.x + a.w;
}
