// Products of a matrix with few rows of x, which read the matrix once: a warp takes
// two of its rows, those of gate and up that belong together, or those of the two
// elements of a head that turn together. What weights of a kind are, and how x lies
// beside them, is in floats.cuh and blocks.cuh.
#pragma once
#include "element.cuh"

namespace flashdec {

constexpr int kProductThreads = 512, kProductWarps = kProductThreads / 32;
constexpr int kChunk = 32 * 16;  // bytes of a row that a warp loads at a time

__device__ __forceinline__ float4 four_of(const float *row, int i, int cols) {
  if (cols % 4 == 0) return i < cols / 4 ? reinterpret_cast<const float4 *>(row)[i] : float4{0, 0, 0, 0};
  auto at = [&](int j) { return j < cols ? row[j] : 0.0f; };
  return {at(4 * i), at(4 * i + 1), at(4 * i + 2), at(4 * i + 3)};
}

// The norm's weights come to L1 while the kernel ahead still runs.
__device__ __forceinline__ void prefetch_norm(const ProductParams &p) {
  constexpr int kLine = 128 / 4;
  if (!p.norm) return;
  for (int i = threadIdx.x * kLine; i < p.cols; i += kProductThreads * kLine) touch(p.norm + i);
}

// Puts x, or x times the norm's weights, into shared memory, and returns what to
// multiply each token's products by: the norm's 1/√(mean of squares). W says how x lies
// there: W::room of float4 a token, into which W::put puts fours kProductThreads apart.
template <class W, int kTokens>
__device__ __forceinline__ void stage(float4 *to, float (&scales)[kTokens], const float *x, const ProductParams &p, int tokens) {
  __shared__ float parts[kTokens][kProductWarps];
  constexpr int kLoads = 8 / kTokens, kBatch = 2;  // fours of a thread that are on their way, and that are put, at a time
  float squares[kTokens] = {};
  int fours = W::padded(p.cols) / 4;
  for (int first = threadIdx.x; first < fours; first += kLoads * kProductThreads) {
    float4 v[kTokens][kLoads];
#pragma unroll
    for (int b = 0; b < kLoads; b++) {
      int i = first + b * kProductThreads;
#pragma unroll
      for (int t = 0; t < kTokens; t++) v[t][b] = i < fours && t < tokens ? four_of(x + static_cast<int64_t>(t) * p.cols, i, p.cols) : float4{0, 0, 0, 0};
    }
#pragma unroll
    for (int b = 0; b < kLoads; b += kBatch) {
      if (first + b * kProductThreads >= fours) break;
      float4 weights[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; k++) weights[k] = p.norm ? four_of(p.norm, first + (b + k) * kProductThreads, p.cols) : float4{1, 1, 1, 1};
#pragma unroll
      for (int t = 0; t < kTokens; t++) {
        float4 part[kBatch];
#pragma unroll
        for (int k = 0; k < kBatch; k++) {
          float4 u = v[t][b + k], w = weights[k];
          squares[t] += u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w;
          part[k] = {u.x * w.x, u.y * w.y, u.z * w.z, u.w * w.w};
        }
        W::put(to + t * W::room(p.cols), first + b * kProductThreads, part, p.cols);
      }
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
    for (int i = 0; p.norm && i < kProductWarps; i++) sum += parts[t][i];
    scales[t] = p.norm ? rsqrtf(sum / p.cols + p.eps) : 1.0f;
  }
}

// A warp's task: two rows of an output, or one of each of a gate's.
struct Task {
  int output;  // of row[0]; row[1]'s is the next one of a gate, else the same
  int row[2];
};

__device__ __forceinline__ int num_tasks(const ProductParams &p) {
  if (p.finish == kGate) return p.outputs[0].w.rows;
  int n = 0;
  for (int o = 0; o < p.num_outputs; o++) n += (p.outputs[o].w.rows + 1) / 2;
  return n;
}

__device__ __forceinline__ Task task_at(const ProductParams &p, int index) {
  Task t{0, {index, index}};
  if (p.finish == kGate) return t;
  for (; index >= (p.outputs[t.output].w.rows + 1) / 2; t.output++) index -= (p.outputs[t.output].w.rows + 1) / 2;
  t.row[0] = 2 * index, t.row[1] = min(2 * index + 1, p.outputs[t.output].w.rows - 1);
  if (p.finish == kTurn && !p.rotation.adjacent) {
    int half = p.rotation.dim / 2;
    t.row[0] = index / half * 2 * half + index % half, t.row[1] = t.row[0] + half;
  }
  return t;
}

// The first of a warp's tasks: adjacent ones are for different blocks, so that all have as
// many or one more.
__device__ __forceinline__ int first_task() { return threadIdx.x / 32 * gridDim.x + blockIdx.x; }

// Where a task's rows begin.
__device__ __forceinline__ const char *row_at(const ProductParams &p, const Task &t, int r, int expert) {
  const Matrix &w = p.outputs[p.finish == kGate ? r : t.output].w;
  return w.data + expert * w.expert_stride + t.row[r] * w.pitch;
}

__device__ __forceinline__ float with_bias(const Output &o, int row, int expert, float sum) {
  return o.bias ? sum + o.bias[static_cast<int64_t>(expert) * o.w.rows + row] : sum;
}

// What finishing a task takes beside its sums, asked for before them: what y has, or the sine and cosine
// that its pair turns by.
struct Early {
  float a, b;

  __device__ __forceinline__ void ask(const ProductParams &p, const Task &t, int64_t token, bool mine) {
    if (!mine) return;
    const Output &o = p.outputs[t.output];
    const float *y = o.y + token * o.w.rows;
    if (p.finish == kAdd) a = y[t.row[0]], b = y[t.row[1]];
    if (p.finish == kTurn && t.output < 2) {
      const Rotation &r = p.rotation;
      int i = t.row[0] % r.dim;
      angle(r, r.adjacent ? i / 2 : i, r.positions[token], a, b);
    }
  }
};

// A pair of a head's elements: of a query to y, of a key or value to the cache.
__device__ __forceinline__ void finish_pair(const ProductParams &p, const Task &t, int token, float *y, float a, float b, const Early &early) {
  const Rotation &r = p.rotation;
  int head = t.row[0] / r.dim, first = t.row[0] % r.dim, second = t.row[1] % r.dim;
  if (t.output < 2) turn_by(early.a, early.b, a, b);
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
__device__ __forceinline__ void finish(const ProductParams &p, const Task &t, int expert, int64_t token, float a, float b, const Early &early) {
  const Output &o = p.outputs[t.output];
  float *y = o.y + token * o.w.rows;
  a = with_bias(o, t.row[0], expert, a);
  b = with_bias(p.outputs[p.finish == kGate ? 1 : t.output], t.row[1], expert, b);
  if (p.finish == kGate) {
    y[t.row[0]] = gated(a, b, p.gate);
    return;
  }
  if (p.finish == kTurn) return finish_pair(p, t, static_cast<int>(token), y, a, b, early);
  auto put = [&](int row, float before, float v) { y[row] = p.finish == kAdd ? before + v : capped(v, p.softcap); };
  put(t.row[0], early.a, a);
  if (t.row[1] != t.row[0]) put(t.row[1], early.b, b);
}

// What a warp does with a task's sums.
template <int kTokens>
__device__ __forceinline__ void finish_task(const ProductParams &p, const Task &t, int expert, int64_t first, int tokens, const float (&sums)[2][kTokens],
                                            const float (&scales)[kTokens], const Early &early) {
  int lane = threadIdx.x % 32;
  float a = 0.0f, b = 0.0f;  // lane i's: token i's
#pragma unroll
  for (int i = 0; i < kTokens; i++) {
    float sum_a = warp_sum(sums[0][i]) * scales[i], sum_b = warp_sum(sums[1][i]) * scales[i];
    if (lane == i) a = sum_a, b = sum_b;
  }
  if (lane < tokens) finish(p, t, expert, first + lane, a, b, early);
}

}  // namespace flashdec
