// Tokens into a cache in device memory, and rows of it from page to page. A row's
// codes and its scale are those that package kv makes of it on the host.
#pragma once
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

// A binary floating-point type of 8 or 16 bits without its sign.
struct Small {
  int mantissa, bias;
  uint32_t largest;  // code of the largest finite number
  bool infinite;     // largest + 1 is infinity; else overflow saturates
  uint32_t nan;
};

__device__ __forceinline__ uint32_t narrow_small(const Small &t, float x) {
  uint32_t bits = __float_as_uint(x) & 0x7fffffff, sign = __float_as_uint(x) >> 31;
  uint32_t code;
  int drop = 23 - t.mantissa;
  if (bits > 0x7f800000) {
    code = t.nan | (bits >> drop & ((1u << t.mantissa) - 1));
  } else {
    if (bits < static_cast<uint32_t>(128 - t.bias) << 23) {
      float grid = __uint_as_float(static_cast<uint32_t>(127 + 24 - t.bias - t.mantissa) << 23);
      code = __float_as_uint(__fadd_rn(__uint_as_float(bits), grid)) - __float_as_uint(grid);
    } else {
      bits -= static_cast<uint32_t>(127 - t.bias) << 23;
      code = (bits + (1u << (drop - 1)) - 1 + (bits >> drop & 1)) >> drop;
    }
    if (code > t.largest) code = t.largest + t.infinite;
  }
  int width = t.largest > 0xff ? 15 : 7;
  return code | sign << width;
}

__device__ __forceinline__ uint32_t narrow_integer(float x, float lo, float hi) {
  return x == x ? static_cast<uint32_t>(__float2int_rn(fminf(fmaxf(x, lo), hi))) : 0;
}

// The code of x, in the low bits.
__device__ __forceinline__ uint32_t narrow(float x, int32_t type) {
  switch (type) {
    case kF32: return __float_as_uint(x);
    case kF16: return narrow_small({10, 15, 0x7bff, true, 0x7e00}, x);
    case kBF16: {
      uint32_t bits = __float_as_uint(x);
      return x == x ? bits + 0x7fff + (bits >> 16 & 1) >> 16 : bits >> 16 | 0x40;
    }
    case kE4M3: return narrow_small({3, 7, 0x7e, false, 0x7f}, x);
    case kE5M2: return narrow_small({2, 15, 0x7b, true, 0x7e}, x);
    case kInt8: return narrow_integer(x, -128, 127);
    default: return narrow_integer(x, -8, 7) & 15;
  }
}

__device__ __forceinline__ float largest_code(int32_t type) {
  return type == kE4M3 ? 448.0f : type == kE5M2 ? 57344.0f : type == kInt8 ? 127.0f : 7.0f;
}

// The scale that takes the largest finite |x| of the row to the largest code.
__device__ inline float scale_of(const float *row, const StoreParams &p) {
  __shared__ float tops[32];
  float top = 0.0f;
  int bad = 0;
  for (int d = threadIdx.x; d < p.dim; d += blockDim.x) {
    if (isfinite(row[d])) top = fmaxf(top, fabsf(row[d]));
    else bad = 1;
  }
  top = warp_max_nan(top);
  if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
  bad = __syncthreads_or(bad);
  for (int i = 0; i < blockDim.x / 32; i++) top = fmaxf(top, tops[i]);
  if (bad && (p.type == kInt8 || p.type == kInt4)) return CUDART_NAN_F;
  if (bad && top == 0.0f) return 1.0f;
  float largest = largest_code(p.type), scale = __fdiv_rn(top, largest);
  if (scale < 0x1p-126f && static_cast<double>(scale) * largest < top) scale = nextafterf(scale, 1.0f);
  return scale;
}

// x / scale, to be rounded to the nearest code: as DType.code of package kv.
__device__ __forceinline__ float to_code(float x, float scale, int32_t type) {
  if (!isfinite(x)) return type == kE5M2 ? __fdiv_rn(x, scale) : CUDART_NAN_F;
  if (scale == 0.0f) return 0.0f;
  return fminf(fmaxf(__fdiv_rn(x, scale), -57344.0f), 57344.0f);
}

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
    own = scale_of(row, p);
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
