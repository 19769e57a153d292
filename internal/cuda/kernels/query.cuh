// The rows of q that a block has, from memory to the operands of products: high and low parts, or digits.
#pragma once
#include "element.cuh"

namespace flashdec {

template <class T>
using Product = Parts<typename Operand<T>::Type>;

// Whether the warp makes a step of q ready: each takes every so many pairs of steps (blocks
// have 2, 4 or 8 warps), and finds the others' in shared memory.
__device__ __forceinline__ bool takes_step(int step) {
  return (step / 2 & (blockDim.x / 32 - 1)) == threadIdx.x / 32;
}

// A row of q as a thread needs it: two pairs of dims a step, from memory.
template <int kSteps>
struct Query {
  float2 x[kSteps][2];
};

// Starts the loads; they must be on their way before those of keys and values,
// behind which they would wait. from is a row's, at this lane's first dim.
template <class T, bool kWhole, int kSteps>
__device__ __forceinline__ void load_dims(Query<kSteps> &q, const float *from, int dim) {
  dim -= query_lane<T>();
#pragma unroll
  for (int step = 0; step < kSteps; step += 2) {
    if (!Product<T>::kNarrow && !takes_step(step)) continue;  // else the row's largest is wanted
#pragma unroll
    for (int i = step * 2; i < step * 2 + 4; i++) {
      int d = query_dim<T>(i);
      float2 &x = q.x[i / 2][i % 2];
      if constexpr (kPairStep<T> == 1) x = load_pair(from + d, kWhole || d < dim);
      else x = {load_one(from + d, kWhole || d < dim), load_one(from + d + kPairStep<T>, kWhole || d + kPairStep<T> < dim)};
    }
  }
}

template <class T, int kSteps>
__device__ __forceinline__ void load_q(Query<kSteps> &q, const float *from, int dim) {
  if (__builtin_expect(dim == kSteps * 16, 1)) load_dims<T, true>(q, from, dim);
  else load_dims<T, false>(q, from, dim);
}

// Multiply by the channels' scales.
template <int kSteps>
__device__ __forceinline__ void scale_q(Query<kSteps> &q, const Query<kSteps> &scales) {
#pragma unroll
  for (int i = 0; i < kSteps * 2; i++) {
    float2 s = scales.x[i / 2][i % 2];
    q.x[i / 2][i % 2].x *= finite_scale(s.x), q.x[i / 2][i % 2].y *= finite_scale(s.y);
  }
}

// One product step of q: a[0], a[2] are the high parts of row g at the step's pairs
// of dims, a[1], a[3] the low parts.
template <class T>
__device__ __forceinline__ void split_q(uint32_t (&a)[4], const float2 (&x)[2], float by) {
  Product<T>::split(x[0].x * by, x[0].y * by, a[0], a[1]);
  Product<T>::split(x[1].x * by, x[1].y * by, a[2], a[3]);
}

// The same for two steps, as digits: the numbers are d0 + 256·d1 + 65536·d2 + 2^24·d3,
// each digit from −128 to 127; a holds those of the first step, then of the second. Of
// 4-bit codes a step has the even dims of the two, the next the odd ones.
template <class T>
__device__ __forceinline__ void digits_of_q(uint32_t (&low)[4], uint32_t (&high)[4], const float2 (*x)[2], float by) {
#pragma unroll
  for (int step = 0; step < 2; step++) {
    uint32_t digits[4] = {};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float2 pair = kBits<T> == 8 ? x[step][i / 2] : x[i / 2][i % 2];
      bool second = kBits<T> == 8 ? i % 2 : step;
      int y = __float2int_rn((second ? pair.y : pair.x) * by);
#pragma unroll
      for (int d = 0; d < 4; d++, y = (y + 128) >> 8) digits[d] |= (y & 255) << 8 * i;
    }
    low[2 * step] = digits[0], low[2 * step + 1] = digits[1];
    high[2 * step] = digits[2], high[2 * step + 1] = digits[3];
  }
}

// The power of two that brings a row of q near 2^13 where the operand's exponent
// is narrow, or to 30 bits where it is digits (NaN if it is not finite); else 1.
template <class T, int kSteps>
__device__ __forceinline__ float q_exponent(const Query<kSteps> &q) {
  if constexpr (!Product<T>::kNarrow) return 1.0f;
  float largest = 0.0f, probe = 0.0f;
#pragma unroll
  for (int i = 0; i < kSteps * 2; i++) {
    float2 x = q.x[i / 2][i % 2];
    largest = fmaxf(largest, fmaxf(fabsf(x.x), fabsf(x.y)));
    if constexpr (kDigits<T>) probe += x.x * 0.0f + x.y * 0.0f;
  }
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
  int e = (__float_as_int(largest) >> 23) - 127;
  e = min(max((kDigits<T> ? 29 : 13) - e, -100), 100);
  float by = __int_as_float((e + 127) << 23);
  if constexpr (kDigits<T>) {
    probe += __shfl_xor_sync(~0u, probe, 1);
    by += probe + __shfl_xor_sync(~0u, probe, 2);
  }
  return by;
}

}  // namespace flashdec
