/*
 * The constant table of each tier. A table names every function it uses, so that nothing is filled
 * in at run time.
 */
#ifndef TERN_KERNELS_TIERS_H
#define TERN_KERNELS_TIERS_H

#include "workers/compute-cpu/kernels/kernels.h"

extern const struct tern_kernels tern_kernels_scalar;
#if defined(__x86_64__)
extern const struct tern_kernels tern_avx2_kernels;
extern const struct tern_kernels tern_avx512_kernels;
extern const struct tern_kernels tern_avx512vnni_kernels;
#endif

#endif
