/*
 * The table of kernels of each tier. Which tiers this processor can run is for proto/tier.h to say.
 */
#include "workers/compute-cpu/kernels/tiers.h"

#if defined(__x86_64__)

static const struct tern_kernels *const tables[TERN_TIERS] = {
    [TERN_SCALAR] = &tern_kernels_scalar,
    [TERN_AVX2] = &tern_avx2_kernels,
    [TERN_AVX512] = &tern_avx512_kernels,
    [TERN_AVX512VNNI] = &tern_avx512vnni_kernels,
};

#else

static const struct tern_kernels *const tables[TERN_TIERS] = {&tern_kernels_scalar};

#endif

const struct tern_kernels *tern_kernels(enum tern_tier tier)
{
    if ((unsigned)tier >= TERN_TIERS || tier > tern_best_tier())
        return NULL;
    return tables[tier];
}
