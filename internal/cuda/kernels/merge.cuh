// The merge law (derivation §2.4.2) on the device, and its only text there:
//
//   m = max m_b     l = Σ exp(m_b − m)·l_b     o = Σ exp(m_b − m)·l_b·o_b / l
//
// Maxima are natural. The state of no keys is (−Inf, 0, 0) and weighs nothing. NaN
// stays NaN. The order of the sums is fixed by the number of states, so the same
// states give the same bits. Sums are divided once, at the end, and rightly rounded:
// equal averages stay equal.
#pragma once
#include <math_constants.h>

namespace flashdec {

// kWide floats that a thread handles together.
template <int kWide>
struct Vec {
  float x[kWide];
};

constexpr float kLog2E = 1.4426950408889634f;

__device__ __forceinline__ bool is_empty(float m) { return m == -CUDART_INF_F; }

// exp2 to 2 ulp; 0 for −Inf, NaN for NaN.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1/x to 1 ulp.
__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// max that keeps NaN, which fmaxf drops.
__device__ __forceinline__ float max_nan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// exp to 2 ulp near 0; the difference of two maxima or scores goes in.
__device__ __forceinline__ float exp_fast(float x) { return exp2_fast(x * kLog2E); }

// exp(m_b − m)·l_b: what state b weighs in a merge whose maximum is m.
__device__ __forceinline__ float merge_weight(float m_b, float l_b, float m) {
  return is_empty(m_b) ? 0.0f : exp_fast(m_b - m) * l_b;
}

// x/l, where inverse is l's reciprocal: rounded as a division, infinity and NaN kept.
__device__ __forceinline__ float divide(float x, float l, float inverse) {
  float q = x * inverse, rest = fmaf(-q, l, x);
  return rest == rest ? fmaf(rest, inverse, q) : q;
}

// A merge under way: what of the states so far.
template <int kWide>
struct Merge {
  float m, l;
  float sum[kWide];  // Σ exp(m_b − m)·l_b·o_b
};

template <int kWide>
__device__ __forceinline__ Merge<kWide> merge_none() {
  Merge<kWide> a{-CUDART_INF_F, 0.0f};
#pragma unroll
  for (int i = 0; i < kWide; i++) a.sum[i] = 0.0f;
  return a;
}

// kCount more states join a merge (a power of two): their m, l and l·o.
template <int kCount, int kWide>
__device__ __forceinline__ void merge_some(Merge<kWide> &a, const float (&m_b)[kCount], const float (&l_b)[kCount], const Vec<kWide> (&o)[kCount]) {
  float top[4] = {a.m, a.m, a.m, a.m};  // four, so that they do not wait for each other
#pragma unroll
  for (int b = 0; b < kCount; b++) top[b % 4] = max_nan(top[b % 4], m_b[b]);
  float m = max_nan(max_nan(top[0], top[1]), max_nan(top[2], top[3]));
  float base = is_empty(m) ? 0.0f : m;  // nothing yet weighs nothing
  float shrink = exp_fast(a.m - base);
  a.l *= shrink;
#pragma unroll
  for (int i = 0; i < kWide; i++) a.sum[i] *= shrink;
#pragma unroll
  for (int b = 0; b < kCount; b++) {
    float e = exp_fast(m_b[b] - base);
    a.l = fmaf(e, l_b[b], a.l);
#pragma unroll
    for (int i = 0; i < kWide; i++) a.sum[i] = fmaf(e, o[b].x[i], a.sum[i]);
  }
  a.m = m;
}

// A learned sink is the state (sink, 1, 0), merged exactly once, last: it takes
// its part of l, and o shrinks by the returned factor.
__device__ __forceinline__ float merge_sink(float sink, float &m, float &l) {
  if (is_empty(sink)) return 1.0f;
  float top = max_nan(m, sink);
  float own = merge_weight(m, l, top);
  l = own + merge_weight(sink, 1.0f, top);
  m = top;
  return own * reciprocal(l);
}

// LSE = m + ln l, natural; −Inf when empty.
__device__ __forceinline__ float lse_of(float m, float l) { return is_empty(m) ? m : m + logf(l); }

}  // namespace flashdec
