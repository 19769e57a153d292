// From the scores of a tile to the weights of its values, and what that does to the sums so far.
#pragma once
#include "product.cuh"

namespace flashdec {

// The largest unit: weights times scales beyond it overflow, as the values do.
constexpr int kMaxUnit = 252;

// A number for each of this thread's keys of a tile: keys 8i + 2t, + 1 of a part.
template <class S>
using Numbers = float[S::kParts][2][2];

// The scales of a tile's keys or values.
template <class S>
__device__ __forceinline__ void load_scales(Numbers<S> &x, uint32_t scales) {
#pragma unroll
  for (int i = 0; i < S::kTile / 8; i++) {
    float2 y = load_shared2(scales + (i * 8 + threadIdx.x % 4 * 2) * 4);
    x[i / 2][i % 2][0] = finite_scale(y.x), x[i / 2][i % 2][1] = finite_scale(y.y);
  }
}

// Take the scales of the tile's values to units of o, which become larger where
// one of them demands it: |x| < 1 then, and the largest seen so far is at least ½.
template <class S, int V, int kSets>
__device__ __forceinline__ void to_units(WarpState<V, kSets> &o, Numbers<S> &x) {
  float top = 0.0f;
#pragma unroll
  for (int i = 0; i < S::kTile / 4; i++) top = fmaxf(top, fabsf(x[i / 4][i / 2 % 2][i % 2]));
  top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
  top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
  int unit = min(__float_as_int(top) >> 23, kMaxUnit);
  if (unit > o.unit) {
    float shrink = __int_as_float(max(127 + o.unit - unit, 0) << 23);
    o.unit = unit;
#pragma unroll
    for (int set = 0; set < kSets; set++)
#pragma unroll
      for (int i = 0; i < V / 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) o.o[set][i][j] *= shrink;
  }
  float by = __int_as_float((253 - o.unit) << 23);
#pragma unroll
  for (int i = 0; i < S::kTile / 4; i++) x[i / 4][i / 2 % 2][i % 2] *= by;
}

// The recurrence of derivation §2.5 for one set of rows: scores in, weights out
// as high and low parts; o and l move to the new maximum. The weights of operands
// with a narrow exponent are 2^15 times larger. scales are of the values.
template <class T, class S, int V, int kSets>
__device__ __forceinline__ void weigh(WarpState<V, kSets> &x, int set, const Numbers<S> &s, bool scaled, const Numbers<S> &scales, uint32_t (&a)[S::kParts][kSets][4]) {
  constexpr float kLift = Product<T>::kNarrow ? 15.0f : 0.0f;
  float m = -CUDART_INF_F;
#pragma unroll
  for (int i = 0; i < S::kTile / 4; i++) m = fmaxf(m, s[i / 4][i / 2 % 2][i % 2]);
  m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
  m = fmaxf(fmaxf(m, __shfl_xor_sync(~0u, m, 2)), x.m[set]);
  if (__any_sync(~0u, m > x.m[set])) {
    float shrink = m > x.m[set] ? exp_fast(x.m[set] - m) : 1.0f;
    x.m[set] = m;
    x.l[set] *= shrink;
#pragma unroll
    for (int i = 0; i < V / 8; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) x.o[set][i][j] *= shrink;
  }
  float base = is_empty(m) ? 0.0f : m;
#pragma unroll
  for (int part = 0; part < S::kParts; part++)
#pragma unroll
    for (int i = 0; i < 2; i++) {
      float w[2];
#pragma unroll
      for (int j = 0; j < 2; j++) w[j] = exp2_fast(fmaf(s[part][i][j] - base, kLog2E, kLift));
      x.l[set] += w[0] + w[1];
      if (scaled) {
#pragma unroll
        for (int j = 0; j < 2; j++) w[j] = is_empty(s[part][i][j]) ? 0.0f : w[j] * scales[part][i][j];
      }
      Product<T>::split(w[0], w[1], a[part][set][2 * i], a[part][set][2 * i + 1]);
    }
}

}  // namespace flashdec
