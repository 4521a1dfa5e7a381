/* The matrix products of the SIMD tiers, one per weight type, under each tier's name. */
#ifndef TERN_KERNELS_PRODUCTS_H
#define TERN_KERNELS_PRODUCTS_H

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

#endif
