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
#include "weigh.cuh"

namespace flashdec {

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
