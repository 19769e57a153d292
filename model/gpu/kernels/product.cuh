// Products of a matrix with few rows of x, which read the matrix once: a warp takes
// two of its rows, those of gate and up that belong together, or those of the two
// elements of a head that turn together. x stays float32.
#pragma once
#include "element.cuh"

namespace flashdec {

constexpr int kProductThreads = 512, kProductWarps = kProductThreads / 32;
constexpr int kLoads = 4;        // of 16 bytes, of each of a warp's two rows, fetched ahead at a time
constexpr int kChunk = 32 * 16;  // bytes that a warp loads at a time

// x in shared memory: rows of a multiple of 256 numbers, zero beyond cols. Fours of
// numbers are swapped so that lanes which read eight numbers each meet no bank twice.
__device__ __forceinline__ int four_at(int i) { return i ^ (i >> 3 & 1); }
__device__ __forceinline__ int padded(int cols) { return (cols + 255) & ~255; }

__device__ __forceinline__ float4 four_of(const float *row, int i, int cols) {
  if (cols % 4 == 0) return i < cols / 4 ? reinterpret_cast<const float4 *>(row)[i] : float4{0, 0, 0, 0};
  auto at = [&](int j) { return j < cols ? row[j] : 0.0f; };
  return {at(4 * i), at(4 * i + 1), at(4 * i + 2), at(4 * i + 3)};
}

// Puts x, or x times the norm's weights, into shared memory, and returns what to
// multiply each token's products by: the norm's 1/√(mean of squares).
template <int kTokens>
__device__ __forceinline__ void stage(float4 *to, float (&scales)[kTokens], const float *x, const ProductParams &p, int tokens) {
  __shared__ float parts[kTokens][kProductWarps];
  int fours = padded(p.cols) / 4;
  float squares[kTokens] = {};
  for (int i = threadIdx.x; i < fours; i += kProductThreads) {
    float4 weight = {1, 1, 1, 1};
    if (p.norm) weight = four_of(p.norm, i, p.cols);
#pragma unroll
    for (int t = 0; t < kTokens; t++) {
      float4 v = {0, 0, 0, 0};
      if (t < tokens) v = four_of(x + static_cast<int64_t>(t) * p.cols, i, p.cols);
      squares[t] += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
      to[t * fours + four_at(i)] = {v.x * weight.x, v.y * weight.y, v.z * weight.z, v.w * weight.w};
    }
  }
#pragma unroll
  for (int t = 0; t < kTokens; t++) {
    float sum = p.norm ? warp_sum(squares[t]) : 0.0f;
    if (threadIdx.x % 32 == 0) parts[t][threadIdx.x / 32] = sum;
  }
  __syncthreads();
#pragma unroll
  for (int t = 0; t < kTokens; t++) {
    float sum = 0.0f;
    for (int i = 0; i < kProductWarps; i++) sum += parts[t][i];
    scales[t] = p.norm ? rsqrtf(sum / p.cols + p.eps) : 1.0f;
  }
}

// A warp's task: two rows, and where their results go.
struct Task {
  int index;
  int output;           // of row[0]; row[1]'s is the next one of a gate, else the same
  int row[2];
  int bytes;            // of a row: whole loads of 16 bytes
  const char *data[2];  // the lane's part
};

__device__ __forceinline__ int num_tasks(const ProductParams &p) {
  if (p.finish == kGate) return p.outputs[0].w.rows;
  int n = 0;
  for (int o = 0; o < p.num_outputs; o++) n += (p.outputs[o].w.rows + 1) / 2;
  return n;
}

__device__ __forceinline__ Task task_at(const ProductParams &p, int index, int expert) {
  Task t{index, 0, {index, index}};
  if (p.finish != kGate) {
    int i = index;
    for (; i >= (p.outputs[t.output].w.rows + 1) / 2; t.output++) i -= (p.outputs[t.output].w.rows + 1) / 2;
    t.row[0] = 2 * i, t.row[1] = min(2 * i + 1, p.outputs[t.output].w.rows - 1);
    if (p.finish == kTurn && !p.rotation.adjacent) {
      int half = p.rotation.dim / 2;
      t.row[0] = i / half * 2 * half + i % half, t.row[1] = t.row[0] + half;
    }
  }
  t.bytes = (p.cols * (p.outputs[t.output].w.type == kF32 ? 4 : 2) + 15) & ~15;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const Matrix &w = p.outputs[p.finish == kGate ? r : t.output].w;
    t.data[r] = w.data + expert * w.expert_stride + t.row[r] * w.pitch + threadIdx.x % 32 * 16;
  }
  return t;
}

// Loads of a task from a chunk on.
struct Loads {
  uint4 w[kLoads][2];

  __device__ __forceinline__ void fetch(const Task &t, int chunk) {
#pragma unroll
    for (int u = 0; u < kLoads; u++) {
      int at = (chunk + u) * kChunk;
      bool in = at + static_cast<int>(threadIdx.x % 32 * 16) < t.bytes;
#pragma unroll
      for (int r = 0; r < 2; r++) w[u][r] = in ? load_once(t.data[r] + at) : uint4{0, 0, 0, 0};
    }
  }
};

// sums += the loads times x.
template <class T, int kTokens>
__device__ __forceinline__ void multiply_loads(float (&sums)[2][kTokens], const Loads &l, int chunk, int chunks, const float4 *x, int fours) {
  constexpr int kFours = T::kPer / 4;
#pragma unroll
  for (int u = 0; u < kLoads; u++) {
    if (chunk + u >= chunks) break;
    float wide[2][T::kPer];
    T::widen(l.w[u][0], wide[0]);
    T::widen(l.w[u][1], wide[1]);
    int first = ((chunk + u) * 32 + threadIdx.x % 32) * kFours;
#pragma unroll
    for (int t = 0; t < kTokens; t++)
#pragma unroll
      for (int f = 0; f < kFours; f++) {
        float4 four = x[t * fours + four_at(first + f)];
#pragma unroll
        for (int r = 0; r < 2; r++) {
          float &s = sums[r][t];
          s = fmaf(wide[r][4 * f], four.x, s), s = fmaf(wide[r][4 * f + 1], four.y, s);
          s = fmaf(wide[r][4 * f + 2], four.z, s), s = fmaf(wide[r][4 * f + 3], four.w, s);
        }
      }
  }
}

__device__ __forceinline__ float with_bias(const Output &o, int row, int expert, float sum) {
  return o.bias ? sum + o.bias[static_cast<int64_t>(expert) * o.w.rows + row] : sum;
}

// A pair of a head's elements: of a query to y, of a key or value to the cache.
__device__ __forceinline__ void finish_pair(const ProductParams &p, const Task &t, int token, float *y, float a, float b) {
  const Rotation &r = p.rotation;
  int head = t.row[0] / r.dim, first = t.row[0] % r.dim, second = t.row[1] % r.dim;
  if (t.output < 2) rotate(r, r.adjacent ? first / 2 : first, r.positions[token], a, b);
  if (t.output == 0) {
    y[t.row[0]] = a, y[t.row[1]] = b;
    return;
  }
  char *row = row_of(t.output == 1 ? r.k_store : r.v_store, r, head, r.places[token]);
  int32_t type = t.output == 1 ? r.k_type : r.v_type;
  set_element(row, first, type, a);
  set_element(row, second, type, b);
}

// What one lane does with a token's two sums; token is the row of y.
__device__ __forceinline__ void finish(const ProductParams &p, const Task &t, int expert, int64_t token, float a, float b) {
  const Output &o = p.outputs[t.output];
  float *y = o.y + token * o.w.rows;
  a = with_bias(o, t.row[0], expert, a);
  b = with_bias(p.outputs[p.finish == kGate ? 1 : t.output], t.row[1], expert, b);
  if (p.finish == kGate) {
    y[t.row[0]] = gated(a, b, p.gate);
    return;
  }
  if (p.finish == kTurn) return finish_pair(p, t, static_cast<int>(token), y, a, b);
  auto put = [&](int row, float v) { y[row] = p.finish == kAdd ? y[row] + v : capped(v, p.softcap); };
  put(t.row[0], a);
  if (t.row[1] != t.row[0]) put(t.row[1], b);
}

// Weights are fetched one round ahead of their use, the first round before the kernel
// ahead has ended.
template <int kTokens>
__device__ inline void multiply(const ProductParams &p) {
  extern __shared__ __align__(16) float4 shared[];
  int tasks = num_tasks(p), warps = gridDim.x * kProductWarps, lane = threadIdx.x % 32;
  int index = blockIdx.x * kProductWarps + threadIdx.x / 32;
  int fours = padded(p.cols) / 4, expert = 0, chunk = 0;
  Task now{index}, next{index};
  Loads loads, ahead;
  auto start = [&](Loads &to) {
    if (next.index < tasks) next = task_at(p, next.index, expert), to.fetch(next, 0);
  };
  if (!p.experts) start(loads);
  let_next_start();
  after_previous();
  if (p.experts) expert = p.experts[blockIdx.y], start(loads);
  int64_t first = p.experts ? blockIdx.y : 0;
  int tokens = p.experts ? 1 : p.tokens;
  float scales[kTokens];
  stage<kTokens>(shared, scales, p.x + first / p.per_token * p.cols, p, tokens);
  float sums[2][kTokens] = {};
  now = next;
  while (now.index < tasks) {
    int chunks = (now.bytes + kChunk - 1) / kChunk, after = chunk + kLoads;
    bool last = after >= chunks;
    if (last) next.index += warps, start(ahead);
    else ahead.fetch(now, after);
    switch (p.outputs[now.output].w.type) {
      case kF32: multiply_loads<F32, kTokens>(sums, loads, chunk, chunks, shared, fours); break;
      case kF16: multiply_loads<F16, kTokens>(sums, loads, chunk, chunks, shared, fours); break;
      default: multiply_loads<BF16, kTokens>(sums, loads, chunk, chunks, shared, fours);
    }
    loads = ahead;
    chunk = after;
    if (!last) continue;
    float a = 0.0f, b = 0.0f;  // lane t's: token t's
#pragma unroll
    for (int t = 0; t < kTokens; t++) {
      float sum_a = warp_sum(sums[0][t]) * scales[t], sum_b = warp_sum(sums[1][t]) * scales[t];
      if (lane == t) a = sum_a, b = sum_b;
      sums[0][t] = sums[1][t] = 0.0f;
    }
    if (lane < tokens) finish(p, now, expert, first + lane, a, b);
    now = next, chunk = 0;
  }
}

}  // namespace flashdec
