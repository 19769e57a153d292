// What the host tells a kernel. internal/cuda/params.go holds the same structs;
// a test compares their sizes and offsets.
#pragma once
#include <stdint.h>

namespace flashdec {

// Where keys (or values) lie: the row of a page, KV head and slot starts at
// page·page_stride + head·head_stride + slot·slot_stride bytes after data.
struct Plane {
  const char *data;
  int64_t page_stride;
  int64_t head_stride;
  int64_t slot_stride;
};

// kv.ScaleKind.
enum ScaleKind : int32_t { kNoScales, kTensorScale, kHeadScale, kTokenScale, kChannelScale };

// What a plane's codes are multiplied by: [1], [heads], one a row at
// page·page_stride + head·head_stride + slot·slot_stride, or [heads, dim].
struct Scales {
  const float *values;
  int64_t page_stride;  // of tokens' scales, like the next two
  int64_t head_stride;
  int64_t slot_stride;
  int32_t kind;

  __device__ __forceinline__ int64_t at(int64_t page, int head, int slot) const {
    return page * page_stride + head * head_stride + slot * slot_stride;
  }
};

// One block's work: some query rows of one sequence and KV head over the keys
// [begin, end). Row r of the item is its query r / group, query head
// `head·group + r mod group`.
struct alignas(16) Work {
  int64_t partial;     // place of split 0's partial state; those of bands follow the splits'
  int32_t head;        // KV head
  int32_t query;       // the item's first query, among all queries of the step
  int32_t pos;         // position of that query; may be negative
  int32_t mask_row;    // its row of the mask
  int32_t origin;      // key of the mask's first column
  int32_t row, rows;   // of the item's rows, those that this block takes
  int32_t begin, end;  // keys
  int32_t split;       // place in the merge order
  int32_t num_splits;  // 1: the state is the result
  int32_t item_rows;
  int32_t counter;     // of the unit and its rows [row, row + rows), in Params::counters; those of bands follow
  int32_t page_table;  // first entry of the sequence's page table in Params::pages
  int32_t page;        // the page that holds all keys, or -1
  // Where Params::lens is set, pos counts from the sequence's length, and begin and
  // end follow from it.
  int32_t seq;
  int32_t capacity;    // keys that its page table has room for
  int32_t lost;        // 1: the length is out of range, and the results are NaN
};

// Units of more than kOneStep splits merge in two steps, first in bands of kBand
// splits: a function of the unit alone, as its bits are.
constexpr int kOneStep = 16, kBand = 8;

__device__ __forceinline__ int bands_of(int splits) { return splits <= kOneStep ? 0 : (splits + kBand - 1) / kBand; }

// A step in which all works follow from the block's place in the grid (split,
// KV head, sequence), so that no block waits for a load before it knows its
// keys: equal sequences of one query tile each, every one in a page of its own,
// page_first + s·page_step for sequence s. Split i begins at key
// begin + (i·each + min(i, more))·step.
struct Regular {
  int32_t splits;      // of every unit; 0: the step is not regular
  int32_t heads;       // KV heads
  int32_t begin, end;  // keys that a unit sees
  int32_t step;        // also where the step is not regular: split borders are begin + a multiple of it
  int32_t each, more;
  int32_t rows;        // query rows of a unit
  int32_t pos;         // position of a sequence's first query
  int32_t queries;     // of each sequence
  int32_t page_first, page_step;
};

struct Params {
  Plane k, v;
  Scales k_scales, v_scales;
  const float *q;         // [queries, num_heads, key_dim]
  const Work *works;      // [blocks]; unused where the step is regular
  const int32_t *pages;
  float *out;             // [queries, num_heads, value_dim]; states' o where state_m is set
  float *lse;             // [queries, num_heads] natural; or null
  float *state_m;         // [queries, num_heads] natural; null unless states are wanted
  float *state_l;         // [queries, num_heads]
  float *partial_ml;      // [halves, places, rows of a kernel's states, 2] m, natural, and l
  float *partial_o;       // [halves, places, rows, value_dim, padded as the kernel's]
  uint32_t *counters;     // between launches zero, but for kSecondHalf
  const float *slopes;    // [num_heads] or null
  const float *sinks;     // [num_heads] or null
  const uint8_t *mask;    // [mask_seqs, mask_queries, mask_keys] or null
  int64_t mask_keys;
  void *trace;            // [blocks, kMarks] of trace.cuh, or null
  const int32_t *lens;    // [sequences] keys of each, read when the step runs; or null
  int32_t *lost;          // set to a sequence whose length is out of range, + 1
  int64_t places;         // of each half; 0 where partial states have one place only
  uint64_t group_magic;   // ceil(2^40 / group)
  uint64_t page_magic;    // floor(2^64 / page_size) + 1; 0 where page_size is 1
  Regular regular;
  int32_t num_heads;
  int32_t group;          // query heads a KV head
  int32_t key_dim;
  int32_t value_dim;
  int32_t page_size;
  int32_t causal;
  int32_t window;         // 0: none
  float scale;            // of q·k
  float softcap;          // 0: none
  int32_t stages;         // of a warp's ring of tiles
  int32_t near;           // tiles of a warp that come to L2 before the kernels ahead have ended
  int32_t k_type, v_type; // kv.DType
  int32_t key_chunks;     // of 16 bytes a row
  int32_t value_chunks;
  int32_t settled;        // no kernel writes lengths, works and pages
  int32_t by_words;       // rows of float32 that do not lie at multiples of 16 bytes
};

static_assert(sizeof(Work) == 80 && sizeof(Regular) == 48 && sizeof(Params) == 424, "internal/cuda/params.go");

}  // namespace flashdec
