// Elements of caches: their types, and what a number is as one of them. A row's codes and
// its scale are those that package kv makes of it on the host.
#pragma once
#include <math_constants.h>
#include <stdint.h>

namespace flashdec {

// As kv.DType numbers them.
enum Type : int32_t { kF32, kF16, kBF16, kE4M3, kE5M2, kInt8, kInt4 };

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

// The scale that takes a row's largest finite |x| to the largest code. A block takes it.
__device__ inline float scale_of(const float *row, int dim, int32_t type) {
  __shared__ float tops[32];
  float top = 0.0f;
  int bad = 0;
  for (int d = threadIdx.x; d < dim; d += blockDim.x) {
    if (isfinite(row[d])) top = fmaxf(top, fabsf(row[d]));
    else bad = 1;
  }
  for (int i = 16; i > 0; i >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, i));
  if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
  bad = __syncthreads_or(bad);
  for (int i = 0; i < blockDim.x / 32; i++) top = fmaxf(top, tops[i]);
  if (bad && (type == kInt8 || type == kInt4)) return CUDART_NAN_F;
  if (bad && top == 0.0f) return 1.0f;
  float largest = largest_code(type), scale = __fdiv_rn(top, largest);
  if (scale < 0x1p-126f && static_cast<double>(scale) * largest < top) scale = nextafterf(scale, 1.0f);
  return scale;
}

// x / scale, to be rounded to the nearest code: as DType.code of package kv.
__device__ __forceinline__ float to_code(float x, float scale, int32_t type) {
  if (!isfinite(x)) return type == kE5M2 ? __fdiv_rn(x, scale) : CUDART_NAN_F;
  if (scale == 0.0f) return 0.0f;
  return fminf(fmaxf(__fdiv_rn(x, scale), -57344.0f), 57344.0f);
}

}  // namespace flashdec
