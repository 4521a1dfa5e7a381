/* exp and the activations built from it (NUMERICS section 1, points 6 and 7), one lane each, by the
 * operations of proto/numerics/functions.c in their order. */
#ifndef TERN_KERNELS_FUNCTIONS_SIMD_H
#define TERN_KERNELS_FUNCTIONS_SIMD_H

#include "workers/compute-cpu/kernels/simd.h"

/* exp of x <= 88 (callers limit it): the case that gives infinity is left out. */
INLINE vf vf_exp(vf x)
{
    const vf magic = vf_set1(12582912.0f);
    const vf k = vf_add(vf_mul(x, vf_set1(1.44269502163f)), magic);
    const vi n = vi_sub(vi_bits(k), vi_set1(0x4b400000));
    const vf f = vf_sub(k, magic);
    const vf r =
        vf_sub(vf_sub(x, vf_mul(f, vf_set1(0.693359375f))), vf_mul(f, vf_set1(-2.12194440e-4f)));
    const vf z = vf_mul(r, r);
    vf p = vf_set1(1.9875691500e-4f);
    p = vf_add(vf_mul(p, r), vf_set1(1.3981999507e-3f));
    p = vf_add(vf_mul(p, r), vf_set1(8.3334519073e-3f));
    p = vf_add(vf_mul(p, r), vf_set1(4.1665795894e-2f));
    p = vf_add(vf_mul(p, r), vf_set1(1.6666665459e-1f));
    p = vf_add(vf_mul(p, r), vf_set1(5.0000001201e-1f));
    const vf y = vf_add(vf_add(vf_mul(p, z), r), vf_set1(1.0f));
    vf e = vf_bits(vi_add(vi_bits(y), vi_left(n, 23)));
    const vf magnitude = vf_bits(vi_and(vi_bits(x), vi_set1(0x7fffffff)));
    e = vf_greater_select(vf_set1(0x1p-25f), magnitude, vf_set1(1.0f), e);
    return vf_greater_select(vf_set1(-34.0f), x, vf_zero(), e);
}

INLINE vf vf_negate(vf x)
{
    return vf_bits(vi_xor(vi_bits(x), vi_set1(INT32_MIN)));
}

/* x / (1 + exp(min(-u, 87))) */
INLINE vf vf_gate(vf x, vf u)
{
    const vf e = vf_exp(vf_min(vf_negate(u), vf_set1(87.0f)));
    return vf_div(x, vf_add(vf_set1(1.0f), e));
}
INLINE vf vf_silu(vf x)
{
    return vf_gate(x, x);
}
INLINE vf vf_gelu(vf x)
{
    const vf c = vf_min(vf_max(x, vf_set1(-20.0f)), vf_set1(20.0f));
    const vf poly = vf_add(vf_set1(0x1.988454p+0f), vf_mul(vf_set1(0x1.2444f2p-4f), vf_mul(c, c)));
    return vf_gate(x, vf_mul(c, poly));
}

#endif
