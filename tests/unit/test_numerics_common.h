/*
 * What the tests of the scalar numerics share: random inputs and the rules that every operation
 * uses, written a second time and in another way than in proto/numerics.
 */
#ifndef TEST_NUMERICS_COMMON_H
#define TEST_NUMERICS_COMMON_H

#include "proto/numerics/value.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* xorshift64*: the same numbers in every run. */
static inline uint32_t random_bits(uint64_t *seed)
{
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return (uint32_t)((*seed * 0x2545f4914f6cdd1dull) >> 32);
}

/* In [-1, 1). */
static inline float random_unit(uint64_t *seed)
{
    return (float)((int32_t)random_bits(seed) >> 8) * 0x1p-23f;
}

/* A value: magnitudes from 2^-50 to 2^50 in every binary order, now and then zero. */
static inline float random_value(uint64_t *seed)
{
    const uint32_t draw = random_bits(seed);
    if (draw % 16 == 0)
        return 0.0f;
    const float x =
        ldexpf(1.0f + (float)(random_bits(seed) >> 9) * 0x1p-23f, (int)(draw >> 8) % 101 - 50);
    return draw & 128 ? x : -x;
}

static inline float expect_half(uint32_t half)
{
    const int exponent = half >> 10 & 31;
    const float mantissa = (float)(half & 1023);
    const float magnitude =
        exponent == 0 ? ldexpf(mantissa, -24) : ldexpf(1024.0f + mantissa, exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

static inline float value_of(float x)
{
    return fabsf(x) < 0x1p-50f ? 0.0f : x;
}

/* Joins chains [0, n) of a tree of neighbours, n a power of two. */
static inline float expect_join(const float *chain, int n)
{
    return n == 1 ? chain[0] : expect_join(chain, n / 2) + expect_join(chain + n / 2, n / 2);
}

/* 16 chains of n terms, the first of them in chain `start` mod 16, joined. */
static inline float expect_chains(const float *term, uint32_t n, uint32_t start)
{
    float chain[16];
    for (uint32_t c = 0; c < 16; c++) {
        const uint32_t first = (c + 16 - start % 16) % 16;
        chain[c] = first < n ? term[first] : 0.0f;
        for (uint32_t k = first + 16; k < n; k += 16)
            chain[c] += term[k];
    }
    return expect_join(chain, 16);
}

#define assert_same_float(a, b) assert_int_equal(tern_bits(a), tern_bits(b))

#endif
