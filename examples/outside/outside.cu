// The device's side of the example: a sampler that takes the first edges of each seed, and rows that are kept as bytes.
#include "cuda_env.h"

struct First {
  const int64_t* indptr;
  const int32_t* indices;
  const int64_t* seeds;
  int64_t numSeeds, k;
  int32_t* local;  // of every node of the graph: its local id, or -1
  int32_t* nodes;  // result: the nodes of the batch
  int32_t* seedLocal;
  int32_t* blockIndptr;
  int32_t* blockIndices;
  int32_t* positions;  // or null
  int64_t* counts;     // result: distinct seeds, nodes, edges
};

// The local id of a node. A node that is new gets the next one.
__device__ __forceinline__ int32_t outside_local(const First& f, int64_t node, int32_t& count) {
  if (f.local[node] < 0) {
    f.local[node] = count;
    f.nodes[count++] = (int32_t)node;
  }
  return f.local[node];
}

// Samples one batch. One thread does it all, to keep the example short.
extern "C" __global__ void outside_first(First f) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  int32_t count = 0, edges = 0;
  for (int64_t i = 0; i < f.numSeeds; i++) f.seedLocal[i] = outside_local(f, f.seeds[i], count);
  const int32_t seeds = count;
  f.blockIndptr[0] = 0;
  for (int32_t i = 0; i < seeds; i++) {
    const int64_t from = f.indptr[f.nodes[i]], to = min(f.indptr[f.nodes[i] + 1], from + f.k);
    for (int64_t p = from; p < to; p++) {
      f.blockIndices[edges] = outside_local(f, f.indices[p], count);
      if (f.positions) f.positions[edges] = (int32_t)p;
      edges++;
    }
    f.blockIndptr[i + 1] = edges;
  }
  f.counts[0] = seeds;
  f.counts[1] = count;
  f.counts[2] = edges;
}

struct Expand {
  const int8_t* codes;  // [rows, width]
  const float* scales;  // [rows]
  int64_t width;
  const int32_t* ids;
  int64_t numIds;
  float* out;  // [numIds, width]
};

// Gathers rows and makes them float32 on the way: a thread an element.
extern "C" __global__ void __launch_bounds__(256) outside_expand(Expand e) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < e.numIds * e.width; i += step) {
    const int64_t row = e.ids[i / e.width];
    e.out[i] = __fmul_rn((float)e.codes[row * e.width + i % e.width], e.scales[row]);
  }
}
