// A warp's tiles of keys, from the cache's pages to its ring in shared memory: rows
// of keys, rows of values, and of codes the scales of each.
#pragma once
#include "finish.cuh"

namespace flashdec {

constexpr int kPart = 16;      // keys a product
constexpr int kRows = 8;       // query rows a product

template <class T>
constexpr int kBits = 8 * sizeof(T);  // of an element

// The sizes that elements T, key dim K, value dim V (both up to the given, a whole
// number of 16-byte chunks) and kSets sets of 8 query rows bring with them.
template <class T, int K, int V, int kSets>
struct Sizes {
  static constexpr int kKeyBytes = K * kBits<T> / 8, kValueBytes = V * kBits<T> / 8;
  static constexpr bool kScaled = kBits<T> <= 8;
  static constexpr int kTile = kScaled ? 32 : 16;  // keys a warp takes at once
  static constexpr int kParts = kTile / kPart;
  static constexpr int kScales = kTile * (kKeyBytes + kValueBytes);  // offset of the tile's scales
  static constexpr int kTileBytes = kScales + (kScaled ? 2 * kTile * 4 : 0);
  static constexpr int kSteps = K / 16;                    // products a score
  static constexpr bool kQInRegisters = kSteps * kSets <= 8;
  static constexpr int kQBytes = kQInRegisters ? 0 : kSets * kSteps * 32 * 16;
  static constexpr int kLd = V + 8;                        // of a state's o, in floats: no bank conflicts
};

// Where chunk c (16 bytes) of row r lies: ldmatrix reads eight rows' chunks
// without a bank conflict. Rows of 64 bytes lie in pairs, rows of 32 in fours.
template <int kRowBytes>
__device__ __forceinline__ uint32_t chunk_at(int row, int chunk) {
  int swap = kRowBytes >= 128 ? row & 7 : kRowBytes == 64 ? row >> 1 & 3 : row >> 2 & 1;
  return row * kRowBytes + ((chunk ^ swap) << 4);
}

// A warp's walk over its tiles, which begin at multiples of their size.
struct Walk {
  int key;             // first key of the next tile to fetch
  int step;            // keys from one of the warp's tiles to the next
  int together;        // adjacent keys of a tile that never cross a border of pages: all, kPart or 1
  int32_t page;        // of the next tile; of this lane's row where tiles may cross
  const char *k, *v;   // this KV head
  uint64_t policy;     // of L2
};

// The page of the tile's first key, or of this lane's key of the tile.
template <class S>
__device__ __forceinline__ int32_t page_for(const Params &p, const Work &w, const Walk &walk, int key) {
  if (w.page >= 0) return w.page;
  int slot, mine = walk.together == S::kTile ? key : key + threadIdx.x % S::kTile;
  return mine < w.end && key < w.end ? page_at(p, w, page_of(p, max(mine, w.begin), slot)) : 0;
}

// Start the way of a tile's keys and values to L2. It may be done before the kernels
// ahead in the stream have ended: what they still write, L2 will have.
template <class S>
__device__ __forceinline__ void bring_tile(const Params &p, const Work &w, const Walk &walk, int first, int64_t page) {
  constexpr int kPlanes = 32 / S::kTile;  // that a warp's lanes take at once
  int lane = threadIdx.x % 32, mine = lane % S::kTile, slot;
  bool one_page = walk.together == S::kTile;
  page_of(p, one_page ? first : first + mine, slot);
  if (one_page) slot += mine;
  int k_bytes = p.key_chunks * 16, v_bytes = p.value_chunks * 16;
  const char *k = walk.k + page * p.k.page_stride + slot * p.k.slot_stride;
  const char *v = walk.v + page * p.v.page_stride + slot * p.v.slot_stride;
  int rows = 1;
  if (one_page && first >= w.begin && first + S::kTile <= w.end && p.k.slot_stride == k_bytes && p.v.slot_stride == v_bytes) {
    rows = S::kTile;  // adjacent: one request
    if (mine) return;
  } else if (first + mine < w.begin || first + mine >= w.end) {
    return;
  }
  if (kPlanes == 1 || lane < S::kTile) bring_near(k, rows * k_bytes, walk.policy);
  if (kPlanes == 1 || lane >= S::kTile) bring_near(v, rows * v_bytes, walk.policy);
}

// Adjacent rows of one plane; chunks from `chunks` on become zeros, unread.
template <int kRowBytes, int kCount>
__device__ __forceinline__ void copy_adjacent(uint32_t dst, const char *first_row, int64_t row_stride, int chunks, uint64_t policy) {
  constexpr int kChunks = kRowBytes / 16;
  int lane = threadIdx.x % 32;
  if constexpr (32 % kChunks == 0) {
    constexpr int kStep = 32 / kChunks;  // rows at once
    int row = lane / kChunks, chunk = lane % kChunks;
    bool read = chunk < chunks;
    const char *src = first_row + row * row_stride + (read ? chunk * 16 : 0);
#pragma unroll
    for (int i = 0; i < kCount / kStep; i++) {
      copy16(dst + chunk_at<kRowBytes>(row + i * kStep, chunk), src, read, policy);
      src += kStep * row_stride;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount * kChunks / 32; i++) {
      int row = (i * 32 + lane) / kChunks, chunk = (i * 32 + lane) % kChunks;
      bool read = chunk < chunks;
      copy16(dst + chunk_at<kRowBytes>(row, chunk), first_row + row * row_stride + (read ? chunk * 16 : 0), read, policy);
    }
  }
}

__device__ __forceinline__ const char *from_lane(const char *address, int lane) {
  return reinterpret_cast<const char *>(__shfl_sync(~0u, reinterpret_cast<unsigned long long>(address), lane));
}

// The rows [lo, hi) of a tile, and their first `chunks` chunks; the rest becomes
// zeros, unread. Lane i gives the address of row i.
template <int kRowBytes, int kCount>
__device__ __forceinline__ void copy_rows(uint32_t dst, const char *row_address, int lo, int hi, int chunks, uint64_t policy) {
  constexpr int kChunks = kRowBytes / 16;
#pragma unroll 1
  for (int i = 0; i < kCount * kChunks / 32; i++) {
    int at = i * 32 + threadIdx.x % 32;
    int row = at / kChunks, chunk = at % kChunks;
    const char *src = from_lane(row_address, row);
    bool read = row >= lo && row < hi && chunk < chunks;
    copy16(dst + chunk_at<kRowBytes>(row, chunk), read ? src + chunk * 16 : row_address, read, policy);
  }
}

// The scales of the tile's tokens, where they have their own: first those of the
// keys, then those of the values. The scale of what is no key is 0.
template <class S>
__device__ __forceinline__ void copy_scales(const Params &p, const Work &w, uint32_t dst, int64_t page, int key) {
  int lane = threadIdx.x % S::kTile, slot;
  page_of(p, key, slot);
  bool read = key >= w.begin && key < w.end;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const Scales &s = i == 0 ? p.k_scales : p.v_scales;
    if (s.kind == kTokenScale) copy4(dst + (i * S::kTile + lane) * 4, read ? s.values + s.at(page, w.head, slot) : s.values, read);
  }
}

// One plane of a whole tile; `row` is the address of its first row, or of this
// lane's where tiles may cross pages.
template <int kRowBytes, class S>
__device__ __forceinline__ void copy_whole(uint32_t dst, const char *row, int together, int64_t row_stride, int chunks, uint64_t policy) {
  if (together == S::kTile) {
    copy_adjacent<kRowBytes, S::kTile>(dst, row, row_stride, chunks, policy);
  } else if constexpr (S::kParts > 1) {
#pragma unroll
    for (int i = 0; i < S::kParts; i++)
      copy_adjacent<kRowBytes, kPart>(dst + i * kPart * kRowBytes, from_lane(row, i * kPart), row_stride, chunks, policy);
  }
}

template <class S>
__device__ __forceinline__ void fetch(const Params &p, const Work &w, Walk &walk, uint32_t dst) {
  if (walk.key < w.end) {
    int64_t page = walk.page;
    int first = walk.key, mine = threadIdx.x % S::kTile, slot;
    bool one_page = walk.together == S::kTile;
    walk.key += walk.step;
    walk.page = page_for<S>(p, w, walk, walk.key);
    page_of(p, one_page ? first : first + mine, slot);
    const char *k = walk.k + page * p.k.page_stride + slot * p.k.slot_stride;
    const char *v = walk.v + page * p.v.page_stride + slot * p.v.slot_stride;
    uint32_t v_dst = dst + S::kTile * S::kKeyBytes;
    if (walk.together > 1 && first >= w.begin && first + S::kTile <= w.end) {
      copy_whole<S::kKeyBytes, S>(dst, k, walk.together, p.k.slot_stride, p.key_chunks, walk.policy);
      copy_whole<S::kValueBytes, S>(v_dst, v, walk.together, p.v.slot_stride, p.value_chunks, walk.policy);
    } else {
      if (one_page) k += mine * p.k.slot_stride, v += mine * p.v.slot_stride;
      copy_rows<S::kKeyBytes, S::kTile>(dst, k, w.begin - first, w.end - first, p.key_chunks, walk.policy);
      copy_rows<S::kValueBytes, S::kTile>(v_dst, v, w.begin - first, w.end - first, p.value_chunks, walk.policy);
    }
    if constexpr (S::kScaled) copy_scales<S>(p, w, dst + S::kScales, page, first + mine);
  }
  copy_commit();
}

}  // namespace flashdec
