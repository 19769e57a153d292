// The machine instructions in use, each under a name.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace flashdec {

__device__ __forceinline__ uint32_t shared_address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Keys and values are read once a launch: they leave L2 first, so that code,
// plans and partial states stay.
__device__ __forceinline__ uint64_t read_once() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Copy 16 bytes to shared memory, past L1; zeros where !read, and then src is
// not touched.
__device__ __forceinline__ void copy16(uint32_t dst, const void *src, bool read, uint64_t policy) {
  int bytes = read ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(dst), "l"(src), "r"(bytes), "l"(policy));
}

__device__ __forceinline__ void copy16(uint32_t dst, const void *src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src));
}

__device__ __forceinline__ void copy4(uint32_t dst, const void *src) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(dst), "l"(src));
}

// Zero where !read, and then src is not touched.
__device__ __forceinline__ void copy4(uint32_t dst, const void *src, bool read) {
  int bytes = read ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(dst), "l"(src), "r"(bytes));
}

__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;"); }

template <int kPending>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Wait until at most `pending` of this thread's groups are on their way.
__device__ __forceinline__ void copy_wait(int pending) {
  if (__builtin_expect(pending == 1, 1)) return copy_wait<1>();
  switch (pending) {
    case 0: copy_wait<0>(); break;
    case 2: copy_wait<2>(); break;
    case 3: copy_wait<3>(); break;
    case 4: copy_wait<4>(); break;
    case 5: copy_wait<5>(); break;
    default: copy_wait<6>(); break;
  }
}

// Four 8×8 matrices of 16-bit elements; lane i gives the address of row i mod 8
// of matrix i / 8. Thread (g, t) gets row g, columns 2t and 2t + 1 of each.
__device__ __forceinline__ void load_matrix4(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}

// The same, transposed: thread (g, t) gets rows 2t and 2t + 1, column g.
__device__ __forceinline__ void load_matrix4_trans(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}

// Loads past L1, which may still hold what was at the address before: the only ones
// that may come before wait_for_earlier_kernels.
__device__ __forceinline__ int32_t load_past_l1(const int32_t *from) {
  int32_t x;
  asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(x) : "l"(from));
  return x;
}

__device__ __forceinline__ uint4 load_past_l1(const uint4 *from) {
  uint4 x;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from));
  return x;
}

// Two floats, or zeros where !read; the load starts here.
__device__ __forceinline__ float2 load_pair(const float *from, bool read) {
  float2 x;
  asm volatile("{.reg .pred p;\n\tsetp.ne.b32 p, %3, 0;\n\tmov.f32 %0, 0f00000000;\n\tmov.f32 %1, 0f00000000;\n\t@p ld.global.v2.f32 {%0, %1}, [%2];}"
               : "=f"(x.x), "=f"(x.y) : "l"(from), "r"(static_cast<int>(read)) : "memory");
  return x;
}

// One float, likewise.
__device__ __forceinline__ float load_one(const float *from, bool read) {
  float x;
  asm volatile("{.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\tmov.f32 %0, 0f00000000;\n\t@p ld.global.f32 %0, [%1];}" : "=f"(x) : "l"(from), "r"(static_cast<int>(read)) : "memory");
  return x;
}

__device__ __forceinline__ float2 load_shared2(uint32_t address) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address));
  return x;
}

__device__ __forceinline__ float4 load_shared4(uint32_t address) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(address));
  return x;
}

// a − b, of pairs of f16.
__device__ __forceinline__ uint32_t subtract_pair(uint32_t a, uint32_t b) {
  uint32_t y;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}

// a·b + c, of pairs of f16.
__device__ __forceinline__ uint32_t fma_pair(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t y;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
  return y;
}

// A pair of e4m3 codes in the upper bytes of x's halves, as f16: the exponent's bias
// is 8 less, and all bits set is NaN.
__device__ __forceinline__ uint32_t e4m3_pair(uint32_t x) {
  uint32_t y, nan = ((x & 0x7f007f00) + 0x01000100) & 0x80008000;
  asm("mul.f16x2 %0, %1, %2;" : "=r"(y) : "r"((x & 0x80008000) | (x >> 1 & 0x3f803f80)), "r"(0x5c005c00));  // 256
  return y | (nan >> 15) * 0x7fff;
}

// What differs between the operands' types: a number is the sum of a high and a low part.
template <class T>
struct Parts;

template <>
struct Parts<__nv_bfloat16> {
  static constexpr bool kNarrow = false;  // the exponent is a float's
  // (hi, lo): a and b each as the sum of two, packed in pairs.
  static __device__ __forceinline__ void split(float a, float b, uint32_t &hi, uint32_t &lo) {
    __nv_bfloat162 h = __floats2bfloat162_rn(a, b);
    hi = *reinterpret_cast<uint32_t *>(&h);
    __nv_bfloat162 r = __floats2bfloat162_rn(a - __uint_as_float(hi << 16), b - __uint_as_float(hi & 0xffff0000));
    lo = *reinterpret_cast<uint32_t *>(&r);
  }
  static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

template <>
struct Parts<__half> {
  static constexpr bool kNarrow = true;  // largest 65504, smallest 2^-24
  static __device__ __forceinline__ void split(float a, float b, uint32_t &hi, uint32_t &lo) {
    __half2 h = __floats2half2_rn(a, b);
    float2 f = __half22float2(h);
    __half2 r = __floats2half2_rn(a - f.x, b - f.y);
    hi = *reinterpret_cast<uint32_t *>(&h);
    lo = *reinterpret_cast<uint32_t *>(&r);
  }
  static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

// The mantissa's bits that mma_tf32 takes.
constexpr uint32_t kTf32Bits = 0xffffe000;

// The part of x that mma_tf32 takes, and the rest, of which it takes 11 bits more. The
// rest of an infinity is NaN.
__device__ __forceinline__ void split_tf32(uint32_t x, uint32_t &hi, uint32_t &lo) {
  hi = x & kTf32Bits;
  lo = __float_as_uint(__uint_as_float(x) - __uint_as_float(hi));
}

// float32 operands stay whole until their product, which splits them.
template <>
struct Parts<float> {
  static constexpr bool kNarrow = false;
  static __device__ __forceinline__ void split(float a, float b, uint32_t &first, uint32_t &second) {
    first = __float_as_uint(a), second = __float_as_uint(b);
  }
};

// Products of 8-bit integers, m16n8k32: as the others', with four bytes in place of
// each pair, the columns 4t to 4t + 3 and 16 + 4t to 16 + 4t + 3 of 32.
__device__ __forceinline__ void mma_int8(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Products of numbers of 11 bits, m16n8k8: one number in place of each pair, the columns
// t and t + 4 of 8.
__device__ __forceinline__ void mma_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// One more arrival at a counter in global memory; returns how many came before.
// Orders nothing else.
__device__ __forceinline__ uint32_t arrive(uint32_t *counter) {
  uint32_t before;
  asm volatile("atom.add.relaxed.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

// What blocks hand each other through L2: every 4 bytes on their own, in no order.
__device__ __forceinline__ void pass_on(float *to, const float (&x)[1]) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(x[0]) : "memory");
}

__device__ __forceinline__ void pass_on(float *to, const float (&x)[2]) {
  asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x[0]), "f"(x[1]) : "memory");
}

__device__ __forceinline__ void pass_on(float *to, const float (&x)[4]) {
  asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]) : "memory");
}

__device__ __forceinline__ void take_over(float (&x)[1], const float *from) {
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(x[0]) : "l"(from) : "memory");
}

__device__ __forceinline__ void take_over(float (&x)[2], const float *from) {
  asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "l"(from) : "memory");
}

__device__ __forceinline__ void take_over(float (&x)[4], const float *from) {
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "l"(from) : "memory");
}

// Bring bytes, a multiple of 16, to L2: a hint, which reads nothing yet.
__device__ __forceinline__ void bring_near(const void *from, int bytes, uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(from), "r"(bytes), "l"(policy));
#endif
}

// Wait until the kernels ahead in the stream have ended and their writes are there.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Let the next kernel in the stream start, once all blocks of this one have said so.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace flashdec
