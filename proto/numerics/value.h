/*
 * Float rules that every value obeys (NUMERICS section 1): the value rule, the finite test, and the
 * half and bfloat16 conversions. Everything in proto/numerics is compiled with -ffp-contract=off
 * and without -ffast-math; it is the definition that every SIMD tier must match bit for bit.
 */
#ifndef TERN_NUMERICS_VALUE_H
#define TERN_NUMERICS_VALUE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define TERN_TINY 0x1p-50f

static inline uint32_t tern_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float tern_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* The value rule: magnitudes below 2^-50, and -0, become +0. NaN and infinity pass unchanged. */
static inline float tern_value(float x)
{
    return (tern_bits(x) & 0x7fffffffu) < 0x26800000u ? 0.0f : x;
}
static inline bool tern_finite(float x)
{
    return (tern_bits(x) & 0x7f800000u) != 0x7f800000u;
}
/* IEEE binary16 <-> binary32; to half rounds to nearest even, subnormals and -0 kept. Values that
 * would round to infinity (|x| >= 65520) are the caller's to refuse. */
float tern_half_to_float(uint16_t half);
uint16_t tern_float_to_half(float x);
static inline float tern_bf16_to_float(uint16_t bits)
{
    return tern_float((uint32_t)bits << 16);
}

#endif
