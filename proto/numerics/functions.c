/*
 * The activations (NUMERICS section 1, point 7). The value of each line is that every tier can
 * repeat it: no step may be merged, reordered or fused.
 */
#include "proto/numerics/functions.h"

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
