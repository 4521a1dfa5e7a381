/*
 * One vocabulary of vector operations for all tiers. The files that include it are compiled once
 * per tier; the flags of that compilation choose the registers (simd256.h, simd512.h) and the name
 * that public symbols carry. No function here contracts, reorders or approximates: each is one
 * IEEE operation per lane, or exact integer arithmetic.
 *
 * vi, vf: registers of LANES 32-bit integers or floats. "Lane" below is one of these; the 128-bit
 * parts of a register are called quarters.
 */
#ifndef TERN_KERNELS_SIMD_H
#define TERN_KERNELS_SIMD_H

#include "proto/numerics/value.h"
#include "workers/compute-cpu/kernels/tiers.h"
#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline, unused))

#if defined(__AVX512VNNI__)
#define TIER(name) tern_avx512vnni_##name
#define TIER_ID    TERN_AVX512VNNI
#define TIER_NAME  "avx512vnni"
#elif defined(__AVX512BW__)
#define TIER(name) tern_avx512_##name
#define TIER_ID    TERN_AVX512
#define TIER_NAME  "avx512"
#else
#define TIER(name) tern_avx2_##name
#define TIER_ID    TERN_AVX2
#define TIER_NAME  "avx2"
#endif

#if defined(__AVX512BW__)
#include "workers/compute-cpu/kernels/simd512.h"
#else
#include "workers/compute-cpu/kernels/simd256.h"
#endif

INLINE vf vf_zero(void)
{
    return vf_set1(0.0f);
}
INLINE vi vi_zero(void)
{
    return vi_set1(0);
}

/* The largest magnitudes seen, as bits: finite as long as no lane reaches infinity's. */
INLINE vi track_magnitude(vi largest, vf x)
{
    return vi_max_unsigned(largest, vi_and(vi_bits(x), vi_set1(0x7fffffff)));
}
INLINE bool tracked_finite(vi largest)
{
    return !vi_any_greater(largest, vi_set1(0x7f7fffff));
}

INLINE uint32_t load_u32(const void *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}
INLINE uint16_t load_u16(const void *p)
{
    uint16_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

#endif
