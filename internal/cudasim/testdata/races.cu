#include "cuda_env.h"

// Counters in global memory, from every block.

extern "C" __global__ void sim_count(int* counter) {
  if (threadIdx.x == 0) atomicAdd(counter, 1);
}
extern "C" __global__ void sim_count_plain(int* counter) {
  if (threadIdx.x == 0) counter[0] += 1;
}
extern "C" __global__ void sim_count_and_read(int* counter, int* out) {       // atomic here, plain there
  atomicAdd(counter, 1);
  out[blockIdx.x * blockDim.x + threadIdx.x] = *counter;
}
// When each thread's turn came.
extern "C" __global__ void sim_turns(int* counter, int* out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(counter, 1);
}
// Two lanes of a warp write one word without any order between them.
extern "C" __global__ void sim_two_lanes(int* cell) {
  if (threadIdx.x < 2) cell[0] = threadIdx.x;
}
// Neighbouring bytes of one word are different memory.
extern "C" __global__ void sim_bytes(uint8_t* cell) {
  cell[threadIdx.x] = threadIdx.x;
}
// Each block reads what another one writes.
extern "C" __global__ void sim_next_block(int* cells) {
  if (threadIdx.x == 0) cells[blockIdx.x] = cells[(blockIdx.x + 1) % gridDim.x];
}
extern "C" __global__ void sim_own_block(const int* in, int* cells) {
  if (threadIdx.x == 0) cells[blockIdx.x] = in[(blockIdx.x + 1) % gridDim.x];
}
