// What differs between the elements that the tensor cores take: how a tile in
// shared memory becomes the fragments of m16n8k16 products.
//
// 8-bit codes become f16, which holds all of them. ldmatrix moves pairs of bytes,
// so a thread gets four adjacent dims of a key (or two of two keys), or eight (four of
// two keys) of 4-bit codes; the dims of a product may come in any order, as long as q
// and o follow it. float32 elements stay as they are: products of tf32 take them in two parts.
#pragma once
#include "ptx.cuh"
#include "tile.cuh"

namespace flashdec {

struct E4M3 { uint8_t code; };
struct E5M2 { uint8_t code; };
struct Int8 { int8_t code; };
struct Int4 { uint8_t codes; };  // two, the first in the low bits
template <> constexpr int kBits<Int4> = 4;

// The 16-bit type of a product's operands.
template <class T> struct Operand { using Type = __half; };
template <> struct Operand<__nv_bfloat16> { using Type = __nv_bfloat16; };
template <> struct Operand<float> { using Type = float; };

// Whether scores are products of integers: keys as they lie in the cache, q as four
// 8-bit digits of a fixed-point number.
template <class T> constexpr bool kDigits = false;
template <> constexpr bool kDigits<Int8> = true;
template <> constexpr bool kDigits<Int4> = true;

// What codes are multiplied by as operands of integer products: those of 4 bits stand in
// the upper half of a byte.
template <class T> constexpr float kCodeUnit = 1.0f;
template <> constexpr float kCodeUnit<Int4> = 16.0f;

// Four codes as two pairs of f16: bytes 0 and 1, 2 and 3; or, with kAcross, bytes
// 0 and 2, 1 and 3.
template <bool kAcross>
__device__ __forceinline__ void widen(E4M3, uint32_t x, uint32_t &a, uint32_t &b) {
#if __CUDA_ARCH__ >= 890
  if (kAcross) x = __byte_perm(x, 0, 0x3120);
  asm("{.reg .b16 l, h;\n\tmov.b32 {l, h}, %2;\n\tcvt.rn.f16x2.e4m3x2 %0, l;\n\tcvt.rn.f16x2.e4m3x2 %1, h;}" : "=r"(a), "=r"(b) : "r"(x));
#else
  a = e4m3_pair(__byte_perm(x, 0, kAcross ? 0x2404 : 0x1404));
  b = e4m3_pair(__byte_perm(x, 0, kAcross ? 0x3414 : 0x3424));
#endif
}

// The upper byte of an f16.
template <bool kAcross>
__device__ __forceinline__ void widen(E5M2, uint32_t x, uint32_t &a, uint32_t &b) {
  a = __byte_perm(x, 0, kAcross ? 0x2404 : 0x1404);
  b = __byte_perm(x, 0, kAcross ? 0x3414 : 0x3424);
}

template <bool kAcross>
__device__ __forceinline__ void widen(Int8, uint32_t x, uint32_t &a, uint32_t &b) {
  constexpr uint32_t k1024 = 0x64646464, k1152 = 0x64806480;  // f16's bits: 1024 + n is 0x6400 + n
  x ^= 0x80808080;                                            // n + 128
  a = __byte_perm(x, k1024, kAcross ? 0x4240 : 0x4140);
  b = __byte_perm(x, k1024, kAcross ? 0x4341 : 0x4342);
  a = subtract_pair(a, k1152);
  b = subtract_pair(b, k1152);
}

// Eight codes of 4 bits as 16 times themselves: those of even dims, those of odd ones.
__device__ __forceinline__ void widen_to_bytes(uint32_t x, uint32_t &even, uint32_t &odd) {
  even = x << 4 & 0xf0f0f0f0, odd = x & 0xf0f0f0f0;
}

// Codes i and i + 1 of each half of x, counted from its lowest bits, as pairs of f16.
__device__ __forceinline__ void widen_pairs(uint32_t x, int i, uint32_t &a, uint32_t &b) {
  constexpr uint32_t k1032 = 0x64086408, k1152 = 0x64806480;       // f16's bits: 1024 + n is 0x6400 + n
  constexpr uint32_t kSixteenth = 0x2c002c00, kMinus72 = 0xd480d480;
  x >>= 4 * i;
  a = subtract_pair((x & 0x000f000f) ^ k1032, k1032);              // 1024 + n + 8
  b = fma_pair((x & 0x00f000f0) ^ k1152, kSixteenth, kMinus72);    // 1024 + 16·(n + 8)
}

// A lane's codes of keys 0 to 7 and 8 to 15 in two chunks of 16 bytes.
template <class S>
__device__ __forceinline__ void load_code_chunks(uint32_t (&x)[4], uint32_t rows, int chunks) {
  int lane = threadIdx.x % 32;
  load_matrix4(x, rows + chunk_at<S::kKeyBytes>((lane / 16) * 8 + lane % 8, chunks * 2 + lane / 8 % 2));
}

// Operands of integer products: two steps of 16 dims for keys 0 to 7, then for 8 to 15.
// x holds chunks from one pair of steps to the next where a load is enough for both.
template <class T, class S>
__device__ __forceinline__ void load_codes(uint32_t (&b)[4], uint32_t (&x)[4], uint32_t rows, int pair) {
  if constexpr (kBits<T> == 8) {
    load_code_chunks<S>(b, rows, pair);
  } else {
    if (pair % 2 == 0) load_code_chunks<S>(x, rows, pair / 2);
    widen_to_bytes(x[pair % 2], b[0], b[1]);
    widen_to_bytes(x[2 + pair % 2], b[2], b[3]);
  }
}

// Keys of two steps of 16 dims: b[step] for keys 0 to 7, then 8 to 15.
template <class T, class S>
__device__ __forceinline__ void load_keys(uint32_t (&b)[2][4], uint32_t rows, int pair) {
  if constexpr (sizeof(T) == 2) {
    int lane = threadIdx.x % 32, key = (lane / 16) * 8 + lane % 8, half = lane / 8 % 2;
    load_matrix4(b[0], rows + chunk_at<S::kKeyBytes>(key, pair * 4 + half));
    load_matrix4(b[1], rows + chunk_at<S::kKeyBytes>(key, pair * 4 + 2 + half));
  } else {
    uint32_t x[4];
    load_code_chunks<S>(x, rows, pair);
#pragma unroll
    for (int i = 0; i < 4; i++) widen<false>(T{}, x[i], b[i % 2][i / 2 * 2], b[i % 2][i / 2 * 2 + 1]);
  }
}

// Values of two blocks of 16 dims, each as two tiles of 8 columns. x holds chunks from
// one pair to the next, as in load_codes.
template <class T, class S>
__device__ __forceinline__ void load_values(uint32_t (&b)[2][4], uint32_t (&x)[4], uint32_t rows, int pair) {
  int lane = threadIdx.x % 32;
  int key = lane % 16, half = lane / 16;
  if constexpr (sizeof(T) == 2) {
    load_matrix4_trans(b[0], rows + chunk_at<S::kValueBytes>(key, pair * 4 + half));
    load_matrix4_trans(b[1], rows + chunk_at<S::kValueBytes>(key, pair * 4 + 2 + half));
  } else if constexpr (kBits<T> == 4) {
    if (pair % 2 == 0) load_matrix4_trans(x, rows + chunk_at<S::kValueBytes>(key, pair + half));
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int k = 0; k < 2; k++) widen_pairs(x[pair % 2 * 2 + k], 2 * i, b[i][k], b[i][2 + k]);
  } else {
    load_matrix4_trans(x, rows + chunk_at<S::kValueBytes>(key, pair * 2 + half));
#pragma unroll
    for (int i = 0; i < 4; i++) widen<true>(T{}, x[i], b[i / 2][i % 2], b[i / 2][i % 2 + 2]);
  }
}

// A thread's pair i of dims of q, two pairs a step of 16 dims: the first is query_dim<T>(i)
// after query_lane<T>(), the second kPairStep<T> further.
template <class T> constexpr int kPairStep = sizeof(T) == 4 ? 4 : 1;

template <class T>
__device__ __forceinline__ int query_lane() {
  return threadIdx.x % 4 * (kBits<T> == 32 ? 1 : 32 / kBits<T>);
}

template <class T>
__device__ constexpr int query_dim(int i) {
  switch (kBits<T>) {
    case 8: return i / 2 * 16 + i % 2 * 2;
    case 4: return i / 4 * 32 + i % 4 * 2;
    default: return i * 8;
  }
}

}  // namespace flashdec
