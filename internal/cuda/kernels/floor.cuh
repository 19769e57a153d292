// A bare read of the same bytes, to compare a decode step with.
#pragma once
#include <stdint.h>

namespace flashdec {

struct FloorParams {
  const uint4 *data;  // [chunks]
  int64_t chunks;     // of 16 bytes
  uint32_t *sink;     // never written in practice
};

__device__ inline void read_all(const FloorParams &p) {
  constexpr int kAtOnce = 8;
  int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  uint32_t sum = 0;
  for (; i + (kAtOnce - 1) * step < p.chunks; i += kAtOnce * step) {
    uint4 x[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; j++) x[j] = __ldcs(p.data + i + j * step);
#pragma unroll
    for (int j = 0; j < kAtOnce; j++) sum ^= x[j].x ^ x[j].y ^ x[j].z ^ x[j].w;
  }
  for (; i < p.chunks; i += step) {
    uint4 x = __ldcs(p.data + i);
    sum ^= x.x ^ x.y ^ x.z ^ x.w;
  }
  if (sum == 0x9e3779b9u) *p.sink = sum;
}

}  // namespace flashdec
