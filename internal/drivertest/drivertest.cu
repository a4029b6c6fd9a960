#include "cuda_env.h"

// Kernels for the tests of this folder.

struct Scale {
    uint64_t *out;
    const uint64_t *in;
    uint64_t factor;
    int64_t n;
};

// out[i] = factor * in[i] + i
extern "C" __global__ void scale_add(Scale s) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < s.n; i += step)
      s.out[i] = s.factor * s.in[i] + (uint64_t)i;
}

struct Reverse {
    uint64_t *data;
    int64_t n;
};

// Reverses each block's part of the array through shared memory. n must be a multiple of the block's size.
extern "C" __global__ void reverse_blocks(Reverse r) {
    extern __shared__ uint64_t part[];
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < r.n ? r.data[i] : 0;
    __syncthreads();
    if (i < r.n) r.data[i] = part[blockDim.x - 1 - threadIdx.x];
}

struct Double {
    double *out;
    double x;
};

// Doubles a number on the device: x -> x + x, in float64.
extern "C" __global__ void store_double(Double d) {
    if (blockIdx.x == 0 && threadIdx.x == 0) *d.out = __dadd_rn(d.x, d.x);
}

struct Poke {
    uint64_t *at;
    uint64_t value;
};

// Writes to the given address, which need not be memory.
extern "C" __global__ void poke(Poke p) {
    if (blockIdx.x == 0 && threadIdx.x == 0) *p.at = p.value;
}
