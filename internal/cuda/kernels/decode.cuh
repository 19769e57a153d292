// One block's work on the tensor cores, for bf16 and f16 keys and values.
//
// A warp walks its own tiles of 16 keys: warp i takes tiles i, i + warps, … of
// the block's keys, through a ring of tiles in shared memory that it fills
// itself, so the main loop has no block-wide barrier. Scores and averages are
// m16n8k16 products. Eight query rows fill the sixteen rows of a product: each
// number is the sum of a high and a low 16-bit part, high parts in rows 0 to 7,
// low parts in rows 8 to 15. Thread (g, t) = (lane / 4, lane mod 4) holds rows g
// and g + 8 of a result, so their sum costs one addition, and q and the weights
// keep 16 (bf16) or 22 (f16) bits at no further product.
//
// Hidden keys get weight 0 here. 0 times NaN or infinity would be NaN: a block
// whose sums are not finite is computed again by general_work, which skips them.
#pragma once
#include "general.cuh"

namespace flashdec {

constexpr int kTile = 16;      // keys a warp takes at once
constexpr int kRows = 8;       // query rows a product

// The sizes that key dim K, value dim V (both up to the given, a multiple of 8)
// and kSets sets of 8 query rows bring with them.
template <int K, int V, int kSets>
struct Sizes {
  static constexpr int kKeyBytes = K * 2, kValueBytes = V * 2;
  static constexpr int kTileBytes = kTile * (kKeyBytes + kValueBytes);
  static constexpr int kSteps = K / 16;                    // products a score
  static constexpr bool kQInRegisters = kSteps * kSets <= 8;
  static constexpr int kQBytes = kQInRegisters ? 0 : kSets * kSteps * 32 * 16;
  static constexpr int kLd = V + 8;                        // of a state's o, in floats: no bank conflicts
};

// Chunk c (16 bytes) of row r lies at chunk c ^ (r mod 8): ldmatrix reads eight
// rows' chunks without a bank conflict.
template <int kRowBytes>
__device__ __forceinline__ uint32_t chunk_at(int row, int chunk) {
  return row * kRowBytes + ((chunk ^ (row & 7)) << 4);
}

// A warp's walk over its tiles of 16 keys, which begin at multiples of 16.
struct Walk {
  int key;             // first key of the next tile to fetch
  int step;            // keys from one of the warp's tiles to the next
  bool one_page;       // no tile crosses a border of pages
  int64_t page;        // of the next tile; of this lane's row where tiles may cross
  const char *k, *v;   // this KV head
  uint64_t policy;     // of L2
};

// The page of the tile's first key, or of this lane's key of the tile.
__device__ __forceinline__ int64_t page_for(const Params &p, const Work &w, const Walk &walk, int key) {
  if (w.page >= 0) return w.page;
  int slot, mine = walk.one_page ? key : key + threadIdx.x % kTile;
  return mine < w.end && key < w.end ? p.pages[w.page_table + page_of(p, max(mine, w.begin), slot)] : 0;
}

// 16 adjacent rows of one plane; chunks from `chunks` on become zeros, unread.
template <int kRowBytes>
__device__ __forceinline__ void copy_tile(uint32_t dst, const char *first_row, int64_t row_stride, int chunks, uint64_t policy) {
  constexpr int kChunks = kRowBytes / 16;
  int lane = threadIdx.x % 32;
  if constexpr (32 % kChunks == 0) {
    constexpr int kStep = 32 / kChunks;  // rows at once
    int row = lane / kChunks, chunk = lane % kChunks;
    bool read = chunk < chunks;
    const char *src = first_row + row * row_stride + (read ? chunk * 16 : 0);
#pragma unroll
    for (int i = 0; i < kTile / kStep; i++) {
      copy16(dst + chunk_at<kRowBytes>(row + i * kStep, chunk), src, read, policy);
      src += kStep * row_stride;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kTile * kChunks / 32; i++) {
      int row = (i * 32 + lane) / kChunks, chunk = (i * 32 + lane) % kChunks;
      bool read = chunk < chunks;
      copy16(dst + chunk_at<kRowBytes>(row, chunk), first_row + row * row_stride + (read ? chunk * 16 : 0), read, policy);
    }
  }
}

// The rows [lo, hi) of a tile, and their first `chunks` chunks; the rest becomes
// zeros, unread. Lane i of 0 to 15 gives the address of row i.
template <int kRowBytes>
__device__ __forceinline__ void copy_rows(uint32_t dst, const char *row_address, int lo, int hi, int chunks, uint64_t policy) {
  constexpr int kChunks = kRowBytes / 16;
#pragma unroll 1
  for (int i = 0; i < kTile * kChunks / 32; i++) {
    int at = i * 32 + threadIdx.x % 32;
    int row = at / kChunks, chunk = at % kChunks;
    auto src = reinterpret_cast<const char *>(__shfl_sync(~0u, reinterpret_cast<unsigned long long>(row_address), row));
    bool read = row >= lo && row < hi && chunk < chunks;
    copy16(dst + chunk_at<kRowBytes>(row, chunk), read ? src + chunk * 16 : row_address, read, policy);
  }
}

template <class S>
__device__ __forceinline__ void fetch(const Params &p, const Work &w, Walk &walk, uint32_t dst) {
  if (walk.key < w.end) {
    int64_t page = walk.page;
    int first = walk.key, mine = threadIdx.x % kTile, slot;
    walk.key += walk.step;
    walk.page = page_for(p, w, walk, walk.key);
    page_of(p, walk.one_page ? first : first + mine, slot);
    const char *k = walk.k + page * p.k.page_stride + slot * p.k.slot_stride;
    const char *v = walk.v + page * p.v.page_stride + slot * p.v.slot_stride;
    uint32_t v_dst = dst + kTile * S::kKeyBytes;
    if (walk.one_page && first >= w.begin && first + kTile <= w.end) {
      copy_tile<S::kKeyBytes>(dst, k, p.k.slot_stride, p.key_dim / 8, walk.policy);
      copy_tile<S::kValueBytes>(v_dst, v, p.v.slot_stride, p.value_dim / 8, walk.policy);
    } else {
      if (walk.one_page) k += mine * p.k.slot_stride, v += mine * p.v.slot_stride;
      copy_rows<S::kKeyBytes>(dst, k, w.begin - first, w.end - first, p.key_dim / 8, walk.policy);
      copy_rows<S::kValueBytes>(v_dst, v, w.begin - first, w.end - first, p.value_dim / 8, walk.policy);
    }
  }
  copy_commit();
}

// One product step of q: a[0], a[2] are the high parts of row g at dims 2t.. and
// 8 + 2t.. of the step, a[1], a[3] the low parts.
template <class T>
__device__ __forceinline__ void load_q(uint32_t (&a)[4], const float *q, int step, int dim, float by) {
  int d = step * 16 + threadIdx.x % 4 * 2;
  float2 x = make_float2(0, 0), y = make_float2(0, 0);
  if (q && d < dim) x = *reinterpret_cast<const float2 *>(q + d);
  if (q && d + 8 < dim) y = *reinterpret_cast<const float2 *>(q + d + 8);
  Half<T>::split(x.x * by, x.y * by, a[0], a[1]);
  Half<T>::split(y.x * by, y.y * by, a[2], a[3]);
}

// The power of two that brings a row of q near 2^13 where the type's exponent is
// narrow, else 1; and its inverse.
template <class T>
__device__ __forceinline__ float q_exponent(const float *q, int dim) {
  if constexpr (!Half<T>::kNarrow) return 1.0f;
  float largest = 0.0f;
  for (int d = threadIdx.x % 4 * 4; q && d < dim; d += 16) {
    float4 x = *reinterpret_cast<const float4 *>(q + d);
    largest = fmaxf(largest, fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w))));
  }
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
  int e = (__float_as_int(largest) >> 23) - 127;
  e = min(max(13 - e, -100), 100);
  return __int_as_float((e + 127) << 23);
}

// What a warp carries from tile to tile, per set of rows: thread (g, t) has row
// g's m and its own part of l.
template <int V, int kSets>
struct WarpState {
  float m[kSets], l[kSets];
  float o[kSets][V / 8][4];  // [value dims 8i + 2t, + 1; rows g, g + 8], numerators
};

// Scores of the tile: s[set][keys 8i + 2t, + 1] = q·k, unscaled.
template <class T, class S, int kSets>
__device__ __forceinline__ void multiply_k(float (&s)[kSets][2][2], uint32_t tile, const uint32_t (*q)[4], const uint4 *shared_q) {
  int lane = threadIdx.x % 32;
  int key = (lane / 16) * 8 + lane % 8, half = lane / 8 % 2;
  constexpr int kChains = S::kSteps % 2 == 0 ? 2 : 1;  // independent sums hide the latency
  float c[kChains][kSets][2][4] = {};
#pragma unroll
  for (int step = 0; step < S::kSteps; step++) {
    uint32_t b[4];
    load_matrix4(b, tile + chunk_at<S::kKeyBytes>(key, step * 2 + half));
#pragma unroll
    for (int set = 0; set < kSets; set++) {
      uint32_t a[4];
      if constexpr (S::kQInRegisters) {
#pragma unroll
        for (int i = 0; i < 4; i++) a[i] = q[set * S::kSteps + step][i];
      } else {
        uint4 x = shared_q[(set * S::kSteps + step) * 32 + lane];
        a[0] = x.x, a[1] = x.y, a[2] = x.z, a[3] = x.w;
      }
      Half<T>::mma(c[step % kChains][set][0], a, b[0], b[1]);
      Half<T>::mma(c[step % kChains][set][1], a, b[2], b[3]);
    }
  }
#pragma unroll
  for (int set = 0; set < kSets; set++)
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        s[set][i][j] = c[0][set][i][j] + c[0][set][i][j + 2];
        if (kChains == 2) s[set][i][j] += c[kChains - 1][set][i][j] + c[kChains - 1][set][i][j + 2];
      }
}

// o += weights · V of the tile.
template <class T, class S, int V, int kSets>
__device__ __forceinline__ void multiply_v(WarpState<V, kSets> &x, uint32_t tile, const uint32_t (&a)[kSets][4]) {
  int lane = threadIdx.x % 32;
  int key = lane % 16, half = lane / 16;
#pragma unroll
  for (int i = 0; i < V / 16; i++) {
    uint32_t b[4];
    load_matrix4_trans(b, tile + chunk_at<S::kValueBytes>(key, i * 2 + half));
#pragma unroll
    for (int set = 0; set < kSets; set++) {
      Half<T>::mma(x.o[set][2 * i], a[set], b[0], b[1]);
      Half<T>::mma(x.o[set][2 * i + 1], a[set], b[2], b[3]);
    }
  }
}

// The recurrence of derivation §2.5 for one set of rows: scores in, weights out
// as high and low parts; o and l move to the new maximum. The weights of a type
// with a narrow exponent are 2^15 times larger.
template <class T, int V, int kSets>
__device__ __forceinline__ void weigh(WarpState<V, kSets> &x, int set, const float (&s)[2][2], uint32_t (&a)[4]) {
  constexpr float kLift = Half<T>::kNarrow ? 15.0f : 0.0f;
  float m = fmaxf(fmaxf(s[0][0], s[0][1]), fmaxf(s[1][0], s[1][1]));
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
  float w[2][2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
#pragma unroll
    for (int j = 0; j < 2; j++) w[i][j] = exp2_fast(fmaf(s[i][j] - base, kLog2E, kLift));
    x.l[set] += w[i][0] + w[i][1];
    Half<T>::split(w[i][0], w[i][1], a[2 * i], a[2 * i + 1]);
  }
}

// Where the block's rows agree on what is visible.
struct Common {
  int lo, hi;    // keys that all rows see, if there is no mask
  bool plain;    // a score is scale·q·k: no softcap, no bias
};

template <class T, class S, int V, int kSets>
__device__ __forceinline__ void take_tile(const Params &p, WarpState<V, kSets> &x, const Row (&rows)[kSets], const float (&unit)[kSets],
                                          const Common &all, uint32_t tile, int first, const uint32_t (*q)[4], const uint4 *shared_q) {
  float s[kSets][2][2];
  uint32_t a[kSets][4];
  multiply_k<T, S, kSets>(s, tile, q, shared_q);
  bool inside = first >= all.lo && first + kTile <= all.hi;
#pragma unroll
  for (int set = 0; set < kSets; set++) {
    if (all.plain && inside) {
#pragma unroll
      for (int i = 0; i < 4; i++) s[set][i / 2][i % 2] *= unit[set];
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float &score = s[set][i / 2][i % 2];
        int key = first + i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
        score *= unit[set];
        if (!all.plain) score = bend(p, rows[set], score, key);
        if (!inside && !sees(rows[set], key)) score = -CUDART_INF_F;
      }
    }
    weigh<T, V, kSets>(x, set, s[set], a[set]);
  }
  multiply_v<T, S, V, kSets>(x, tile + kTile * S::kKeyBytes, a);
}

// Write the warp's rows to shared memory, and report whether all is finite.
template <class T, class S, int V, int kSets>
__device__ __forceinline__ bool store_warp(WarpState<V, kSets> &x, const States &s, int warp, int rows) {
  constexpr float kLower = Half<T>::kNarrow ? 1.0f / 32768.0f : 1.0f;
  int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  float probe = 0.0f;  // NaN if anything is not finite
#pragma unroll
  for (int set = 0; set < kSets; set++) {
    float sum = x.l[set];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    probe += sum * 0.0f;
    int row = set * kRows + g;
#pragma unroll
    for (int i = 0; i < V / 8; i++) {
      float2 y = make_float2(x.o[set][i][0] + x.o[set][i][2], x.o[set][i][1] + x.o[set][i][3]);
      probe += (y.x + y.y) * 0.0f;
      if (row < rows) *reinterpret_cast<float2 *>(s.o + (warp * rows + row) * S::kLd + i * 8 + t * 2) = make_float2(y.x * kLower, y.y * kLower);
    }
    if (t == 0 && row < rows) s.m[row * kWarps + warp] = x.m[set], s.l[row * kWarps + warp] = sum * kLower;
  }
  return probe == 0.0f;
}

template <class T, int K, int V, int kSets>
__device__ __forceinline__ void decode_work(const Params &p) {
  using S = Sizes<K, V, kSets>;
  extern __shared__ __align__(128) char shared[];
  __shared__ __align__(16) float warp_m[kMaxRows * kWarps], warp_l[kMaxRows * kWarps];
  __shared__ float kept_m[kMaxRows], kept_l[kMaxRows];
  const Work w = work_of(p);
  int warp = threadIdx.x / 32, warps = blockDim.x / 32, g = threadIdx.x % 32 / 4;

  if (threadIdx.x < kMaxRows * kWarps) warp_m[threadIdx.x] = -CUDART_INF_F;

  char *ring_start = shared + S::kQBytes;
  uint32_t ring = shared_address(ring_start) + warp * p.stages * S::kTileBytes;
  int first = w.begin / kTile * kTile + warp * kTile;
  Walk walk{first, warps * kTile, w.page >= 0 || p.page_size % kTile == 0, 0,
            p.k.data + w.head * p.k.head_stride, p.v.data + w.head * p.v.head_stride, read_once()};
  walk.page = page_for(p, w, walk, first);
#pragma unroll 1
  for (int i = 0; i < p.stages - 1; i++) fetch<S>(p, w, walk, ring + i * S::kTileBytes);

  Row rows[kSets];
  float unit[kSets];
  uint32_t q[S::kQInRegisters ? kSets * S::kSteps : 1][4];
  uint4 *shared_q = reinterpret_cast<uint4 *>(shared);
  Common all{0, INT32_MAX, p.softcap == 0.0f && !p.slopes};
#pragma unroll
  for (int set = 0; set < kSets; set++) {
    int r = set * kRows + g;
    rows[set] = row_of(p, w, min(r, w.rows - 1));
    all.lo = max(all.lo, rows[set].lo);
    all.hi = min(all.hi, rows[set].hi);
    const float *from = r < w.rows ? p.q + out_row(p, w, r) * p.key_dim : nullptr;
    float by = q_exponent<T>(from, p.key_dim);
    unit[set] = p.scale * reciprocal(by);
    if constexpr (S::kQInRegisters) {
#pragma unroll
      for (int step = 0; step < S::kSteps; step++) load_q<T>(q[set * S::kSteps + step], from, step, p.key_dim, by);
    } else {
      for (int step = warp; step < S::kSteps; step += warps) {
        uint32_t a[4];
        load_q<T>(a, from, step, p.key_dim, by);
        shared_q[(set * S::kSteps + step) * 32 + threadIdx.x % 32] = make_uint4(a[0], a[1], a[2], a[3]);
      }
    }
  }
  all.lo = __reduce_max_sync(~0u, all.lo);
  all.hi = p.mask ? 0 : __reduce_min_sync(~0u, all.hi);
  if constexpr (!S::kQInRegisters) __syncthreads();

  WarpState<V, kSets> x{};
#pragma unroll
  for (int set = 0; set < kSets; set++) x.m[set] = -CUDART_INF_F;
  int stage = 0;
  for (int key = first; key < w.end; key += warps * kTile) {
    copy_wait(p.stages - 2);
    __syncwarp();
    int free = stage == 0 ? p.stages - 1 : stage - 1;
    fetch<S>(p, w, walk, ring + free * S::kTileBytes);
    take_tile<T, S, V, kSets>(p, x, rows, unit, all, ring + stage * S::kTileBytes, key, q, shared_q);
    stage = stage + 1 == p.stages ? 0 : stage + 1;
  }
  copy_wait<0>();
  __syncthreads();

  States states{kWarps, warp_m, warp_l, kWarps, reinterpret_cast<float *>(ring_start), S::kLd, true, kept_m, kept_l};
  bool finite = store_warp<T, S, V, kSets>(x, states, warp, w.rows);
  if (__syncthreads_or(!finite)) {
    if (threadIdx.x < kMaxRows * kWarps) warp_m[threadIdx.x] = -CUDART_INF_F;
    __syncthreads();
    general_work(p, w, states);
  }
  finish<4, V>(p, w, states, states.o);
}

}  // namespace flashdec
