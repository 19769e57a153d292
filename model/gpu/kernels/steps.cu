// The kernels, by name. model/gpu/kernels.go launches them.
#include <math_constants.h>

#include "../../../internal/cuda/kernels/floor.cuh"
#include "blocks.cuh"
#include "floats.cuh"
#include "steps.cuh"

using namespace flashdec;

// A product's block has a multiprocessor to itself.
#define PRODUCT(name, run)                                                                                         \
  extern "C" __global__ void __launch_bounds__(kProductThreads, 1) name(const __grid_constant__ ProductParams p) { \
    run(p);                                                                                                        \
  }

PRODUCT(product_1, multiply_floats<1>)
PRODUCT(product_2, multiply_floats<2>)
PRODUCT(product_4, multiply_floats<4>)
PRODUCT(block_product_1, multiply_blocks<1>)
PRODUCT(block_product_2, multiply_blocks<2>)
PRODUCT(block_product_4, multiply_blocks<4>)

#define KERNEL(name, Params, run) \
  extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ Params p) { run(p); }

KERNEL(norm_rows, NormParams, norm_row)
KERNEL(embed_rows, EmbedParams, embed_row)
KERNEL(turn_store, TurnParams, turn)
KERNEL(gate_numbers, EachParams, gate_each)
KERNEL(bias_numbers, EachParams, bias_each)
KERNEL(route_tokens, RouteParams, route)
KERNEL(mix_answers, MixParams, mix)
KERNEL(convert_rows, ConvertParams, convert)
KERNEL(transpose_matrix, TransposeParams, transpose)
KERNEL(read_floor, FloorParams, read_all)
KERNEL(fill_numbers, FillParams, fill)
