/*
 * The ladder: which tiers this processor can run, and the table of each. It is the only file of
 * kernels/ that asks the processor anything, and it is compiled for the baseline instruction set.
 */
#include "workers/compute-cpu/kernels/tiers.h"
#include <string.h>

static const char *const names[TERN_TIERS] = {
    [TERN_SCALAR] = "scalar",
    [TERN_AVX2] = "avx2",
    [TERN_AVX512] = "avx512",
    [TERN_AVX512VNNI] = "avx512vnni",
};

enum tern_tier tern_best_tier(void)
{
    return TERN_SCALAR;
}

static const struct tern_kernels *const tables[TERN_TIERS] = {&tern_kernels_scalar};

const struct tern_kernels *tern_kernels(enum tern_tier tier)
{
    /* Tiers are ordered: a processor that runs one runs all below it. */
    if ((unsigned)tier >= TERN_TIERS || tier > tern_best_tier())
        return NULL;
    return tables[tier];
}

const char *tern_tier_name(enum tern_tier tier)
{
    return (unsigned)tier < TERN_TIERS ? names[tier] : "?";
}

bool tern_tier_parse(const char *name, enum tern_tier *tier)
{
    for (unsigned i = 0; i < TERN_TIERS; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *tier = (enum tern_tier)i;
        return true;
    }
    return false;
}
