// What the host tells a kernel. model/gpu/params.go holds the same structs; a test
// compares their sizes and offsets.
#pragma once
#include <stdint.h>

#include "../../../internal/cuda/kernels/code.cuh"

namespace flashdec {

// Weights in blocks of adjacent elements, as ggml quantises them. A row is the codes of all
// its blocks, then the blocks' scales and minima, then of the K types what these count in.
// Codes are bytes, or halves of bytes: byte i of 16 has element i and, above, i + 16.
enum BlockType : int32_t {
  kQ8_0 = 16,  // of 32: d·code, int8; d float16
  kQ4_0,       // of 32: d·code, −8 to 7
  kQ4_1,       // of 32: d·code + m; d and m
  kQ4_K,       // of 256 in groups of 32: d·s·code − e·t; bytes s and t a group, d and e float16
  kQ5_K,       // likewise, codes are bytes
  kQ6_K,       // of 256 in groups of 16: d·s·code, int8; s int8, d float16 and nothing
};

// Rows of elements, each beginning at a multiple of 16 bytes and zero up to the next:
// row r of expert e begins e·expert_stride + r·pitch bytes after data.
struct Matrix {
  const char *data;
  int64_t pitch;
  int64_t expert_stride;
  int32_t rows;
  int32_t type;  // kF32, kF16, kBF16 or a BlockType
};

// y = W·x + bias.
struct Output {
  Matrix w;
  const float *bias;  // [experts, rows] or null
  float *y;           // [tokens, rows]
};

// Where new keys (or values) of a layer go, and where codes have a scale a token and
// head: as Plane and Scales of internal/cuda.
struct Store {
  char *data;
  int64_t page_stride, head_stride, slot_stride;  // bytes
  float *scales;                                  // null where numbers are no codes
  int64_t scale_page, scale_head, scale_slot;     // floats
};

// Angles of queries and keys, and the new keys' and values' places in the cache.
struct Rotation {
  const double *turns;       // [dim/2] of a position
  const int32_t *positions;  // [tokens]
  const int32_t *places;     // [tokens] page · page_size + slot
  Store k_store, v_store;
  int32_t k_type, v_type;
  int32_t dim;               // of a head
  int32_t page_size;
  int32_t adjacent;          // pair i is elements 2i and 2i + 1, not i and i + dim/2
  float scale;               // of what is turned
};

enum Finish : int32_t {
  kStore,  // y = W·x, capped where softcap is set
  kAdd,    // y += W·x
  kGate,   // y = act(outputs[0])·outputs[1], of y of the first
  kTurn,   // outputs are q, k and v: q and k are turned, k and v go into the cache
};

// gate.go's, in its order.
enum Gate : int32_t { kSiLU, kGELU, kClamped };

// Products of the same few rows of x.
struct ProductParams {
  const float *x;          // [tokens, cols]
  const float *norm;       // [cols] or null: x is normed first
  const int32_t *experts;  // [pairs] or null: row i of y is expert experts[i]'s, for row i / per_token of x
  Output outputs[3];
  int32_t num_outputs;
  int32_t cols;
  int32_t tokens;          // of x, at most the kernel's
  int32_t per_token;       // pairs that share a row of x
  int32_t slots;           // of the ring that weights in blocks come through, at least 1
  int32_t finish;
  int32_t gate;
  float eps;
  float softcap;           // 0: none
  int32_t unused;
  Rotation rotation;
};

// y = norm(x), of the given rows.
struct NormParams {
  const float *x;       // [tokens, cols]
  const float *weight;  // [cols]
  const int32_t *rows;  // [blocks] or null: row i is block i's
  float *y;             // [blocks, cols]
  int32_t cols;
  int32_t add;          // y += norm(x)
  float eps;
  int32_t unused;
};

// Norms and angles of queries and keys, and new keys and values into the cache.
struct TurnParams {
  float *q;                  // [tokens, heads, dim]
  float *k, *v;              // [tokens, kv_heads, dim]
  const float *q_norm;       // [dim] or null
  const float *k_norm;
  Rotation rotation;
  int32_t heads, kv_heads;
  float eps;
  int32_t unused;
};

// x = scale · the tokens' rows.
struct EmbedParams {
  Matrix w;
  const int32_t *ids;  // [tokens]
  float *x;            // [tokens, cols]
  int32_t cols;
  float scale;
};

// What is done to each of n numbers.
struct EachParams {
  float *y;             // [n]
  const float *u;       // [n] of a gate; [cols] of a bias
  int64_t n;
  int32_t cols;
  int32_t gate;
  float softcap;
  int32_t unused;
};

// The experts of each token, and the weights of their answers.
struct RouteParams {
  const float *scores;  // [tokens, experts]
  int32_t *chosen;      // [tokens, per_token]
  float *weights;       // [tokens, per_token]
  int32_t experts;
  int32_t per_token;
};

// y += (or =) Σ weight · answer, over a token's experts.
struct MixParams {
  const float *answers;  // [tokens, per_token, cols]
  const float *weights;  // [tokens, per_token]
  float *y;              // [tokens, cols]
  int32_t cols;
  int32_t per_token;
  int32_t add;
  int32_t unused;
};

// Numbers as two bf16 each, whose sum has 16 bits of them.
struct ConvertParams {
  Matrix from;     // of rows rows
  uint16_t *high;  // [rows, cols]
  uint16_t *low;   // [rows, cols] what is left
  int32_t cols;
  int32_t unused;
};

// A matrix's columns as rows.
struct TransposeParams {
  const char *from;  // [matrices, rows, cols]
  Matrix to;         // [matrices][cols][rows]
  int32_t rows, cols;
  int32_t bytes;     // of an element
  int32_t unused;
};

// Made-up numbers, uniform in ±spread, that follow from a seed.
struct FillParams {
  char *data;
  int64_t n;
  uint64_t seed;
  int32_t type;
  float spread;
};

static_assert(sizeof(Rotation) == 176 && sizeof(ProductParams) == 384 && sizeof(NormParams) == 48 && sizeof(TurnParams) == 232 && sizeof(EmbedParams) == 56 &&
                  sizeof(EachParams) == 40 && sizeof(RouteParams) == 32 && sizeof(MixParams) == 40 && sizeof(ConvertParams) == 56 &&
                  sizeof(TransposeParams) == 56 && sizeof(FillParams) == 32,
              "model/gpu/params.go");

}  // namespace flashdec
