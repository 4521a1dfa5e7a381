#include "proto/numerics/value.h"

float tern_half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 31u;
    const uint32_t mantissa = half & 1023u;
    if (exponent == 31)
        return tern_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0)
        return tern_float(sign | (exponent + 112) << 23 | mantissa << 13);
    /* Subnormal: mantissa * 2^-24, exact in binary32. */
    const float magnitude = (float)mantissa * 0x1p-24f;
    return tern_float(sign | tern_bits(magnitude));
}

uint16_t tern_float_to_half(float x)
{
    const uint32_t bits = tern_bits(x);
    const uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        return sign | 0x7c00u;
    if (magnitude < 0x38800000u) { /* below 2^-14: a multiple of 2^-24, nearest even */
        const float scaled = tern_float(magnitude) * 0x1p24f;
        const uint32_t whole = (uint32_t)scaled;
        const float rest = scaled - (float)whole;
        const uint32_t up = rest > 0.5f || (rest == 0.5f && (whole & 1)) ? 1 : 0;
        return sign | (uint16_t)(whole + up);
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return sign | (uint16_t)((rounded - 0x38000000u) >> 13);
}
