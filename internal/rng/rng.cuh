// The generator of package rng for kernels: docs/sampling.md says what each step is. Batch and stage keys come from the
// host.
#pragma once

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;

__device__ __forceinline__ uint64_t mix64(uint64_t z) {
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}

// Key of what a batch does for one purpose at one hop with one type.
__device__ __forceinline__ uint64_t stage_key(uint64_t batchKey, uint64_t typeKey, uint64_t purpose, uint64_t hop) {
  return mix64(batchKey ^ typeKey ^ (purpose << 56 | hop << 48));
}

// State of a stage's stream with the given index.
__device__ __forceinline__ uint64_t stream_of(uint64_t stage, uint64_t index) { return mix64(stage + index * kGolden); }

// Draw i, from 0, of a stream.
__device__ __forceinline__ uint64_t draw(uint64_t stream, uint64_t i) { return mix64(stream + (i + 1) * kGolden); }

// A draw as an integer of 0 .. n-1.
__device__ __forceinline__ uint64_t bounded(uint64_t d, uint64_t n) { return __umul64hi(d, n); }

// A draw as a number of [0, 1), a multiple of 2^-53.
__device__ __forceinline__ double unit_double(uint64_t d) {
  return __dmul_rn((double)(d >> 11), 1.0 / 9007199254740992.0);
}

// A draw as a number of [0, 1), a multiple of 2^-24.
__device__ __forceinline__ float unit_float(uint64_t d) { return __fmul_rn((float)(d >> 40), 1.0f / 16777216.0f); }
