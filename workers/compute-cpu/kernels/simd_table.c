/* The table of a SIMD tier: what it replaces, and what it keeps from the scalar tier. Compiled once
 * per tier. */
#include "proto/numerics/product.h"
#include "proto/numerics/quantize.h"
#include "workers/compute-cpu/kernels/products.h"

const struct tern_kernels TIER(kernels) = {
    .tier = TIER_ID,
    .name = TIER_NAME,
    .matmul = {[TERN_F32] = tern_scalar_multiply_F32,
               [TERN_F16] = tern_scalar_multiply_F16,
               [TERN_BF16] = tern_scalar_multiply_BF16,
               [TERN_Q8_0] = TIER(multiply_Q8_0),
               [TERN_Q4_0] = TIER(multiply_Q4_0),
               [TERN_Q4_1] = TIER(multiply_Q4_1),
               [TERN_Q5_0] = TIER(multiply_Q5_0),
               [TERN_Q5_1] = TIER(multiply_Q5_1),
               [TERN_Q4_K] = tern_scalar_multiply_Q4_K,
               [TERN_Q5_K] = tern_scalar_multiply_Q5_K,
               [TERN_Q6_K] = tern_scalar_multiply_Q6_K},
    .row_chunk = 64,
    .quantize = tern_quantize_row,
    .widen = tern_widen_row,
    .norm = tern_norm,
    .add = tern_add_rows,
    .glu = tern_glu,
    .argmax = tern_argmax,
    .rope = tern_rope,
    .kv_store = tern_kv_store,
    .attend = tern_attend,
};
