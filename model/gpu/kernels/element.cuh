// Elements of weights and caches, and what a warp and a block do together.
#pragma once
#include <cuda_fp16.h>

#include "params.cuh"

namespace flashdec {

// The elements of 16 bytes, widened.
struct F32 {
  static constexpr int kPer = 4;
  static __device__ __forceinline__ void widen(uint4 w, float (&x)[kPer]) {
    x[0] = __uint_as_float(w.x), x[1] = __uint_as_float(w.y), x[2] = __uint_as_float(w.z), x[3] = __uint_as_float(w.w);
  }
};

__device__ __forceinline__ float half_at(uint32_t bits) { return __half2float(__ushort_as_half(static_cast<unsigned short>(bits))); }

struct F16 {
  static constexpr int kPer = 8;
  static __device__ __forceinline__ void widen(uint4 w, float (&x)[kPer]) {
    const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; i++) x[2 * i] = half_at(words[i] & 0xffff), x[2 * i + 1] = half_at(words[i] >> 16);
  }
};

struct BF16 {
  static constexpr int kPer = 8;
  static __device__ __forceinline__ void widen(uint4 w, float (&x)[kPer]) {
    const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; i++) x[2 * i] = __uint_as_float(words[i] << 16), x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000);
  }
};

__device__ __forceinline__ uint16_t to_bf16(float x) {
  uint32_t bits = __float_as_uint(x);
  return x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : bits >> 16 | 0x40;
}

// Element i of a row.
__device__ __forceinline__ float element(const char *row, int64_t i, int32_t type) {
  switch (type) {
    case kF32: return reinterpret_cast<const float *>(row)[i];
    case kF16: return half_at(reinterpret_cast<const uint16_t *>(row)[i]);
    default: return __uint_as_float(static_cast<uint32_t>(reinterpret_cast<const uint16_t *>(row)[i]) << 16);
  }
}

// Whether the codes of weights in blocks are bytes, not halves of them.
__device__ __forceinline__ bool in_bytes(int32_t type) { return type == kQ8_0 || type >= kQ5_K; }

// Element i of a row of cols in blocks. A product is rounded before anything is added.
__device__ __forceinline__ float block_element(const char *row, int i, int cols, int32_t type) {
  int block = i / 32, at = i % 32, codes = in_bytes(type) ? cols : cols / 2;
  auto half = [&](int k) { return half_at(reinterpret_cast<const uint16_t *>(row + codes)[k]); };
  auto top = [&](int k) { return half_at(reinterpret_cast<const uint16_t *>(row + codes + cols / 16)[i / 256 * 2 + k]); };
  auto group = [&](int k) { return static_cast<uint8_t>(row[codes + k]); };
  int code = in_bytes(type) ? static_cast<int8_t>(row[i]) : static_cast<uint8_t>(row[block * 16 + at % 16]) >> (at < 16 ? 0 : 4) & 15;
  switch (type) {
    case kQ8_0: return half(block) * code;
    case kQ4_0: return half(block) * ((code ^ 8) - 8);
    case kQ4_1: return __fadd_rn(__fmul_rn(half(2 * block), code), half(2 * block + 1));
    case kQ6_K: return top(0) * static_cast<int8_t>(group(i / 16)) * code;
    default: return __fadd_rn(__fmul_rn(top(0) * group(2 * block), code), -__fmul_rn(top(1), group(2 * block + 1)));
  }
}

// Element i of a weight's row of cols.
__device__ __forceinline__ float weight_at(const char *row, int i, int cols, int32_t type) {
  return type < kQ8_0 ? element(row, i, type) : block_element(row, i, cols, type);
}

__device__ __forceinline__ void set_element(char *row, int64_t i, int32_t type, float x) {
  switch (type) {
    case kF32: reinterpret_cast<float *>(row)[i] = x; return;
    case kF16: reinterpret_cast<uint16_t *>(row)[i] = __half_as_ushort(__float2half_rn(x)); return;
    default: reinterpret_cast<uint16_t *>(row)[i] = to_bf16(x);
  }
}

// A load of what is read once.
__device__ __forceinline__ uint4 load_once(const void *p) {
#ifdef __CUDA_ARCH__
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
#else
  return *static_cast<const uint4 *>(p);
#endif
}

// Brings the line to L1 that is read later.
__device__ __forceinline__ void touch(const float *p) {
#ifdef __CUDA_ARCH__
  asm volatile("{.reg .f32 x;\n\tld.global.f32 x, [%0];}" ::"l"(p));
#endif
}

// Fours of numbers in shared memory are swapped so that lanes which read two adjacent
// ones each meet no bank twice.
__device__ __forceinline__ int four_at(int i) { return i ^ (i >> 3 & 1); }

// A kernel may start while the one before it in the stream still runs: until
// after_previous it reads weights alone. Who calls let_next_start lets the next one do so.
__device__ __forceinline__ void after_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffff, x, d);
  return x;
}

// The sum over a block, in every thread. It may be called again at once.
__device__ __forceinline__ float block_sum(float x) {
  __shared__ float parts[32];
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < static_cast<int>(blockDim.x / 32); i++) sum += parts[i];
  return sum;
}

// What an MLP makes of its two projections: internal/network, Gate.
__device__ __forceinline__ float gated(float g, float u, int32_t gate) {
  switch (gate) {
    case kSiLU: return g / (1.0f + expf(-g)) * u;
    case kGELU: return g / (1.0f + expf(-1.5957691216057308f * (g + 0.044715f * g * g * g))) * u;
    default:
      g = fminf(g, 7.0f);
      return g / (1.0f + expf(-1.702f * g)) * (fminf(fmaxf(u, -7.0f), 7.0f) + 1.0f);
  }
}

__device__ __forceinline__ float capped(float x, float limit) { return limit > 0.0f ? limit * tanhf(x / limit) : x; }

// The sine and cosine, scaled, by which pair i of a head turns at a position. Angles are taken in turns, in float64, so that
// they are as exact at position 100000 as at 1.
__device__ __forceinline__ void angle(const Rotation &r, int i, int position, float &sine, float &cosine) {
  double turns = position * r.turns[i];
  sincospif(2.0f * static_cast<float>(turns - rint(turns)), &sine, &cosine);
  sine *= r.scale, cosine *= r.scale;
}

__device__ __forceinline__ void turn_by(float sine, float cosine, float &a, float &b) {
  float x = a, y = b;
  a = x * cosine - y * sine, b = y * cosine + x * sine;
}

// Where the key (or value) of a place and head begins.
__device__ __forceinline__ char *row_of(const Store &s, const Rotation &r, int head, int place) {
  return s.data + place / r.page_size * s.page_stride + head * s.head_stride + place % r.page_size * s.slot_stride;
}

}  // namespace flashdec
