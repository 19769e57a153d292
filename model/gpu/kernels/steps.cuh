// The steps of a pass that are not products.
#pragma once
#include "element.cuh"

namespace flashdec {

// A block takes a row.
__device__ inline void norm_row(const NormParams &p) {
  let_next_start();
  after_previous();
  const float *x = p.x + static_cast<int64_t>(p.rows ? p.rows[blockIdx.x] : blockIdx.x) * p.cols;
  float *y = p.y + static_cast<int64_t>(blockIdx.x) * p.cols;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < p.cols; i += blockDim.x) squares += x[i] * x[i];
  float scale = rsqrtf(block_sum(squares) / p.cols + p.eps);
  for (int i = threadIdx.x; i < p.cols; i += blockDim.x) {
    float normed = x[i] * scale * p.weight[i];
    y[i] = p.add ? y[i] + normed : normed;
  }
}

__device__ inline void embed_row(const EmbedParams &p) {
  let_next_start();
  after_previous();
  const char *row = p.w.data + static_cast<int64_t>(p.ids[blockIdx.x]) * p.w.pitch;
  float *x = p.x + static_cast<int64_t>(blockIdx.x) * p.cols;
  for (int i = threadIdx.x; i < p.cols; i += blockDim.x) x[i] = p.scale * weight_at(row, i, p.cols, p.w.type);
}

__device__ inline void norm_head(float *x, const float *weight, int dim, float eps) {
  float squares = 0.0f;
  for (int i = threadIdx.x; i < dim; i += blockDim.x) squares += x[i] * x[i];
  float scale = rsqrtf(block_sum(squares) / dim + eps);
  for (int i = threadIdx.x; i < dim; i += blockDim.x) x[i] *= scale * weight[i];
  __syncthreads();
}

__device__ inline void turn_head(const Rotation &r, float *x, int position) {
  int half = r.dim / 2;
  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    float sine, cosine;
    angle(r, i, position, sine, cosine);
    turn_by(sine, cosine, x[r.adjacent ? 2 * i : i], x[r.adjacent ? 2 * i + 1 : i + half]);
  }
  __syncthreads();
}

// The code of x, which counts in units of scale, or none past the row's end.
__device__ __forceinline__ uint32_t code_of(const float *x, int i, int dim, float scale, int32_t type) {
  return i < dim ? narrow(to_code(x[i], scale, type), type) : 0;
}

// A head's numbers into the cache: as they are, or as codes with a scale of their own.
__device__ inline void store_head(const Store &s, int32_t type, const float *x, const Rotation &r, int head, int place) {
  char *row = row_of(s, r, head, place);
  if (s.scales) {
    float scale = scale_of(x, r.dim, type);
    int page = place / r.page_size, slot = place % r.page_size;
    if (threadIdx.x == 0) s.scales[page * s.scale_page + head * s.scale_head + slot * s.scale_slot] = scale;
    if (type == kInt4) {
      for (int i = 2 * threadIdx.x; i < r.dim; i += 2 * blockDim.x) row[i / 2] = code_of(x, i, r.dim, scale, type) | code_of(x, i + 1, r.dim, scale, type) << 4;
      return;
    }
    for (int i = threadIdx.x; i < r.dim; i += blockDim.x) row[i] = code_of(x, i, r.dim, scale, type);
    return;
  }
  for (int i = threadIdx.x; i < r.dim; i += blockDim.x) set_element(row, i, type, x[i]);
}

// The blocks are [tokens, heads of q, k and v].
__device__ inline void turn(const TurnParams &p) {
  let_next_start();
  after_previous();
  const Rotation &r = p.rotation;
  int token = blockIdx.x, head = blockIdx.y, position = r.positions[token], place = r.places[token];
  auto at = [&](float *x, int heads, int h) { return x + (static_cast<int64_t>(token) * heads + h) * r.dim; };
  if (head < p.heads) {
    float *q = at(p.q, p.heads, head);
    if (p.q_norm) norm_head(q, p.q_norm, r.dim, p.eps);
    turn_head(r, q, position);
    return;
  }
  head -= p.heads;
  if (head < p.kv_heads) {
    float *k = at(p.k, p.kv_heads, head);
    if (p.k_norm) norm_head(k, p.k_norm, r.dim, p.eps);
    turn_head(r, k, position);
    store_head(r.k_store, r.k_type, k, r, head, place);
    return;
  }
  head -= p.kv_heads;
  store_head(r.v_store, r.v_type, at(p.v, p.kv_heads, head), r, head, place);
}

// y = act(y)·u.
__device__ inline void gate_each(const EachParams &p) {
  int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.n; i += step) p.y[i] = gated(p.y[i], p.u[i], p.gate);
}

// y += u, of each row, and y is capped.
__device__ inline void bias_each(const EachParams &p) {
  int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.n; i += step)
    p.y[i] = capped(p.u ? p.y[i] + p.u[i % p.cols] : p.y[i], p.softcap);
}

// A warp chooses a token's experts: those with the highest scores, the first of equal
// ones, weighed by the softmax over them.
__device__ inline void route(const RouteParams &p) {
  let_next_start();
  after_previous();
  const float *scores = p.scores + static_cast<int64_t>(blockIdx.x) * p.experts;
  int32_t *chosen = p.chosen + static_cast<int64_t>(blockIdx.x) * p.per_token;
  float *weights = p.weights + static_cast<int64_t>(blockIdx.x) * p.per_token;
  int lane = threadIdx.x;
  float top = 0.0f, last = 0.0f, sum = 0.0f;
  int last_index = -1;
  for (int k = 0; k < p.per_token; k++) {
    // The highest after the last one, in the order of falling scores and rising indices.
    float best = 0.0f;
    int index = p.experts;
    for (int e = lane; e < p.experts; e += 32) {
      float s = scores[e];
      bool after = k == 0 || s < last || (s == last && e > last_index);
      if (after && (index == p.experts || s > best)) best = s, index = e;
    }
#pragma unroll
    for (int d = 16; d > 0; d /= 2) {
      float other = __shfl_xor_sync(0xffffffff, best, d);
      int other_index = __shfl_xor_sync(0xffffffff, index, d);
      bool better = other_index < p.experts && (index == p.experts || other > best || (other == best && other_index < index));
      if (better) best = other, index = other_index;
    }
    if (index == p.experts) index = 0, best = CUDART_NAN_F;  // scores are NaN
    if (k == 0) top = best;
    last = best, last_index = index;
    float weight = expf(best - top);
    sum += weight;
    if (lane == 0) chosen[k] = index, weights[k] = weight;
  }
  if (lane == 0)
    for (int k = 0; k < p.per_token; k++) weights[k] /= sum;
}

__device__ inline void mix(const MixParams &p) {
  let_next_start();
  after_previous();
  int64_t token = blockIdx.y;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.cols) return;
  float sum = 0.0f;
  for (int k = 0; k < p.per_token; k++)
    sum += p.weights[token * p.per_token + k] * p.answers[(token * p.per_token + k) * p.cols + i];
  float &y = p.y[token * p.cols + i];
  y = p.add ? y + sum : sum;
}

// The blocks are [columns, rows].
__device__ inline void convert(const ConvertParams &p) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.cols) return;
  for (int64_t row = blockIdx.y; row < p.from.rows; row += gridDim.y) {
    float x = weight_at(p.from.data + row * p.from.pitch, i, p.cols, p.from.type);
    int64_t at = row * p.cols + i;
    uint16_t high = to_bf16(x);
    p.high[at] = high;
    p.low[at] = to_bf16(x - __uint_as_float(static_cast<uint32_t>(high) << 16));
  }
}

// Blocks are [tiles of columns, tiles of rows, matrices], of 32×8 threads.
__device__ inline void transpose(const TransposeParams &p) {
  __shared__ uint32_t tile[32][33];
  int64_t matrix = blockIdx.z;
  const char *from = p.from + matrix * p.rows * p.cols * p.bytes;
  char *to = const_cast<char *>(p.to.data) + matrix * p.to.expert_stride;
  int x = threadIdx.x % 32, y = threadIdx.x / 32;
  for (int i = y; i < 32; i += 8) {
    int row = blockIdx.y * 32 + i, col = blockIdx.x * 32 + x;
    if (row >= p.rows || col >= p.cols) continue;
    int64_t at = static_cast<int64_t>(row) * p.cols + col;
    tile[i][x] = p.bytes == 4 ? reinterpret_cast<const uint32_t *>(from)[at] : reinterpret_cast<const uint16_t *>(from)[at];
  }
  __syncthreads();
  for (int i = y; i < 32; i += 8) {
    int row = blockIdx.x * 32 + i, col = blockIdx.y * 32 + x;  // of the result
    if (row >= p.cols || col >= p.rows) continue;
    char *line = to + row * p.to.pitch;
    if (p.bytes == 4) reinterpret_cast<uint32_t *>(line)[col] = tile[x][i];
    else reinterpret_cast<uint16_t *>(line)[col] = tile[x][i];
  }
}

// splitmix64 of the place, whose upper bits become a number.
__device__ inline void fill(const FillParams &p) {
  int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.n; i += step) {
    uint64_t z = p.seed + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    set_element(p.data, i, p.type, p.spread * (static_cast<float>(z >> 40) * 0x1p-23f - 1.0f));
  }
}

}  // namespace flashdec
