/*
 * What the files of kernels/ share: the constant table of each tier, and the functions of the
 * scalar tier that higher tiers keep. A table names every function it uses, so that it can be
 * constant data; nothing is filled in at run time.
 */
#ifndef TERN_KERNELS_TIERS_H
#define TERN_KERNELS_TIERS_H

#include "workers/compute-cpu/kernels/kernels.h"

extern const struct tern_kernels tern_kernels_scalar;
#define DECLARE_SCALAR(type)                                                                       \
    void tern_scalar_multiply_##type(const struct tern_matmul *m, uint32_t begin, uint32_t end,    \
                                     uint8_t *scratch);
DECLARE_SCALAR(F32)
DECLARE_SCALAR(F16)
DECLARE_SCALAR(BF16)
DECLARE_SCALAR(Q8_0)
DECLARE_SCALAR(Q4_0)
DECLARE_SCALAR(Q4_1)
DECLARE_SCALAR(Q5_0)
DECLARE_SCALAR(Q5_1)
DECLARE_SCALAR(Q4_K)
DECLARE_SCALAR(Q5_K)
DECLARE_SCALAR(Q6_K)
#if defined(__x86_64__)
extern const struct tern_kernels tern_avx2_kernels;
extern const struct tern_kernels tern_avx512_kernels;
extern const struct tern_kernels tern_avx512vnni_kernels;
#endif

#endif
