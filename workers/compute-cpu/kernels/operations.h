/* The functions of the SIMD tiers' table, under each tier's name. */
#ifndef TERN_KERNELS_OPERATIONS_H
#define TERN_KERNELS_OPERATIONS_H

#include "workers/compute-cpu/kernels/simd.h"

#define DECLARE_PRODUCT(type)                                                                      \
    void TIER(multiply_##type)(const struct tern_matmul *m, uint32_t begin, uint32_t end,          \
                               uint8_t *scratch);
DECLARE_PRODUCT(F32)
DECLARE_PRODUCT(F16)
DECLARE_PRODUCT(BF16)
DECLARE_PRODUCT(Q8_0)
DECLARE_PRODUCT(Q4_0)
DECLARE_PRODUCT(Q4_1)
DECLARE_PRODUCT(Q5_0)
DECLARE_PRODUCT(Q5_1)
DECLARE_PRODUCT(Q4_K)
DECLARE_PRODUCT(Q5_K)
DECLARE_PRODUCT(Q6_K)

void TIER(quantize)(const float *x, uint32_t columns, struct tern_act act, void *out);
bool TIER(widen)(uint32_t type, const void *weights, uint32_t columns, float factor, float *out);
bool TIER(norm)(const float *x, const float *gain, uint32_t n, float epsilon, float *out);
bool TIER(add)(const float *a, const float *b, uint32_t n, float *out);
bool TIER(glu)(enum tern_activation act, const float *gate, const float *up, uint32_t n,
               float *out);
uint32_t TIER(argmax)(const float *x, uint32_t n);
bool TIER(rope)(const float *x, const float *pairs, uint32_t head_size, uint32_t rope_size,
                enum tern_rope_pairs order, float *out);
int TIER(kv_store)(enum tern_kv_type type, const float *x, uint32_t n, void *out);
uint32_t TIER(attend)(const struct tern_attention *a, const struct tern_queries *queries,
                      uint8_t *scratch);

#endif
