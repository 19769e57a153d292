// What becomes of a block's state: the result, or a partial state that the last
// of the unit's blocks to arrive merges.
#pragma once
#include "ptx.cuh"
#include "score.cuh"
#include "trace.cuh"

namespace flashdec {

constexpr int kMaxRows = 16;  // query rows a block
constexpr int kWarps = 8;     // most warps of a block

// States of the block's rows, in shared memory. o is the average, as in
// attn.State, or l times it; its element (b, r, d) is at o[(b·rows + r)·ld + d].
struct States {
  int n;             // states; m and l have room for a multiple of 8
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
  if (w.lost) m = l = factor = CUDART_NAN_F;
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

// Merge the states of all rows, kWide floats a thread and time. kDim is at least value_dim and spares a division; 0: not known. A partial
// state goes to the place of `split`.
template <int kWide, int kDim>
__device__ __forceinline__ void merge_states(const Params &p, const Work &w, const States &s, Target target, int split) {
  int dim = p.value_dim, vecs = (kDim ? kDim : dim) / kWide;
  int64_t partial = w.partial + static_cast<int64_t>(split) * w.item_rows + w.row;
#pragma unroll 1
  for (int i = threadIdx.x; i < w.rows * vecs; i += blockDim.x) {
    int r = kDim ? i / (kDim ? kDim / kWide : 1) : i / vecs;
    int d = (i - r * vecs) * kWide;
    if (kDim && d >= dim) continue;
    Merge<kWide> a = merge_none<kWide>();
    const float *m = s.m + r * s.stride, *l = s.l + r * s.stride, *o = s.o + r * s.ld + d;
    auto load = [&](int b) { return load_vec<kWide>(o + b * w.rows * s.ld); };
    int b = 0;
#pragma unroll 1
    for (; b + 4 < s.n; b += 8) merge_some<8, kWide>(a, m + b, l + b, s.undivided, [&](int j) { return load(b + j); });
    if (b < s.n) merge_some<4, kWide>(a, m + b, l + b, s.undivided, [&](int j) { return load(b + j); });
    float inverse = reciprocal(a.l), average[kWide];
#pragma unroll
    for (int j = 0; j < kWide; j++) average[j] = is_empty(a.m) ? 0.0f : divide(a.sum[j], a.l, inverse);
    float *to_m = s.kept_m + r, *to_l = s.kept_l + r;
    float *to = s.o + r * s.ld + d;
    if (target == kResult) {
      int64_t row = out_row(p, w, r);
      float factor = result_row(p, w, r, row, d == 0, a.m, a.l);
#pragma unroll
      for (int j = 0; j < kWide; j++) average[j] *= factor;
      to = p.out + row * dim + d;
    } else if (target == kPartial) {
      to_m = p.partial_m + partial + r, to_l = p.partial_l + partial + r;
      to = p.partial_o + (partial + r) * dim + d;
    }
    if (d == 0 && target != kResult) *to_m = a.m, *to_l = a.l;
    store_vec<kWide>(to, average);
  }
}

// Tables of m and l for the states that fit, at the end of shared memory.
__device__ __forceinline__ void place_tables(const Params &p, States &s, int rows, float *shared) {
  s.stride = (p.most + 7) & ~7;
  s.m = shared + p.merge_floats - 2 * rows * s.stride;
  s.l = s.m + rows * s.stride;
}

// Pad the tables with empty states to a multiple of eight.
__device__ __forceinline__ void pad_tables(const States &s, int rows) {
  if (threadIdx.x < rows)
    for (int b = s.n; b % 8 != 0; b++) s.m[threadIdx.x * s.stride + b] = -CUDART_INF_F, s.l[threadIdx.x * s.stride + b] = 0.0f;
}

// The same work, hidden from the compiler until here: else it would compute what
// follows from it before the merge that comes first.
__device__ __forceinline__ Work later(const Work &w) {
  Work x = w;
  asm volatile("" : "+r"(x.split), "+r"(x.num_splits), "+r"(x.rows), "+r"(x.item_rows), "+r"(x.counter), "+r"(x.row), "+l"(x.partial));
  return x;
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
  int band = static_cast<int>(static_cast<uint64_t>(w.split) * p.band_magic >> 32), first = band * p.band;
  return Group{first, 1, min(p.band, w.num_splits - first), counter + 1 + band, false};
}

__device__ __forceinline__ Group all_bands(const Params &p, const Work &w) {
  return Group{0, p.band, static_cast<int>(static_cast<uint64_t>(w.num_splits + p.band - 1) * p.band_magic >> 32), w.counter * (1 + p.max_bands), true};
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
  int kept = done > 0, count = min(p.most - kept, g.count - done);
  place_tables(p, s, rows, shared);
  s.o = shared, s.n = kept + count, s.undivided = false;
  if (kept && threadIdx.x < rows) {
    s.m[threadIdx.x * s.stride] = s.kept_m[threadIdx.x];
    s.l[threadIdx.x * s.stride] = s.kept_l[threadIdx.x];
  }
  // From one state to the next.
  int64_t apart = static_cast<int64_t>(g.step) * w.item_rows;
  int64_t from = w.partial + w.row + static_cast<int64_t>(g.first) * w.item_rows + done * apart;
  for (int b = threadIdx.x / 32; lane < rows && b < count; b += blockDim.x / 32) {
    copy4(shared_address(s.m + lane * s.stride + kept + b), p.partial_m + from + b * apart + lane);
    copy4(shared_address(s.l + lane * s.stride + kept + b), p.partial_l + from + b * apart + lane);
  }
  for (int i = threadIdx.x; i < rows * vecs; i += blockDim.x) {
    int r = kDim ? i / (kDim ? kDim / kWide : 1) : i / vecs;
    int d = (i - r * vecs) * kWide;
    if (kDim && d >= dim) continue;
    const float *src = p.partial_o + (from + r) * dim + d;
    uint32_t to = shared_address(s.o + (kept * rows + r) * s.ld + d), step = rows * s.ld * 4;
#pragma unroll 4
    for (int b = 0; b < count; b++, src += apart * dim, to += step) {
      if constexpr (kWide == 4) copy16(to, src);
      else copy4(to, src);
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
  Target target = w.num_splits == 1 ? kResult : kPartial;
  Group group{};
  int split = w.split, done = 0;
  for (bool first = true;; first = false) {
    merge_states<kWide, kDim>(p, w, s, target, split);
    if (target == kResult) break;
    if (target == kPartial) {
      mark(p, first ? kStored : kBandStored);
      group = first ? group_of(p, later(w)) : all_bands(p, later(w));
      done = 0;
      if (!last_to_arrive(p, group)) break;
      mark(p, group.final ? kArrived : kBandArrived);
    } else {
      __syncthreads();
    }
    done = gather_partials<kWide, kDim>(p, later(w), s, group, done, shared);
    target = done < group.count ? kKeep : group.final ? kResult : kPartial;
    split = group.first;
    mark(p, group.final ? kGathered : kBandGathered);
  }
  mark(p, kDone);
}

}  // namespace flashdec
