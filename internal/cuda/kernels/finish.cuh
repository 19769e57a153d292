// What becomes of a block's state: the result, or a partial state that the last
// of the unit's blocks to arrive merges. No block waits for its writes to be seen: the
// last to arrive looks at every word that it reads, and waits for those that are on
// their way. It is never kept waiting for a block that has not arrived, so it waits
// for running blocks only.
#pragma once
#include "ptx.cuh"
#include "score.cuh"
#include "trace.cuh"

namespace flashdec {

constexpr int kMaxRows = 16;  // query rows a block
constexpr int kWarps = 8;     // most warps of a block

// States of the block's warps, in shared memory: m and l as they are, and l times o (so
// partial states have them, too),
// whose element (warp b, row r, d) is at o[(b·kBlockRows + r)·ld + d].
struct States {
  int n;         // warps
  float *m, *l;  // [rows, kWarps] natural; empty from n on
  float *o;
  int ld;
};

// Tables of States before any warp has keys.
__device__ __forceinline__ void empty_tables(float (&m)[kMaxRows * kWarps], float (&l)[kMaxRows * kWarps]) {
  for (int i = threadIdx.x; i < kMaxRows * kWarps; i += blockDim.x) m[i] = -CUDART_INF_F, l[i] = 0.0f;
}

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

// Where a merged state goes: the results, or a place among the unit's partial states.
constexpr int kResult = -1;

// How a kernel's blocks handle states: kWide floats of o at once; kDim floats of o
// make a row (0: value_dim), kBlockRows rows a state, so that addresses of the next
// states are constants.
template <int kWideFloats, int kDimFloats, int kRowsOfState>
struct Shapes {
  static constexpr int kWide = kWideFloats, kDim = kDimFloats, kBlockRows = kRowsOfState;

  static __device__ __forceinline__ int dim(const Params &p) { return kDim ? kDim : p.value_dim; }
};

// Where the work's row r has its partial state of a place: m and l, and o from d on.
template <class S>
__device__ __forceinline__ float *partial_ml(const Params &p, const Work &w, int place, int r) {
  return p.partial_ml + ((w.partial + place) * S::kBlockRows + r) * 2;
}

template <class S>
__device__ __forceinline__ float *partial_o(const Params &p, const Work &w, int place, int r, int d) {
  return p.partial_o + ((w.partial + place) * S::kBlockRows + r) * S::dim(p) + d;
}

// What partial states hold until they are written: a NaN that no arithmetic yields. Launches
// use two halves of their memory in turn, and who writes a place forgets it in the other
// half. Steps in parts, whose merges share the memory, have one half, which who merges
// forgets.
constexpr uint32_t kAbsent = 0xffffffff;

// In a unit's counter, whether the launch uses the second half.
constexpr uint32_t kSecondHalf = 1u << 31;

// The counter, as far as it tells the half; the load starts here.
__device__ __forceinline__ uint32_t load_half(const Params &p, const Work &w) {
  if (p.places == 0 || w.num_splits == 1) return 0;
  return static_cast<uint32_t>(load_past_l1(reinterpret_cast<const int32_t *>(p.counters + w.counter)));
}

template <int kWide>
__device__ __forceinline__ void forget(float *at) {
  float x[kWide];
#pragma unroll
  for (int i = 0; i < kWide; i++) x[i] = __uint_as_float(kAbsent);
  pass_on(at, x);
}

// Write a merge's sums, divided if they are a result's: elements d, d + 1, … of the work's
// row r. A place among the partial states is forgotten in the other half, so many places
// further.
template <class S, int kWide>
__device__ __forceinline__ void put(const Params &p, const Work &w, int64_t other, int place, int r, int d, const Merge<kWide> &a) {
  if (place != kResult) {
    float ml[2] = {a.m, a.l}, *o = partial_o<S>(p, w, place, r, d);
    pass_on(o, a.sum);
    if (p.places != 0) forget<kWide>(o + other * S::kBlockRows * S::dim(p));
    if (d == 0) {
      float *to = partial_ml<S>(p, w, place, r);
      pass_on(to, ml);
      if (p.places != 0) forget<2>(to + other * S::kBlockRows * 2);
    }
    return;
  }
  int64_t row = out_row(p, w, r);
  float inverse = reciprocal(a.l), average[kWide];
  float factor = result_row(p, w, r, row, d == 0, a.m, a.l);
#pragma unroll
  for (int j = 0; j < kWide; j++) average[j] = (is_empty(a.m) ? 0.0f : divide(a.sum[j], a.l, inverse)) * factor;
  store_vec<kWide>(p.out + row * p.value_dim + d, average);
}

// For each of the block's rows and kWide elements of o at a time: f(row, element).
template <class S, class F>
__device__ __forceinline__ void for_vecs(const Params &p, const Work &w, F f) {
  int vecs = S::dim(p) / S::kWide;
#pragma unroll 1
  for (int i = threadIdx.x; i < w.rows * vecs; i += blockDim.x) {
    int r = S::kDim ? i / (S::kDim ? S::kDim / S::kWide : 1) : i / vecs;
    int d = (i - r * vecs) * S::kWide;
    if (!S::kDim || d < p.value_dim) f(r, d);
  }
}

template <class S, int kCount>
__device__ __forceinline__ Merge<S::kWide> merge_warps(const States &s, int r, int d) {
  float ms[kCount], ls[kCount];
#pragma unroll
  for (int b = 0; b < kCount; b += 4) {
    float4 m = *reinterpret_cast<const float4 *>(s.m + r * kWarps + b), l = *reinterpret_cast<const float4 *>(s.l + r * kWarps + b);
    ms[b] = m.x, ms[b + 1] = m.y, ms[b + 2] = m.z, ms[b + 3] = m.w;
    ls[b] = l.x, ls[b + 1] = l.y, ls[b + 2] = l.z, ls[b + 3] = l.w;
  }
  const float *from = s.o + r * s.ld + d;
  Vec<S::kWide> o[kCount];
#pragma unroll
  for (int b = 0; b < kCount; b++) o[b] = b < s.n ? load_vec<S::kWide>(from + b * S::kBlockRows * s.ld) : Vec<S::kWide>{};
  Merge<S::kWide> a = merge_none<S::kWide>();
  merge_some(a, ms, ls, o);
  return a;
}

// Wait until the partial states of a merge are there, as far as this thread reads them.
template <class S>
__device__ __noinline__ void wait_for_partials(const float *ml, const float *o, int dim, int count) {
#pragma unroll 1
  for (int b = 0; b < count; b++) {
    bool there = false;
    while (!there) {
      float x[S::kWide], y[2];
      take_over(x, o + static_cast<int64_t>(b) * S::kBlockRows * dim), take_over(y, ml + b * S::kBlockRows * 2);
      there = __float_as_uint(y[0]) != kAbsent && __float_as_uint(y[1]) != kAbsent;
      for (int i = 0; i < S::kWide; i++) there = there && __float_as_uint(x[i]) != kAbsent;
    }
  }
}

// The same address, from which the compiler derives no others ahead of their use.
template <class T>
__device__ __forceinline__ T *as_is(T *address) {
  asm volatile("" : "+l"(address));
  return address;
}

// `count` partial states, at most kCount, join a merge. One that was not there yet makes the
// sums NaN.
template <class S, int kCount>
__device__ __forceinline__ void merge_partials(Merge<S::kWide> &a, const float *ml, const float *o, int dim, int count) {
  const Merge<S::kWide> before = a;
  ml = as_is(ml), o = as_is(o);
#pragma unroll 1
  for (bool all_there = false;; all_there = true) {
    float ms[kCount], ls[kCount];
    Vec<S::kWide> x[kCount] = {};
#pragma unroll
    for (int b = 0; b < kCount; b++) {
      float y[2] = {-CUDART_INF_F, 0.0f};
      if (b < count) take_over(y, ml + b * S::kBlockRows * 2), take_over(x[b].x, o + b * S::kBlockRows * dim);
      ms[b] = y[0], ls[b] = y[1];
    }
    merge_some(a, ms, ls, x);
    float probe = a.l;
#pragma unroll
    for (int i = 0; i < S::kWide; i++) probe += a.sum[i];
    if (probe == probe || all_there) break;
    wait_for_partials<S>(ml, o, dim, count);
    a = before;
  }
}

// The same work, hidden from the compiler until here: else it would compute what
// follows from it before the merge that comes first.
__device__ __forceinline__ Work later(const Work &w) {
  Work x = w;
  asm volatile("" : "+r"(x.split), "+r"(x.num_splits), "+r"(x.rows), "+r"(x.counter), "+r"(x.row), "+l"(x.partial));
  return x;
}

// Places of partial states that merge in one step.
struct Group {
  int first, count;
  int counter;  // index into Params::counters
  int place;    // where their merge goes
};

// The group that the block's split arrives in first.
__device__ __forceinline__ Group group_of(const Work &w) {
  if (w.num_splits <= kOneStep) return Group{0, w.num_splits, w.counter, kResult};
  int band = w.split / kBand, first = band * kBand;
  return Group{first, min(kBand, w.num_splits - first), w.counter + 1 + band, w.num_splits + band};
}

__device__ __forceinline__ Group all_bands(const Work &w) {
  return Group{w.num_splits, bands_of(w.num_splits), w.counter, kResult};
}

// Count this block's arrival; the group's last one leaves the counter at zero for the
// next launch, and tells it the half.
__device__ __forceinline__ bool last_to_arrive(const Params &p, const Group &g) {
  bool last = false;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t before = arrive(p.counters + g.counter);
    last = (before & ~kSecondHalf) + 1 == g.count;
    if (last) p.counters[g.counter] = p.places != 0 && g.place == kResult ? ~before & kSecondHalf : 0;
  }
  return __syncthreads_or(last);
}

// The last block to arrive merges its group.
template <class S>
__device__ __forceinline__ void merge_group(const Params &p, const Work &w, int64_t other, const Group &g) {
  bool last = g.place == kResult;
  mark(p, last ? kArrived : kBandArrived);
  for_vecs<S>(p, w, [&](int r, int d) {
    int dim = S::dim(p);
    const float *ml = partial_ml<S>(p, w, g.first, r);
    float *o = partial_o<S>(p, w, g.first, r, d);
    Merge<S::kWide> a = merge_none<S::kWide>();
    if (g.count <= 8) {
      merge_partials<S, 8>(a, ml, o, dim, g.count);
    } else {
#pragma unroll 1
      for (int b = 0; b < g.count; b += 16)
        merge_partials<S, 16>(a, ml + b * S::kBlockRows * 2, o + static_cast<int64_t>(b) * S::kBlockRows * dim, dim, g.count - b);
    }
    mark(p, last ? kGathered : kBandGathered);
    put<S>(p, w, other, g.place, r, d, a);
    if (p.places == 0) {
#pragma unroll 1
      for (int b = 0; b < g.count; b++) forget<S::kWide>(o + static_cast<int64_t>(b) * S::kBlockRows * dim);
    }
  });
  mark(p, last ? kDone : kBandStored);
  if (p.places != 0) return;
  __syncthreads();  // all have read what is forgotten now
  for (int i = threadIdx.x; i < S::kBlockRows * g.count; i += blockDim.x) {
    int r = i % S::kBlockRows;
    if (r < w.rows) forget<2>(partial_ml<S>(p, w, g.first + i / S::kBlockRows, r));
  }
}

// What follows once s, the states of the block's warps, is complete for all
// threads. Units of many splits merge in two steps: the last block to arrive of
// kBand adjacent splits merges their states, the last of those merges the bands.
// half is load_half's.
template <class S>
__device__ __forceinline__ void finish(const Params &p, const Work &work, const States &s, uint32_t half) {
  Work w = work;
  int64_t other = p.places;
  if (half & kSecondHalf) w.partial += p.places, other = -other;
  int place = w.num_splits == 1 ? kResult : w.split;
  for_vecs<S>(p, w, [&](int r, int d) {
    put<S>(p, w, other, place, r, d, s.n <= 4 ? merge_warps<S, 4>(s, r, d) : merge_warps<S, 8>(s, r, d));
  });
  if (place == kResult) return mark(p, kDone);
  mark(p, kStored);
  for (Group g = group_of(later(w)); last_to_arrive(p, g); g = all_bands(later(w))) {
    merge_group<S>(p, later(w), other, g);
    if (g.place == kResult) break;
  }
}

}  // namespace flashdec
