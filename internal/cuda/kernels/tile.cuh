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
  static constexpr bool kWords = kBits<T> == 32;  // rows may lie at any multiple of 4 bytes: Params::by_words
  static constexpr int kKeyBytes = K * kBits<T> / 8, kValueBytes = V * kBits<T> / 8;
  static constexpr bool kScaled = kBits<T> <= 8;
  static constexpr int kTile = kScaled ? 32 : 16;  // keys a warp takes at once
  static constexpr int kParts = kTile / kPart;
  static constexpr int kScales = kTile * (kKeyBytes + kValueBytes);  // offset of the tile's scales
  static constexpr int kTileBytes = kScales + (kScaled ? 2 * kTile * 4 : 0);
  static constexpr bool kRowsWhole = 32 % (kKeyBytes / 16) == 0 && 32 % (kValueBytes / 16) == 0;
  static constexpr int kSteps = K / 16;                    // products a score
  static constexpr bool kQInRegisters = kSteps * kSets <= 8;
  static constexpr int kQBytes = kQInRegisters ? 0 : kSets * kSteps * 32 * 16;
  static_assert(!kQInRegisters || kSets * kSteps * 32 * 16 <= kTileBytes, "q goes through a stage of the ring");
  static constexpr int kLd = V + 8;                        // of a state's o, in floats: no bank conflicts
};

// Where chunk c (16 bytes) of row r lies: ldmatrix reads eight rows' chunks
// without a bank conflict. Rows of 64 bytes lie in pairs, rows of 32 in fours.
template <int kRowBytes>
__device__ __forceinline__ uint32_t chunk_at(int row, int chunk) {
  int swap = kRowBytes >= 128 ? row & 7 : kRowBytes == 64 ? row >> 1 & 3 : row >> 2 & 1;
  return row * kRowBytes + ((chunk ^ swap) << 4);
}

// Whether a warp copies a plane's rows by whole rows: lane i takes chunk i mod kChunks of
// row i / kChunks, and of every kStep-th row from there.
template <int kRowBytes>
struct Lanes {
  static constexpr int kChunks = kRowBytes / 16, kStep = 32 / kChunks;
  static constexpr bool kWhole = 32 % kChunks == 0;

  // This lane's offset in a tile whose rows are adjacent.
  static __device__ __forceinline__ int offset() { return threadIdx.x % 32 * 16; }
};

// A warp's walk over its tiles, which begin at multiples of their size.
struct Walk {
  int key;             // first key of the next tile to fetch
  int step;            // keys from one of the warp's tiles to the next
  int together;        // adjacent keys of a tile that never cross a border of pages: all, kPart or 1
  bool adjacent;       // a tile is in one page, its rows adjacent and whole
  bool straight;       // and all are in the same
  // Where w.page is -1, pages of pieces of so many keys (of rows, where that is 1) lie in the
  // lanes, those of 32 ahead of their use: a load that tiles have to wait for comes behind them.
  int32_t pages, more;
  int tile;            // the next one's, among those whose pages are there
  const char *k, *v;   // where adjacent, this lane's first chunk: of the next tile, or of page 0
  uint64_t policy;     // of L2
};

__device__ __forceinline__ const char *head_of(const Plane &plane, const Work &w) { return plane.data + w.head * plane.head_stride; }

// How far a tile's first row is from its KV head's in page 0.
__device__ __forceinline__ int64_t row_at(const Plane &plane, int64_t page, int slot) { return page * plane.page_stride + slot * plane.slot_stride; }

template <class S>
__device__ __forceinline__ Walk walk_of(const Params &p, const Work &w, int first, int step) {
  Walk walk;
  walk.key = first, walk.step = step;
  walk.together = w.page >= 0 || p.page_size % S::kTile == 0 ? S::kTile : p.page_size % kPart == 0 ? kPart : 1;
  walk.adjacent = S::kRowsWhole && !p.by_words && walk.together == S::kTile && p.k.slot_stride == S::kKeyBytes && p.v.slot_stride == S::kValueBytes &&
                  p.key_chunks * 16 == S::kKeyBytes && p.value_chunks * 16 == S::kValueBytes;
  walk.straight = walk.adjacent && w.page >= 0;
  walk.pages = walk.more = 0, walk.tile = 0;
  walk.k = head_of(p.k, w) + Lanes<S::kKeyBytes>::offset(), walk.v = head_of(p.v, w) + Lanes<S::kValueBytes>::offset();
  if (w.page >= 0) {
    int slot;
    page_of(p, first, slot);
    walk.k += row_at(p.k, w.page, slot), walk.v += row_at(p.v, w.page, slot);
  }
  walk.policy = read_once();
  return walk;
}

// The lanes' pages of 32 pieces from a tile's first key on; of one tile's rows, where any
// may be in another page.
template <class S>
__device__ __forceinline__ int32_t pages_from(const Params &p, const Work &w, const Walk &walk, int key) {
  int lane = threadIdx.x % 32, slot;
  if (walk.together == 1) key += lane % S::kTile;
  else if (walk.together == S::kTile) key += lane * walk.step;
  else key += lane / S::kParts * walk.step + lane % S::kParts * kPart;
  return key < w.end ? page_at(p, w, page_of(p, max(key, w.begin), slot)) : 0;
}

// Ask for the first pages.
template <class S>
__device__ __forceinline__ void find_pages(const Params &p, const Work &w, Walk &walk) {
  if (w.page >= 0) return;
  walk.pages = pages_from<S>(p, w, walk, walk.key);
  if (walk.together > 1) walk.more = pages_from<S>(p, w, walk, walk.key + 32 * walk.together / S::kTile * walk.step);
}

// The page of the walk's tile number i, of the next ones; of this lane's row of it.
template <class S>
__device__ __forceinline__ int32_t page_of_tile(const Work &w, const Walk &walk, int i) {
  if (w.page >= 0) return w.page;
  if (walk.together == 1) return walk.pages;
  int piece = walk.together == S::kTile ? i : i * S::kParts + threadIdx.x % S::kTile / kPart;
  return __shfl_sync(~0u, walk.pages, piece);
}

// One tile further; key is the one that follows it.
template <class S>
__device__ __forceinline__ void pass_tile(const Params &p, const Work &w, Walk &walk) {
  walk.key += walk.step;
  if (w.page >= 0) return;
  if (walk.together == 1) {
    walk.pages = pages_from<S>(p, w, walk, walk.key);
  } else if (++walk.tile == 32 * walk.together / S::kTile) {
    walk.tile = 0;
    walk.pages = walk.more;
    walk.more = pages_from<S>(p, w, walk, walk.key + 32 * walk.together / S::kTile * walk.step);
  }
}

// Start the way of a tile's keys and values to L2. It may be done before the kernels
// ahead in the stream have ended: what they still write, L2 will have.
template <class S>
__device__ __forceinline__ void bring_tile(const Params &p, const Work &w, const Walk &walk, int first, int32_t page) {
  constexpr int kPlanes = 32 / S::kTile;  // that a warp's lanes take at once
  int lane = threadIdx.x % 32, mine = lane % S::kTile, slot;
  bool one_page = walk.together == S::kTile;
  page_of(p, one_page ? first : first + mine, slot);
  if (one_page) slot += mine;
  int k_bytes = p.key_chunks * 16, v_bytes = p.value_chunks * 16;
  const char *k = head_of(p.k, w) + row_at(p.k, page, slot);
  const char *v = head_of(p.v, w) + row_at(p.v, page, slot);
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

template <class S>
__device__ __forceinline__ void bring_tiles(const Params &p, const Work &w, const Walk &walk) {
#pragma unroll 1
  for (int i = 0, key = walk.key; i < p.near && key < w.end; i++, key += walk.step) {
    bool rows = w.page < 0 && walk.together == 1;
    bring_tile<S>(p, w, walk, key, rows ? pages_from<S>(p, w, walk, key) : page_of_tile<S>(w, walk, i));
  }
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

// The same of rows that lie at any multiple of 4 bytes.
template <int kRowBytes, int kCount>
__device__ __forceinline__ void copy_words(uint32_t dst, const char *row_address, int lo, int hi, int words) {
  constexpr int kWords = kRowBytes / 4;
#pragma unroll 1
  for (int i = 0; i < kCount * kWords / 32; i++) {
    int at = i * 32 + threadIdx.x % 32;
    int row = at / kWords, word = at % kWords;
    const char *src = from_lane(row_address, row);
    bool read = row >= lo && row < hi && word < words;
    copy4(dst + chunk_at<kRowBytes>(row, word / 4) + word % 4 * 4, read ? src + word * 4 : row_address, read);
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

// Start the way of a tile in any number of pages, with any strides and dims: of its keys
// those in [begin, end), which its page is of, or its lanes' pages are.
template <class S>
__device__ __noinline__ void fetch_rows(const Params &p, uint32_t dst, int first, int begin, int end, int head, int32_t page, int together) {
  int mine = threadIdx.x % S::kTile, slot;
  bool one_page = together == S::kTile;
  uint64_t policy = read_once();
  page_of(p, one_page ? first : first + mine, slot);
  const char *k = p.k.data + head * p.k.head_stride + row_at(p.k, page, slot);
  const char *v = p.v.data + head * p.v.head_stride + row_at(p.v, page, slot);
  uint32_t v_dst = dst + S::kTile * S::kKeyBytes;
  if (S::kWords && p.by_words) {
    if (one_page) k += mine * p.k.slot_stride, v += mine * p.v.slot_stride;
    copy_words<S::kKeyBytes, S::kTile>(dst, k, begin - first, end - first, p.key_dim);
    copy_words<S::kValueBytes, S::kTile>(v_dst, v, begin - first, end - first, p.value_dim);
  } else if (together > 1 && first >= begin && first + S::kTile <= end) {
    copy_whole<S::kKeyBytes, S>(dst, k, together, p.k.slot_stride, p.key_chunks, policy);
    copy_whole<S::kValueBytes, S>(v_dst, v, together, p.v.slot_stride, p.value_chunks, policy);
  } else {
    if (one_page) k += mine * p.k.slot_stride, v += mine * p.v.slot_stride;
    copy_rows<S::kKeyBytes, S::kTile>(dst, k, begin - first, end - first, p.key_chunks, policy);
    copy_rows<S::kValueBytes, S::kTile>(v_dst, v, begin - first, end - first, p.value_chunks, policy);
  }
}

// A plane's rows of a tile, adjacent: the addresses of all copies differ by constants. Rows
// outside [lo, hi) become zeros, unread, unless all are kInside.
template <int kRowBytes, int kCount, bool kInside>
__device__ __forceinline__ void copy_tile(uint32_t dst, const char *src, int lo, int hi, uint64_t policy) {
  using L = Lanes<kRowBytes>;
  int lane = threadIdx.x % 32, row = lane / L::kChunks;
  uint32_t to = dst + chunk_at<kRowBytes>(row, lane % L::kChunks);
#pragma unroll
  for (int i = 0; i < kCount; i += L::kStep)
    copy16((to ^ (chunk_at<kRowBytes>(i, 0) - i * kRowBytes)) + i * kRowBytes, src + i * kRowBytes, kInside || (row + i >= lo && row + i < hi), policy);
}

template <class S, bool kInside>
__device__ __forceinline__ void copy_tiles(uint32_t dst, const char *k, const char *v, int lo, int hi, uint64_t policy) {
  copy_tile<S::kKeyBytes, S::kTile, kInside>(dst, k, lo, hi, policy);
  copy_tile<S::kValueBytes, S::kTile, kInside>(dst + S::kTile * S::kKeyBytes, v, lo, hi, policy);
}

// Start the way of the walk's next tile, which may be in any number of pages or reach out of
// the work's keys; returns its page, or that of this lane's row.
template <class S>
__device__ __forceinline__ int32_t fetch_any(const Params &p, const Work &w, Walk &walk, uint32_t dst) {
  int32_t page = page_of_tile<S>(w, walk, walk.tile);
  int first = walk.key;
  const char *k = walk.k, *v = walk.v;
  pass_tile<S>(p, w, walk);
  if (w.page >= 0) {
    walk.k += walk.step * S::kKeyBytes, walk.v += walk.step * S::kValueBytes;
  } else if (walk.adjacent) {
    int slot;
    page_of(p, first, slot);
    k += row_at(p.k, page, slot), v += row_at(p.v, page, slot);
  }
  if (!S::kRowsWhole || !walk.adjacent) fetch_rows<S>(p, dst, first, w.begin, w.end, w.head, page, walk.together);
  else if (first >= w.begin && first + S::kTile <= w.end) copy_tiles<S, true>(dst, k, v, 0, 0, walk.policy);
  else copy_tiles<S, false>(dst, k, v, w.begin - first, w.end - first, walk.policy);
  return page;
}

// Start the way of the walk's next tile to shared memory. One page that holds all keys,
// rows adjacent, is what short steps wait for.
template <class S>
__device__ __forceinline__ void fetch(const Params &p, const Work &w, Walk &walk, uint32_t dst) {
  int first = walk.key;
  if (first < w.end) {
    int32_t page = w.page;
    if (S::kRowsWhole && walk.straight && first >= w.begin && first + S::kTile <= w.end) {
      copy_tiles<S, true>(dst, walk.k, walk.v, 0, 0, walk.policy);
      walk.key += walk.step, walk.k += walk.step * S::kKeyBytes, walk.v += walk.step * S::kValueBytes;
    } else {
      page = fetch_any<S>(p, w, walk, dst);
    }
    if constexpr (S::kScaled) copy_scales<S>(p, w, dst + S::kScales, page, first + threadIdx.x % S::kTile);
  }
  copy_commit();
}

}  // namespace flashdec
