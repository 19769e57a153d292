// The merge law (derivation §2.4.2) on the device, and its only text there:
//
//   m = max m_b     l = Σ exp(m_b − m)·l_b     o = Σ exp(m_b − m)·l_b·o_b / l
//
// Maxima are in base 2, so exp(m_b − m) is exp2(m2_b − m2). The state of no keys
// is (−Inf, 0, 0) and is known by its m alone: what its o holds is never read.
// NaN stays NaN. The order of the sums is fixed by the number of states, so the
// same states give the same bits.
#pragma once
#include <math_constants.h>

namespace flashdec {

// kWide floats that a thread handles together.
template <int kWide>
struct Vec {
  float x[kWide];
};

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

__device__ __forceinline__ bool is_empty(float m2) { return m2 == -CUDART_INF_F; }

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

// exp(m_b − m)·l_b: what state b weighs in a merge whose maximum is m.
__device__ __forceinline__ float merge_weight(float m2_b, float l_b, float m2) {
  return is_empty(m2_b) ? 0.0f : exp2_fast(m2_b - m2) * l_b;
}

// A merge under way: what of the states so far.
template <int kWide>
struct Merge {
  float m2, l;
  float o[kWide];  // the average, as in attn.State
};

template <int kWide>
__device__ __forceinline__ Merge<kWide> merge_none() {
  Merge<kWide> a{-CUDART_INF_F, 0.0f};
  return a;
}

// Four more states join a merge: their m and l, and where their o are (not read
// where a state is empty). load(b) yields kWide elements of state b's o.
template <int kWide, class F>
__device__ __forceinline__ void merge_four(Merge<kWide> &a, float4 m2_b, float4 l_b, F load) {
  float m2 = max_nan(max_nan(max_nan(m2_b.x, m2_b.y), max_nan(m2_b.z, m2_b.w)), a.m2);
  float own = merge_weight(a.m2, a.l, m2);
  float w[4] = {merge_weight(m2_b.x, l_b.x, m2), merge_weight(m2_b.y, l_b.y, m2),
                merge_weight(m2_b.z, l_b.z, m2), merge_weight(m2_b.w, l_b.w, m2)};
  float l = own + ((w[0] + w[1]) + (w[2] + w[3]));
  float inverse = reciprocal(l);
  float share = own == l ? 1.0f : own * inverse;  // alone: bit for bit
#pragma unroll
  for (int i = 0; i < kWide; i++) a.o[i] = is_empty(a.m2) ? 0.0f : a.o[i] * share;
  const float m2s[4] = {m2_b.x, m2_b.y, m2_b.z, m2_b.w};
#pragma unroll
  for (int b = 0; b < 4; b++) {
    if (is_empty(m2s[b])) continue;
    float part = w[b] == l ? 1.0f : w[b] * inverse;
    Vec<kWide> o = load(b);
#pragma unroll
    for (int i = 0; i < kWide; i++) a.o[i] = fmaf(part, o.x[i], a.o[i]);
  }
  a.m2 = m2, a.l = l;
}

// A learned sink is the state (sink, 1, 0), merged exactly once, last: it takes
// its part of l, and o shrinks by the returned factor.
__device__ __forceinline__ float merge_sink(float sink, float &m2, float &l) {
  float sink2 = sink * kLog2E;
  if (is_empty(sink2)) return 1.0f;
  float m = max_nan(m2, sink2);
  float own = merge_weight(m2, l, m);
  l = own + merge_weight(sink2, 1.0f, m);
  m2 = m;
  return own * reciprocal(l);
}

// LSE = m + ln l, natural; −Inf when empty.
__device__ __forceinline__ float lse_of(float m2, float l) {
  return is_empty(m2) ? m2 : m2 * kLn2 + logf(l);
}

}  // namespace flashdec
