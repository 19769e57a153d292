// Products of a part of a tile on the tensor cores: scores of its keys, and sums of its values.
#pragma once
#include "query.cuh"

namespace flashdec {

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

}  // namespace flashdec
