#include "proto/tier.h"

#include <string.h>

static const char *const names[TERN_TIERS] = {
    [TERN_SCALAR] = "scalar",
    [TERN_AVX2] = "avx2",
    [TERN_AVX512] = "avx512",
    [TERN_AVX512VNNI] = "avx512vnni",
};

#if defined(__x86_64__)

#include <cpuid.h>

/* Not among the names that every compiler's __builtin_cpu_supports knows. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

/* The compiler's support code reads XCR0 too: a feature whose registers the operating system does
 * not save counts as absent. Each tier asks for all that its files are compiled with. */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static bool has_avx512vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

enum tern_tier tern_best_tier(void)
{
    __builtin_cpu_init();
    if (has_avx512vnni())
        return TERN_AVX512VNNI;
    if (has_avx512())
        return TERN_AVX512;
    return has_avx2() ? TERN_AVX2 : TERN_SCALAR;
}

#else

enum tern_tier tern_best_tier(void)
{
    return TERN_SCALAR;
}

#endif

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
