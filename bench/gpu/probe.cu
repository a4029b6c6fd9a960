#include "cuda_env.h"

#include "internal/rng/rng.cuh"

// Kernels that measure the bus: what a gather and a sampler are compared with. Both read only; the sum keeps the reads
// alive.

struct Ordered {
    const uint4 *from;
    int64_t n;
    uint64_t *sink;
};

// Reads n vectors of 16 bytes in order, four at a time a thread: whole lines, as fast as the bus gives them.
extern "C" __global__ void read_in_order(Ordered o) {
    const uint4 *const from = o.from;
    const int64_t n = o.n;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    uint32_t sum = 0;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * step < n; i += 4 * step) {
        const uint4 a = __ldg(from + i), b = __ldg(from + i + step);
        const uint4 c = __ldg(from + i + 2 * step), d = __ldg(from + i + 3 * step);
        sum ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    for (; i < n; i += step) {
        const uint4 a = __ldg(from + i);
        sum ^= a.x ^ a.y ^ a.z ^ a.w;
    }
    if (sum == 0x9E3779B9u) atomicAdd((unsigned long long *)o.sink, 1ull);
}

struct Random {
    const uint32_t *from;
    int64_t sectors, n;
    uint64_t key;
    uint64_t *sink;
};

// Makes n reads of 4 bytes, each of a random sector of 32 bytes: what a pick costs over the bus, and nothing else.
extern "C" __global__ void read_at_random(Random r) {
    const uint32_t *const from = r.from;
    const int64_t n = r.n;
    const uint64_t key = r.key, sectors = (uint64_t)r.sectors;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    uint32_t sum = 0;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * step < n; i += 4 * step) {
        const uint32_t a = __ldg(from + 8 * bounded(draw(key, i), sectors));
        const uint32_t b = __ldg(from + 8 * bounded(draw(key, i + step), sectors));
        const uint32_t c = __ldg(from + 8 * bounded(draw(key, i + 2 * step), sectors));
        const uint32_t d = __ldg(from + 8 * bounded(draw(key, i + 3 * step), sectors));
        sum ^= a ^ b ^ c ^ d;
    }
    for (; i < n; i += step) sum ^= __ldg(from + 8 * bounded(draw(key, i), sectors));
    if (sum == 0x9E3779B9u) atomicAdd((unsigned long long *)r.sink, 1ull);
}
