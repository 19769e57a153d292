// From q·k to a score, in attn.Options' order: scale, softcap, bias, visibility.
// And from a block's rows to queries and heads.
#pragma once
#include "merge.cuh"
#include "params.cuh"
#include "ptx.cuh"

namespace flashdec {

// The keys of a work whose sequence's length is read on the device: the same cut as
// of package plan, so that as many splits of a fresh plan give the same bits.
__device__ __forceinline__ void follow_length(const Params &p, Work &w) {
  int len = load_past_l1(p.lens + w.seq);
  w.lost = len < 0 || len > w.capacity;
  if (w.lost) {
    if (threadIdx.x == 0) *p.lost = w.seq + 1;
    len = 0;
  }
  w.pos += len;
  int newest = w.pos + static_cast<int>(w.item_rows * p.group_magic >> 40) - 1;
  int seen = p.causal ? max(min(len, w.pos + 1), 0) : len;  // by the first query
  int begin = p.window > 0 && p.window <= w.pos ? min(w.pos - p.window + 1, seen) : 0;
  int keys = (p.causal ? max(min(len, newest + 1), 0) : len) - begin;
  int steps = (keys + p.regular.step - 1) / p.regular.step, each = steps / w.num_splits, more = steps % w.num_splits;
  w.begin = begin + min((w.split * each + min(w.split, more)) * p.regular.step, keys);
  w.end = begin + min(((w.split + 1) * each + min(w.split + 1, more)) * p.regular.step, keys);
}

// Works, page ids and lengths come past L1: blocks read them before the kernels ahead have
// ended.
__device__ __forceinline__ Work load_work(const Work *from) {
  constexpr int kLoads = sizeof(Work) / sizeof(uint4);
  uint4 x[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; i++) x[i] = load_past_l1(reinterpret_cast<const uint4 *>(from) + i);
  Work w;
  memcpy(&w, x, sizeof(w));
  return w;
}

// The page of an entry of the sequence's table.
__device__ __forceinline__ int32_t page_at(const Params &p, const Work &w, int entry) {
  return load_past_l1(p.pages + w.page_table + entry);
}

// The work of this block.
__device__ __forceinline__ Work work_of(const Params &p) {
  const Regular &e = p.regular;
  Work w;
  if (e.splits == 0) {
    w = load_work(p.works + blockIdx.x);
    if (p.lens) follow_length(p, w);
    return w;
  }
  int split = blockIdx.x, seq = blockIdx.z, unit = seq * e.heads + blockIdx.y;
  w.split = split;
  w.head = blockIdx.y;
  w.query = seq * e.queries;
  w.pos = e.pos;
  w.mask_row = 0, w.origin = 0, w.row = 0, w.page_table = 0;
  w.rows = w.item_rows = e.rows;
  w.begin = e.begin + (split * e.each + min(split, e.more)) * e.step;
  w.end = min(e.begin + ((split + 1) * e.each + min(split + 1, e.more)) * e.step, e.end);
  w.num_splits = e.splits;
  int bands = bands_of(e.splits);
  w.counter = unit * (1 + bands);
  w.partial = static_cast<int64_t>(unit) * (e.splits + bands);
  w.page = e.page_first + seq * e.page_step;
  w.seq = w.capacity = w.lost = 0;
  return w;
}

// A row of the work's item as query and query head of the group; rows and groups
// are below 2^20.
__device__ __forceinline__ int query_of(const Params &p, int row, int &head) {
  int query = static_cast<int>(row * p.group_magic >> 40);
  head = row - query * p.group;
  return query;
}

// Where row r of the work stands among [queries, num_heads].
__device__ __forceinline__ int64_t out_row(const Params &p, const Work &w, int r) {
  int head, query = query_of(p, w.row + r, head);
  return static_cast<int64_t>(w.query + query) * p.num_heads + w.head * p.group + head;
}

__device__ __forceinline__ int query_head(const Params &p, const Work &w, int r) {
  int head;
  query_of(p, w.row + r, head);
  return w.head * p.group + head;
}

// One query row: where it stands and which keys it sees.
struct Row {
  int32_t pos;             // position of the query; may be negative
  int32_t lo, hi;          // keys that causality, the window and the work leave
  int32_t origin;          // key of the mask row's first column
  int32_t anchor;          // distances are counted from here
  float slope;             // of ALiBi
  const uint8_t *visible;  // mask row; null where nothing is masked
};

// Where a row's bias is largest, which scores are kept relative to: it may grow
// far beyond them, and take their last digits with it. The same for all splits;
// result_row adds what it leaves out.
__device__ __forceinline__ int anchor_of(const Params &p, float slope, int pos) {
  if (slope >= 0.0f) return pos;
  return p.window > 0 ? max(pos - p.window + 1, 0) : 0;
}

// The row without its slope, which takes a load.
__device__ __forceinline__ Row row_of(const Params &p, const Work &w, int r) {
  Row row;
  int head, query = query_of(p, w.row + r, head);
  row.pos = w.pos + query;
  row.hi = p.causal ? min(w.end, row.pos + 1) : w.end;
  row.lo = p.window > 0 ? max(row.pos - p.window + 1, w.begin) : w.begin;
  row.slope = 0.0f;
  row.anchor = row.pos;
  row.origin = w.origin;
  row.visible = p.mask ? p.mask + (w.mask_row + query) * p.mask_keys : nullptr;
  return row;
}

// The slope of the work's row r.
__device__ __forceinline__ void load_slope(const Params &p, const Work &w, int r, Row &row) {
  if (!p.slopes) return;
  row.slope = p.slopes[query_head(p, w, r)];
  row.anchor = anchor_of(p, row.slope, row.pos);
}

__device__ __forceinline__ bool sees(const Row &row, int key) {
  if (key < row.lo || key >= row.hi) return false;
  return !row.visible || key < row.origin || row.visible[key - row.origin];
}

// tanh to 1e-7 absolute, and ±1 exactly for large x; a series where the quotient
// would cancel.
__device__ __forceinline__ float tanh_small(float x) {
  float y = x * x;
  float series = x * fmaf(y, fmaf(y, fmaf(y, -17.0f / 315, 2.0f / 15), -1.0f / 3), 1.0f);
  float quotient = 1.0f - 2.0f * reciprocal(exp2_fast(x * (2 * kLog2E)) + 1.0f);
  return fabsf(x) < 0.25f ? series : quotient;
}

// scale·q·k to a score, but for the bias at the row's anchor.
__device__ __forceinline__ float bend(const Params &p, const Row &row, float scaled, int key) {
  if (p.softcap > 0.0f) scaled = p.softcap * tanh_small(scaled * reciprocal(p.softcap));
  return p.slopes ? fmaf(row.slope, static_cast<float>(key - row.anchor), scaled) : scaled;
}

// An infinite scale counts as NaN.
__device__ __forceinline__ float finite_scale(float x) { return fmaf(x, 0.0f, x); }

// Byte offset of a KV head's row in a plane.
__device__ __forceinline__ int64_t row_offset(const Plane &plane, int head, int64_t page, int slot) {
  return page * plane.page_stride + head * plane.head_stride + slot * plane.slot_stride;
}

// The page that holds a key, as an index into the sequence's table, and its slot.
__device__ __forceinline__ int page_of(const Params &p, int key, int &slot) {
  int page = p.page_magic ? static_cast<int>(__umul64hi(key, p.page_magic)) : key;
  slot = key - page * p.page_size;
  return page;
}

}  // namespace flashdec
