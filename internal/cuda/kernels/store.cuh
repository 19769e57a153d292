// Tokens into a cache in device memory, and rows of it from page to page.
#pragma once
#include "code.cuh"
#include "general.cuh"

namespace flashdec {

// Rows of a page: a block takes the row of a slot and KV head.
struct StoreParams {
  Plane plane;        // read where `from` is null
  Scales scales;
  const float *from;  // [slots, heads, dim] the tokens' numbers, or null: rows are copied
  int32_t *spoilt;    // set to 1 where a number has no code
  int64_t page, source;  // to write, and to copy from
  int32_t slot;       // the first
  int32_t dim;
  int32_t row_bytes;
  int32_t type;       // kv.DType
};

static_assert(sizeof(StoreParams) == 120, "internal/cuda/params.go");

__device__ __forceinline__ float shared_at(const Scales &s, int head, int channel, int dim) {
  switch (s.kind) {
    case kTensorScale: return finite_scale(s.values[0]);
    case kHeadScale: return finite_scale(s.values[head]);
    case kChannelScale: return finite_scale(s.values[head * dim + channel]);
    default: return 1.0f;
  }
}

__device__ inline void append_row(const StoreParams &p, char *to, int head, int slot) {
  const float *row = p.from + static_cast<int64_t>(blockIdx.x * gridDim.y + blockIdx.y) * p.dim;
  bool codes = p.type > kBF16;
  float own = 1.0f;
  if (codes && p.scales.kind == kTokenScale) {
    own = scale_of(row, p.dim, p.type);
    if (threadIdx.x == 0) const_cast<float *>(p.scales.values)[p.scales.at(p.page, head, slot)] = own;
  }
  auto code = [&](int d) -> uint32_t {
    float x = row[d];
    if (!codes) return narrow(x, p.type);
    if (!isfinite(x) && p.type >= kInt8 && p.scales.kind != kTokenScale) *p.spoilt = 1;
    return narrow(to_code(x, __fmul_rn(own, shared_at(p.scales, head, d, p.dim)), p.type), p.type);
  };
  if (p.type == kInt4) {
    for (int i = threadIdx.x; i < p.row_bytes; i += blockDim.x)
      to[i] = code(2 * i) | (2 * i + 1 < p.dim ? code(2 * i + 1) << 4 : 0);
    return;
  }
  for (int d = threadIdx.x; d < p.dim; d += blockDim.x) {
    uint32_t x = code(d);
    if (p.type == kF32) reinterpret_cast<uint32_t *>(to)[d] = x;
    else if (p.type <= kBF16) reinterpret_cast<uint16_t *>(to)[d] = x;
    else to[d] = x;
  }
}

// The blocks are [slots, heads].
__device__ inline void store_rows(const StoreParams &p) {
  int slot = p.slot + blockIdx.x, head = blockIdx.y;
  char *data = const_cast<char *>(p.plane.data);
  char *to = data + row_offset(p.plane, head, p.page, slot);
  if (p.from) return append_row(p, to, head, slot);
  const char *from = data + row_offset(p.plane, head, p.source, slot);
  for (int i = threadIdx.x; i < p.row_bytes; i += blockDim.x) to[i] = from[i];
  if (p.scales.kind == kTokenScale && threadIdx.x == 0) {
    float *scales = const_cast<float *>(p.scales.values);
    scales[p.scales.at(p.page, head, slot)] = scales[p.scales.at(p.source, head, slot)];
  }
}

}  // namespace flashdec
