/*
 * exp and what is built from it (NUMERICS section 1, points 6 and 7): one polynomial, the same
 * operations in the same order everywhere. Arguments must be finite.
 */
#ifndef TERN_NUMERICS_FUNCTIONS_H
#define TERN_NUMERICS_FUNCTIONS_H

#include "proto/numerics/value.h"

/* Inline and without branches, so that a compiler can make vectors of loops over it. */
static inline float tern_exp(float x)
{
    /* Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits. */
    const float k = x * 1.44269502163f + 12582912.0f;
    const uint32_t n = tern_bits(k) - 0x4b400000u;
    const float f = k - 12582912.0f;
    const float r = (x - f * 0.693359375f) - f * -2.12194440e-4f;
    const float z = r * r;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    const float y = (p * z + r) + 1.0f;
    const float scaled = tern_float(tern_bits(y) + (n << 23));
    const float near = x > -0x1p-25f && x < 0x1p-25f ? 1.0f : scaled;
    const float low = x < -34.0f ? 0.0f : near;
    return x > 88.72283f ? tern_float(0x7f800000u) : low;
}

float tern_silu(float x);
float tern_gelu(float x);

#endif
