// One block's work for any element type, any dimensions and any strides, in
// float32 on the ordinary cores: the path of everything that the tensor-core
// kernel does not take, and of blocks where it met a NaN or an infinity, since
// this one never multiplies a hidden key's value.
#pragma once
#include "code.cuh"
#include "finish.cuh"

namespace flashdec {

constexpr int kTileKeys = 64;
constexpr float kHidden = -1.0f;  // the weight of a key that its row does not see

__device__ __forceinline__ float half_of(uint32_t bits) { return __half2float(__ushort_as_half(static_cast<uint16_t>(bits))); }

// Element i of a row of the given type.
__device__ __forceinline__ float element(const char *row, int32_t type, int i) {
  switch (type) {
    case kF32: return reinterpret_cast<const float *>(row)[i];
    case kF16: return __half2float(reinterpret_cast<const __half *>(row)[i]);
    case kBF16: return __bfloat162float(reinterpret_cast<const __nv_bfloat16 *>(row)[i]);
    case kE4M3: return half_of(e4m3_pair(static_cast<uint8_t>(row[i]) << 8));
    case kE5M2: return half_of(static_cast<uint8_t>(row[i]) << 8);
    case kInt8: return static_cast<int8_t>(row[i]);
    default: return ((row[i / 2] >> i % 2 * 4 & 15) ^ 8) - 8;
  }
}

// The scale of a row's elements, but for what its channels have.
__device__ __forceinline__ float row_scale(const Scales &s, int64_t page, int head, int slot) {
  switch (s.kind) {
    case kTensorScale: return finite_scale(s.values[0]);
    case kHeadScale: return finite_scale(s.values[head]);
    case kTokenScale: return finite_scale(s.values[s.at(page, head, slot)]);
    default: return 1.0f;
  }
}

// Over a warp, the same value in every lane.
__device__ __forceinline__ float warp_max_nan(float x) {
  for (int i = 16; i > 0; i >>= 1) x = max_nan(x, __shfl_xor_sync(~0u, x, i));
  return x;
}

__device__ __forceinline__ float warp_sum(float x) {
  for (int i = 16; i > 0; i >>= 1) x += __shfl_xor_sync(~0u, x, i);
  return x;
}

// Shared memory of general_work.
struct GeneralScratch {
  float s[kMaxRows][kTileKeys];      // scores, then weights
  int64_t k[kTileKeys], v[kTileKeys];  // byte offsets of the tile's rows
  float k_scale[kTileKeys], v_scale[kTileKeys];
  float shrink[kMaxRows];            // exp(m_old − m_new); kHidden where there is nothing old
  float run_m[kMaxRows], run_l[kMaxRows];
};

// Where the tile's keys and values lie.
__device__ inline void find_keys(const Params &p, const Work &w, GeneralScratch &t, int first, int count) {
  for (int j = threadIdx.x; j < count; j += blockDim.x) {
    int slot;
    int entry = page_of(p, first + j, slot);
    int64_t page = w.page >= 0 ? w.page : page_at(p, w, entry);
    t.k[j] = row_offset(p.k, w.head, page, slot);
    t.v[j] = row_offset(p.v, w.head, page, slot);
    t.k_scale[j] = row_scale(p.k_scales, page, w.head, slot);
    t.v_scale[j] = row_scale(p.v_scales, page, w.head, slot);
  }
}

// s[r][j] = the score of key first + j for row r; −Inf where hidden. A warp takes a key.
__device__ inline void score_keys(const Params &p, const Work &w, GeneralScratch &t, int first, int count) {
  int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const float *channels = p.k_scales.kind == kChannelScale ? p.k_scales.values + w.head * p.key_dim : nullptr;
  for (int i = threadIdx.x / 32; i < count * w.rows; i += warps) {
    int j = i / w.rows, r = i - j * w.rows;
    Row row = row_of(p, w, r);
    load_slope(p, w, r, row);
    float score = -CUDART_INF_F;
    if (sees(row, first + j)) {
      const char *k = p.k.data + t.k[j];
      const float *q = p.q + out_row(p, w, r) * p.key_dim;
      float qk = 0.0f;
      for (int d = lane; d < p.key_dim; d += 32) {
        float scale = channels ? finite_scale(channels[d]) : t.k_scale[j];
        qk = fmaf(q[d], element(k, p.k_type, d) * scale, qk);
      }
      score = bend(p, row, warp_sum(qk) * p.scale, first + j);
    }
    if (lane == 0) t.s[r][j] = score;
  }
}

// The recurrence of derivation §2.5 over the tile, numerators undivided: scores
// become weights exp(s − m). A warp takes a row.
__device__ inline void weigh_keys(const Work &w, const States &s, GeneralScratch &t, int count) {
  int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int r = threadIdx.x / 32; r < w.rows; r += warps) {
    float m = -CUDART_INF_F;
    for (int j = lane; j < count; j += 32) m = max_nan(m, t.s[r][j]);
    float old = s.m[r * kWarps];
    m = max_nan(warp_max_nan(m), old);
    float sum = 0.0f;
    for (int j = lane; j < count; j += 32) {
      float weight = merge_weight(t.s[r][j], 1.0f, m);
      t.s[r][j] = is_empty(t.s[r][j]) ? kHidden : weight;
      sum += weight;
    }
    sum = warp_sum(sum);
    __syncwarp();
    if (lane == 0) {
      t.shrink[r] = is_empty(old) ? kHidden : exp_fast(old - m);
      s.l[r * kWarps] = merge_weight(old, s.l[r * kWarps], m) + sum;
      s.m[r * kWarps] = m;
    }
  }
}

// o[r][d] = o[r][d]·exp(m_old − m_new) + Σ exp(s_j − m_new)·v_j[d]. A thread takes a d.
__device__ inline void add_values(const Params &p, const Work &w, const States &s, GeneralScratch &t, int count) {
  for (int d = threadIdx.x; d < p.value_dim; d += blockDim.x) {
    float sum[kMaxRows] = {};
    for (int j = 0; j < count; j++) {
      float v = element(p.v.data + t.v[j], p.v_type, d) * t.v_scale[j];
#pragma unroll
      for (int r = 0; r < kMaxRows; r++)
        if (r < w.rows && t.s[r][j] != kHidden) sum[r] = fmaf(t.s[r][j], v, sum[r]);
    }
#pragma unroll
    for (int r = 0; r < kMaxRows; r++)
      if (r < w.rows) {
        float &o = s.o[r * s.ld + d];
        o = t.shrink[r] == kHidden ? sum[r] : fmaf(o, t.shrink[r], sum[r]);
      }
  }
}

// A long sum of equal terms rounds the same way every time: keys are summed by
// kLongKeys, and those sums added up in a second array behind the first.
constexpr int kLongKeys = 32 * kTileKeys;

__device__ inline void fold_long(const Params &p, const Work &w, const States &s, GeneralScratch &t) {
  float *run = s.o + w.rows * s.ld;
  for (int i = threadIdx.x; i < w.rows * p.value_dim; i += blockDim.x) {
    int r = i / p.value_dim, at = r * s.ld + i - r * p.value_dim;
    float m_old = t.run_m[r], m_new = s.m[r * kWarps], m = max_nan(m_old, m_new);
    float sum = is_empty(m_old) ? 0.0f : run[at] * exp_fast(m_old - m);
    if (!is_empty(m_new)) sum = fmaf(s.o[at], exp_fast(m_new - m), sum);
    run[at] = sum;
  }
  __syncthreads();
  if (threadIdx.x < w.rows) {
    int r = threadIdx.x;
    float m_new = s.m[r * kWarps], l_new = s.l[r * kWarps], m = max_nan(t.run_m[r], m_new);
    t.run_l[r] = merge_weight(t.run_m[r], t.run_l[r], m) + merge_weight(m_new, l_new, m);
    t.run_m[r] = m;
    s.m[r * kWarps] = -CUDART_INF_F, s.l[r * kWarps] = 0.0f;
  }
  __syncthreads();
}

// The state of the block's work, as s's first one, undivided.
static __device__ __noinline__ void general_work(const Params &p, const Work &w, const States &s) {
  __shared__ GeneralScratch t;
  if (threadIdx.x < w.rows) {
    s.m[threadIdx.x * kWarps] = t.run_m[threadIdx.x] = -CUDART_INF_F;
    s.l[threadIdx.x * kWarps] = t.run_l[threadIdx.x] = 0.0f;
  }
  __syncthreads();
  for (int first = w.begin; first < w.end; first += kTileKeys) {
    int count = min(kTileKeys, w.end - first);
    find_keys(p, w, t, first, count);
    __syncthreads();
    score_keys(p, w, t, first, count);
    __syncthreads();
    weigh_keys(w, s, t, count);
    __syncthreads();
    add_values(p, w, s, t, count);
    __syncthreads();
    if ((first - w.begin + kTileKeys) % kLongKeys == 0) fold_long(p, w, s, t);
  }
  fold_long(p, w, s, t);
  for (int i = threadIdx.x; i < w.rows * p.value_dim; i += blockDim.x) {
    int r = i / p.value_dim, at = r * s.ld + i - r * p.value_dim;
    s.o[at] = s.o[w.rows * s.ld + at];
  }
  if (threadIdx.x < w.rows) s.m[threadIdx.x * kWarps] = t.run_m[threadIdx.x], s.l[threadIdx.x * kWarps] = t.run_l[threadIdx.x];
  __syncthreads();
}

// The same where it is seldom called: what a call takes by reference has to lie in
// memory, and these copies keep the caller's own out of it.
__device__ __forceinline__ void general_again(const Params &p, const Work &w, const States &s) {
  const Work work = w;
  const States states = s;
  general_work(p, work, states);
}

}  // namespace flashdec
