// The kernels, by name: decode_<type>_<key dim>_<value dim>_<query rows a block>
// general, store_rows and read_floor. internal/cuda/kernel.go chooses among them.
#include "decode.cuh"
#include "floor.cuh"
#include "store.cuh"

using namespace flashdec;

#define DECODE(name, type, k, v, sets)                                                        \
  extern "C" __global__ void __launch_bounds__(256, 1)                                        \
      decode_##name##_##k##_##v##_##sets(const __grid_constant__ Params p) {                  \
    decode_work<type, k, v, sets>(p);                                                         \
  }

// Left out of the traced build, to keep it small.
#ifdef FLASHDEC_TRACE
#define DECODE_UNTRACED(name, type, k, v, sets)
#else
#define DECODE_UNTRACED DECODE
#endif

extern "C" __global__ void __launch_bounds__(128) general(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char shared[];
  __shared__ __align__(16) float m[kMaxRows * kWarps], l[kMaxRows * kWarps];
  wait_for_earlier_kernels();
  let_next_kernel_start();
  const Work w = work_of(p);
  uint32_t half = load_half(p, w);
  mark(p, kStarted);
  States s{1, m, l, reinterpret_cast<float *>(shared), p.value_dim};
  empty_tables(m, l);
  __syncthreads();
  general_work(p, w, s);
  mark(p, kWalked);
  finish<Shapes<1, 0, kRows>>(p, w, s, half);
}

#ifndef FLASHDEC_TRACE
extern "C" __global__ void __launch_bounds__(512) read_floor(const __grid_constant__ FloorParams p) { read_all(p); }

extern "C" __global__ void __launch_bounds__(128) store_rows(const __grid_constant__ StoreParams p) {
  flashdec::store_rows(p);
}
#endif

#define DIMS(name, type)                   \
  DECODE(name, type, 64, 64, 1)            \
  DECODE(name, type, 64, 64, 2)            \
  DECODE(name, type, 128, 128, 1)          \
  DECODE(name, type, 128, 128, 2)          \
  DECODE_UNTRACED(name, type, 192, 128, 1) \
  DECODE(name, type, 256, 256, 1)

// Codes of dim 64 are few bytes: groups above 8 read them twice.
#define CODE_DIMS(name, type)              \
  DECODE_UNTRACED(name, type, 64, 64, 1)   \
  DECODE(name, type, 128, 128, 1)          \
  DECODE_UNTRACED(name, type, 128, 128, 2) \
  DECODE_UNTRACED(name, type, 256, 256, 1)

// float32 has 16 keys a tile, twice the bytes: groups above 8 read them twice.
#define FLOAT_DIMS(name, type)             \
  DECODE(name, type, 64, 64, 1)            \
  DECODE(name, type, 128, 128, 1)          \
  DECODE(name, type, 256, 256, 1)

FLOAT_DIMS(f32, float)
DIMS(bf16, __nv_bfloat16)
DIMS(f16, __half)
CODE_DIMS(e4m3, E4M3)
CODE_DIMS(e5m2, E5M2)
CODE_DIMS(int8, Int8)
CODE_DIMS(int4, Int4)
