// One block's work on the tensor cores, for keys and values of f32, bf16, f16, e4m3,
// e5m2, int8 and int4.
//
// A warp walks its own tiles of 16 keys, or 32 of one byte an element: warp i
// takes tiles i, i + warps, … of the block's keys, through a ring of tiles in shared memory that it fills
// itself, so the main loop has no block-wide barrier. Scores and averages are
// m16n8k16 products. Eight query rows fill the sixteen rows of a product: each
// number is the sum of a high and a low 16-bit part, high parts in rows 0 to 7,
// low parts in rows 8 to 15. Thread (g, t) = (lane / 4, lane mod 4) holds rows g
// and g + 8 of a result, so their sum costs one addition, and q and the weights
// keep 16 (bf16) or 22 (f16 and codes) bits at no further product. Scores of int8
// keys are products of integers (m16n8k32): q is a fixed-point number of four 8-bit
// digits, two products of two digits each, and no key is widened; those of int4 become
// bytes by a shift and a mask. float32 keys and values are the sum of two parts of 11
// bits, like q and the weights beside them: twice two products of tf32 (m16n8k8).
//
// Scales come in beside the codes: of keys that tokens share, into q and its unit;
// a token's own, into its score; of values that tokens share, into o when the walk
// ends; a token's own, into its weight once l has it.
//
// Hidden keys get weight 0 here. 0 times NaN or infinity would be NaN: rows whose sums
// are not finite are computed again by general_work, which skips them. The others keep
// their bits.
#pragma once
#include "element.cuh"
#include "general.cuh"

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

// The largest unit: weights times scales beyond it overflow, as the values do.
constexpr int kMaxUnit = 252;

// What a warp carries from tile to tile, per set of rows: thread (g, t) has row
// g's m and its own part of l.
template <int V, int kSets>
struct WarpState {
  float m[kSets], l[kSets];
  float o[kSets][V / 8][4];  // numerators: columns 2t, 2t + 1 of tile i, rows g and g + 8
  int unit;                  // of o where values' tokens have scales: 2^(unit − 126)
};

// What q has for product `at`, in registers or in shared memory.
template <class S>
__device__ __forceinline__ void operand_q(uint32_t (&a)[4], int at, const uint32_t (*q)[4], const uint4 *shared_q) {
  if constexpr (S::kQInRegisters) {
#pragma unroll
    for (int j = 0; j < 4; j++) a[j] = q[at][j];
  } else {
    uint4 x = shared_q[at * 32 + threadIdx.x % 32];
    a[0] = x.x, a[1] = x.y, a[2] = x.z, a[3] = x.w;
  }
}

// Scores of a part of the tile: s[set][keys 8i + 2t, + 1] = q·k, unscaled.
template <class T, class S, int kSets>
__device__ __forceinline__ void multiply_digits(float (&s)[kSets][2][2], uint32_t keys, const uint32_t (*q)[4], const uint4 *shared_q) {
  int32_t c[2][kSets][2][4] = {};  // low digits, high digits
  uint32_t x[4];
#pragma unroll
  for (int pair = 0; pair < S::kSteps / 2; pair++) {
    uint32_t b[4];
    load_codes<T, S>(b, x, keys, pair);
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
      for (int set = 0; set < kSets; set++) {
        uint32_t a[4];
        operand_q<S>(a, set * S::kSteps + pair * 2 + i, q, shared_q);
        mma_int8(c[i][set][0], a, b[0], b[1]);
        mma_int8(c[i][set][1], a, b[2], b[3]);
      }
    }
  }
#pragma unroll
  for (int set = 0; set < kSets; set++)
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        float low = c[0][set][i][j] + 256 * c[0][set][i][j + 2], high = c[1][set][i][j] + 256 * c[1][set][i][j + 2];
        s[set][i][j] = fmaf(high, 65536.0f, low);
      }
}

// The same of float32 keys: c[0] sums the products with their high parts, c[1] those
// with the rest.
template <class S, int kSets>
__device__ __forceinline__ void multiply_floats(float (&c)[2][kSets][2][4], uint32_t keys, const uint32_t (*q)[4], const uint4 *shared_q) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < S::kSteps; step++) {
    uint32_t hi[2][4], lo[2][4];  // keys 0 to 7, 8 to 15: four dims of each of four chunks
#pragma unroll
    for (int half = 0; half < 2; half++) {
      uint32_t x[4];
      load_matrix4(x, keys + chunk_at<S::kKeyBytes>(half * 8 + lane % 8, step * 4 + lane / 8));
#pragma unroll
      for (int i = 0; i < 4; i++) split_tf32(x[i], hi[half][i], lo[half][i]);
    }
#pragma unroll
    for (int set = 0; set < kSets; set++) {
      uint32_t whole[4];
      operand_q<S>(whole, set * S::kSteps + step, q, shared_q);
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        uint32_t a[4];
        split_tf32(whole[i], a[0], a[1]), split_tf32(whole[i + 1], a[2], a[3]);
#pragma unroll
        for (int half = 0; half < 2; half++) {
          mma_tf32(c[0][set][half], a, hi[half][i], hi[half][i + 1]);
          mma_tf32(c[1][set][half], a, lo[half][i], lo[half][i + 1]);
        }
      }
    }
  }
}

// The same of 16-bit operands: keys 0 to 7, then 8 to 15, of c[i].
template <class T, class S, int kSets>
__device__ __forceinline__ void multiply_halves(float (&c)[2][kSets][2][4], uint32_t keys, const uint32_t (*q)[4], const uint4 *shared_q) {
#pragma unroll
  for (int pair = 0; pair < S::kSteps / 2; pair++) {
    uint32_t b[2][4];
    load_keys<T, S>(b, keys, pair);
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
      for (int set = 0; set < kSets; set++) {
        uint32_t a[4];
        operand_q<S>(a, set * S::kSteps + pair * 2 + i, q, shared_q);
        Product<T>::mma(c[i][set][0], a, b[i][0], b[i][1]);
        Product<T>::mma(c[i][set][1], a, b[i][2], b[i][3]);
      }
    }
  }
}

template <class T, class S, int kSets>
__device__ __forceinline__ void multiply_k(float (&s)[kSets][2][2], uint32_t keys, const uint32_t (*q)[4], const uint4 *shared_q) {
  if constexpr (kDigits<T>) {
    multiply_digits<T, S, kSets>(s, keys, q, shared_q);
  } else {
    float c[2][kSets][2][4] = {};  // two independent sums hide the latency
    if constexpr (kBits<T> == 32) multiply_floats<S, kSets>(c, keys, q, shared_q);
    else multiply_halves<T, S, kSets>(c, keys, q, shared_q);
#pragma unroll
    for (int set = 0; set < kSets; set++)
#pragma unroll
      for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
          s[set][i][j] = (c[0][set][i][j] + c[0][set][i][j + 2]) + (c[1][set][i][j] + c[1][set][i][j + 2]);
  }
}

// o += weights · V of a part of the tile, of float32. A product's columns t and t + 4 are
// keys 2t and 2t + 1, whose weights the thread has; its tiles are every fourth dim.
template <class S, int V, int kSets>
__device__ __forceinline__ void multiply_float_values(WarpState<V, kSets> &x, uint32_t values, const uint32_t (&whole)[kSets][4]) {
  int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    uint32_t a[kSets][4];
#pragma unroll
    for (int set = 0; set < kSets; set++) {
      split_tf32(whole[set][2 * half], a[set][0], a[set][1]);
      split_tf32(whole[set][2 * half + 1], a[set][2], a[set][3]);
    }
#pragma unroll
    for (int c = 0; c < V / 32; c++) {
      uint32_t hi[2][4], lo[2][4];
#pragma unroll
      for (int k = 0; k < 2; k++) {
        float4 v = load_shared4(values + chunk_at<S::kValueBytes>(half * 8 + 2 * t + k, c * 8 + g));
        split_tf32(__float_as_uint(v.x), hi[k][0], lo[k][0]), split_tf32(__float_as_uint(v.y), hi[k][1], lo[k][1]);
        split_tf32(__float_as_uint(v.z), hi[k][2], lo[k][2]), split_tf32(__float_as_uint(v.w), hi[k][3], lo[k][3]);
      }
#pragma unroll
      for (int set = 0; set < kSets; set++) {
#pragma unroll
        for (int i = 0; i < 4; i++) mma_tf32(x.o[set][4 * c + i], a[set], hi[0][i], hi[1][i]);
#pragma unroll
        for (int i = 0; i < 4; i++) mma_tf32(x.o[set][4 * c + i], a[set], lo[0][i], lo[1][i]);
      }
    }
  }
}

// The same of other elements.
template <class T, class S, int V, int kSets>
__device__ __forceinline__ void multiply_half_values(WarpState<V, kSets> &x, uint32_t values, const uint32_t (&a)[kSets][4]) {
  uint32_t chunks[4];
#pragma unroll
  for (int pair = 0; pair < V / 32; pair++) {
    uint32_t b[2][4];
    load_values<T, S>(b, chunks, values, pair);
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
      for (int set = 0; set < kSets; set++) {
        Product<T>::mma(x.o[set][4 * pair + 2 * i], a[set], b[i][0], b[i][1]);
        Product<T>::mma(x.o[set][4 * pair + 2 * i + 1], a[set], b[i][2], b[i][3]);
      }
    }
  }
}

template <class T, class S, int V, int kSets>
__device__ __forceinline__ void multiply_v(WarpState<V, kSets> &x, uint32_t values, const uint32_t (&a)[kSets][4]) {
  if constexpr (kBits<T> == 32) multiply_float_values<S>(x, values, a);
  else multiply_half_values<T, S>(x, values, a);
}

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

// Where the block's rows agree on what is visible.
struct Common {
  int lo, hi;    // keys that all rows see, if there is no mask
  bool plain;    // a score is scale·q·k: no softcap, no bias
};

// What a plane's codes are multiplied by, of a scale that all tokens share.
template <class S>
__device__ __forceinline__ float shared_scale(const Scales &s, int head) {
  if (!S::kScaled || (s.kind != kTensorScale && s.kind != kHeadScale)) return 1.0f;
  return finite_scale(s.values[s.kind == kHeadScale ? head : 0]);
}

// The row of the work that a thread has of a set: those that it lacks are its last one again.
__device__ __forceinline__ int row_in(const Work &w, int set) { return min(set * kRows + static_cast<int>(threadIdx.x) % 32 / 4, w.rows - 1); }

// The block's query rows: q as operands, what makes scores of products, and which
// keys they see.
template <class T, class S, int kSets>
struct Operands {
  uint32_t q[S::kQInRegisters ? kSets * S::kSteps : 1][4];
  float unit[kSets];
  Row rows[kSets];
  Common all;

  // What it takes no load for.
  __device__ __forceinline__ void place(const Params &p, const Work &w) {
    all = Common{0, INT32_MAX, p.softcap == 0.0f && !p.slopes};
#pragma unroll
    for (int set = 0; set < kSets; set++) {
      rows[set] = row_of(p, w, row_in(w, set));
      all.lo = max(all.lo, rows[set].lo);
      all.hi = min(all.hi, rows[set].hi);
    }
    all.lo = __reduce_max_sync(~0u, all.lo);
    all.hi = p.mask ? 0 : __reduce_min_sync(~0u, all.hi);
  }

  __device__ __forceinline__ void prepare(const Params &p, const Work &w, Query<S::kSteps> (&queries)[kSets], const Query<S::kSteps> &channels, uint4 *shared_q) {
#pragma unroll
    for (int set = 0; set < kSets; set++) {
      load_slope(p, w, row_in(w, set), rows[set]);
      Query<S::kSteps> &from = queries[set];
      if (S::kScaled && p.k_scales.kind == kChannelScale) scale_q(from, channels);
      float by = q_exponent<T>(from);
      unit[set] = p.scale * reciprocal(by);
      if constexpr (S::kScaled) unit[set] = static_cast<double>(p.scale) * reciprocal(by * kCodeUnit<T>) * shared_scale<S>(p.k_scales, w.head);
#pragma unroll
      for (int step = 0; step < S::kSteps; step += 2) {
        if (!takes_step(step)) continue;
        uint32_t a[2][4];
        if constexpr (kDigits<T>) digits_of_q<T>(a[0], a[1], from.x + step, by);
        else split_q<T>(a[0], from.x[step], by), split_q<T>(a[1], from.x[step + 1], by);
#pragma unroll
        for (int i = 0; i < 2; i++)
          shared_q[(set * S::kSteps + step + i) * 32 + threadIdx.x % 32] = make_uint4(a[i][0], a[i][1], a[i][2], a[i][3]);
      }
    }
    __syncthreads();
    if constexpr (S::kQInRegisters) {
#pragma unroll
      for (int at = 0; at < kSets * S::kSteps; at++) {
        uint4 x = shared_q[at * 32 + threadIdx.x % 32];
        q[at][0] = x.x, q[at][1] = x.y, q[at][2] = x.z, q[at][3] = x.w;
      }
      __syncthreads();
    }
  }
};

// Whether a plane's tokens have their own scales.
template <class S>
__device__ __forceinline__ bool by_token(const Scales &s) { return S::kScaled && s.kind == kTokenScale; }

template <class T, class S, int V, int kSets>
__device__ __forceinline__ void take_tile(const Params &p, WarpState<V, kSets> &x, const Operands<T, S, kSets> &query, uint32_t tile, int first, const uint4 *shared_q) {
  const Common &all = query.all;
  Numbers<S> s[kSets], scales{};
  uint32_t a[S::kParts][kSets][4];
#pragma unroll
  for (int part = 0; part < S::kParts; part++) {
    float qk[kSets][2][2];
    multiply_k<T, S, kSets>(qk, tile + part * kPart * S::kKeyBytes, query.q, shared_q);
#pragma unroll
    for (int set = 0; set < kSets; set++)
#pragma unroll
      for (int i = 0; i < 4; i++) s[set][part][i / 2][i % 2] = qk[set][i / 2][i % 2] * query.unit[set];
  }
  if (by_token<S>(p.k_scales)) {
    load_scales<S>(scales, tile + S::kScales);
#pragma unroll
    for (int set = 0; set < kSets; set++)
#pragma unroll
      for (int i = 0; i < S::kTile / 4; i++) s[set][i / 4][i / 2 % 2][i % 2] *= scales[i / 4][i / 2 % 2][i % 2];
  }
  bool inside = first >= all.lo && first + S::kTile <= all.hi;
  if (!all.plain || !inside) {
#pragma unroll
    for (int set = 0; set < kSets; set++)
#pragma unroll
      for (int i = 0; i < S::kTile / 4; i++) {
        float &score = s[set][i / 4][i / 2 % 2][i % 2];
        int key = first + i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
        if (!all.plain) score = bend(p, query.rows[set], score, key);
        if (!inside && !sees(query.rows[set], key)) score = -CUDART_INF_F;
      }
  }
  bool scaled = by_token<S>(p.v_scales);
  if (scaled) {
    load_scales<S>(scales, tile + S::kScales + S::kTile * 4);
    to_units<S>(x, scales);
  }
#pragma unroll
  for (int set = 0; set < kSets; set++) weigh<T, S>(x, set, s[set], scaled, scales, a);
#pragma unroll
  for (int part = 0; part < S::kParts; part++)
    multiply_v<T, S>(x, tile + S::kTile * S::kKeyBytes + part * kPart * S::kValueBytes, a[part]);
}

// Where four tiles' columns 2t and 2t + 1 stand among 32 dims.
template <class T>
__device__ __forceinline__ void store_tiles(float *o, const float (&y)[4][2]) {
  int t = threadIdx.x % 4;
  if constexpr (kBits<T> == 16) {
#pragma unroll
    for (int j = 0; j < 4; j++) *reinterpret_cast<float2 *>(o + j * 8 + t * 2) = make_float2(y[j][0], y[j][1]);
  } else if constexpr (kBits<T> == 8) {  // two tiles have even and odd dims
#pragma unroll
    for (int j = 0; j < 4; j += 2) *reinterpret_cast<float4 *>(o + j * 8 + t * 4) = make_float4(y[j][0], y[j + 1][0], y[j][1], y[j + 1][1]);
  } else {  // a tile has every fourth dim
#pragma unroll
    for (int k = 0; k < 2; k++) *reinterpret_cast<float4 *>(o + t * 8 + k * 4) = make_float4(y[0][k], y[1][k], y[2][k], y[3][k]);
  }
}

// Write the warp's rows to shared memory, o times `values`, and report those of this
// thread's, a bit a row, that are not finite.
template <class T, class S, int V, int kSets>
__device__ __forceinline__ uint32_t store_warp(const WarpState<V, kSets> &x, const States &s, int warp, int rows, float values) {
  constexpr float kLower = Product<T>::kNarrow ? 1.0f / 32768.0f : 1.0f;
  int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  uint32_t spoilt = 0;
#pragma unroll
  for (int set = 0; set < kSets; set++) {
    float sum = x.l[set];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    float probe = sum * 0.0f;  // NaN if anything of the row is not finite
    int row = set * kRows + g;
    float *o = s.o + (warp * kSets * kRows + row) * S::kLd;
#pragma unroll
    for (int i = 0; i < V / 32; i++) {
      float y[4][2];  // columns 2t and 2t + 1 of four tiles
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int k = 0; k < 2; k++) {
          const float(&c)[4] = x.o[set][4 * i + j];
          y[j][k] = (c[k] + c[k + 2]) * kLower;
          if constexpr (S::kScaled) y[j][k] *= values;
          probe += y[j][k] * 0.0f;
        }
      if (row < rows) store_tiles<T>(o + i * 32, y);
    }
    if (t == 0 && row < rows) s.m[row * kWarps + warp] = x.m[set], s.l[row * kWarps + warp] = sum * kLower;
    if (probe != 0.0f && row < rows) spoilt |= 1u << row;
  }
  return spoilt;
}

// Compute the given rows again, without products of what they do not see: they become the
// first warp's, and the other warps have none of them. Behind the warps' states there is
// room for those of general_work: sharedFor in internal/cuda/kernel.go.
template <class S, int kSets>
__device__ __forceinline__ void compute_again(const Params &p, const Work &w, const States &s, uint32_t rows) {
  constexpr int kState = kSets * kRows * S::kLd;
  float *spare = s.o + s.n * kState;
  States again{1, spare + 2 * kState, spare + 2 * kState + kMaxRows * kWarps, spare, S::kLd};
  general_again(p, w, again);
  for (int i = threadIdx.x; i < w.rows * S::kLd; i += blockDim.x) {
    if (!(rows >> i / S::kLd & 1)) continue;
    for (int b = 0; b < s.n; b++) s.o[b * kState + i] = b == 0 ? again.o[i] : 0.0f;
  }
  for (int i = threadIdx.x; i < w.rows * kWarps; i += blockDim.x) {
    if (!(rows >> i / kWarps & 1)) continue;
    s.m[i] = i % kWarps == 0 ? again.m[i] : -CUDART_INF_F;
    s.l[i] = i % kWarps == 0 ? again.l[i] : 0.0f;
  }
  __syncthreads();
}

// What the kernels ahead in the stream may still write is read behind
// wait_for_earlier_kernels: q, keys, values, their scales, and lengths that are not settled.
template <class T, int K, int V, int kSets>
__device__ __forceinline__ void decode_work(const Params &p) {
  using S = Sizes<T, K, V, kSets>;
  extern __shared__ __align__(128) char shared[];
  __shared__ __align__(16) float warp_m[kMaxRows * kWarps], warp_l[kMaxRows * kWarps];
  __shared__ uint32_t spoilt;  // rows that are not finite
  bool first_lengths = p.lens && !p.settled;
  if (first_lengths) wait_for_earlier_kernels();
  const Work w = work_of(p);
  int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  empty_tables(warp_m, warp_l);
  if (threadIdx.x == 0) spoilt = 0;

  char *ring_start = shared + S::kQBytes;
  uint32_t ring = shared_address(ring_start) + warp * p.stages * S::kTileBytes;
  int first = w.begin / S::kTile * S::kTile + warp * S::kTile;
  Walk walk = walk_of<S>(p, w, first, warps * S::kTile);
  find_pages<S>(p, w, walk);
  bring_tiles<S>(p, w, walk);
  const float *from[kSets];
#pragma unroll
  for (int set = 0; set < kSets; set++) {
    from[set] = as_is(p.q + out_row(p, w, row_in(w, set)) * p.key_dim + query_lane<T>());
  }
  Operands<T, S, kSets> operands;
  operands.place(p, w);
  if (!first_lengths) wait_for_earlier_kernels();
  mark(p, kStarted);

  Query<S::kSteps> queries[kSets];
#pragma unroll
  for (int set = 0; set < kSets; set++) load_q<T>(queries[set], from[set], p.key_dim);
  uint32_t half = load_half(p, w);
  Query<S::kSteps> channels{};
  if (S::kScaled && p.k_scales.kind == kChannelScale) load_q<T>(channels, as_is(p.k_scales.values + w.head * p.key_dim + query_lane<T>()), p.key_dim);
  // The last stage of the first warp's ring is free until the walk begins.
  uint4 *shared_q = reinterpret_cast<uint4 *>(S::kQInRegisters ? ring_start + (p.stages - 1) * S::kTileBytes : shared);
  WarpState<V, kSets> x{};
  x.unit = 1;
#pragma unroll
  for (int set = 0; set < kSets; set++) x.m[set] = -CUDART_INF_F;

#pragma unroll 1
  for (int i = 0; i < p.stages - 1; i++) fetch<S>(p, w, walk, ring + i * S::kTileBytes);
  operands.prepare(p, w, queries, channels, shared_q);
  int stage = 0;
#pragma unroll 1
  for (int key = first; key < w.end; key += walk.step) {
    copy_wait(p.stages - 2);
    __syncwarp();
    if (key == first) mark(p, kFirstTile);
    fetch<S>(p, w, walk, ring + (stage == 0 ? p.stages - 1 : stage - 1) * S::kTileBytes);
    take_tile(p, x, operands, ring + stage * S::kTileBytes, key, shared_q);
    if (walk.key >= w.end) let_next_kernel_start();
    stage = stage + 1 == p.stages ? 0 : stage + 1;
  }
  copy_wait<0>();
  __syncthreads();
  mark(p, kWalked);

  States states{warps, warp_m, warp_l, reinterpret_cast<float *>(ring_start), S::kLd};
  float values = by_token<S>(p.v_scales) ? __int_as_float((x.unit + 1) << 23) : shared_scale<S>(p.v_scales, w.head);
  uint32_t mine = store_warp<T, S, V, kSets>(x, states, warp, w.rows, values);
  if (mine) atomicOr(&spoilt, mine);
  if (__syncthreads_or(mine != 0)) compute_again<S, kSets>(p, w, states, spoilt);
  finish<Shapes<4, V, kSets * kRows>>(p, w, states, half);
}

}  // namespace flashdec
