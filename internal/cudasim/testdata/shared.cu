#include "cuda_env.h"

extern "C" __global__ void sim_shared(int* out) {
  __shared__ int cells[64];
  cells[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = cells[threadIdx.x ^ 1];
}
extern "C" __global__ void sim_shared_uninitialised(int* out) {
  __shared__ int cells[64];
  if (threadIdx.x & 1) cells[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = cells[threadIdx.x];
}
extern "C" __global__ void sim_shared_count(unsigned* out) {
  __shared__ unsigned counter;
  if (threadIdx.x == 0) counter = 0;
  __syncthreads();
  atomicAdd(&counter, 1u);
  __syncthreads();
  out[threadIdx.x] = counter;
}
extern "C" __global__ void sim_shared_count_uninitialised(unsigned* out) {
  __shared__ unsigned counter;
  atomicAdd(&counter, 1u);
  __syncthreads();
  out[threadIdx.x] = counter;
}
extern "C" __global__ void sim_shared_past_end(int* out) {      // writes cells[32] of 32
  __shared__ int cells[32];
  cells[threadIdx.x + 1] = 1;
  __syncthreads();
  out[threadIdx.x] = cells[threadIdx.x];
}
extern "C" __global__ void sim_dynamic_past_end(int* out) {     // given blockDim.x cells
  extern __shared__ int dynamic_cells[];
  dynamic_cells[threadIdx.x + 1] = 1;
  out[threadIdx.x] = 0;
}
