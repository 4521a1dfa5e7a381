/* The table of a SIMD tier. Compiled once per tier. */
#include "workers/compute-cpu/kernels/operations.h"

const struct tern_kernels TIER(kernels) = {
    .tier = TIER_ID,
    .name = TIER_NAME,
    .matmul = {[TERN_F32] = TIER(multiply_F32),
               [TERN_F16] = TIER(multiply_F16),
               [TERN_BF16] = TIER(multiply_BF16),
               [TERN_Q8_0] = TIER(multiply_Q8_0),
               [TERN_Q4_0] = TIER(multiply_Q4_0),
               [TERN_Q4_1] = TIER(multiply_Q4_1),
               [TERN_Q5_0] = TIER(multiply_Q5_0),
               [TERN_Q5_1] = TIER(multiply_Q5_1),
               [TERN_Q4_K] = TIER(multiply_Q4_K),
               [TERN_Q5_K] = TIER(multiply_Q5_K),
               [TERN_Q6_K] = TIER(multiply_Q6_K)},
    .row_chunk = 32,
    .quantize = TIER(quantize),
    .widen = TIER(widen),
    .norm = TIER(norm),
    .add = TIER(add),
    .glu = TIER(glu),
    .argmax = TIER(argmax),
    .rope = TIER(rope),
    .kv_store = TIER(kv_store),
    .attend = TIER(attend),
};
