/* Section by section what the contract says about floats. Nothing here may be contracted to a fused
 * multiply-add or computed in a wider type. */
#include "numbers.h"

#include <float.h>
#include <math.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "float expressions must be computed in float");

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float value(float x)
{
    return fabsf(x) < 0x1p-50f ? 0.0f : x;
}

float from_f16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31;
    const float mantissa = (float)(bits & 1023);
    float x;
    if (exponent == 31)
        x = mantissa > 0 ? NAN : INFINITY;
    else if (exponent == 0)
        x = mantissa * 0x1p-24f;
    else
        x = ldexpf(1024.0f + mantissa, exponent - 25);
    return bits & 0x8000 ? -x : x;
}

float from_bf16(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

float round_to_f16(float x)
{
    int exponent;
    frexpf(x, &exponent); /* |x| < 2^exponent, so 11 bits end at 2^(exponent - 11) */
    const int last = exponent - 11 < -24 ? -24 : exponent - 11;
    return ldexpf(rintf(ldexpf(x, -last)), last);
}

float exponential(float x)
{
    if (fabsf(x) < 0x1p-25f)
        return 1.0f;
    if (x > 88.72283f)
        return INFINITY;
    if (x < -34.0f)
        return 0.0f;
    const float k = x * 1.44269502163f + 12582912.0f;
    const uint32_t n = bits_of(k) - 0x4B400000u;
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
    return float_of(bits_of(y) + (n << 23));
}

/* x * sigmoid(t) as the one division x / (1 + exp(-t)). */
static float gate(float x, float t)
{
    const float limited = -t < 87.0f ? -t : 87.0f;
    return x / (1.0f + exponential(limited));
}

float silu(float x)
{
    return gate(x, x);
}

float gelu(float x)
{
    const float above = x > -20.0f ? x : -20.0f;
    const float c = above < 20.0f ? above : 20.0f;
    return gate(x, c * (0x1.988454p+0f + 0x1.2444f2p-4f * (c * c)));
}

float join_chains(const float c[16])
{
    const float low = ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
    const float high = ((c[8] + c[9]) + (c[10] + c[11])) + ((c[12] + c[13]) + (c[14] + c[15]));
    return low + high;
}

float dot(const float *a, const float *b, size_t n)
{
    float chain[16] = {0};
    for (size_t k = 0; k < n; k++)
        chain[k % 16] = k < 16 ? a[k] * b[k] : chain[k % 16] + a[k] * b[k];
    return join_chains(chain);
}

void norm(float *out, const float *x, const float *gain, size_t n, float epsilon)
{
    const float mean = dot(x, x, n) / (float)n;
    const float inverse = 1.0f / sqrtf(mean + epsilon);
    for (size_t i = 0; i < n; i++)
        out[i] = value((x[i] * inverse) * gain[i]);
}

float quantize(int32_t *v, const float *x, size_t n, int steps)
{
    float largest = 0.0f;
    for (size_t i = 0; i < n; i++)
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    memset(v, 0, n * sizeof *v);
    if (largest == 0.0f)
        return 0.0f;
    const float factor = (float)steps / largest;
    for (size_t i = 0; i < n; i++) {
        const int32_t rounded = (int32_t)rintf(x[i] * factor);
        v[i] = rounded > steps ? steps : rounded < -steps ? -steps : rounded;
    }
    return largest / (float)steps;
}

void add(float *out, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = value(a[i] + b[i]);
}
