// Products with weights that are floating-point numbers. x stays float32.
#pragma once
#include "product.cuh"

namespace flashdec {

constexpr int kLoads = 4;  // of 16 bytes, of each of a warp's two rows, fetched ahead at a time

struct Floats {
  // x in shared memory: rows of a multiple of 256 numbers, zero beyond cols.
  static __device__ __forceinline__ int padded(int cols) { return (cols + 255) & ~255; }
  static __device__ __forceinline__ int room(int cols) { return padded(cols) / 4; }
  template <int kBatch>
  static __device__ __forceinline__ void put(float4 *x, int first, const float4 (&v)[kBatch], int cols) {
#pragma unroll
    for (int b = 0; b < kBatch; b++)
      if (int i = first + b * kProductThreads; i < padded(cols) / 4) x[four_at(i)] = v[b];
  }
};

// A task, and what is fetched of it.
struct FloatTask : Task {
  int index;
  int bytes;            // of a row: whole loads of 16 bytes
  const char *data[2];  // the lane's part

  __device__ __forceinline__ void start(const ProductParams &p, int expert) {
    static_cast<Task &>(*this) = task_at(p, index);
    bytes = (p.cols * (p.outputs[output].w.type == kF32 ? 4 : 2) + 15) & ~15;
#pragma unroll
    for (int r = 0; r < 2; r++) data[r] = row_at(p, *this, r, expert) + threadIdx.x % 32 * 16;
  }
};

// Loads of a task from a chunk on.
struct Loads {
  uint4 w[kLoads][2];

  __device__ __forceinline__ void fetch(const FloatTask &t, int chunk) {
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
__device__ __forceinline__ void add_floats(float (&sums)[2][kTokens], const Loads &l, int chunk, int chunks, const float4 *x, int fours) {
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

// Weights are fetched one round ahead of their use, the first round before the kernel
// ahead has ended.
template <int kTokens>
__device__ inline void multiply_floats(const ProductParams &p) {
  extern __shared__ __align__(16) float4 shared[];
  int tasks = num_tasks(p), warps = gridDim.x * kProductWarps;
  int fours = Floats::room(p.cols), expert = 0, chunk = 0;
  FloatTask next;
  next.index = first_task();
  Loads loads, ahead;
  auto start = [&](Loads &to) {
    if (next.index < tasks) next.start(p, expert), to.fetch(next, 0);
  };
  if (!p.experts) start(loads);
  prefetch_norm(p);
  let_next_start();
  after_previous();
  if (p.experts) expert = p.experts[blockIdx.y], start(loads);
  int64_t first = p.experts ? blockIdx.y : 0;
  int tokens = p.experts ? 1 : p.tokens;
  float scales[kTokens];
  stage<Floats, kTokens>(shared, scales, p.x + first / p.per_token * p.cols, p, tokens);
  float sums[2][kTokens] = {};
  FloatTask now = next;
  Early early;
  int lane = threadIdx.x % 32;
  if (now.index < tasks) early.ask(p, now, first + lane, lane < tokens);
  while (now.index < tasks) {
    int chunks = (now.bytes + kChunk - 1) / kChunk, after = chunk + kLoads;
    bool last = after >= chunks;
    if (last) next.index += warps, start(ahead);
    else ahead.fetch(now, after);
    switch (p.outputs[now.output].w.type) {
      case kF32: add_floats<F32, kTokens>(sums, loads, chunk, chunks, shared, fours); break;
      case kF16: add_floats<F16, kTokens>(sums, loads, chunk, chunks, shared, fours); break;
      default: add_floats<BF16, kTokens>(sums, loads, chunk, chunks, shared, fours);
    }
    loads = ahead;
    chunk = after;
    if (!last) continue;
    finish_task(p, now, expert, first, tokens, sums, scales, early);
#pragma unroll
    for (int t = 0; t < kTokens; t++) sums[0][t] = sums[1][t] = 0.0f;
    now = next, chunk = 0;
    if (now.index < tasks) early.ask(p, now, first + lane, lane < tokens);
  }
}

}  // namespace flashdec
