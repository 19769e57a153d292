// Products with weights in blocks, whose codes are multiplied as they lie. x is in fixed
// point for that: each 32 elements of it have a unit, 2⁻²³ of their largest, and an element
// is three digits of 8 bits that count in it. What that rounds, adding to a sum of the size
// of the largest in float32 would, too. Products of digits and codes are exact.
#pragma once
#include "../../../internal/cuda/kernels/ptx.cuh"
#include "product.cuh"

namespace flashdec {

// A piece is 16 bytes of a row's codes: half a block of 32, or one where they are halves of
// bytes. Four codes a word, in the order of x's elements.
struct Bytes {
  static constexpr int kHalves = 1;
  static __device__ __forceinline__ void spread(uint4 w, int (&codes)[4]) { codes[0] = w.x, codes[1] = w.y, codes[2] = w.z, codes[3] = w.w; }
};

struct Nibbles {
  static constexpr int kHalves = 2;
  static __device__ __forceinline__ void spread(uint4 w, int (&codes)[8]) {
    const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; i++) codes[i] = words[i] & 0x0f0f0f0f, codes[4 + i] = words[i] >> 4 & 0x0f0f0f0f;
  }
};

// A signed code, in the upper half of a byte, is 16 times itself.
struct SignedNibbles {
  static constexpr int kHalves = 2;
  static __device__ __forceinline__ void spread(uint4 w, int (&codes)[8]) {
    const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; i++) codes[i] = words[i] << 4 & 0xf0f0f0f0, codes[4 + i] = words[i] & 0xf0f0f0f0;
  }
};

// What a piece's codes count, and what is added to each element.
struct Scale {
  float d, m;
};

// The scales of a span, a row's kScales bytes of both rows and behind them its kTops. A
// piece's are at a place that follows from which of the span it is.
template <int kScales, int kTops = 0>
struct SpanScales {
  static constexpr int kBytes = kScales, kTopBytes = kTops;
  template <class T>
  static __device__ __forceinline__ T scale_at(const char *scales, int row, int i) { return reinterpret_cast<const T *>(scales + row * kScales)[i]; }
  static __device__ __forceinline__ uint32_t top_at(const char *scales, int row, int i) { return reinterpret_cast<const uint32_t *>(scales + 2 * kScales + row * kTops)[i]; }
};

struct Q8_0 : Bytes, SpanScales<64> {
  static constexpr bool kMinimum = false;
  static __device__ __forceinline__ Scale scale(const char *s, int row, int i) { return {half_at(scale_at<uint16_t>(s, row, i / 2)), 0.0f}; }
};

struct Q4_0 : SignedNibbles, SpanScales<128> {
  static constexpr bool kMinimum = false;
  static __device__ __forceinline__ Scale scale(const char *s, int row, int i) { return {half_at(scale_at<uint16_t>(s, row, i)) * (1.0f / 16), 0.0f}; }
};

struct Q4_1 : Nibbles, SpanScales<256> {
  static constexpr bool kMinimum = true;
  static __device__ __forceinline__ Scale scale(const char *s, int row, int i) {
    uint32_t word = scale_at<uint32_t>(s, row, i);
    return {half_at(word & 0xffff), half_at(word >> 16)};
  }
};

struct Q4_K : Nibbles, SpanScales<128, 32> {
  static constexpr bool kMinimum = true;
  static __device__ __forceinline__ Scale scale(const char *s, int row, int i) {
    uint32_t pair = scale_at<uint16_t>(s, row, i), top = top_at(s, row, i / 8);
    return {half_at(top & 0xffff) * (pair & 255), -half_at(top >> 16) * (pair >> 8)};
  }
};

// The sum that the minimum meets is a block's, of two pieces: the first one adds it.
struct Q5_K : Bytes, SpanScales<64, 16> {
  static constexpr bool kMinimum = true;
  static __device__ __forceinline__ Scale scale(const char *s, int row, int i) {
    uint32_t pair = scale_at<uint16_t>(s, row, i / 2), top = top_at(s, row, i / 16);
    return {half_at(top & 0xffff) * (pair & 255), i % 2 ? 0.0f : -half_at(top >> 16) * (pair >> 8)};
  }
};

struct Q6_K : Bytes, SpanScales<64, 16> {
  static constexpr bool kMinimum = false;
  static __device__ __forceinline__ Scale scale(const char *s, int row, int i) { return {half_at(top_at(s, row, i / 16) & 0xffff) * scale_at<int8_t>(s, row, i), 0.0f}; }
};

struct Blocks {
  // x in shared memory, a token: its high digits, 16 bytes a half of a block, its middle
  // ones, its low ones; then each block's unit and sum. Zero beyond cols, up to what a
  // warp's loads may ask for.
  static __device__ __forceinline__ int padded(int cols) { return (cols + 1023) & ~1023; }
  static __device__ __forceinline__ int room(int cols) { return padded(cols) / 64 * 13; }  // float4 a token

  static constexpr float kMost = 127.0f * 65536.0f;  // a block's largest: as many of its units
  static constexpr int kInfinite = (127 + 126) << 23;  // bits of what counts as infinite, 2¹²⁶ and above

  // The bits of |x|: of NaN they are above all others.
  static __device__ __forceinline__ int size(float x) { return __float_as_int(fabsf(x)); }

  // Eight adjacent lanes have the fours of a block.
  template <int kBatch>
  static __device__ __forceinline__ void put(float4 *x, int first, const float4 (&v)[kBatch], int cols) {
    int tops[kBatch], sums[kBatch];  // of blocks: the largest size, and the sum in units
    uint32_t digits[kBatch][4];
#pragma unroll
    for (int b = 0; b < kBatch; b++) tops[b] = max(max(size(v[b].x), size(v[b].y)), max(size(v[b].z), size(v[b].w)));
#pragma unroll
    for (int d = 4; d > 0; d /= 2)
#pragma unroll
      for (int b = 0; b < kBatch; b++) tops[b] = max(tops[b], __shfl_xor_sync(0xffffffff, tops[b], d));
#pragma unroll
    for (int b = 0; b < kBatch; b++) {
      float largest = __int_as_float(tops[b]), units = largest > 0x1p-100f ? __fdividef(kMost, largest) : 0.0f;
      const int n[4] = {__float2int_rn(v[b].x * units), __float2int_rn(v[b].y * units), __float2int_rn(v[b].z * units), __float2int_rn(v[b].w * units)};
      sums[b] = n[0] + n[1] + n[2] + n[3];
#pragma unroll
      for (int k = 0; k < 4; k++) digits[b][k] = static_cast<uint32_t>(n[k]) + 0x8080 ^ 0x8080;  // bytes, −128 to 127
    }
#pragma unroll
    for (int d = 4; d > 0; d /= 2)
#pragma unroll
      for (int b = 0; b < kBatch; b++) sums[b] += __shfl_xor_sync(0xffffffff, sums[b], d);
    int halves = padded(cols) / 16;
#pragma unroll
    for (int b = 0; b < kBatch; b++) {
      int i = first + b * kProductThreads;
      if (i >= padded(cols) / 4) break;
      const uint32_t(&n)[4] = digits[b];
      uint32_t low[2] = {__byte_perm(n[0], n[1], 0x5140), __byte_perm(n[2], n[3], 0x5140)};
      uint32_t high[2] = {__byte_perm(n[0], n[1], 0x0062), __byte_perm(n[2], n[3], 0x0062)};
      uint32_t *words = reinterpret_cast<uint32_t *>(x + four_at(i / 4)) + i % 4;
      words[0] = __byte_perm(high[0], high[1], 0x5410);
      words[4 * halves] = __byte_perm(low[0], low[1], 0x7632);
      words[8 * halves] = __byte_perm(low[0], low[1], 0x5410);
      if (i % 8 != 0) continue;
      float unit = tops[b] < kInfinite ? __int_as_float(tops[b]) * (1.0f / kMost) : CUDART_NAN_F;
      reinterpret_cast<float2 *>(x + 3 * halves)[i / 8] = {unit, unit * static_cast<float>(sums[b])};
    }
  }
};

// A task's rows come through a ring of slots in shared memory. A slot has kSpan chunks of
// both rows: the threads' pieces of each, [kSpan][2][kProductThreads], each of which a
// thread copies and reads itself; and of each warp the scales of its span, as SpanScales
// has them, of which a lane copies 16 bytes.
constexpr int kSpan = 2, kCodes = kSpan * 2 * kProductThreads * 16, kSlot = kCodes + kProductThreads * 16;  // bytes

__device__ __forceinline__ int code_bytes(int32_t type, int cols) { return in_bytes(type) ? cols : cols / 2; }
__device__ __forceinline__ int spans_of(int bytes) { return (bytes + kSpan * kChunk - 1) / (kSpan * kChunk); }

// What is left of a task's rows to copy.
struct BlockRows {
  const char *codes[2], *scales;  // the lane's
  int left, scales_left;          // bytes, the lane's and behind
  int step;                       // of scales, to the next span
  int spans;

  __device__ __forceinline__ void start(const ProductParams &p, const Task &t, int expert) {
    int32_t type = p.outputs[t.output].w.type;
    int bytes = code_bytes(type, p.cols), lane = threadIdx.x % 32;
    left = bytes - lane * 16, spans = spans_of(bytes);
    const char *first = row_at(p, t, 0, expert), *second = row_at(p, t, 1, expert);
    codes[0] = first + lane * 16, codes[1] = second + lane * 16;
    // The lanes of a row's scales, then those of its tops.
    int each = (type == kQ4_1 ? Q4_1::kBytes : in_bytes(type) ? Q8_0::kBytes : Q4_0::kBytes) / 16, at = lane;
    int all = p.cols / (type == kQ4_1 ? 8 : 16);
    step = each * 16;
    if (at >= 2 * each) {
      at -= 2 * each, each = 0;
      if (type >= kQ4_K) each = (in_bytes(type) ? Q6_K::kTopBytes : Q4_K::kTopBytes) / 16, bytes += all, all = p.cols / 64;
      step = each * 16;
    }
    scales = first;
    if (at >= each) at -= each, scales = second;
    scales_left = at < each ? all - at * 16 : 0, scales += bytes + at * 16;
  }

  // Copies a span to a slot, or zeros past the rows' end.
  __device__ __forceinline__ void copy(uint32_t to, uint64_t policy) {
#pragma unroll
    for (int u = 0; u < kSpan; u++)
#pragma unroll
      for (int r = 0; r < 2; r++) copy16(to + (u * 2 + r) * kProductThreads * 16, codes[r] + u * kChunk, left > u * kChunk, policy);
    copy16(to + kCodes, scales, scales_left > 0, policy);
    codes[0] += kSpan * kChunk, codes[1] += kSpan * kChunk, scales += step;
    left -= kSpan * kChunk, scales_left -= step, spans--;
  }
};

// sums += a slot's chunk u, which is a row's given one, times x.
template <class T, int kTokens>
__device__ __forceinline__ void add_chunk(float (&sums)[2][kTokens], const char *slot, int u, int chunk, const float4 *x, int cols) {
  int halves = Blocks::padded(cols) / 16, piece = chunk * 32 + threadIdx.x % 32;
  int codes[2][4 * T::kHalves];
  Scale scales[2];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    T::spread(reinterpret_cast<const uint4 *>(slot)[(u * 2 + r) * kProductThreads + threadIdx.x], codes[r]);
    scales[r] = T::scale(slot + kCodes + threadIdx.x / 32 * 512, r, u * 32 + threadIdx.x % 32);
  }
#pragma unroll
  for (int t = 0; t < kTokens; t++) {
    const float4 *token = x + t * Blocks::room(cols);
    float2 unit = reinterpret_cast<const float2 *>(token + 3 * halves)[piece * T::kHalves / 2];
    int dots[3][2] = {};
#pragma unroll
    for (int h = 0; h < T::kHalves; h++)
#pragma unroll
      for (int digit = 0; digit < 3; digit++) {
        uint4 w = reinterpret_cast<const uint4 *>(token)[digit * halves + four_at(piece * T::kHalves + h)];
        const int digits[4] = {static_cast<int>(w.x), static_cast<int>(w.y), static_cast<int>(w.z), static_cast<int>(w.w)};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int r = 0; r < 2; r++) dots[digit][r] = __dp4a(codes[r][4 * h + i], digits[i], dots[digit][r]);
      }
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float dot = fmaf(65536.0f, static_cast<float>(dots[0][r]), static_cast<float>(256 * dots[1][r] + dots[2][r]));
      sums[r][t] = fmaf(scales[r].d * unit.x, dot, sums[r][t]);
      if (T::kMinimum) sums[r][t] = fmaf(scales[r].m, unit.y, sums[r][t]);
    }
  }
}

template <class T, int kTokens>
__device__ __forceinline__ void add_span(float (&sums)[2][kTokens], const char *slot, int span, int chunks, const float4 *x, int cols) {
#pragma unroll
  for (int u = 0; u < kSpan; u++)
    if (u == 0 || span * kSpan + u < chunks) add_chunk<T, kTokens>(sums, slot, u, span * kSpan + u, x, cols);
}

template <int kTokens>
__device__ __forceinline__ void add_blocks(float (&sums)[2][kTokens], const char *slot, int32_t type, int span, int chunks, const float4 *x, int cols) {
  switch (type) {
    case kQ8_0: return add_span<Q8_0, kTokens>(sums, slot, span, chunks, x, cols);
    case kQ4_0: return add_span<Q4_0, kTokens>(sums, slot, span, chunks, x, cols);
    case kQ4_1: return add_span<Q4_1, kTokens>(sums, slot, span, chunks, x, cols);
    case kQ4_K: return add_span<Q4_K, kTokens>(sums, slot, span, chunks, x, cols);
    case kQ5_K: return add_span<Q5_K, kTokens>(sums, slot, span, chunks, x, cols);
    default: return add_span<Q6_K, kTokens>(sums, slot, span, chunks, x, cols);
  }
}

constexpr int kMostSlots = 3;

__device__ __forceinline__ void wait_for_slot(int slots) {
  if (slots == kMostSlots) copy_wait<kMostSlots - 1>();
  else copy_wait(slots - 1);
  __syncwarp();  // the scales come by other lanes
}

// Weights are on their way to the ring while those before them are multiplied, the first
// ones before the kernel ahead has ended.
template <int kTokens>
__device__ inline void multiply_blocks(const ProductParams &p) {
  extern __shared__ __align__(16) float4 shared[];
  const char *ring = reinterpret_cast<const char *>(shared + kTokens * Blocks::room(p.cols));
  int tasks = num_tasks(p), warps = gridDim.x * kProductWarps, expert = 0;
  int index = first_task();
  uint64_t policy = read_once();
  BlockRows next;  // to be copied
  int next_index = index;
  uint32_t first_slot = shared_address(ring) + threadIdx.x * 16, last_slot = first_slot + (p.slots - 1) * kSlot, to = first_slot;
  next.spans = 0;
  auto copy_span = [&] {
    if (next_index < tasks) {
      if (next.spans == 0) next.start(p, task_at(p, next_index), expert);
      next.copy(to, policy);
      if (next.spans == 0) next_index += warps;
    }
    copy_commit();
    to = to == last_slot ? first_slot : to + kSlot;
  };
  auto fill = [&] {
    for (int i = 1; i < p.slots; i++) copy_span();
  };
  if (!p.experts) fill();
  prefetch_norm(p);
  let_next_start();
  after_previous();
  if (p.experts) expert = p.experts[blockIdx.y], fill();
  int64_t first = p.experts ? blockIdx.y : 0;
  int tokens = p.experts ? 1 : p.tokens;
  float scales[kTokens];
  stage<Blocks, kTokens>(shared, scales, p.x + first / p.per_token * p.cols, p, tokens);
  int end = p.slots * kSlot;
  for (int slot = 0; index < tasks; index += warps) {
    Task now = task_at(p, index);
    int32_t type = p.outputs[now.output].w.type;
    int bytes = code_bytes(type, p.cols), chunks = (bytes + kChunk - 1) / kChunk;
    float sums[2][kTokens] = {};
    Early early;
    early.ask(p, now, first + threadIdx.x % 32, static_cast<int>(threadIdx.x % 32) < tokens);
    for (int span = 0; span < spans_of(bytes); span++) {
      copy_span();
      wait_for_slot(p.slots);
      add_blocks<kTokens>(sums, ring + slot, type, span, chunks, shared, p.cols);
      if ((slot += kSlot) == end) slot = 0;
      __syncwarp();  // all lanes have read from the slot before it is copied to
    }
    finish_task(p, now, expert, first, tokens, sums, scales, early);
  }
}

}  // namespace flashdec
