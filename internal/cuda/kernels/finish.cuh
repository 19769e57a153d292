// What becomes of a block's state: the result, or a partial state that the last
// of the unit's blocks to arrive merges.
#pragma once
#include "ptx.cuh"
#include "score.cuh"

namespace flashdec {

constexpr int kMaxRows = 16;  // query rows a block
constexpr int kWarps = 4;     // most warps of a block

// States of the block's rows, in shared memory. o is the average, as in
// attn.State, or l times it; its element (b, r, d) is at o[(b·rows + r)·ld + d].
struct States {
  int n;             // states; m and l have room for a multiple of 4
  float *m, *l;     // [rows, stride] natural; empty from n on
  int stride;
  float *o;
  int ld;
  bool undivided;           // o is l times the average
  float *kept_m, *kept_l;  // [rows] where Target kKeep puts m and l; o takes state 0's place
};

template <int kWide>
__device__ __forceinline__ Vec<kWide> load_vec(const float *from) {
  Vec<kWide> v;
  if constexpr (kWide == 4) {
    float4 f = *reinterpret_cast<const float4 *>(from);
    v.x[0] = f.x, v.x[1] = f.y, v.x[2] = f.z, v.x[3] = f.w;
  } else {
    v.x[0] = *from;
  }
  return v;
}

template <int kWide>
__device__ __forceinline__ void store_vec(float *to, const float (&x)[kWide]) {
  if constexpr (kWide == 4) *reinterpret_cast<float4 *>(to) = make_float4(x[0], x[1], x[2], x[3]);
  else *to = x[0];
}

// Where a merged state goes.
enum Target { kResult, kPartial, kKeep };

// The state of a unit's row to LSE, or to m and l; returns what o is to be
// multiplied by: a sink's presence shrinks it.
__device__ __forceinline__ float result_row(const Params &p, const Work &w, int r, int64_t row, bool write, float m, float l) {
  float factor = 1.0f;
  if (p.slopes && !is_empty(m)) {
    int head, pos = w.pos + query_of(p, w.row + r, head);
    float slope = p.slopes[w.head * p.group + head];
    m = fmaf(slope, static_cast<float>(anchor_of(p, slope, pos) - pos), m);
  }
  if (p.state_m) {
    if (write) p.state_m[row] = m, p.state_l[row] = l;
    return factor;
  }
  if (p.sinks) {
    bool empty = is_empty(m);
    float left = merge_sink(p.sinks[query_head(p, w, r)], m, l);
    if (!empty) factor = left;
  }
  if (p.lse && write) p.lse[row] = lse_of(m, l);
  return factor;
}

// Merge the states of elements first, first + step, … of the rows, kWide floats
// each. kDim is at least value_dim and spares a division; 0: not known. A partial
// state goes to the place of `split`.
template <int kWide, int kDim>
__device__ __forceinline__ void merge_states(const Params &p, const Work &w, const States &s, Target target, int split, int first, int step) {
  int dim = p.value_dim, vecs = (kDim ? kDim : dim) / kWide;
  int64_t partial = w.partial + static_cast<int64_t>(split) * w.item_rows + w.row;
#pragma unroll 1
  for (int i = first; i < w.rows * vecs; i += step) {
    int r = kDim ? i / (kDim ? kDim / kWide : 1) : i / vecs;
    int d = (i - r * vecs) * kWide;
    if (kDim && d >= dim) continue;
    Merge<kWide> a = merge_none<kWide>();
    const float *m = s.m + r * s.stride, *l = s.l + r * s.stride, *o = s.o + r * s.ld + d;
#pragma unroll 1
    for (int b = 0; b < s.n; b += 4) {
      merge_four<kWide>(a, *reinterpret_cast<const float4 *>(m + b), *reinterpret_cast<const float4 *>(l + b), s.undivided,
                        [&](int j) { return load_vec<kWide>(o + (b + j) * w.rows * s.ld); });
    }
    float inverse = reciprocal(a.l), average[kWide];
#pragma unroll
    for (int j = 0; j < kWide; j++) average[j] = is_empty(a.m) ? 0.0f : divide(a.sum[j], a.l, inverse);
    float *to_m = s.kept_m, *to_l = s.kept_l;
    float *to = s.o + r * s.ld + d;
    if (target == kResult) {
      int64_t row = out_row(p, w, r);
      float factor = result_row(p, w, r, row, d == 0, a.m, a.l);
#pragma unroll
      for (int j = 0; j < kWide; j++) average[j] *= factor;
      to = p.out + row * dim + d;
    } else if (target == kPartial) {
      to_m = p.partial_m + partial, to_l = p.partial_l + partial;
      to = p.partial_o + (partial + r) * dim + d;
    }
    if (d == 0 && target != kResult) to_m[r] = a.m, to_l[r] = a.l;
    store_vec<kWide>(to, average);
  }
}

// Tables of m and l for up to `most` states at the end of shared memory.
__device__ __forceinline__ void place_tables(const Params &p, States &s, int rows, int most, float *shared) {
  s.stride = (most + 3) / 4 * 4;
  s.m = shared + (p.merge_floats / 4 * 4 - 2 * rows * s.stride);
  s.l = s.m + rows * s.stride;
}

// Pad the tables with empty states to a multiple of four.
__device__ __forceinline__ void pad_tables(const States &s, int rows) {
  if (threadIdx.x < rows)
    for (int b = s.n; b % 4 != 0; b++) s.m[threadIdx.x * s.stride + b] = -CUDART_INF_F, s.l[threadIdx.x * s.stride + b] = 0.0f;
}

// Splits whose states merge in one step: first, first + step, … .
struct Group {
  int first, step, count;
  int counter;  // index into Params::counters
  bool final;   // their merge is the result
};

// The group that the block's split arrives in first. Each unit and tile of rows
// has 1 + max_bands counters.
__device__ __forceinline__ Group group_of(const Params &p, const Work &w) {
  int counter = w.counter * (1 + p.max_bands);
  if (w.num_splits <= p.band) return Group{0, 1, w.num_splits, counter, true};
  int band = w.split / p.band, first = band * p.band;
  return Group{first, 1, min(p.band, w.num_splits - first), counter + 1 + band, false};
}

__device__ __forceinline__ Group all_bands(const Params &p, const Work &w) {
  return Group{0, p.band, (w.num_splits + p.band - 1) / p.band, w.counter * (1 + p.max_bands), true};
}

// Count this block's arrival; the group's last one leaves the counter at zero for
// the next launch.
__device__ __forceinline__ bool last_to_arrive(const Params &p, const Group &g) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    last = arrive(p.counters + g.counter) + 1 == g.count;
    if (last) p.counters[g.counter] = 0;
  }
  __syncthreads();
  return last;
}

// Bring the partial states of a group, all but the first `done`, to shared memory,
// as many as fit, behind the kept state where there is one; returns how many are
// done then.
template <int kWide, int kDim>
__device__ __forceinline__ int gather_partials(const Params &p, const Work &w, States &s, const Group &g, int done, float *shared) {
  int rows = w.rows, dim = p.value_dim, vecs = (kDim ? kDim : dim) / kWide, lane = threadIdx.x % 32;
  int most = (p.merge_floats - 6 * rows - 8) / (rows * (s.ld + 2));
  int kept = done > 0, count = min(most - kept, g.count - done);
  place_tables(p, s, rows, most, shared);
  s.o = shared, s.n = kept + count, s.undivided = false;
  if (kept && threadIdx.x < rows) {
    s.m[threadIdx.x * s.stride] = s.kept_m[threadIdx.x];
    s.l[threadIdx.x * s.stride] = s.kept_l[threadIdx.x];
  }
  int64_t base = w.partial + w.row;
#pragma unroll 1
  for (int b = threadIdx.x / 32; b < count; b += blockDim.x / 32) {
    int64_t from = base + static_cast<int64_t>(g.first + (done + b) * g.step) * w.item_rows;
    if (lane < rows) {
      copy4(shared_address(s.m + lane * s.stride + kept + b), p.partial_m + from + lane);
      copy4(shared_address(s.l + lane * s.stride + kept + b), p.partial_l + from + lane);
    }
    float *to = s.o + (kept + b) * rows * s.ld;
#pragma unroll 4
    for (int i = lane; i < rows * vecs; i += 32) {
      int r = kDim ? i / (kDim ? kDim / kWide : 1) : i / vecs;
      int d = (i - r * vecs) * kWide;
      if (kDim && d >= dim) continue;
      const float *src = p.partial_o + (from + r) * dim + d;
      if constexpr (kWide == 4) copy16(shared_address(to + r * s.ld + d), src);
      else copy4(shared_address(to + r * s.ld + d), src);
    }
  }
  copy_commit();
  pad_tables(s, rows);
  copy_wait<0>();
  __syncthreads();
  return done + count;
}

// What follows once s, the states of the block's warps, is complete for all
// threads. shared is the dynamic shared memory from s.o on. The merge's code runs
// again on other states instead of being there twice: the first run of an
// instruction costs a trip to memory.
//
// Units of many splits merge in two steps: the last block to arrive of `band`
// adjacent splits merges their states in the place of the band's first, the last
// of those merges the bands.
template <int kWide, int kDim>
__device__ __forceinline__ void finish(const Params &p, const Work &w, States s, float *shared) {
  bool whole = w.num_splits == 1;
  merge_states<kWide, kDim>(p, w, s, whole ? kResult : kPartial, w.split, threadIdx.x, blockDim.x);
  if (whole) return;
  Group group = group_of(p, w);
  for (;;) {
    if (!last_to_arrive(p, group)) return;
    for (int done = 0; done < group.count;) {
      done = gather_partials<kWide, kDim>(p, w, s, group, done, shared);
      Target target = done < group.count ? kKeep : group.final ? kResult : kPartial;
      merge_states<kWide, kDim>(p, w, s, target, group.first, threadIdx.x, blockDim.x);
      if (target == kResult) return;
      __syncthreads();
    }
    group = all_bands(p, w);
  }
}

}  // namespace flashdec
