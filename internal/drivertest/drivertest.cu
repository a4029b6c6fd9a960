#include "cuda_env.h"

// Kernels for the tests of this folder.

// out[i] = factor * in[i] + i
extern "C" __global__ void scale_add(uint64_t *__restrict__ out, const uint64_t *__restrict__ in, uint64_t factor, int64_t n) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) out[i] = factor * in[i] + (uint64_t)i;
}

// Reverses each block's part of the array through shared memory. n must be a multiple of the block's size.
extern "C" __global__ void reverse_blocks(uint64_t *data, int64_t n) {
    extern __shared__ uint64_t part[];
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? data[i] : 0;
    __syncthreads();
    if (i < n) data[i] = part[blockDim.x - 1 - threadIdx.x];
}

// Doubles a number on the device: x -> x + x, in float64.
extern "C" __global__ void store_double(double *out, double x) {
    if (blockIdx.x == 0 && threadIdx.x == 0) *out = __dadd_rn(x, x);
}

// Writes where it is told, which need not be memory.
extern "C" __global__ void poke(uint64_t *at, uint64_t value) {
    if (blockIdx.x == 0 && threadIdx.x == 0) *at = value;
}
