/*
 * What the files of kernels/ share: the constant table of each tier, and the functions of the
 * scalar tier that higher tiers keep. A table names every function it uses, so that it can be
 * constant data; nothing is filled in at run time.
 */
#ifndef TERN_KERNELS_TIERS_H
#define TERN_KERNELS_TIERS_H

#include "workers/compute-cpu/kernels/kernels.h"

extern const struct tern_kernels tern_kernels_scalar;
#if defined(__x86_64__)
extern const struct tern_kernels tern_kernels_avx2;
extern const struct tern_kernels tern_kernels_avx512;
extern const struct tern_kernels tern_kernels_avx512vnni;
#endif

#endif
