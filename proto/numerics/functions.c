/*
 * exp and the activations (NUMERICS section 1, points 6 and 7). The value of each line is that
 * every tier can repeat it: no step may be merged, reordered or fused.
 */
#include "proto/numerics/functions.h"

#include "proto/numerics/value.h"

/* Largest argument of exp where it may be large: 1/(1 + exp(87)) is still a normal number. */
static const float exp_limit = 87.0f;

static float minimum(float x, float m)
{
    return x < m ? x : m;
}

static float maximum(float x, float m)
{
    return x > m ? x : m;
}

float tern_exp(float x)
{
    if (x > 88.72283f)
        return tern_float(0x7f800000u);
    if (x < -34.0f)
        return 0.0f;
    if (x > -0x1p-25f && x < 0x1p-25f)
        return 1.0f;
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
    return tern_float(tern_bits(y) + (n << 23));
}

float tern_silu(float x)
{
    return x / (1.0f + tern_exp(minimum(-x, exp_limit)));
}

float tern_gelu(float x)
{
    const float c = minimum(maximum(x, -20.0f), 20.0f);
    const float u = c * (0x1.988454p+0f + 0x1.2444f2p-4f * (c * c));
    return x / (1.0f + tern_exp(minimum(-u, exp_limit)));
}
